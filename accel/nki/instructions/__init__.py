"""The `nki.isa` calls by kind: `moves`, `matrix`, `elementwise`, `reductions`, `patterns`.

Each call turns the language's arguments into one recorded instruction, operands in the order of the
instruction table's roles. `name=` is accepted everywhere and unused: programs name source lines.
"""
