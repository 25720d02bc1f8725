"""Golden files: expected output kept beside the tests that print it."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable

import pytest

# Before numpy loads: a second BLAS thread makes small products many times slower on a busy machine.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite the golden files, to review as a diff"
    )


@pytest.fixture(autouse=True)
def same_numbers_in_any_order(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module's generator starts anew for each test, whichever tests ran before it."""
    if hasattr(request.module, "RNG"):
        import numpy as np

        seed = zlib.crc32(request.node.name.encode())
        monkeypatch.setattr(request.module, "RNG", np.random.default_rng(seed))


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
