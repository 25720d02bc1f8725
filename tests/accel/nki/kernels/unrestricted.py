"""Kernels that run as Python, each with one construct that the vendor's compiler rejects."""

import nki
import nki.isa as nisa
import nki.language as nl


class Settings:
    """Not an NKIObject."""

    def __init__(self, factor):
        self.factor = factor


class Allowed(nl.NKIObject):
    """A class as the compiler takes it."""

    factor: float = 2.0

    def doubled(self):
        return 2 * self.factor


def copied(x, factor=2.0):
    """factor × x."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)
    nisa.dma_copy(dst=out, src=tile)
    return out


def helper(values):
    return [2 * value for value in values]


@nki.jit
def restricted(x, names=("a", "b")):
    """Everything here is in the language."""
    settings = Allowed()
    by_name = {"a": 1.0, "b": settings.doubled()}
    total = 0.0
    for name in names:
        if name is not None and name != "c":
            total += by_name[name]

    def body(factor):
        return copied(x, factor=factor)

    print(f"factor {total}")
    return body(total)


@nki.jit
def comprehends(x):
    return copied(x, sum([1.0, *helper((1.0,))]) if x is None else helper((1.0,))[0])


@nki.jit
def tries(x):
    try:
        return copied(x)
    except ValueError:
        return x


@nki.jit
def is_true(x, doubled=True):
    return copied(x, 2.0 if doubled is True else 1.0)


@nki.jit
def keyword_only(x, *, factor=2.0):
    return copied(x, factor)


@nki.jit
def list_default(x, factors=[2.0]):  # noqa: B006
    return copied(x, factors[0])


@nki.jit
def uses_class(x):
    return copied(x, Settings(2.0).factor)


@nki.jit
def number_keys(x):
    return copied(x, {1: 2.0}[1])


@nki.jit
def has_lambda(x):
    double = lambda value: 2 * value  # noqa: E731
    return copied(x, double(1.0))


@nki.jit
def stops(x):
    if x.shape[0] > 10**6:
        breakpoint()
    return copied(x)


@nki.jit
def unpacks(x):
    options = {"factor": 2.0}
    return copied(x, **options)


@nki.jit
def large_number(x):
    return copied(x, 2.0 if x.shape[0] < 2**40 else 6_000_000_000)


@nki.jit
def two_faults(x):
    factors = {2.0}
    del factors
    return copied(x)
