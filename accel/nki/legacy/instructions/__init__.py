"""The calls of `neuronxcc.nki.isa` by kind, as in the newer form: `elementwise`, `matrix`, `moves`,
`patterns`, `reductions`.
"""
