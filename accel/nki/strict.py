"""strict: what the vendor's compiler would reject in a kernel that runs here as plain Python.

Comes in: a kernel and a version of the language. Goes out: one finding a construct outside of the
restricted Python that the vendor compiles, with its line, for the kernel and for every function
and class of the user's that it names. The rules follow the language guide (values, containers,
control flow, classes) and the migration guide; where the guides are silent, a construct that
published kernels use is accepted (`is None`, `raise`, nested functions, f-strings).
"""

from __future__ import annotations

import ast
import enum
import functools
import inspect
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from types import FunctionType, ModuleType

from accel.errors import KernelError, UserError
from accel.nki.jit import NKI, Kernel
from accel.nki.language import NKIObject

_OWN = str(Path(__file__).parents[1])
_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})
_PARTS = (ast.keyword, ast.comprehension, ast.withitem)


@dataclass(frozen=True, slots=True)
class Finding:
    """A construct that the vendor's compiler rejects, and what to write instead."""

    message: str
    hint: str
    place: str


@dataclass(frozen=True, slots=True)
class _Rule:
    """`bad(node)`: whether a node of one of these types breaks the rule; `since`: the version that
    enforces it.
    """

    nodes: tuple[type[ast.AST], ...]
    message: str
    hint: str
    bad: Callable[[ast.AST], bool] = lambda node: True
    since: str = "0.2"


def _identity(node: ast.AST) -> bool:
    """`is` with anything but None, which published kernels compare with."""
    assert isinstance(node, ast.Compare)
    left = (node.left, *node.comparators)
    return any(
        isinstance(operation, (ast.Is, ast.IsNot))
        and not any(isinstance(n, ast.Constant) and n.value is None for n in left[i : i + 2])
        for i, operation in enumerate(node.ops)
    )


def _other_context(node: ast.AST) -> bool:
    """A `with` of anything but `nl.no_reorder()`."""
    assert isinstance(node, ast.With)
    calls = [n.context_expr for n in node.items]
    return not all(isinstance(c, ast.Call) and _last_name(c.func) == "no_reorder" for c in calls)


def _last_name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _keyword_only(node: ast.AST) -> bool:
    assert isinstance(node, ast.arguments)
    return bool(node.kwonlyargs) and node.vararg is None


def _variadic(node: ast.AST) -> bool:
    assert isinstance(node, ast.arguments)
    return node.vararg is not None or node.kwarg is not None


def _list_default(node: ast.AST) -> bool:
    assert isinstance(node, ast.arguments)
    return any(isinstance(n, ast.List) for n in (*node.defaults, *node.kw_defaults))


def _other_key(node: ast.AST) -> bool:
    assert isinstance(node, ast.Dict)
    return any(
        key is None or (isinstance(key, ast.Constant) and not isinstance(key.value, str))
        for key in node.keys
    )


def _other_literal(node: ast.AST) -> bool:
    assert isinstance(node, ast.Constant)
    value = node.value
    if isinstance(value, int):
        return not -(2**31) <= value < 2**32
    return isinstance(value, bytes | complex)


def _python_only(node: ast.AST) -> bool:
    assert isinstance(node, ast.Call)
    return isinstance(node.func, ast.Name) and node.func.id in _BUILTINS


def _unpacks(node: ast.AST) -> bool:
    assert isinstance(node, ast.Call)
    return any(isinstance(n, ast.Starred) for n in node.args) or any(
        keyword.arg is None for keyword in node.keywords
    )


def _has_else(node: ast.AST) -> bool:
    return bool(getattr(node, "orelse", None))


_BUILTINS = frozenset(
    {
        *("breakpoint", "compile", "delattr", "eval", "exec", "globals", "input", "locals"),
        *("open", "super", "vars", "__import__"),
    }
)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

_RULES = (
    _Rule((ast.Try,), "try is not in the kernel language", "check before, with if or assert"),
    _Rule((ast.With,), "with takes nl.no_reorder() only", "call it without `with`", _other_context),
    _Rule((ast.AsyncFor, ast.AsyncWith, ast.Await), "async is not in the kernel language", ""),
    _Rule((ast.Yield, ast.YieldFrom), "a generator is not in the kernel language", "fill a list"),
    _Rule(
        (ast.Global, ast.Nonlocal),
        "a kernel may not change what lies outside of it",
        "pass the value in and return it",
    ),
    _Rule((ast.Delete,), "del is not in the kernel language", "leave it out, or use list.remove"),
    _Rule((ast.Match,), "match is not in the kernel language", "write if and elif"),
    _Rule((ast.Lambda,), "lambda is not in the kernel language", "write a def"),
    _Rule(_COMPREHENSIONS, "a comprehension is not in the kernel language", "write a for loop"),
    _Rule((ast.NamedExpr,), "`:=` is not in the kernel language", "assign on a line of its own"),
    _Rule((ast.Set,), "a set is not in the kernel language", "use a tuple or a list"),
    _Rule((ast.Dict,), "keys of a dictionary are strings", "name the keys", _other_key),
    _Rule(
        (ast.Constant,),
        "a number has 32 bits; bytes and complex numbers are not in the kernel language",
        "use integers of 32 bits, floats and strings",
        _other_literal,
    ),
    _Rule((ast.Call,), "a call may not unpack with * or **", "give each argument", _unpacks),
    _Rule((ast.Call,), "a function of Python itself", "remove it from the kernel", _python_only),
    _Rule((ast.For, ast.While), "a loop has no else", "set a flag in the loop", _has_else),
    _Rule((ast.BinOp,), "`@` is not in the kernel language", "call nisa.nc_matmul", lambda node: (
        isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)
    )),
    _Rule((ast.Import, ast.ImportFrom), "import inside a kernel", "import at the top of the file"),
    _Rule((ast.ClassDef,), "a class inside a kernel", "define it at the top of the file"),
    _Rule((ast.arguments,), "*args and **kwargs are not in the kernel language",
          "name each parameter", _variadic),
    _Rule((ast.arguments,), "`*` between parameters is not supported",
          "move parameters with defaults to the end and leave out the `*`", _keyword_only, "0.3"),
    _Rule((ast.arguments,), "a list is no kernel argument", "make the default a tuple",
          _list_default, "0.3"),
    _Rule((ast.Compare,), "`is` compares with None only", "write == or !=", _identity, "0.3"),
)  # fmt: skip


def findings(kernel: Kernel, version: str) -> tuple[Finding, ...]:
    """What the vendor's compiler of that version rejects, in the order it is reached."""
    return tuple(_all_findings(kernel.function, version))


def check_strict(kernel: Kernel, arguments: Mapping[str, object], version: str) -> None:
    """KernelError with the first finding, and the places of the others. UserError for a kernel in
    the older form, which was traced as plain Python.
    """
    if kernel.dialect is not NKI:
        raise UserError(
            f"kernel {kernel.name} is in the older form, which has no restricted Python",
            "leave out --strict",
        )
    found = findings(kernel, version)
    lists = [name for name, value in arguments.items() if isinstance(value, list)]
    if lists and version >= "0.3":
        raise KernelError(f"argument {lists[0]} is a list", "kernels take tuples: write (0, 1)")
    if not found:
        return
    others = ", ".join(dict.fromkeys(other.place for other in found[1:]))
    raise KernelError(
        found[0].message + (f"; {len(found) - 1} more at {others}" if others else ""),
        found[0].hint or "keep it out of the kernel",
        found[0].place,
    )


def _all_findings(function: object, version: str) -> Iterator[Finding]:
    waiting: list[object] = [function]
    seen: set[int] = set()
    while waiting:
        item = waiting.pop(0)
        item = item.function if isinstance(item, Kernel) else item
        item = inspect.unwrap(item) if callable(item) else item
        if id(item) in seen or not _is_users(item):
            continue
        seen.add(id(item))
        node = _node_of(item)
        if node is None:
            continue
        if isinstance(item, type):
            yield from _class_findings(item, node, version)
            waiting += [v for v in vars(item).values() if isinstance(v, FunctionType)]
        else:
            yield from _findings_in(node, item, version)
            waiting += _named(node, item)


def _is_users(item: object) -> bool:
    """Whether it is a function or class of the user's, rather than of a library."""
    if not isinstance(item, (FunctionType, type)):
        return False
    file = _file_of(item)
    return Path(file).is_file() and not file.startswith((_OWN, *_LIBRARIES))


def _file_of(item: FunctionType | type) -> str:
    try:
        return str(inspect.getsourcefile(item) or "")
    except TypeError:
        return ""


@functools.cache
def _tree(file: str) -> tuple[ast.AST, ...]:
    """The definitions of a file, nested ones too."""
    tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    return tuple(n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.ClassDef)))


def _node_of(item: object) -> ast.FunctionDef | ast.ClassDef | None:
    assert isinstance(item, (FunctionType, type))
    for node in _tree(_file_of(item)):
        assert isinstance(node, (ast.FunctionDef, ast.ClassDef))
        if isinstance(item, type):
            if isinstance(node, ast.ClassDef) and node.name == item.__name__:
                return node
        elif isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if first == item.__code__.co_firstlineno:
                return node
    return None


def _findings_in(node: ast.AST, item: object, version: str) -> Iterator[Finding]:
    assert isinstance(item, (FunctionType, type))
    assert isinstance(node, (ast.FunctionDef, ast.ClassDef))
    file = PurePath(_file_of(item)).name
    line = node.lineno
    for inner in _kernel_code(node):
        line = getattr(inner, "lineno", line)
        for rule in _RULES:
            if version >= rule.since and isinstance(inner, rule.nodes) and rule.bad(inner):
                yield Finding(_message(rule, inner), rule.hint, f"{file}:{line}")


def _kernel_code(node: ast.FunctionDef | ast.ClassDef) -> Iterator[ast.AST]:
    """The nodes of a definition in the order of the file; without decorators and annotations, which
    are for the reader.
    """
    waiting: list[ast.AST] = [node]
    while waiting:
        inner = waiting.pop(0)
        if inner is not node:
            yield inner
        children = [
            child
            for name, value in ast.iter_fields(inner)
            if name not in ("annotation", "returns", "decorator_list")
            for child in (value if isinstance(value, list) else [value])
            if isinstance(child, ast.AST)
        ]
        waiting = children + waiting


def _message(rule: _Rule, node: ast.AST) -> str:
    if isinstance(node, ast.Call) and rule.bad is _python_only:
        return f"{_last_name(node.func)} is {rule.message}"
    return rule.message


def _class_findings(item: type, node: ast.AST, version: str) -> Iterator[Finding]:
    if issubclass(item, enum.Enum):
        return
    bases = [base for base in item.__bases__ if base is not object]
    if bases != [NKIObject]:
        names = ", ".join(base.__name__ for base in bases) or "nothing"
        yield Finding(
            f"class {item.__name__} inherits from {names}, must be NKIObject only",
            f"write class {item.__name__}(nl.NKIObject)",
            f"{PurePath(_file_of(item)).name}:{getattr(node, 'lineno', 0)}",
        )


def _named(node: ast.AST, item: object) -> list[object]:
    """What the names and dotted names of a function stand for."""
    assert isinstance(item, FunctionType)
    closure = inspect.getclosurevars(item)
    names = {**item.__globals__, **closure.nonlocals}
    assert isinstance(node, (ast.FunctionDef, ast.ClassDef))
    found = (_value_of(inner, names) for inner in _kernel_code(node))
    return [value for value in found if isinstance(value, (FunctionType, type, Kernel))]


def _value_of(node: ast.AST, names: Mapping[str, object]) -> object:
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = _value_of(node.value, names)
        return getattr(owner, node.attr, None) if isinstance(owner, (ModuleType, type)) else None
    return None
