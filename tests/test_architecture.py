"""The shape of the code: imports point one way, every module says what it is for."""

import ast
from pathlib import Path

import pytest

from accel.sim.version import _PARTS

ROOT = Path(__file__).parents[1]
SOURCES = sorted(p for package in ("perfgate", "accel") for p in (ROOT / package).rglob("*.py"))

# A module may import from its own layer and from layers further up this list.
ACCEL_LAYERS = (
    ("errors", "dtypes", "chip", "instances", "accuracy", "program", "program_text", "__init__"),
    ("isa",),
    ("sim",),
    ("nki",),
    ("kernels",),
    ("compiler", "parity", "validation"),
    ("cli", "__main__"),
)
PERFGATE_LAYERS = (
    ("errors", "model", "caseid", "codec", "effect", "figures", "__init__"),
    ("stats", "policy", "store", "suite", "written", "vcs", "environment", "importers"),
    ("session", "renames"),
    ("comparison",),
    ("verdict",),
    ("baseline", "gate", "config"),
    ("report", "pytest_plugin", "pytest_recorder"),
    ("commands",),
    ("cli", "__main__"),
)


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_modules(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def layer_of(module: str, layers: tuple[tuple[str, ...], ...]) -> int | None:
    parts = module.split(".")
    part = parts[1] if len(parts) > 1 else "__init__"
    return next((i for i, names in enumerate(layers) if part in names), None)


@pytest.mark.parametrize(("package", "other"), [("perfgate", "accel"), ("accel", "perfgate")])
def test_the_two_packages_do_not_know_each_other(package: str, other: str) -> None:
    for path in (ROOT / package).rglob("*.py"):
        roots = {name.split(".")[0] for name in imported_modules(path)}

        assert other not in roots, path


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_imports_point_one_way(path: Path) -> None:
    module = module_name(path)
    package = module.split(".")[0]
    layers = ACCEL_LAYERS if package == "accel" else PERFGATE_LAYERS
    own = layer_of(module, layers)
    if module == package:
        return  # a package's public names come from every layer

    assert own is not None, f"{module} has no layer in {__file__}"
    for name in imported_modules(path):
        if name.split(".")[0] != package or name == package:
            continue
        layer = layer_of(name, layers)
        assert layer is None or layer <= own, f"{module} imports {name}"


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_every_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), path


def test_the_model_version_knows_every_module_that_times_depend_on() -> None:
    """What `accel.sim` and `accel.isa` import, to the last module, but what only words errors."""
    wanted = {path for folder in ("sim", "isa") for path in (ROOT / "accel" / folder).glob("*.py")}
    queue = list(wanted)
    while queue:
        for name in imported_modules(queue.pop()):
            path = ROOT / (name.replace(".", "/") + ".py")
            if name.startswith("accel.") and path.exists() and path not in wanted:
                wanted.add(path)
                queue.append(path)
    package = ROOT / "accel"
    known = {path for pattern in _PARTS for path in package.glob(pattern)}

    assert wanted - known == {package / "errors.py"}
