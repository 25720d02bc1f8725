"""Golden files: expected output kept beside the tests that print it."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

# Before numpy loads: a second BLAS thread makes small products many times slower on a busy machine.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite the golden files, to review as a diff"
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare text with `golden/NAME` beside the test."""
    folder = request.path.parent / "golden"
    update = request.config.getoption("--update-golden")

    def check(name: str, text: str) -> None:
        path = folder / name
        if update:
            folder.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.is_file(), f"{path} is missing: run the test once with --update-golden"
        assert text == path.read_text(encoding="utf-8")

    return check
