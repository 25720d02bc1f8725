"""Chips of a TOML file: a preset with other numbers, and every way to get one wrong."""

from pathlib import Path

import pytest

from accel.chip import CHIPS, chip_named
from accel.cli import main
from accel.errors import UserError
from accel.sim import simulate
from tests.accel.sim.streams import hoisted_matmul


def file(tmp_path: Path, text: str) -> str:
    path = tmp_path / "fast.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_file_changes_numbers_of_a_preset(tmp_path: Path) -> None:
    fast = chip_named(file(tmp_path, 'base = "trn2"\n[numbers]\ntensor_mhz = 4800\n'))
    program = hoisted_matmul("gen3", "float32", 256, 512, 1024)

    assert (fast.name, fast.tensor_mhz, fast.vector_mhz) == ("fast", 4800, 960)
    assert fast.fact("tensor_mhz").origin == "assumed"
    assert "2400 on trn2" in fast.fact("tensor_mhz").source
    assert fast.fact("vector_mhz") == CHIPS["trn2"].fact("vector_mhz")
    today, then = (simulate(program, chip).metrics.latency_us for chip in (CHIPS["trn2"], fast))
    assert then < today


def test_a_file_without_numbers_is_its_base(tmp_path: Path) -> None:
    same = chip_named(file(tmp_path, 'base = "trn1"'))

    assert same.facts == CHIPS["trn1"].facts


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("base = trn2", "is not TOML"),
        ("", "base is None"),
        ('base = "gpu"', "base is 'gpu'"),
        ('base = "trn2"\nclock = 3', "unknown key 'clock'"),
        ('base = "trn2"\nnumbers = 3', "numbers is not a table"),
        ('base = "trn2"\n[numbers]\ntensor_ghz = 3', "unknown number 'tensor_ghz'"),
        ('base = "trn2"\n[numbers]\ntensor_mhz = 2.4', "tensor_mhz is 2.4"),
        ('base = "trn2"\n[numbers]\ntensor_mhz = -1', "tensor_mhz is -1"),
        ('base = "trn2"\n[numbers]\ntensor_mhz = true', "tensor_mhz is True"),
        ('base = "trn2"\n[numbers]\ndma_engines = 0', "dma_engines is 0"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        chip_named(file(tmp_path, text))
    assert error.value.hint


def test_a_missing_file_is_an_error_with_what_to_write() -> None:
    with pytest.raises(UserError, match=r"no chip file missing\.toml") as error:
        chip_named("missing.toml")
    assert "base" in error.value.hint


def test_every_positive_number_is_one_of_the_chip() -> None:
    from accel.chip import _POSITIVE

    assert set(dict(CHIPS["trn2"].facts)) >= _POSITIVE


def test_provenance_is_shown(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["chips", "trn2", "--provenance"]) == 0
    shown = capsys.readouterr().out
    assert main(["chips", file(tmp_path, 'base = "trn2"'), "--json"]) == 0

    for field, fact in CHIPS["trn2"].facts:
        assert f"{field} " in shown
        assert f"{fact.value:,}" in shown
    assert '"name": "fast"' in capsys.readouterr().out
