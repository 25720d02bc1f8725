"""What the commands of `perfgate` do, apart from how their options are spelled (`cli.py`).

`workspace` finds configuration and store, `measure` is `run`, `load` is `import`, `judge` is `gate`
and `compare`, `show` is `history` and `runs`, `publish` is `report`. Functions print results to
stdout and progress to stderr, and return an exit code where there is a choice of one.
"""
