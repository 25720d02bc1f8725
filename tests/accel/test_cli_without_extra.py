"""The base install has the `accel` command but not what it runs on."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("absent", ["ml_dtypes", "numba"])
def test_a_missing_extra_is_named_with_how_to_install_it(absent) -> None:
    code = (
        f"import sys; sys.modules[{absent!r}] = None; from accel.cli import main; "
        "sys.exit(main(['run', 'k.py:k']))"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        f"error: the accel extra is not installed: no module {absent}",
        "hint: install it with: pip install 'perfgate[accel]'",
    ]
