"""The plugin for the public suite: which modules it provides, which cases it keeps."""

import importlib
import sys
import types
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import accel.nki.collectives as ncc
import accel.nki.isa as nisa
import accel.nki.language as nl
from accel.nki import nkilib

pytest_plugins = ("pytester",)

KERNEL_TEST = """
import importlib, os
import numpy as np
import pytest
import nki, nki.language as nl, nki.isa as nisa
import nki_cpu_simulator.nki.isa.constants as constants
import nki_cpu_simulator.nki.language.dtypes as dtypes
from nki_cpu_simulator import nki as simulated
from nki.collectives import ReplicaGroup
from nki.compiler.frontend import ParserFrontend
import neuron_dtypes as dt
from neuronxcc.starfish.support.dtype import static_cast

def copies(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out[nl.program_id(0)], x[nl.program_id(0)])
    return out

@pytest.mark.parametrize("size", [256, 8, 64])
def test_copy(size, monkeypatch):
    monkeypatch.setenv("NKI_NC_VERSION", "gen3")
    x = np.ones((2, 4, size), np.float32)
    assert (simulated.cpu_simulate(copies)[2](x=x) == x).all()
    assert len(ParserFrontend().compile(copies, inputs={"x": x}, target="trn2", lnc=2)) == 2
    assert constants.dge_mode is nisa.dge_mode
"""


def test_the_smallest_cases_of_every_function_are_kept() -> None:
    names = ["f[b-8_s-64]", "f[b-2_s-16]", "f[b-1_s-128]", "g", "h[4096]", "h[x]"]

    assert sorted(nkilib.smallest(names, 1)) == ["f[b-2_s-16]", "g", "h[x]"]
    assert sorted(nkilib.smallest(names, 9)) == sorted(names)


def test_a_kernel_runs_on_ranks_of_its_own_arguments() -> None:
    def kernel(x, groups):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        ncc.all_reduce([x], [out], groups, nl.add)
        return out

    given = [{"x": np.full((2, 3), r, np.float32), "groups": [[0, 1, 2]]} for r in range(3)]

    for result in nkilib.Simulated(kernel, 2).on_ranks(given):
        assert (result == 3).all()


def test_packed_arrays_go_in_and_come_out_as_the_suite_has_them() -> None:
    values = np.arange(64, dtype=np.float32).reshape(2, 32)
    packed = nkilib.static_cast(values, "float8_e4m3fn_x4")

    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, x)
        return out

    result = nkilib.Simulated(kernel)(np.concatenate([packed, packed]))

    assert "float8_e4m3fn_x4" in str(packed.dtype)
    assert (np.asarray(result, np.float32).view(np.uint32)[:2] == packed.view(np.uint32)).all()
    back = nkilib.static_cast(np.asarray(result), np.float32)
    np.testing.assert_allclose(back[2:], values, rtol=0.07)


def test_what_nothing_wrote_is_zero_to_the_suite() -> None:
    def kernel(x):
        return nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)

    assert (nkilib.Simulated(kernel)(np.ones((2, 3), np.float32)) == 0).all()


def test_a_suite_runs_under_the_plugin(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(KERNEL_TEST)
    monkeypatch.setenv("PYTHONPATH", str(Path(nkilib.__file__).parents[2]))
    result = pytester.runpytest_subprocess(
        "-p", "accel.nki.nkilib", "--nkilib-smallest", "2", "-p", "no:cacheprovider"
    )

    result.assert_outcomes(passed=2, deselected=1)


@pytest.mark.parametrize("dtype", [np.float16, "bfloat16", ml_dtypes.float8_e4m3fn])
def test_casts_go_through_the_machines_dtypes(dtype: object) -> None:
    cast = nkilib.static_cast(np.array([1.03, -2.0]), dtype)

    assert nkilib.is_float_type(cast.dtype)
    assert nkilib.sizeinbytes(dtype) == cast.dtype.itemsize
    assert nkilib.finfo(dtype).max == ml_dtypes.finfo(cast.dtype).max


def test_importing_the_plugin_changes_no_module() -> None:
    importlib.import_module("accel.nki.nkilib")

    assert "nki_cpu_simulator" not in sys.modules
    assert not nkilib.is_float_type(np.int32)
    assert nkilib.is_float_type(np.float64)


def test_references_find_the_dtype_of_a_packed_array_under_its_name_in_the_language() -> None:
    language = types.ModuleType("nki.language")
    vars(language).update(float32="float32", float8_e4m3fn_x4="float8_e4m3fn_x4")

    ours = vars(nkilib._for_arrays(language))

    array = np.zeros(4, ours["float8_e4m3fn_x4"])
    table = {ours["float8_e5m2_x4"]: 5, ours["float8_e4m3fn_x4"]: 4}
    assert table[array.dtype] == 4
    assert ours["float32"] == vars(language)["float32"]
