"""`accel chips`: what machines there are, and where their numbers come from."""

from __future__ import annotations

import dataclasses
import json
import textwrap
from collections.abc import Iterator

from accel.accuracy import accuracy_of
from accel.chip import CHIPS, Chip, chip_named
from accel.instances import INSTANCES, Instance

_WIDTH = 100


def show_chips(name: str, provenance: bool, instances: bool, as_json: bool) -> None:
    """Prints all chips, or the one that is named; JSON has every number and its origin, and the
    machines with such chips.
    """
    chips = [chip_named(name)] if name else list(CHIPS.values())
    if as_json:
        print(json.dumps({"chips": [_chip_record(chip) for chip in chips]}, indent=2))
        return
    print(f"{'chip':<6}{'cores':>6}{'SBUF MiB':>10}{'tensor MHz':>12}  timing")
    for chip in chips:
        sbuf = chip.sbuf_partition_bytes * chip.partitions / 2**20
        print(
            f"{chip.name:<6}{chip.cores:>6}{sbuf:>10g}{chip.tensor_mhz:>12}  "
            f"{accuracy_of(chip.name)}"
        )
    if instances:
        print("\n".join(_instances(chips)))
    if provenance:
        for chip in chips:
            print("\n".join(_provenance(chip)))


def _instances(chips: list[Chip]) -> Iterator[str]:
    yield ""
    heads = f"{'instance':<16}{'chips':>10}{'ranks':>7}  {'links':<16}"
    yield f"{heads}{'GB/s a chip':>12}{'network':>14}"
    for chip in chips:
        for instance in _instances_of(chip):
            network = f"{instance.network_gbits} Gbit/s" if instance.network_gbits else "-"
            yield (
                f"{instance.name:<16}{f'{instance.chips} {instance.chip}':>10}"
                f"{instance.ranks(chip):>7}  {instance.topology:<16}"
                f"{instance.link_gbytes or '-':>12}{network:>14}"
            )


def _instances_of(chip: Chip) -> list[Instance]:
    return [instance for instance in INSTANCES.values() if instance.chip == chip.name]


def _provenance(chip: Chip) -> Iterator[str]:
    yield ""
    yield f"{chip.name}: every number, and where it comes from"
    width = max(len(field) for field, _ in chip.facts)
    for field, fact in chip.facts:
        told = textwrap.wrap(fact.source, _WIDTH - width - 31)
        yield f"  {field:<{width}}{fact.value:>17,}  {fact.origin:<10}{told[0]}"
        for more in told[1:]:
            yield f"{'':<{width + 31}}{more}"


def _chip_record(chip: Chip) -> dict[str, object]:
    numbers = {name: dataclasses.asdict(fact) for name, fact in chip.facts}
    machines = [dataclasses.asdict(instance) for instance in _instances_of(chip)]
    return {
        "name": chip.name,
        "accuracy": accuracy_of(chip.name),
        "numbers": numbers,
        "instances": machines,
    }
