"""The base install has the `accel` command but not what it runs on."""

import builtins
import sys

import pytest

from accel.cli import main


@pytest.mark.parametrize("absent", ["ml_dtypes", "numba"])
def test_a_missing_extra_is_named_with_how_to_install_it(absent, monkeypatch, capsys) -> None:
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.split(".")[0] == absent:
            raise ModuleNotFoundError(f"No module named {absent!r}", name=absent)
        return real(name, *args, **kwargs)

    for name in [name for name in sys.modules if name.startswith(("accel.", absent))]:
        if name != "accel.cli":
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)

    code = main(["run", "k.py:k"])

    assert code == 2
    assert capsys.readouterr().err.splitlines() == [
        f"error: the accel extra is not installed: no module {absent}",
        "hint: install it with: pip install 'perfgate[accel]'",
    ]
