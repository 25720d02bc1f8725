"""From a folder of Python files to its cases.

Every `*.py` file below the folder is imported, except files and folders whose name starts with `_`
or `.`. The folder is a package of its own name, so that `from benchmarks.shapes import SIZES` works
in a suite called `benchmarks`, also where an installed package has that name. The sources of the
project and the parent of the suite are first on `sys.path`: what lies there is measured, and not an
installed copy of it. The benchmark `matmul` in `benchmarks/kernels.py` is `kernels.matmul`. A file
that does not import stops everything with its name and line: a suite that silently lost a file
would look like a suite whose cases are missing.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import importlib.util
import inspect
import re
import sys
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from perfgate.errors import UserError
from perfgate.suite.benchmark import Case, benchmark, benchmark_of, cases_of


def discover(
    path: Path, pattern: str | None = None, sources: Sequence[Path] = (), root: Path | None = None
) -> tuple[Case, ...]:
    """The cases of a folder, or of one file, whose id contains `pattern` (see `matches`).

    Imports come from `sources`, then from beside the suite, then from `root`, the measured tree.
    Files in alphabetical order, benchmarks in the order of their definition. No case is a
    `UserError`, as is an id that appears twice.
    """
    suite, files = _locate(path)
    folders = tuple(dict.fromkeys((*sources, suite.parent, *((root,) if root else ()))))
    before = list(sys.path)
    try:
        cases = [case for file in files for case in load_file(suite, file, folders)]
    finally:
        # What this process loads later for itself must not come from the tree that is measured.
        sys.path[:] = before
    if not cases:
        raise UserError(
            f"suite {path}: no benchmark found", "decorate a function: @perfgate.benchmark(...)"
        )
    _refuse_duplicates(cases)
    chosen = tuple(case for case in cases if matches(case.case_id, pattern))
    if not chosen:
        raise UserError(
            f"no case matches {pattern!r} (the suite has {len(cases)})",
            f"it is looked for anywhere in ids such as {cases[0].case_id}",
        )
    return chosen


def matches(case_id: str, pattern: str | None) -> bool:
    """Whether the pattern occurs in the id; `*` stands for any text and `?` for one character."""
    if not pattern:
        return True
    wild = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    return re.search(wild, case_id) is not None


def load_file(suite: Path, file: Path, folders: tuple[Path, ...]) -> tuple[Case, ...]:
    """Import one file of a suite (once a process) and list its cases."""
    module = load_module(suite, file, folders)
    prefix = ".".join(file.relative_to(suite).with_suffix("").parts)
    found = {
        id(value): benchmark_of(value) for value in vars(module).values() if _is_own(value, module)
    }
    return tuple(
        replace(case, folders=folders)
        for record in found.values()
        if record
        for case in cases_of(record, prefix, suite, file)
    )


def load_module(suite: Path, file: Path, folders: Sequence[Path]) -> ModuleType:
    """Import one file of a suite under the suite's name; failure is a `UserError` with the line."""
    _put_first(folders)
    package = _load_package(suite)
    name = ".".join((package.__name__, *file.relative_to(suite).with_suffix("").parts))
    importlib.invalidate_caches()
    with _importing(suite, file):
        return importlib.import_module(name)


def _put_first(folders: Sequence[Path]) -> None:
    first = [str(folder) for folder in folders]
    sys.path[:] = [*first, *(entry for entry in sys.path if entry not in first)]


def _load_package(suite: Path) -> ModuleType:
    """The suite's folder as a package. Not by search: a regular package anywhere on the path is
    preferred to a folder without `__init__.py`, however early that comes."""
    # A dot would be a package in a package.
    name = suite.name.replace(".", "_")
    known = sys.modules.get(name)
    if known is not None:
        if suite in (Path(place).resolve() for place in getattr(known, "__path__", ())):
            return known
        raise UserError(
            f"suite {suite}: the module {name} is in use already, from "
            f"{getattr(known, '__file__', None) or 'another folder'}",
            f"rename the folder {suite.name}",
        )
    spec = _package_spec(name, suite)
    package = importlib.util.module_from_spec(spec)
    sys.modules[name] = package
    try:
        with _importing(suite, suite / "__init__.py"):
            if spec.loader is not None:
                spec.loader.exec_module(package)
    except UserError:
        del sys.modules[name]
        raise
    return package


def _package_spec(name: str, suite: Path) -> ModuleSpec:
    places = [str(suite)]
    if (suite / "__init__.py").is_file():
        found = importlib.util.spec_from_file_location(
            name, suite / "__init__.py", submodule_search_locations=places
        )
        assert found is not None
        return found
    spec = ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = places
    return spec


@contextlib.contextmanager
def _importing(suite: Path, file: Path) -> Iterator[None]:
    """Name the file and line of what goes wrong while the suite's code is imported."""
    try:
        # The suite's own prints must not end up in the output of `perfgate run --json`.
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except (Exception, SystemExit) as error:
        raise _import_failure(suite, file, error) from error


def _locate(path: Path) -> tuple[Path, tuple[Path, ...]]:
    """The suite folder and the files to import, both absolute."""
    path = path.resolve()
    if path.is_file() and path.suffix == ".py":
        return path.parent, (path,)
    if not path.is_dir() or path == path.parent:
        raise UserError(
            f"suite {path}: not a folder of benchmarks, nor a Python file",
            "name the folder of your benchmarks: perfgate run FOLDER, or set [tool.perfgate] suite "
            "(tests with pytest-benchmark are measured by `pytest --perfgate`)",
        )
    files = sorted(path.rglob("*.py"))
    return path, tuple(file for file in files if not _is_private(file.relative_to(path)))


def _is_private(relative: Path) -> bool:
    return any(part.startswith(("_", ".")) for part in relative.parts)


def _is_own(value: object, module: ModuleType) -> bool:
    """Whether the value was defined in the module, and not imported into it."""
    return getattr(value, "__module__", None) == module.__name__


def _refuse_duplicates(cases: list[Case]) -> None:
    counts = Counter(case.case_id for case in cases)
    repeated = [case for case in cases if counts[case.case_id] > 1]
    if repeated:
        places = sorted({_shown(case.suite, case.file) for case in repeated[:2]})
        raise UserError(
            f"{repeated[0].case_id}: the case appears {counts[repeated[0].case_id]} times "
            f"(in {' and '.join(places)})",
            "give one benchmark another name=, or remove the repeated parameters",
        )


def _shown(suite: Path, file: Path) -> str:
    return str(Path(suite.name) / file.relative_to(suite))


def _import_failure(suite: Path, file: Path, error: BaseException) -> UserError:
    line = next(_lines_in(file, error), None)
    place = f"{_shown(suite, file)}:{line}" if line else _shown(suite, file)
    if isinstance(error, UserError):
        return UserError(f"{place}: {error.message}", error.hint)
    text = " ".join(str(error).split()) or "no message"
    return UserError(f"{place}: {type(error).__name__}: {text}", _hint_for(text))


def _hint_for(text: str) -> str:
    """What to do about an error of importing; most often `benchmark` was called wrongly."""
    if "benchmark() takes 0 positional arguments" in text:
        return "write `@perfgate.benchmark(...)` with brackets, and name its arguments: metrics=[…]"
    unknown = re.search(r"benchmark\(\) got an unexpected keyword argument '(\w+)'", text)
    if unknown is None:
        return (
            "the file must import on its own; a name that starts with _ keeps a file out of the "
            "suite"
        )
    known = list(inspect.signature(benchmark).parameters)
    close = difflib.get_close_matches(unknown[1], known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known arguments: {', '.join(known)}"


def _lines_in(file: Path, error: BaseException) -> Iterator[int]:
    """Line numbers of the file that led to the error, innermost first."""
    if isinstance(error, SyntaxError) and error.filename == str(file) and error.lineno:
        yield error.lineno
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename == str(file) and frame.lineno:
            yield frame.lineno
