"""load: a kernel by `FILE.py:FUNCTION`, from a file that is not changed and not installed."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from accel.errors import UserError
from accel.nki import legacy
from accel.nki.install import install
from accel.nki.jit import NKI, Dialect, Kernel
from accel.nki.versions import check_version


def load_kernel(target: str, version: str = "") -> Kernel:
    """The kernel that `FILE.py:FUNCTION` names. A plain function counts as decorated with jit.
    `version`: of the language that the file sees.
    """
    check_version(version)
    file, _, name = target.rpartition(":")
    if not file or not name:
        raise UserError(
            f"{target!r} does not name a kernel", "write FILE.py:FUNCTION, as kernels.py:softmax"
        )
    path = Path(file)
    if not path.is_file():
        raise UserError(f"no file {file}", "give the path of the kernel's Python file")
    module = load_module(path, version)
    found = getattr(module, name, None)
    if isinstance(found, Kernel):
        return found
    if inspect.isfunction(found):
        return Kernel(found, dialect=dialect_of(module))
    known = ", ".join(kernel_names(module)) or "none"
    raise UserError(f"no kernel {name!r} in {file}", f"kernels there: {known}")


def dialect_of(module: ModuleType) -> Dialect:
    """The form of the language a module is written in: the older one if it uses any of that."""
    older = legacy.modules().values()
    for value in vars(module).values():
        if getattr(value, "dialect", None) is legacy.jit.DIALECT or any(value is m for m in older):
            return legacy.jit.DIALECT
    return NKI


def kernel_names(module: ModuleType) -> list[str]:
    """The decorated kernels of a module, in the order of the file."""
    return [name for name, value in vars(module).items() if isinstance(value, Kernel)]


def load_module(path: Path, version: str = "") -> ModuleType:
    """Imports a file with the language installed; its folder is importable while it loads."""
    install(version)
    digest = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]
    name = f"_kernel_{path.stem}_{digest}"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise UserError(f"{path} is not a Python file", "kernels are .py files")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with _importing_from(path.resolve().parent):
            try:
                spec.loader.exec_module(module)
            except ImportError as error:
                if "relative import" not in str(error):
                    raise
                module = _as_part_of_package(path.resolve())
    except UserError:
        sys.modules.pop(name, None)
        raise
    except (Exception, SystemExit) as error:
        sys.modules.pop(name, None)
        raise UserError(
            f"{path} cannot be imported: {type(error).__name__}: {error} ({_line_in(error, path)})",
            "import only nki, neuronxcc.nki, numpy and files beside the kernel",
        ) from error
    return module


def _as_part_of_package(path: Path) -> ModuleType:
    """The file imported under its full name, so that its relative imports work."""
    folder, parts = path.parent, [path.stem]
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    with _importing_from(folder):
        return importlib.import_module(".".join(parts))


@contextlib.contextmanager
def _importing_from(folder: Path) -> Iterator[None]:
    """Files in `folder` can be imported by name, and are forgotten afterwards: two kernels may each
    have a `helpers.py` beside them.
    """
    known, path = set(sys.modules), list(sys.path)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path[:] = path
        for name in set(sys.modules) - known:
            if _is_beside(name.partition(".")[0], folder):
                del sys.modules[name]


def _is_beside(top: str, folder: Path) -> bool:
    """Whether the import name is of a file or package in the folder, and not of this package."""
    if top == __name__.partition(".")[0]:
        return False
    return (folder / f"{top}.py").is_file() or (folder / top / "__init__.py").is_file()


def _line_in(error: BaseException, path: Path) -> str:
    lines = [
        line
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_code.co_filename == str(path.resolve())
    ]
    if isinstance(error, SyntaxError) and error.lineno:
        lines.append(error.lineno)
    return f"{path.name}:{lines[-1]}" if lines else path.name
