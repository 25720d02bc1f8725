"""Whether what was imported is what was to be measured, and not another copy of it.

In: the folders whose sources are measured. Out: the first module of this process that lies in one
of them and was imported from somewhere else, in words. A suite that found an installed copy would
measure the same code on both sides of a gate, and pass whatever had changed.

Modules of the standard library are left out, since a project that has a file of such a name does
not measure it, and so is this package, which measures.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

_OURS = __name__.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Stray:
    """A module that came from `found`, though the measured sources hold it as `expected`."""

    name: str
    found: Path
    expected: Path

    def __str__(self) -> str:
        return f"{self.name} was imported from {self.found}, should have been {self.expected}"


def find_strays(folders: Sequence[Path]) -> Iterator[Stray]:
    """The modules of this process that are copies of what lies in `folders`, by name."""
    own: dict[str, bool] = {}
    for name, module in sorted(sys.modules.items()):
        top = name.partition(".")[0]
        if top not in own:
            own[top] = _may_be_own(top, folders)
        file = _file_of(module) if own[top] else None
        if file is None:
            continue
        expected = _expected(name, folders)
        if expected and not _lies_in(file.parent, [p.parent for p in _places(name, folders)]):
            yield Stray(name, file, expected)


def is_other_text(stray: Stray) -> bool:
    """Whether a stray is of other source text than the measured file, so not just installed."""
    if stray.found.suffix != stray.expected.suffix:
        return False
    try:
        return stray.found.read_bytes() != stray.expected.read_bytes()
    except OSError:
        return True


def _may_be_own(top: str, folders: Iterable[Path]) -> bool:
    if top == _OURS or top in sys.stdlib_module_names:
        return False
    return any((folder / top).is_dir() or (folder / f"{top}.py").is_file() for folder in folders)


def _file_of(module: ModuleType | None) -> Path | None:
    """Where a module came from; None for a namespace, and for one that was not read from a file."""
    file = getattr(module, "__file__", None)
    return Path(file) if isinstance(file, str) else None


def _lies_in(folder: Path, places: Sequence[Path]) -> bool:
    """Whether the folder is one of the places, also where links lead to it."""
    return folder in places or folder.resolve() in {place.resolve() for place in places}


def _expected(name: str, folders: Iterable[Path]) -> Path | None:
    return next((path for path in _places(name, folders) if path.is_file()), None)


def _places(name: str, folders: Iterable[Path]) -> Iterator[Path]:
    """Where the sources of a module may be, first to last; extensions lie beside them."""
    for folder in folders:
        base = folder.joinpath(*name.split("."))
        yield base / "__init__.py"
        yield base.with_name(f"{base.name}.py")
