"""How kernels of the older form are found, run and benchmarked."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest

from accel.chip import chip_named
from accel.errors import KernelError
from accel.nki.jit import TensorSpec, trace
from accel.nki.legacy import compiler
from accel.nki.legacy import language as nl
from accel.nki.legacy.jit import baremetal, benchmark, jit, simulate_kernel
from accel.nki.legacy.typing import tensor
from accel.nki.load import load_kernel
from tests.accel.nki_legacy.running import numbers

X = numbers(128, 64)


def double(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, 2.0 * nl.load(x))
    return out


@pytest.mark.parametrize(
    "decorate",
    [
        jit,
        jit(mode="simulation"),
        baremetal,
        baremetal(save_neff_name="file.neff"),
        lambda function: compiler.skip_middle_end_transformations(jit(function)),
        lambda function: compiler.enable_stack_allocator(log_level=1)(jit(function)),
    ],
)
def test_a_decorated_kernel_computes_on_arrays(decorate):
    assert np.array_equal(decorate(double)(X), 2 * X)


def test_simulate_kernel_takes_plain_and_decorated_functions():
    assert np.array_equal(simulate_kernel(double, X), 2 * X)
    assert np.array_equal(simulate_kernel(jit(double), x=X), 2 * X)


def test_a_kernel_calls_another():
    inner = jit(double)

    def kernel(x):
        tile = nl.load(inner(x))
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, tile + 1.0)
        return out

    assert np.array_equal(jit(kernel)(X), 2 * X + 1)


def test_benchmark_predicts_a_latency_that_grows_with_the_work():
    small, large = (benchmark(warmup=1, iters=2)(double) for _ in range(2))
    small(tensor[[128, 64], nl.bfloat16])
    large(np.zeros((128, 8192), np.float32))

    latencies = [b.benchmark_result.nc_latency.get_latency_percentile(99) for b in (small, large)]
    assert 0 < latencies[0] < latencies[1]


def test_a_file_imports_the_language_under_its_public_names(tmp_path):
    file = tmp_path / "kernels.py"
    file.write_text(
        textwrap.dedent("""
            import neuronxcc.nki as nki
            import neuronxcc.nki.language as nl
            import neuronxcc.nki.isa as nisa
            import neuronxcc.nki.typing as nt
            from neuronxcc.nki import baremetal, benchmark, simulate_kernel
            from neuronxcc.nki.language import par_dim

            rotating = nki.compiler.sbuf.mod_alloc(base_addr=0)

            @nki.jit
            def shifted(x, by):
                out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
                tile: nt.tensor[128, 64] = nl.load(x)
                nl.store(out, nki.isa.tensor_scalar(tile, np.add, by))
                return out

            import numpy as np
        """)
    )
    kernel = load_kernel(f"{file}:shifted")

    assert np.array_equal(kernel(X, 3.0), X + 3)
    program = trace(kernel, {"x": TensorSpec((128, 64), "float32"), "by": 3.0}, chip_named("trn1"))
    assert [program.place(i).split(":")[1] for i in range(3)] == ["14", "15", "15"]
    assert [s.name.split(".")[0] for s in program.storages[2:]] == ["tile", "tile"]


def test_the_language_is_refused_outside_a_kernel():
    with pytest.raises(KernelError, match="outside a kernel"):
        nl.ndarray((128, 4), dtype=nl.float32)


def test_a_failing_kernel_leaves_the_language_usable():
    def kernel(x):
        nl.load(x)
        raise ValueError("no")

    with pytest.raises(KernelError, match="ValueError: no"):
        jit(kernel)(X)
    assert np.array_equal(jit(double)(X), 2 * X)


def test_types_stand_for_numpy_types():
    seen = []

    def kernel(x):
        tile = nl.load(x)
        seen.append((tile.dtype == nl.float32, tile.dtype == nl.bfloat16, tile.itemsize, tile.ndim))
        return double(x)

    jit(kernel)(X)
    assert seen == [(True, False, 4, 2)]
    assert nl.static_cast(X, nl.bfloat16).dtype == nl.bfloat16
