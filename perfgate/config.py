"""The configuration of a project: where its suite and store are, and its policy.

Read from the nearest folder upwards that has a `perfgate.toml`, or a `pyproject.toml` with a
`[tool.perfgate]` table; without one the defaults hold, from the top of the repository. The keys are
the field names of the records they fill, and every key and value is checked: a misspelled threshold
must not leave the default in force without a word.
"""

from __future__ import annotations

import datetime
import difflib
import os
import reprlib
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from perfgate.errors import UserError
from perfgate.policy import Policy, Rule, SampledGate, Waiver

STORE_VARIABLE = "PERFGATE_STORE"
DEFAULT_SUITE = "benchmarks"
DEFAULT_STORE = ".perfgate/history.db"

Table = dict[str, object]
Reader = Callable[[object, str], object]


@dataclass(frozen=True, slots=True)
class Config:
    """What a project configured. `root` is the folder that configured and default paths start from.

    `store` is an absolute path or a URL. `pinned` names the release not to drift from, if any.
    `path` holds absolute folders that come first where a suite imports from.
    """

    suite: Path
    store: str
    policy: Policy
    root: Path
    pinned: str | None = None
    path: tuple[Path, ...] = ()


def load_config(directory: Path, environ: Mapping[str, str] = os.environ) -> Config:
    """The configuration that holds in `directory`; defaults where there is none.

    `PERFGATE_STORE` overrides the store; a path in it starts from `directory`. Raises `UserError`
    naming file and key for a file that is not TOML, an unknown key and a value that does not fit.
    """
    directory = directory.resolve()
    found = _find(directory)
    file, table = found or (_top(directory) / "perfgate.toml", {})
    values = _read_table(table, _CONFIG_KEYS, str(file))
    root = file.parent
    store = _located(root, str(values.get("store", DEFAULT_STORE)))
    if environ.get(STORE_VARIABLE):
        store = _located(directory, environ[STORE_VARIABLE])
    pinned = values.get("pinned")
    policy = values.get("policy", Policy())
    assert isinstance(policy, Policy)
    return Config(
        suite=root / str(values.get("suite", DEFAULT_SUITE)),
        store=store,
        policy=policy,
        root=root,
        pinned=None if pinned is None else str(pinned),
        path=tuple(root / folder for folder in _folders(values)),
    )


def source_folders(config: Config) -> tuple[Path, ...]:
    """The folders whose packages are measured, besides `root`: those of `path`, then `src`.

    Raises `UserError` for a folder of `path` that is not there: another copy would be measured.
    """
    for folder in config.path:
        if not folder.is_dir():
            raise UserError(
                f"{folder}: no such folder, though the configuration names it in path",
                "make it (does it hold what a build writes?), or take it out of path",
            )
    source = config.root / "src"
    return (*config.path, *((source,) if source.is_dir() else ()))


# --- finding the file -----------------------------------------------------------------------------


def _find(directory: Path) -> tuple[Path, Table] | None:
    for folder in (directory, *directory.parents):
        own = folder / "perfgate.toml"
        if own.is_file():
            return own, _parse(own)
        shared = folder / "pyproject.toml"
        if not shared.is_file():
            continue
        tool = _parse(shared).get("tool")
        table = tool.get("perfgate") if isinstance(tool, dict) else None
        if table is not None:
            return shared, _table(table, f"{shared}: tool.perfgate")
    return None


def _top(directory: Path) -> Path:
    """The top of the repository, so that every folder of a project has the same store."""
    folders = (directory, *directory.parents)
    return next((folder for folder in folders if (folder / ".git").exists()), directory)


def _parse(file: Path) -> Table:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{file}: not TOML: {_lowered(error)}", "correct that line") from None
    except UnicodeDecodeError:
        raise UserError(f"{file}: not UTF-8 text", "save the file as UTF-8") from None
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise UserError(f"{file}: {reason}", "make the file readable") from None


def _lowered(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text[:1].lower() + text[1:]


def _located(root: Path, store: str) -> str:
    """A URL as it is, a path made absolute."""
    return store if "://" in store else str(root / Path(store).expanduser())


# --- reading values: each reader takes what TOML gave and where, and returns it checked -----------


def _read_table(table: Table, keys: Mapping[str, Reader], place: str) -> Table:
    for key in table:
        if key not in keys:
            raise UserError(f"{place}: unknown key {key!r}", _suggest(key, keys))
    return {key: keys[key](value, f"{place}: {key}") for key, value in table.items()}


def _suggest(key: str, keys: Mapping[str, Reader]) -> str:
    close = difflib.get_close_matches(key.replace("-", "_").lower(), keys, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known keys: {', '.join(keys)}"


def _table(value: object, place: str) -> Table:
    if not isinstance(value, dict):
        raise _misfit(place, "a table", value)
    return value


def _misfit(place: str, wanted: str, value: object, hint: str = "") -> UserError:
    shown = reprlib.repr(value)
    return UserError(f"{place}: expected {wanted}, got {shown}", hint or "correct the value")


def _text(value: object, place: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _misfit(place, "text", value, "write it in quotes")
    return value


def _flag(value: object, place: str) -> bool:
    if not isinstance(value, bool):
        raise _misfit(place, "true or false", value)
    return value


def _fraction(value: object, place: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1:
        raise _misfit(place, "a fraction from 0 up to 1", value, "0.05 means 5 %")
    return float(value)


def _probability(value: object, place: str) -> float:
    if (fraction := _fraction(value, place)) == 0 or fraction > 0.5:
        raise _misfit(place, "a probability above 0, up to 0.5", value, "0.05 is usual")
    return fraction


def _choice(value: object, place: str) -> str:
    choices = get_args(SampledGate)
    if value not in choices:
        raise _misfit(place, " or ".join(map(repr, choices)), value)
    return str(value)


def _day(value: object, place: str) -> str:
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return value.isoformat()
    try:
        return datetime.date.fromisoformat(_text(value, place)).isoformat()
    except ValueError:
        raise _misfit(place, "a date", value, "write it as 2026-01-31") from None


def _below(value: object, place: str) -> str:
    """A folder of the project; one outside would be the same for both sides of a gate."""
    text = _text(value, place)
    if Path(text).is_absolute() or ".." in Path(text).parts:
        raise _misfit(place, "a folder below that of this file", value, "write it as 'lib/python'")
    return text


def _folders(values: Table) -> tuple[str, ...]:
    found = values.get("path", ())
    assert isinstance(found, tuple)
    return found


def _list_of(read: Reader, kind: str = "tables", hint: str = "begin each with [[…]]") -> Reader:
    def read_list(value: object, place: str) -> tuple[object, ...]:
        if not isinstance(value, list):
            raise _misfit(place, f"a list of {kind}", value, hint)
        return tuple(read(item, f"{place}[{index}]") for index, item in enumerate(value))

    return read_list


def _record(cls: type, keys: Mapping[str, Reader], required: tuple[str, ...] = ()) -> Reader:
    def read_record(value: object, place: str) -> object:
        values = _read_table(_table(value, place), keys, place)
        for key in required:
            if key not in values:
                raise UserError(f"{place}: no {key!r}", f"needed: {', '.join(required)}")
        return cls(**values)

    return read_record


_RULE_KEYS: dict[str, Reader] = {
    "case": _text,
    "metric": _text,
    "gates": _flag,
    "threshold": _fraction,
}

_WAIVER_KEYS: dict[str, Reader] = {
    "case": _text,
    "metric": _text,
    "who": _text,
    "why": _text,
    "until": _day,
}

_POLICY_KEYS: dict[str, Reader] = {
    "exact_threshold": _fraction,
    "drift_threshold": _fraction,
    "sampled_min_effect": _fraction,
    "alpha": _probability,
    "sampled_gate": _choice,
    "rules": _list_of(_record(Rule, _RULE_KEYS)),
    "waivers": _list_of(_record(Waiver, _WAIVER_KEYS, ("case", "who", "why", "until"))),
}

_CONFIG_KEYS: dict[str, Reader] = {
    "suite": _text,
    "store": _text,
    "pinned": _text,
    "path": _list_of(_below, "folders", "write it as ['lib/python']"),
    "policy": _record(Policy, _POLICY_KEYS),
}
