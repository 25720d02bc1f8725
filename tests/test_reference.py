"""The reference pages are what the code says now."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import pytest

from accel.chip import CHIPS
from accel.isa import ISA
from accel.sim import Metrics
from perfgate.codec import decode
from perfgate.model import Run

DOCS = Path(__file__).parents[1] / "docs"


def _generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


generate = _generator()


def test_reference_pages_are_up_to_date() -> None:
    assert not list(generate.stale_pages()), "run: python docs/generate.py"


def test_check_names_a_stale_page_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    generate.main([], tmp_path)
    (tmp_path / "cli.md").write_text("old")
    capsys.readouterr()

    assert generate.main(["--check"], tmp_path) == 1
    assert capsys.readouterr().err == "stale: cli.md\n"
    assert (tmp_path / "cli.md").read_text() == "old"
    assert generate.main([], tmp_path) == 0
    assert generate.main(["--check"], tmp_path) == 0


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("isa.md", list(ISA)),
        ("chips.md", [name for chip in CHIPS.values() for name, _ in chip.facts]),
        ("metrics.md", [f.name for f in dataclasses.fields(Metrics) if f.name != "stalls_us"]),
        ("cli.md", ["perfgate gate", "accel run", "--base REV", "--input NAME=SHAPE:DTYPE"]),
        ("configuration.md", ["exact_threshold", "sampled_gate", "until", "pinned"]),
        ("nki.md", ["nc_matmul", "affine_range", "par_dim", "exp", "bfloat16"]),
    ],
)
def test_a_page_names_everything_it_is_about(page: str, names: list[str]) -> None:
    text = generate.render(page)

    assert [name for name in names if name not in text] == []


def test_the_run_in_the_schema_page_can_be_read() -> None:
    blocks = re.findall(r"^```json\n(.*?)^```", generate.render("schema.md"), re.DOTALL | re.M)

    assert decode(Run, json.loads(blocks[0])["run"]) == generate.example_run()


def test_a_configuration_key_without_a_sentence_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(generate.MEANINGS["tool.perfgate.policy"], "alpha")

    with pytest.raises(KeyError, match="alpha"):
        generate.render("configuration.md")
