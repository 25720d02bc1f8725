"""Random small programs for property tests of the simulator."""

from __future__ import annotations

from hypothesis import strategies as st

from accel.program import Engine, Kind, Memory, Mode, Program
from tests.accel.sim.streams import Stream

_WIDTHS = (64, 128, 512)


@st.composite
def programs(draw, transfers: bool = True, max_size: int = 24, tile_bytes: int = 4096) -> Program:
    """Loads, copies, sums, matmuls and stores on column ranges of a handful of tiles.

    Every tile is filled first, so that nothing is read before it was written.
    """
    s = Stream("gen3")
    wide = tile_bytes // 4
    source = s.hbm((128, wide), "float32")
    target = s.hbm((128, wide), "float32", Kind.OUTPUT)
    tiles = [s.tile((128, wide)) for _ in range(draw(st.integers(2, 5)))]
    psums = [s.tile((128, 512), memory=Memory.PSUM) for _ in range(2)]
    for tile in tiles:
        s.fill(tile)
    for psum in psums:
        s.fill(psum)
    kinds = ["copy", "sum", "matmul", "drain"] + ["load", "store"] * transfers
    for line in range(draw(st.integers(1, max_size))):
        width = draw(st.sampled_from([*(w for w in _WIDTHS if w <= wide), wide]))
        columns = draw(st.integers(0, wide // width - 1)) * width
        part = ((0, 128), (columns, width))
        a, b, c = (draw(st.sampled_from(tiles)) for _ in range(3))
        psum_width = min(width, 512)
        psum = draw(st.sampled_from(psums))
        kind = draw(st.sampled_from(kinds))
        engine = draw(st.sampled_from([Engine.VECTOR, Engine.SCALAR]))
        match kind:
            case "load":
                s.dma(a, source, part, part, line=line)
            case "store":
                s.dma(target, a, part, part, line=line)
            case "copy":
                s.copy(a, b, part, ((0, 128), (0, width)), engine, line)
            case "sum":
                s.tensor(a, b, c, "add", (part, part, part), line)
            case "matmul":
                _matmul(s, psum, a, b, psum_width, line)
            case _:
                s.copy(a, psum, *[((0, 128), (0, psum_width))] * 2, engine, line)
    return s.build()


def _matmul(s: Stream, psum: int, a: int, b: int, width: int, line: int) -> None:
    operands = [
        ("dst", Mode.ACCUMULATE, psum, ((0, 64), (0, width))),
        ("stationary", Mode.READ, a, ((0, 128), (0, 64))),
        ("moving", Mode.READ, b, ((0, 128), (0, width))),
    ]
    s.emit("nc_matmul", operands, engine=Engine.TENSOR, line=line, accumulate="auto")
