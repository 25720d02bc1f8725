"""Chip: one generation of the machine, every number with its unit and where it comes from.

A preset is a table of `Fact`s; the frozen `Chip` holds the values, `Chip.facts` the provenance. The
machine layer reads only this record, so a what-if chip is a preset with other facts. Sources are
abbreviated: SDK = aws-neuron-sdk at 81ce03ae, SDK@v2.26 = its tag v2.26.0; ARCH2/ARCH3/ARCH4 = its
`nki/guides/architecture/` pages for trainium/inferentia2, trainium2 and trainium3; PERF =
`nki/deep-dives/nki_perf_guide.rst`; DMA-BW = `nki/deep-dives/nki-dma-bandwidth-guide.rst`.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from accel.errors import UserError


@dataclass(frozen=True, slots=True)
class Fact:
    """A number with its provenance: `source` is the publication, the arithmetic, or the reason."""

    value: int
    origin: Literal["published", "derived", "assumed"]
    source: str


@dataclass(frozen=True, slots=True)
class Chip:
    """One NeuronCore and its share of the device. Clocks in MHz, times in picoseconds.

    `*_overhead_cycles`: fixed cost of an instruction on that engine beside its per-element work;
    `*_latency_cycles`: the same until its result can be read.
    `shared_ports`: 1 where vector and GpSimd engine may not use SBUF at the same time, nor vector
    and scalar engine PSUM. `tensor_limit_*`: the tensor engine runs at half rate while its use in
    the last such window, in rows × cycles, was below so many percent; without a window it never
    does. `semaphore_ps`: what waits for an engine's result starts so much after it.
    `dma_engine_step_ps`: the DMA engines of a transfer are told one after the other, so far apart.
    `dma_*`: a transfer is cut into contiguous elements; each DMA engine spends
    `dma_element_overhead_ps + bytes ÷ rate` on one, `rate` being `dma_small_bytes_per_us` for
    elements below `dma_small_element_bytes` and `dma_bytes_per_us` otherwise, and never less than
    `dma_min_element_ps`. `link_bytes_per_us` is a core's share of the links to other chips, one
    way; a collective takes `collective_fixed_ps`, and for each step of its algorithm
    `collective_hop_ps`, or `network_hop_ps` to another instance, beside its bytes, which go over
    `collective_channels`. It goes by a mesh below `collective_mesh_bytes`, by recursive doubling up
    to `collective_doubling_bytes`, and round a ring above. `launch_ps` passes before the first
    instruction of a kernel that is launched alone; it is no part of one inside a larger program.
    """

    name: str
    generation: int
    cores: int
    partitions: int
    sbuf_partition_bytes: int
    sbuf_reserved_bytes: int
    psum_bank_bytes: int
    psum_banks: int
    stationary_max: int
    moving_max: int
    tensor_mhz: int
    vector_mhz: int
    scalar_mhz: int
    gpsimd_mhz: int
    sync_mhz: int
    min_issue_cycles: int
    fp32_passes: int
    fp32_transpose_passes: int
    tensor_latency_cycles: int
    tensor_limit_window_ps: int
    tensor_limit_percent: int
    vector_overhead_cycles: int
    vector_latency_cycles: int
    vector_bytes_per_cycle: int
    vector_16bit_bytes_per_cycle: int
    scalar_overhead_cycles: int
    scalar_latency_cycles: int
    scalar_reduce_cycles: int
    gpsimd_overhead_cycles: int
    activation_table_load_ps: int
    shared_ports: int
    semaphore_ps: int
    dma_engines: int
    dma_element_overhead_ps: int
    dma_min_element_ps: int
    dma_small_element_bytes: int
    dma_small_bytes_per_us: int
    dma_bytes_per_us: int
    dma_latency_ps: int
    dma_engine_step_ps: int
    dge_issue_ps: int
    launch_ps: int
    hbm_bytes_per_us: int
    hbm_stack_bytes_per_us: int
    hbm_bytes: int
    link_bytes_per_us: int
    collective_fixed_ps: int
    collective_hop_ps: int
    collective_mesh_bytes: int
    collective_doubling_bytes: int
    collective_channels: int
    collective_channel_bytes_per_us: int
    network_hop_ps: int
    facts: tuple[tuple[str, Fact], ...] = ()

    @property
    def nc_version(self) -> str:
        """The language's name of this generation: gen2, gen3, gen4; gen1 is ours."""
        return f"gen{self.generation}"

    @property
    def cores_per_stack(self) -> int:
        """Cores that share one HBM stack."""
        return max(1, round(self.hbm_stack_bytes_per_us / self.hbm_bytes_per_us))

    def stacks_of(self, cores: int) -> int:
        """HBM stacks that so many cores, the first of the chip, are attached to."""
        return -(-cores // self.cores_per_stack)

    def moved_bytes_per_us(self, cores: int) -> int:
        """What the DMA engines and the HBM stacks of so many cores move at most."""
        engines = cores * self.dma_engines * self.dma_bytes_per_us
        return min(engines, self.stacks_of(cores) * self.hbm_stack_bytes_per_us)

    @property
    def sbuf_usable_bytes(self) -> int:
        """Bytes a partition that kernels may allocate."""
        return self.sbuf_partition_bytes - self.sbuf_reserved_bytes

    def fact(self, field: str) -> Fact:
        """The provenance of one field."""
        return dict(self.facts)[field]

    def peak_flops_per_us(self, dtype: str) -> int:
        """Dense matmul FLOP per microsecond: 2 × 128 × 128 × clock ÷ passes of the dtype."""
        passes = self.fp32_passes if dtype == "float32" else 1
        return 2 * self.partitions * self.stationary_max * self.tensor_mhz // passes


def _published(value: int, source: str) -> Fact:
    return Fact(value, "published", source)


def _derived(value: int, source: str) -> Fact:
    return Fact(value, "derived", source)


def _assumed(value: int, source: str) -> Fact:
    return Fact(value, "assumed", source)


_COMMON: dict[str, Fact] = {
    "partitions": _published(128, "ARCH2, ARCH3, ARCH4: SBUF and PSUM have 128 partitions"),
    "psum_bank_bytes": _published(2048, "ARCH2 PSUM: 8 banks of 2 KiB a partition"),
    "psum_banks": _published(8, "ARCH2 PSUM"),
    "stationary_max": _published(128, "nki.isa nc_matmul: stationary free size at most 128"),
    "moving_max": _published(512, "nki.isa nc_matmul: moving free size at most 512"),
    "min_issue_cycles": _published(64, "SDK@v2.26 nki.isa cost tables: issue interval about 64"),
    "fp32_passes": _published(4, "ARCH2 L270: fp32 matmul takes 4 passes"),
    "tensor_latency_cycles": _derived(
        400, "PERF figures 18-26: a 128-column MATMUL lasts N + 398 to 485 cycles at 2.8 GHz"
    ),
    "gpsimd_overhead_cycles": _published(150, "SDK@v2.26 nki.isa: GpSimd start-up about 150"),
    "scalar_reduce_cycles": _published(64, "ARCH2 L492: reading the reduce register, 64 cycles"),
    "dma_min_element_ps": _published(7_000, "PERF figure 29: 4-byte elements take 7 ns each"),
    "dma_engines": _published(16, "SDK nki-dma-overview.rst: 16 DMA engines a NeuronCore"),
    "semaphore_ps": _derived(
        30_000,
        "DMA overview example 1: ACTIVATE ends at 30,060 ns, the store that waits for it starts at "
        "30,090; ARCH2 L403: 100 cycles more where an instruction needs the one before, of "
        "which 60 are its access to memory",
    ),
    "dma_engine_step_ps": _derived(
        25_000,
        "DMA overview example 2: 16 engines of 97 ns each are done after 468 ns: 371 / 15. Its row "
        "of the published timings is a fit",
    ),
    "collective_hop_ps": _published(
        1_500_000, "SDK intranode-collective-comm.rst: 1 to 2 us a hop, the middle"
    ),
    "collective_mesh_bytes": _published(
        2**20, "SDK intranode-collective-comm.rst, algorithm summary: a mesh below 1 MB"
    ),
    "collective_doubling_bytes": _published(
        56 * 2**20, "the same: recursive doubling and halving to 56 MB, KangaRing above"
    ),
    "network_hop_ps": _published(
        15_000_000, "SDK collectives.rst L114: about 15 us from HBM to HBM of another instance"
    ),
    "collective_fixed_ps": _derived(
        3_160_000, "SDK nccom-test page of 2025: 1 KiB all-gather of 32 ranks 6.16 us, less 2 hops"
    ),
    "dma_latency_ps": _published(
        1_300_000,
        "DMA-BW L41: about 1300 ns from semaphore to start; 1304 ns beside the data in "
        "SDK nki-dma-overview.rst example 1 (2.72 us end to end, 1.416 us of data)",
    ),
}

_PRESETS: dict[str, dict[str, Fact]] = {
    "trn1": _COMMON
    | {
        "tensor_limit_window_ps": _assumed(0, "no such limit is published for NeuronCore-v2"),
        "tensor_limit_percent": _assumed(0, "unused without a window"),
        "generation": _published(2, "SDK nki.isa nc_version: gen2"),
        "shared_ports": _published(1, "ARCH2 L765-772: one of both engines at a time"),
        "cores": _published(2, "SDK trainium.rst: 2 NeuronCores a chip"),
        "sbuf_partition_bytes": _published(192 * 1024, "ARCH2 L76: 24 MiB = 128 × 192 KiB"),
        "sbuf_reserved_bytes": _published(16 * 1024, "SDK@v2.26 direct allocation guide: 16 KiB"),
        "tensor_mhz": _published(2800, "ARCH2 L61-74"),
        "vector_mhz": _published(1120, "ARCH2 L61-74"),
        "scalar_mhz": _published(1400, "ARCH2 L61-74"),
        "gpsimd_mhz": _published(1400, "ARCH2 L61-74"),
        "sync_mhz": _published(1400, "SDK profile-schema-reference.rst: base clock 1.4 GHz"),
        "fp32_transpose_passes": _published(4, "ARCH2: no transpose mode before NeuronCore-v3"),
        "vector_overhead_cycles": _published(
            60, "ARCH2 L772-776: about 60 cycles to reach SBUF or PSUM, whatever the size"
        ),
        "vector_latency_cycles": _published(
            60, "ARCH2 L772-776: about 60 cycles to reach SBUF or PSUM, whatever the size"
        ),
        "vector_bytes_per_cycle": _published(4, "ARCH2 L61-74: 128 lanes, one element a cycle"),
        "vector_16bit_bytes_per_cycle": _published(2, "ARCH2: no performance mode"),
        "scalar_overhead_cycles": _assumed(
            200, "no published trn1 timing tells it; as on trn2 a little under the latency"
        ),
        "scalar_latency_cycles": _derived(
            221, "PERF figure 16: a one-element ACTIVATE lasts 159 ns = 222 cycles at 1.4 GHz"
        ),
        "activation_table_load_ps": _published(368_000, "SDK@v2.26 neuron-profile images"),
        "dma_element_overhead_ps": _assumed(0, "the published trn1 latencies fit two rates alone"),
        "dma_small_element_bytes": _derived(2048, "matmul table on trn1: between 1 and 2 KiB"),
        "dma_small_bytes_per_us": _derived(6_400, "matmul table on trn1: the hoisted row"),
        "dma_bytes_per_us": _derived(14_700, "matmul table on trn1: blocked rows; 17 in DMA-BW"),
        "dge_issue_ps": _assumed(0, "descriptors are static on trn1 unless asked otherwise"),
        "launch_ps": _derived(
            22_000_000, "fused_mamba.rst: v1 at 512 x 256 takes 172.93 us, its window 150.93 us"
        ),
        "hbm_bytes_per_us": _published(410_000, "PERF figure 27: 130.46 GB/s shown as 31.82 %"),
        "hbm_stack_bytes_per_us": _published(410_000, "as above: one core has a stack of its own"),
        "hbm_bytes": _published(16 * 2**30, "SDK trainium.rst: 32 GiB a chip, 2 cores"),
        "collective_channels": _derived(
            4, "SDK nccom-test page of 2023: 56.7 GB/s between 2 ranks, over what an engine moves"
        ),
        "collective_channel_bytes_per_us": _derived(14_700, "one DMA engine: dma_bytes_per_us"),
        "link_bytes_per_us": _derived(192_000, "SDK trn1-arch.rst: 384 GB/s a chip, 2 cores"),
    },
    "trn2": _COMMON
    | {
        "tensor_limit_window_ps": _published(
            3_000_000,
            "SDK neuron-explorer overview-summary-page.rst: below half use for about 3 us",
        ),
        "tensor_limit_percent": _derived(
            40,
            "50 % on the same page; of 38 to 48, 40 fits measured chains of matmuls best",
        ),
        "generation": _published(3, "SDK nki.isa nc_version: gen3"),
        "shared_ports": _published(0, "ARCH3: both may, at full rate in different PSUM banks"),
        "cores": _published(8, "SDK trainium2.rst: 8 NeuronCores a chip"),
        "sbuf_partition_bytes": _published(224 * 1024, "ARCH3 L39: 28 MiB = 128 × 224 KiB"),
        "sbuf_reserved_bytes": _assumed(16 * 1024, "as on trn1; kernels plan with 208 KiB at most"),
        "tensor_mhz": _published(2400, "ARCH3 L41-64"),
        "vector_mhz": _published(960, "ARCH3 L41-64"),
        "scalar_mhz": _published(1200, "ARCH3 L41-64"),
        "gpsimd_mhz": _published(1200, "ARCH3 L41-64"),
        "sync_mhz": _published(1200, "SDK profile-schema-reference.rst: base clock 1.2 GHz"),
        "fp32_transpose_passes": _published(2, "ARCH3: fp32 transpose mode 2x faster"),
        "vector_overhead_cycles": _assumed(
            60, "trn1's published cycles to reach memory: the next instruction need not wait longer"
        ),
        "vector_latency_cycles": _published(
            144, "nki-library d2ad3a5 rotational_topk_utils.py: fixed 144 cycles an instruction"
        ),
        "vector_bytes_per_cycle": _published(8, "ARCH3 L41-64: 256 elements a cycle"),
        "vector_16bit_bytes_per_cycle": _published(8, "ARCH3 L41-64: 512 16-bit elements"),
        "scalar_overhead_cycles": _derived(
            280, "ACTIVATEs back to back issue every N + 282 to 296 cycles (timing study)"
        ),
        "scalar_latency_cycles": _derived(
            354, "DMA overview: ACTIVATE of 128 elements lasts N + 352 cycles, of 4096 N + 356"
        ),
        "activation_table_load_ps": _published(1_280_000, "SDK nki-dma-overview.rst: 1.28 µs"),
        "dma_element_overhead_ps": _derived(
            14_000, "kernel-optimization profiles: packet-time sums of v2 and v3 over elements"
        ),
        "dma_small_element_bytes": _assumed(0, "one rate for all sizes fits trn2"),
        "dma_small_bytes_per_us": _assumed(27_200, "unused: no small-element rate on trn2"),
        "dma_bytes_per_us": _published(27_200, "SDK nki-dma-overview.rst L16: 27.2 GB/s"),
        "dge_issue_ps": _published(600_000, "SDK nki-dge.rst L124: about 600 ns each"),
        "launch_ps": _published(
            22_280_000, "SDK nki-dma-overview.rst example 1: first trigger at 22,280 ns"
        ),
        "hbm_bytes_per_us": _derived(358_000, "profiler: 716 GB/s a stack, 2 cores a stack"),
        "hbm_stack_bytes_per_us": _derived(
            716_000, "kernel-optimization profiles: bytes over MBU percent; 2.9 TB/s over 4 stacks"
        ),
        "hbm_bytes": _published(12 * 2**30, "SDK trainium2.rst: 96 GiB a chip, 8 cores"),
        "collective_channels": _assumed(
            6, "SDK nccom-test page of 2026, no hardware named: 104 GB/s a rank over 17 a channel"
        ),
        "collective_channel_bytes_per_us": _assumed(
            17_000, "DMA-BW: what an engine of trn1 achieves; the pages name no hardware"
        ),
        "link_bytes_per_us": _derived(160_000, "SDK trainium2.rst: 1.28 TB/s a chip, 8 cores"),
    },
}

_PRESETS["inf2"] = _PRESETS["trn1"] | {
    "cores": _published(2, "SDK inferentia2.rst: 2 NeuronCores of version 2 a chip"),
    "launch_ps": _assumed(22_000_000, "trn1's value; no inf2 profile is published"),
    "hbm_bytes": _published(16 * 2**30, "SDK inferentia2.rst: 32 GiB a chip, 2 cores"),
    "link_bytes_per_us": _derived(96_000, "SDK inf2-arch.rst: 192 GB/s a chip, 2 cores"),
}

# No clock, size or DMA rate of NeuronCore-v1 is published, only rates: clocks are those at which an
# engine as wide as NeuronCore-v2's has the published rate, and the rest is NeuronCore-v2's.
_PRESETS["inf1"] = _PRESETS["trn1"] | {
    "generation": _published(1, "SDK inferentia.rst: NeuronCore-v1"),
    "cores": _published(4, "SDK inferentia.rst: 4 NeuronCores a chip"),
    "sbuf_partition_bytes": _assumed(192 * 1024, "trn1's value; the size is not published"),
    "tensor_mhz": _derived(488, "SDK neuron-core-v1.rst: 16 TFLOPS in bf16 and fp16, 128 × 128"),
    "vector_mhz": _derived(112, "SDK neuron-core-v2.rst: VectorE is 10 times as fast on v2"),
    "scalar_mhz": _derived(467, "SDK neuron-core-v2.rst: ScalarE is 3 times as fast on v2"),
    "gpsimd_mhz": _assumed(467, "unused: NeuronCore-v1 has no GpSimd"),
    "sync_mhz": _published(1000, "SDK profile-schema-reference.rst: base clock 1.0 GHz"),
    "launch_ps": _assumed(22_000_000, "trn1's value; no inf1 profile is published"),
    "hbm_bytes_per_us": _derived(13_422, "SDK inferentia.rst: 50 GiB/s a chip, 4 cores"),
    "hbm_stack_bytes_per_us": _published(53_687, "SDK inferentia.rst: 50 GiB/s a chip, DRAM"),
    "hbm_bytes": _published(2 * 2**30, "SDK inferentia.rst: 8 GiB a chip, 4 cores"),
    "link_bytes_per_us": _derived(8_590, "SDK inf1-arch.rst: 32 GiB/s a chip, 4 cores"),
}

_PRESETS["trn3"] = _PRESETS["trn2"] | {
    "generation": _published(4, "SDK nki.isa nc_version: gen4"),
    "cores": _published(8, "SDK trainium3.rst: 8 NeuronCores a chip"),
    "sbuf_partition_bytes": _derived(256 * 1024, "ARCH4 L36: 32 MiB ÷ 128 partitions"),
    "tensor_mhz": _published(2400, "ARCH4 L38-61"),
    "vector_mhz": _published(1200, "ARCH4 L38-61"),
    "scalar_mhz": _published(1200, "ARCH4 L38-61"),
    "gpsimd_mhz": _published(1200, "ARCH4 L38-61"),
    "sync_mhz": _assumed(1200, "the base clock of trn3 is not published; trn2's"),
    "vector_overhead_cycles": _assumed(60, "trn2's value; no trn3 kernel timing is published"),
    "vector_latency_cycles": _assumed(144, "trn2's value; no trn3 kernel timing is published"),
    "scalar_overhead_cycles": _assumed(280, "trn2's value; no trn3 kernel timing is published"),
    "scalar_latency_cycles": _assumed(354, "trn2's value; no trn3 kernel timing is published"),
    "dma_bytes_per_us": _published(38_400, "SDK nki-dma-overview.rst L16: 38.4 GB/s"),
    "dma_small_bytes_per_us": _assumed(38_400, "unused: no small-element rate on trn3"),
    "launch_ps": _assumed(22_280_000, "trn2's value; no trn3 profile is published"),
    "hbm_bytes_per_us": _derived(587_500, "ARCH4: 4.7 TB/s a chip ÷ 8 cores"),
    "hbm_stack_bytes_per_us": _derived(1_175_000, "ARCH4: 4.7 TB/s a chip over 4 stacks"),
    "hbm_bytes": _published(18 * 2**30, "SDK trainium3.rst: 144 GiB a chip, 8 cores"),
    "link_bytes_per_us": _derived(320_000, "SDK trainium3.rst: 2.56 TB/s a chip, 8 cores"),
}


def from_facts(name: str, facts: Mapping[str, Fact]) -> Chip:
    """A chip from one fact a field; UserError names what is missing or unknown."""
    fields = {f.name for f in dataclasses.fields(Chip)} - {"name", "facts"}
    wrong = sorted(fields.symmetric_difference(facts))
    if wrong:
        raise UserError(f"chip {name}: missing or unknown numbers: {', '.join(wrong)}")
    values = {field: fact.value for field, fact in facts.items()}
    return Chip(name=name, facts=tuple(sorted(facts.items())), **values)


CHIPS: dict[str, Chip] = {
    name: from_facts(name, _PRESETS[name]) for name in ("inf1", "trn1", "inf2", "trn2", "trn3")
}


def chip_named(name: str) -> Chip:
    """A preset by name, or the chip of a file that ends in `.toml`; UserError for any other."""
    if name.endswith(".toml"):
        return chip_from_file(Path(name))
    if name not in CHIPS:
        raise UserError(
            f"unknown chip {name!r}",
            f"known chips: {', '.join(sorted(CHIPS))}; or give a .toml file that changes one",
        )
    return CHIPS[name]


_FILE_HINT = 'write base = "trn2", and under [numbers] what differs, as tensor_mhz = 2800'


def chip_from_file(path: Path) -> Chip:
    """A preset with other numbers: `base` names it, the table `numbers` has what differs.

    The chip is called like the file; its numbers count as assumed. UserError says what is wrong.
    """
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise UserError(f"no chip file {path}", _FILE_HINT) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not TOML: {error}", _FILE_HINT) from None
    unknown = sorted(content.keys() - {"base", "numbers"})
    if unknown:
        raise UserError(f"{path}: unknown key {unknown[0]!r}", _FILE_HINT)
    base, numbers = content.get("base"), content.get("numbers", {})
    if base not in CHIPS:
        raise UserError(f"{path}: base is {base!r}", f"choose one of {', '.join(sorted(CHIPS))}")
    if not isinstance(numbers, dict):
        raise UserError(f"{path}: numbers is not a table", _FILE_HINT)
    facts = dict(CHIPS[base].facts)
    for field, value in numbers.items():
        if field not in facts:
            raise UserError(
                f"{path}: unknown number {field!r}", f"`accel chips {base} --provenance` lists them"
            )
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise UserError(f"{path}: {field} is {value!r}", "every number is an integer from 0 on")
        if field in _POSITIVE and value == 0:
            raise UserError(f"{path}: {field} is 0", "there has to be at least one")
        facts[field] = _assumed(value, f"{path.name}; {CHIPS[base].fact(field).value} on {base}")
    return from_facts(path.stem, facts)


# Numbers that something is divided by, or that every program needs some of.
_POSITIVE = frozenset(
    {
        "generation",
        "cores",
        "partitions",
        "sbuf_partition_bytes",
        "psum_bank_bytes",
        "psum_banks",
        "stationary_max",
        "moving_max",
        "tensor_mhz",
        "vector_mhz",
        "scalar_mhz",
        "gpsimd_mhz",
        "sync_mhz",
        "fp32_passes",
        "fp32_transpose_passes",
        "vector_bytes_per_cycle",
        "vector_16bit_bytes_per_cycle",
        "dma_engines",
        "dma_small_bytes_per_us",
        "dma_bytes_per_us",
        "hbm_bytes_per_us",
        "hbm_stack_bytes_per_us",
        "hbm_bytes",
        "link_bytes_per_us",
    }
)
