"""Kernels that do what a kernel should not, one mistake each."""

import sys

import nki
import nki.isa as nisa
import nki.language as nl


def copied(x):
    """x by way of SBUF."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nl.store(out, tile)
    return out


@nki.jit
def prints(x):
    """Writes to stdout while it is recorded."""
    print("seen")
    return copied(x)


@nki.jit
def prints_a_tile(x):
    """Writes values to stdout while it is evaluated."""
    nl.device_print("seen", nl.load(x))
    return copied(x)


@nki.jit
def returns_nothing(x):
    """Loads, and forgets to return."""
    nl.load(x)


@nki.jit
def never_writes(x):
    """Returns what it did not fill."""
    nl.load(x)
    return nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)


@nki.jit
def writes_half(x):
    """Fills the upper half of what it returns."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out[0:64], nl.load(x[0:64]))
    return out


@nki.jit
def returns_nested(x):
    """Two results, one of them deep."""
    return {"first": copied(x), "rest": [(copied(x), 3)]}


@nki.jit
def exits(x):
    """Leaves Python."""
    nl.load(x)
    sys.exit(0)


@nki.jit
def divides(x):
    """Slices with a float."""
    tile = nl.load(x)
    nisa.memset(dst=tile[:, 0 : x.shape[1] / 2], value=0.0)


@nki.jit
def across_banks(x):
    """A product that starts in the middle of a PSUM bank."""
    left, right = (nl.zeros((128, columns), dtype=nl.bfloat16) for columns in (128, 512))
    psum = nl.ndarray((128, 1024), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=psum[:, 256:768], stationary=left, moving=right)


@nki.jit
def below_zero(x):
    """An address in front of the memory."""
    tile = nl.ndarray((128, 8), dtype=nl.float32, address=(0, -4))
    nisa.memset(dst=tile, value=0.0)


@nki.jit
def off_quarter(x):
    """A tile whose first partition no engine can start at."""
    tile = nl.ndarray((64, 8), dtype=nl.float32, address=(10, 0))
    nisa.memset(dst=tile, value=0.0)


@nki.jit
def odd_address(x):
    """An address between two bytes."""
    nl.ndarray((64, 8), dtype=nl.float32, address=(0, 1.5))


@nki.jit
def does_nothing(x):
    """No instruction at all."""


@nki.jit
def too_much_hbm(x):
    """A result of four tebibytes."""
    out = nl.ndarray((2**20, 2**20), dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(out[0:128, 0:8], nl.load(x))
    return out


@nki.jit
def unknown_call(x):
    """An instruction that there is not."""
    nisa.no_such_call(dst=nl.load(x))


@nki.jit
def takes_any(x, **options):
    """The factor comes in among the keywords."""
    tile = nl.load(x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=options["factor"])
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out
