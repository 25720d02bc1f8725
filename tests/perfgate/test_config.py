"""The configuration that holds in a folder, and what is said about one that does not fit."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from perfgate.config import Config, load_config, source_folders
from perfgate.errors import UserError
from perfgate.policy import Policy, Rule, Waiver


def write(folder: Path, text: str, name: str = "perfgate.toml") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text(textwrap.dedent(text), encoding="utf-8")
    return file


def load(folder: Path, **environ: str) -> Config:
    return load_config(folder, environ)


def refused(folder: Path) -> UserError:
    with pytest.raises(UserError) as caught:
        load(folder)
    assert "\n" not in caught.value.message + caught.value.hint
    return caught.value


def test_without_a_file_the_defaults_hold_here(tmp_path: Path) -> None:
    config = load(tmp_path)

    assert config == Config(
        suite=tmp_path / "benchmarks",
        store=str(tmp_path / ".perfgate/history.db"),
        policy=Policy(),
        root=tmp_path,
    )


def test_without_a_file_the_defaults_hold_from_the_top_of_the_repository(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)

    assert load(deep) == load(tmp_path)
    assert load(deep).root == tmp_path


def test_every_key_arrives_in_its_record(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        suite = "bench"
        store = "data/h.db"
        pinned = "v1.0"
        [policy]
        exact_threshold = 0
        drift_threshold = 0.02
        sampled_min_effect = 0.1
        alpha = 0.01
        sampled_gate = "never"
        rules = [{ case = "a.*", metric = "hbm_bytes", threshold = 0.1 }, { gates = false }]
        [[policy.waivers]]
        case = "a[m=1]"
        who = "ada"
        why = "wider tiles"
        until = 2026-12-31
        """,
    )

    config = load(tmp_path)

    assert (config.suite, config.pinned) == (tmp_path / "bench", "v1.0")
    assert config.store == str(tmp_path / "data/h.db")
    assert config.policy == Policy(
        exact_threshold=0.0,
        drift_threshold=0.02,
        sampled_min_effect=0.1,
        alpha=0.01,
        sampled_gate="never",
        rules=(Rule("a.*", "hbm_bytes", True, 0.1), Rule(gates=False)),
        waivers=(Waiver("a[m=1]", "ada", "wider tiles", "2026-12-31"),),
    )


def test_the_nearest_file_upwards_holds_and_paths_start_from_it(tmp_path: Path) -> None:
    write(tmp_path, "[tool.perfgate]\nsuite = 'far'", "pyproject.toml")
    write(tmp_path / "near", "[tool.perfgate]\nsuite = 'bench'", "pyproject.toml")
    write(tmp_path / "near/deep", "[tool.other]\n", "pyproject.toml")

    assert load(tmp_path / "near/deep").suite == tmp_path / "near/bench"


def test_its_own_file_goes_before_pyproject(tmp_path: Path) -> None:
    write(tmp_path, "[tool.perfgate]\nsuite = 'shared'", "pyproject.toml")
    write(tmp_path, "suite = 'own'")

    assert load(tmp_path).suite == tmp_path / "own"


def test_the_variable_overrides_the_store_from_where_the_user_is(tmp_path: Path) -> None:
    write(tmp_path, "store = 'a.db'")
    (tmp_path / "deep").mkdir()

    assert load(tmp_path / "deep", PERFGATE_STORE="b.db").store == str(tmp_path / "deep/b.db")
    assert load(tmp_path / "deep", PERFGATE_STORE="").store == str(tmp_path / "a.db")


def test_a_url_stays_as_it_is(tmp_path: Path) -> None:
    write(tmp_path, "store = 'postgresql://host/db'")

    assert load(tmp_path).store == "postgresql://host/db"


@pytest.mark.parametrize(
    ("text", "place", "hint"),
    [
        ("suit = 'x'", "unknown key 'suit'", "did you mean 'suite'?"),
        (
            "[policy]\nexact-threshold = 0.1",
            "policy: unknown key",
            "did you mean 'exact_threshold'?",
        ),
        ("[policy]\nzzz = 1", "policy: unknown key 'zzz'", "known keys: exact_threshold"),
        ("suite = 3", "suite: expected text, got 3", "quotes"),
        ("suite = ''", "suite: expected text", "quotes"),
        ("policy = 3", "policy: expected a table, got 3", "correct"),
        ("[policy]\nexact_threshold = 5", "policy: exact_threshold: expected a fraction", "0.05"),
        ("[policy]\nexact_threshold = '1 %'", "exact_threshold: expected a fraction", "0.05"),
        ("[policy]\nexact_threshold = nan", "exact_threshold: expected a fraction", "0.05"),
        ("[policy]\nexact_threshold = true", "exact_threshold: expected a fraction", "0.05"),
        ("[policy]\nalpha = 0", "alpha: expected a probability", "0.05"),
        ("[policy]\nsampled_gate = 'always'", "sampled_gate: expected 'interleaved' or", "correct"),
        ("[policy]\nsampled_gate = []", "sampled_gate: expected 'interleaved' or", "correct"),
        ("[policy]\nrules = {}", "rules: expected a list of tables", "[["),
        ("[policy]\nrules = [{ gates = 'no' }]", "rules[0]: gates: expected true", "correct"),
        ("[policy]\nwaivers = [{ case = 'a' }]", "waivers[0]: no 'who'", "needed: case, who"),
        (
            "[policy]\nwaivers = [{ case = 'a', who = 'b', why = 'c', until = 'soon' }]",
            "waivers[0]: until: expected a date, got 'soon'",
            "2026-01-31",
        ),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, text: str, place: str, hint: str) -> None:
    file = write(tmp_path, text)

    error = refused(tmp_path)

    assert error.message.startswith(f"{file}: ")
    assert place in error.message
    assert hint in error.hint


def test_a_file_that_is_not_toml_names_the_line(tmp_path: Path) -> None:
    file = write(tmp_path, "suite = 'a'\nstore = \n")

    assert refused(tmp_path).message.startswith(f"{file}: not TOML: invalid value (at line 2")


def test_a_table_elsewhere_in_pyproject_is_named(tmp_path: Path) -> None:
    write(tmp_path, "[tool]\nperfgate = 'x'", "pyproject.toml")

    assert "tool.perfgate: expected a table" in refused(tmp_path).message


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "perfgate.toml").write_bytes(b"\xff\xfe")

    assert "not UTF-8" in refused(tmp_path).message


def test_source_folders_are_those_of_path_and_then_src(tmp_path: Path) -> None:
    for name in ("src", "lib"):
        (tmp_path / name).mkdir()
    write(tmp_path, 'path = ["lib"]')

    assert source_folders(load(tmp_path)) == (tmp_path / "lib", tmp_path / "src")


@pytest.mark.parametrize("path", ['"lib"', '["/lib"]', '["../lib"]', "[3]"])
def test_path_takes_folders_below_that_of_the_file(path: str, tmp_path: Path) -> None:
    write(tmp_path, f"path = {path}")

    assert "path" in refused(tmp_path).message
