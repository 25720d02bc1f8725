"""`pytest --perfgate`: keep what pytest-benchmark measured as a run of the store.

pytest loads this module in every session, so it imports nothing heavy and does nothing without the
option; `pytest_recorder.py` does the work.
"""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options; none of them does anything without `--perfgate`."""
    group = parser.getgroup("perfgate", "keep benchmark results")
    group.addoption(
        "--perfgate",
        action="store_true",
        help="keep the results of pytest-benchmark as a run of the perfgate store",
    )
    group.addoption(
        "--perfgate-store",
        metavar="URL",
        help="the store, as a path or URL (default: the configured one)",
    )
    group.addoption(
        "--perfgate-session",
        metavar="NAME",
        default="",
        help="name of the job that measures base and head in turns (default: none)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Begin recording, if it was asked for. Workers of xdist leave that to their controller."""
    if hasattr(config, "workerinput"):
        return
    if not config.getoption("perfgate"):
        _refuse_lonely_options(config)
        return
    if not config.pluginmanager.hasplugin("benchmark"):
        raise pytest.UsageError(
            "--perfgate: pytest-benchmark is not active; "
            "install it with `pip install 'perfgate[pytest]'` and do not switch it off"
        )
    try:
        # Optional and heavy: the database and numpy are loaded only for those who ask.
        from perfgate.pytest_recorder import Recorder
    except ImportError as error:
        raise pytest.UsageError(
            f"--perfgate: {error.name} is missing; install it with `pip install 'perfgate[pytest]'`"
        ) from None
    config.pluginmanager.register(Recorder(config), "perfgate-recorder")


def _refuse_lonely_options(config: pytest.Config) -> None:
    """Somebody who names a session or a store believes that this session is kept."""
    for name in ("session", "store"):
        if config.getoption(f"perfgate_{name}"):
            raise pytest.UsageError(
                f"--perfgate-{name}: keeps nothing without --perfgate; give --perfgate as well"
            )
