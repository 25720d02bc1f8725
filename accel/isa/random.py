"""Random numbers of the engines: XORWOW, four generators a lane, of six 32-bit words each.

The state is [lanes, 4, 6] uint32. GpSimd uses the first generator of a lane, the vector engine its
four in turn. The algorithm is the machine's from NeuronCore-v4 on; how it spreads one seed over
the lanes is not published, so a kernel's random numbers are reproducible here, not the machine's.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

States = npt.NDArray[np.uint32]
Words = npt.NDArray[np.uint32]

GENERATORS, WORDS = 4, 6
_WEYL = np.uint32(362437)


def seeded(seed: int, lanes: int) -> States:
    """States that differ by lane and generator and depend on `seed` (its low 32 bits) only."""
    sequence = np.random.SeedSequence(seed & 0xFFFFFFFF)
    words = sequence.generate_state(lanes * GENERATORS * WORDS, np.uint32).astype(np.uint32)
    return words.reshape(lanes, GENERATORS, WORDS)


def drawn(states: States, generators: int, count: int) -> Words:
    """`count` random words a lane, taken from the first `generators` in turn; moves the states."""
    lanes = len(states)
    rounds = -(-count // generators)
    words = np.empty((rounds, lanes, generators), np.uint32)
    used = np.ascontiguousarray(states[:, :generators].transpose(2, 0, 1))
    x, y, z, w, v, weyl = used
    for row in words:
        mixed = x ^ (x >> 2)
        x, y, z, w = y, z, w, v
        v = v ^ (v << 4) ^ mixed ^ (mixed << 1)
        weyl = weyl + _WEYL
        row[...] = weyl + v
    states[:, :generators] = np.stack([x, y, z, w, v, weyl]).transpose(1, 2, 0)
    return words.transpose(1, 0, 2).reshape(lanes, -1)[:, :count]


def unit(words: Words) -> npt.NDArray[np.float32]:
    """Words as float32 in [0, 1), by their upper 24 bits."""
    return (words >> 8).astype(np.float32) * np.float32(2.0**-24)
