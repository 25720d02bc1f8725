"""Results of other tools as runs.

`FORMATS` has one row per tool. A row's parser takes the bytes of one file and gives its runs or
raises a `UserError`; it knows nothing of folders. `document.py` reads JSON and points at the line
that is wrong, `pytest_benchmark.py` is the first format. Run ids follow from the content, so that
importing a file twice changes nothing.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from perfgate.errors import UserError
from perfgate.importers.pytest_benchmark import parse_pytest_benchmark
from perfgate.model import Run

__all__ = ["FORMATS", "Importer", "import_paths"]


@dataclass(frozen=True, slots=True)
class Importer:
    """One format: `parse(content, name)` of one file, and the files to look for in a folder."""

    parse: Callable[[bytes, str], tuple[Run, ...]]
    pattern: str
    made_by: str


FORMATS: dict[str, Importer] = {
    "pytest-benchmark": Importer(
        parse_pytest_benchmark, "*.json", "pytest --benchmark-json=results.json"
    ),
}


def import_paths(format_name: str, paths: Sequence[Path]) -> tuple[Run, ...]:
    """The runs of files, and of the files of the format below folders, in the order given.

    The same content twice is one run. Raises `UserError` for an unknown format, a path that cannot
    be read, a folder without such files, and the first file that is not in the format.
    """
    if format_name not in FORMATS:
        close = difflib.get_close_matches(format_name, FORMATS, n=1, cutoff=0.4)
        known = f"did you mean {close[0]}?" if close else f"known formats: {', '.join(FORMATS)}"
        raise UserError(f"unknown format {format_name!r}", known)
    importer = FORMATS[format_name]
    runs: dict[str, Run] = {}
    for path in paths:
        for file in _files(path, importer):
            runs |= {run.run_id: run for run in importer.parse(_read(file, importer), str(file))}
    return tuple(runs.values())


def _files(path: Path, importer: Importer) -> Iterable[Path]:
    if not path.is_dir():
        return (path,)
    found = sorted(file for file in path.rglob(importer.pattern) if file.is_file())
    if not found:
        raise UserError(
            f"{path}: no {importer.pattern} file in this folder",
            f"write one with `{importer.made_by}`",
        )
    return found


def _read(file: Path, importer: Importer) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        raise UserError(f"{file}: no such file", f"write it with `{importer.made_by}`") from None
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise UserError(f"{file}: {reason}", "name a file that can be read") from None
