"""The calls of `neuronxcc.nki.isa` by kind, as in the newer form: `draws`, `elementwise`, `matrix`,
`moves`, `patterns`, `reductions`.
"""
