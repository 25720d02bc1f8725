"""`accel chips`: what machines there are, and where their numbers come from."""

from __future__ import annotations

import dataclasses
import json

from accel.accuracy import accuracy_of
from accel.chip import CHIPS, Chip


def show_chips(as_json: bool) -> None:
    """Prints the chips; as JSON with every number and where it comes from."""
    if as_json:
        print(json.dumps({"chips": [_chip_record(chip) for chip in CHIPS.values()]}, indent=2))
        return
    print(f"{'chip':<6}{'cores':>6}{'SBUF MiB':>10}{'tensor MHz':>12}  timing")
    for chip in CHIPS.values():
        sbuf = chip.sbuf_partition_bytes * chip.partitions / 2**20
        print(
            f"{chip.name:<6}{chip.cores:>6}{sbuf:>10g}{chip.tensor_mhz:>12}  "
            f"{accuracy_of(chip.name)}"
        )


def _chip_record(chip: Chip) -> dict[str, object]:
    numbers = {name: dataclasses.asdict(fact) for name, fact in chip.facts}
    return {"name": chip.name, "accuracy": accuracy_of(chip.name), "numbers": numbers}
