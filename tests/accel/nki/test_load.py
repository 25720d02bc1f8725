"""Kernel files are loaded by path, unchanged, and what is wrong with them is said in one line."""

import sys
from pathlib import Path

import pytest

from accel.errors import UserError
from accel.nki.install import install, modules, uninstall
from accel.nki.jit import Kernel
from accel.nki.load import load_kernel

KERNELS = Path(__file__).parent / "kernels" / "scaled.py"


def test_a_kernel_is_found_by_file_and_function() -> None:
    assert load_kernel(f"{KERNELS}:scale").name == "scale"
    assert isinstance(load_kernel(f"{KERNELS}:plain"), Kernel)


@pytest.mark.parametrize(
    ("target", "message", "hint"),
    [
        ("kernels.py", "does not name a kernel", "FILE.py:FUNCTION"),
        ("missing.py:f", "no file missing.py", "path"),
        (f"{KERNELS}:nothing", "no kernel 'nothing'", "kernels there: scale, forgets_to_load"),
    ],
)
def test_what_cannot_be_found_is_named(target: str, message: str, hint: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        load_kernel(target)

    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import nki\n\nimport no_such_module_here\n", "no_such_module_here.*broken.py:3"),
        ("def f(:\n", "SyntaxError.*broken.py:1"),
        ("\nraise ValueError('x')\n", "ValueError: x .*broken.py:2"),
    ],
)
def test_a_broken_file_names_the_line(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "broken.py"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(UserError, match=told):
        load_kernel(f"{path}:f")


def test_a_kernel_file_may_import_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "neighbour_of_kernel.py").write_text("WIDTH = 3\n", encoding="utf-8")
    path = tmp_path / "kernel.py"
    path.write_text(
        "import nki\nfrom neighbour_of_kernel import WIDTH\n@nki.jit\ndef f(x): return WIDTH\n",
        encoding="utf-8",
    )

    assert load_kernel(f"{path}:f").name == "f"
    assert str(tmp_path) not in sys.path


def test_install_gives_way_again(monkeypatch: pytest.MonkeyPatch) -> None:
    uninstall()
    monkeypatch.setitem(sys.modules, "nki", sys)
    install()
    inside = sys.modules["nki"]
    uninstall()

    assert inside is not sys
    assert sys.modules["nki"] is sys


def test_the_public_names_are_there() -> None:
    names = modules()

    assert {"nki", "nki.language", "nki.isa", "nki.compiler", "nki.typing"} <= set(names)
    assert names["nki"].language is names["nki.language"]


def test_kernels_of_one_name_have_their_own_neighbours(tmp_path: Path) -> None:
    results = []
    for factor in (2, 3, 2):
        folder = tmp_path / str(factor)
        folder.mkdir(exist_ok=True)
        (folder / "neighbour.py").write_text(f"FACTOR = {factor}\n", encoding="utf-8")
        path = folder / "kernel.py"
        path.write_text("from neighbour import FACTOR\ndef f(): return FACTOR\n", encoding="utf-8")
        results.append(load_kernel(f"{path}:f").function())

    assert results == [2, 3, 2]
    assert "neighbour" not in sys.modules


def test_a_file_that_exits_is_named(tmp_path: Path) -> None:
    path = tmp_path / "leaves.py"
    path.write_text("import sys\nsys.exit(0)\n", encoding="utf-8")

    with pytest.raises(UserError, match=r"SystemExit: 0 \(leaves.py:2\)"):
        load_kernel(f"{path}:f")
    assert not [name for name in sys.modules if name.startswith("_kernel_leaves")]


def test_a_file_of_a_package_may_import_relatively(tmp_path: Path) -> None:
    folder = tmp_path / "kernels_of_a_package" / "core"
    folder.mkdir(parents=True)
    for package in (folder, folder.parent):
        (package / "__init__.py").write_text("")
    (folder.parent / "sizes.py").write_text("FACTOR = 3\n")
    (folder / "scale.py").write_text(
        "import nki\nfrom ..sizes import FACTOR\n\n@nki.jit\ndef factor():\n    return FACTOR\n"
    )

    kernel = load_kernel(f"{folder / 'scale.py'}:factor")

    assert kernel.function() == 3
    assert "kernels_of_a_package" not in sys.modules
