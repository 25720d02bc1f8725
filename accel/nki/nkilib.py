"""A pytest plugin, `-p accel.nki.nkilib`, that runs the public nki-library test suite on us.

The suite's simulation mode asks for a simulator package that is not published, and for modules that
the published tree leaves out. The plugin provides both under their names and changes no file.
`--nkilib-smallest N` keeps the N smallest cases of every test function.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import re
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from accel.chip import CHIPS, Chip
from accel.dtypes import FLOATS, NAMES, PACKED, dtype_name, itemsize, numpy_dtype
from accel.isa.mx import packed, unpacked
from accel.nki.arrays import as_array
from accel.nki.install import install, modules
from accel.nki.instructions.mx import quantize_mx_ocp
from accel.nki.jit import (
    Kernel,
    default_chip,
    evaluate,
    evaluate_ranks,
    jit,
    mapped,
    trace,
)
from accel.program import Program
from accel.sim.numerics import Numerics, numerics_of
from accel.sim.wide import values_for

Array = npt.NDArray[np.generic]

GENERATION_VARIABLE = "NKI_NC_VERSION"
_CHIPS = {"gen2": "trn1", "gen3": "trn2", "gen4": "trn3"}
_NUMBER = re.compile(r"\d+")
_ALIASED = ".must_alias_input"  # of an argument that is also returned
_OUTPUTS = "infer_result"  # where the suite keeps what a kernel returned


class Simulated:
    """A kernel as the suite calls it: `Simulated(kernel)[cores](**arrays)`."""

    def __init__(self, kernel: object, cores: int = 1) -> None:
        assert callable(kernel)
        self._kernel = kernel if isinstance(kernel, Kernel) else jit(kernel)
        self._cores = cores

    def __getitem__(self, cores: int) -> Simulated:
        return Simulated(self._kernel, cores)

    def __call__(self, *positional: object, **keywords: object) -> object:
        arguments = self._bound(positional, keywords)
        values = values_for(_numerics())
        with _timed():
            found = evaluate(self._kernel, arguments, _chip(), (self._cores,), values)
        return mapped(found.result, _shown)

    def on_ranks(self, keywords: Sequence[Mapping[str, object]]) -> list[object]:
        """What the kernel returns on each of several ranks, from the arguments of each."""
        arguments = [self._bound((), given) for given in keywords]
        with _timed():
            found = evaluate_ranks(self._kernel, arguments, _chip(), (self._cores,), _numerics())
        return [mapped(evaluation.result, _shown) for evaluation in found]

    def _bound(
        self, positional: tuple[object, ...], keywords: Mapping[str, object]
    ) -> dict[str, object]:
        bound = self._kernel.bind(positional, keywords)
        return {name: mapped(value, _taken) for name, value in bound.items()}


_TOOK: list[float] = []


@contextlib.contextmanager
def _timed() -> Iterator[None]:
    start = time.perf_counter()
    try:
        yield
    finally:
        _TOOK.append(time.perf_counter() - start)


def _numerics() -> Numerics:
    """Those of the environment. The suite expects 0 where nothing was written."""
    return dataclasses.replace(numerics_of(os.environ), unwritten=0)


class PackedResult:
    """A packed array as a kernel returns it; asked for a dtype of its size, it gives its bits."""

    def __init__(self, array: Array) -> None:
        self._array = array

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        found = self._array.view(STRUCTURED[dtype_name(self._array.dtype)])
        return found if dtype is None else found.view(dtype)


def _shown(value: object) -> object:
    """A result as the suite takes it."""
    packed = isinstance(value, np.ndarray) and _machine_name(value.dtype) in PACKED
    return PackedResult(value) if packed else value  # type: ignore[arg-type]


def _taken(value: object) -> object:
    """An argument of the suite as the evaluator takes it."""
    if isinstance(value, np.ndarray) and value.dtype in _UNSTRUCTURED:
        return value.view(numpy_dtype(_UNSTRUCTURED[value.dtype]))
    return value


# What the suite is given as packed dtypes: they keep their name where arrays are joined, and print
# it, which is how the suite knows them.
STRUCTURED = {name: np.dtype([(name, numpy_dtype(name).type)]) for name in PACKED}
_UNSTRUCTURED = {dtype: name for name, dtype in STRUCTURED.items()}


def _chip() -> Chip:
    """The chip of the generation that the suite runs a test for."""
    name = _CHIPS.get(os.environ.get(GENERATION_VARIABLE, ""))
    return default_chip() if name is None else CHIPS[name]


class Frontend:
    """What the suite's trace-only tests compile with; a trace takes its place."""

    def compile(
        self,
        kernel: object,
        *,
        inputs: Mapping[str, object],
        target: str,
        lnc: int,
        **options: object,
    ) -> Program:
        """The kernel's program from the shapes of its inputs."""
        assert callable(kernel)
        traced = kernel if isinstance(kernel, Kernel) else jit(kernel)
        chip = next((chip for name, chip in CHIPS.items() if target.startswith(name)), None)
        return trace(traced, inputs, chip or default_chip(), (lnc,))


def static_cast(array: object, dtype: object) -> Array:
    """The array's values in another dtype; packed ones are packed, or unpacked, along the last
    axis.
    """
    given = as_array(_taken(array))
    values = np.asarray(array if given is None else given)
    old, new = _machine_name(values.dtype), _suite_name(dtype)
    if old in PACKED and old != new:
        values = unpacked(values, old).reshape(*values.shape[:-1], -1)
    if new in PACKED:
        found = values if old == new else packed(values, new)
        return found.view(STRUCTURED[new])
    return values.astype(numpy_dtype(new))


def _suite_name(dtype: object) -> str:
    """The name of a dtype that the suite passes."""
    known = isinstance(dtype, np.dtype) and dtype in _UNSTRUCTURED
    return _UNSTRUCTURED[dtype] if known else dtype_name(dtype)  # type: ignore[index]


def _machine_name(dtype: object) -> str:
    """The dtype's name, empty for one that the machine does not have, such as float64."""
    try:
        return dtype_name(dtype)
    except KeyError:
        return ""


def is_float_type(dtype: object) -> bool:
    """Whether a dtype is one of the machine's floats or numpy's."""
    try:
        return dtype_name(dtype) in FLOATS
    except (KeyError, TypeError):
        return bool(np.issubdtype(np.dtype(dtype), np.floating))  # type: ignore[call-overload]


def sizeinbytes(dtype: object) -> int:
    """Bytes of an element."""
    return itemsize(dtype_name(dtype))


def finfo(dtype: object) -> object:
    """Limits of a float dtype."""
    limits: object = ml_dtypes.finfo(numpy_dtype(dtype_name(dtype)))  # type: ignore[no-untyped-call]
    return limits


def provided() -> dict[str, ModuleType]:
    """Every module the suite imports that the published tree does not have."""
    ours = modules()
    simulator = _module("nki_cpu_simulator")
    root = ours["nki"]
    # The suite's references, exact for this instruction, are of NKI 0.3.
    vars(ours["nki.isa"])["quantize_mx"] = quantize_mx_ocp
    vars(root)["cpu_simulate"] = Simulated
    vars(simulator)["nki"] = root
    found = {"nki_cpu_simulator": simulator}
    aliases = {name: module for name, module in ours.items() if name.split(".")[0] == "nki"}
    aliases |= {
        "nki.builtin": _module("nki.builtin"),
        "nki.language.dtypes": ours["nki.dtype"],
        "nki.compiler.frontend": _module("frontend", NKIFrontend=Frontend, ParserFrontend=Frontend),
        "nki.tensor": ours["nki.typing"],
    }
    for name, module in aliases.items():
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(aliases[parent], last, module)
        found[f"nki_cpu_simulator.{name}"] = found[name] = module
    return found | ours | _library_modules()


def _library_modules() -> dict[str, ModuleType]:
    dtypes: dict[str, object] = {n: STRUCTURED.get(n) or numpy_dtype(n) for n in NAMES}
    functions: dict[str, object] = {
        "static_cast": static_cast,
        "is_float_type": is_float_type,
        "sizeinbytes": sizeinbytes,
        "finfo": finfo,
    }
    scripts = "test.utils.scripts"
    return {
        "neuron_dtypes": _module("neuron_dtypes", **dtypes, **functions),
        "neuronxcc.starfish": _module("neuronxcc.starfish"),
        "neuronxcc.starfish.support": _module("neuronxcc.starfish.support"),
        "neuronxcc.starfish.support.dtype": _module("dtype", **dtypes, **functions),
        "test.utils.perf_analysis_private": _module("perf_analysis", analyze_trace=_absent),
        f"{scripts}.remote_lock_scripts": _module("locks", LockResult=None, LockStatus=None),
    }


def _module(name: str, **contents: object) -> ModuleType:
    module = ModuleType(name, "Provided by accel.")
    vars(module).update(contents)
    return module


def _absent(*_: object, **__: object) -> None:
    raise NotImplementedError("performance analysis of hardware traces is not published")


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option that makes a selection."""
    parser.addoption(
        "--nkilib-smallest",
        type=int,
        default=0,
        metavar="N",
        help="run the N smallest cases of every test function (0: all)",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Before the suite's conftest is imported, which imports the rest."""
    install()
    np.sctypeDict.update(STRUCTURED)  # type: ignore[arg-type]  # what np.zeros makes of a name
    sys.modules.update(provided())


def pytest_configure() -> None:
    """The suite's orchestrator reads what only a compilation sets, and simulates one rank only."""
    module = sys.modules.get("test.utils.test_orchestrator")
    if module is None:
        return
    theirs: Any = module.Orchestrator
    one_rank = theirs._run_simulator_inference

    def run(self: Any, test: Any) -> object:
        if test.inference_args.collective_ranks > 1:
            return _run_ranks(self, test, sys.modules["test.utils.common_dataclasses"])
        return one_rank(self, test)

    theirs._compiled_kernel, theirs._run_simulator_inference = None, run


def _run_ranks(orchestrator: Any, test: Any, records: Any) -> object:
    """Runs a test's kernel on all its ranks and leaves their outputs where the suite looks."""
    os.environ[GENERATION_VARIABLE] = test.compiler_input.platform_target.get_nc_gen()
    ranks, given = range(test.inference_args.collective_ranks), test.kernel_input
    inputs = [given.for_rank(r) if hasattr(given, "for_rank") else given for r in ranks]
    kernel = Simulated(test.kernel_func, test.compiler_input.logical_nc_config)
    arguments = [
        {name.removesuffix(_ALIASED): value for name, value in keywords.items()}
        for keywords in inputs
    ]
    folder = ""
    for rank, result in enumerate(kernel.on_ranks(arguments)):
        golden = records.normalize_golden_output(test.validation_args.golden_output, rank)
        outputs = result if isinstance(result, (list, tuple)) else [result]
        named = {
            name: np.asarray(output, dtype=expected.dtype)
            for (name, expected), output in zip(golden.items(), outputs, strict=True)
        }
        folder = orchestrator.fs_config.artifacts_output_directory_path + "/" + _OUTPUTS
        target = f"{folder}/output_worker_{rank}"
        orchestrator.__dump_tensors__(target, named, lambda name: name)
    return folder


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How much of the time was ours; the rest is the suite's data and references."""
    if _TOOK:
        told = f"accel: {len(_TOOK)} kernels evaluated in {sum(_TOOK):.1f} s"
        terminalreporter.write_line(told)


# References that look up the dtypes of arrays under the names that the language has for them.
_REFERENCES = "nkilib.core.utils.mx_torch_common"


def _for_arrays(language: ModuleType) -> ModuleType:
    """The language with packed dtypes as those of the arrays that the suite is given."""
    return _module(language.__name__, **{**vars(language), **STRUCTURED})


class _Called(ModuleType):
    """A module of the library that is called for its function of the same name: the published tree
    leaves out what its package imported.
    """

    def __call__(self, *positional: object, **keywords: object) -> object:
        function = getattr(self, self.__name__.rpartition(".")[2])
        return function(*positional, **keywords)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keeps the smallest cases, after the suite's own markers deselected what they do."""
    for name, module in list(sys.modules.items()):
        if name.startswith("nkilib_src.") and hasattr(module, name.rpartition(".")[2]):
            module.__class__ = _Called
        if name.endswith(_REFERENCES):
            vars(module)["nl"] = _for_arrays(vars(module)["nl"])
    count = int(config.getoption("--nkilib-smallest"))
    if not count:
        return
    skipped = {item.nodeid for item in items if item.get_closest_marker("skip") is not None}
    names = [item.nodeid for item in items]
    kept = set(smallest([name for name in names if name not in skipped], count))
    dropped = [item for item in items if item.nodeid not in kept]
    config.hook.pytest_deselected(items=dropped)
    items[:] = [item for item in items if item.nodeid in kept]


def smallest(names: Iterable[str], count: int) -> Iterator[str]:
    """The `count` cases of every test function whose numbers have the smallest product."""
    cases: dict[str, list[str]] = defaultdict(list)
    for name in names:
        cases[name.partition("[")[0]].append(name)
    for group in cases.values():
        yield from sorted(group, key=_size)[:count]


def _size(name: str) -> float:
    case = name.partition("[")[2]
    return sum(math.log(max(1, int(number))) for number in _NUMBER.findall(case))
