"""Writes `docs/reference/`: pages whose facts are in the code, so that they cannot differ from it.

    python docs/generate.py           write the pages that changed
    python docs/generate.py --check   write nothing; exit code 1 and the names if a page is stale
    python docs/generate.py --validate  first measure the accuracy that `accel run` states, and
                                        write `docs/validation.md` (3 min)

`PAGES` has one row a page. What the code cannot say (one sentence on each configuration key) is in
the tables here, and a key without its sentence is an error.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, get_args, get_type_hints

import typer.main

import accel.cli
import perfgate.cli
from accel.accuracy import accuracy_of, kernel_errors
from accel.chip import CHIPS, Chip
from accel.isa import FUNCTIONS, ISA, OPERATORS, Row
from accel.nki import changes, collectives, isa, language, legacy, tensor, versions
from accel.nki.enums import Token
from accel.program import Engine, Mode
from accel.sim import ABLATIONS, PROFILE_OF_FORM, PROFILES, Metrics
from accel.sim.lowering import LOOKAHEAD, RULES
from accel.sim.schedule import WAITS
from accel.validation import accuracy_text, kernel_accuracy, validate
from accel.validation.report import validation_page
from perfgate import config, model, policy
from perfgate.report.json import run_json

FOLDER = Path(__file__).parent / "reference"
VALIDATION = Path(__file__).parent / "validation.md"
ACCURACY = Path(__file__).parents[1] / "accel" / "validation" / "accuracy.json"
Lines = Iterator[str]


# --- cli.md ---------------------------------------------------------------------------------------


def cli_page() -> Lines:
    """Every command of both programs, as its `--help` says."""
    yield "# Command line"
    yield "Both programs end with exit code 2, one `error:` line and one `hint:` line on bad input."
    for name, app in (("perfgate", perfgate.cli.app), ("accel", accel.cli.app)):
        group: Any = typer.main.get_command(app)
        yield f"## {name}"
        yield from _command(name, group)
        for command_name, command in group.commands.items():
            yield f"### {name} {command_name}"
            yield from _command(f"{name} {command_name}", command)


def _command(path: str, command: Any) -> Lines:
    yield _plain(command.help)
    rows = [(_spelling(p), _meaning(p)) for p in command.params if not getattr(p, "hidden", False)]
    yield _table(("argument or option", "meaning"), rows)
    yield _plain(command.epilog).replace("Example: ", "Example: `") + "`"


def _spelling(parameter: Any) -> str:
    metavar = _cell(parameter.metavar or "")
    if parameter.param_type_name == "argument":
        return f"`{metavar}`"
    # A flag has no metavar of its own.
    return f"`{' '.join(filter(None, (', '.join(parameter.opts), metavar)))}`"


def _meaning(parameter: Any) -> str:
    text = _plain(parameter.help)
    said = "[default:" in text or "[" in str(parameter.metavar or "")[:1]
    if parameter.required:
        return f"{text} [required]"
    unsaid = parameter.default in (None, "", ()) or isinstance(parameter.default, bool)
    if said or unsaid or callable(parameter.default):
        return text
    return f"{text} [default: {parameter.default}]"


# --- nki.md ---------------------------------------------------------------------------------------


def nki_page() -> Lines:
    """What kernels may use of both forms of the language."""
    yield "# Kernel language"
    yield (
        "Names that kernels find. The current form is `nki`, the older one `neuronxcc.nki`. "
        "A name that is not listed raises `AttributeError` where the kernel uses it."
    )
    older = legacy.modules()
    for title, prefix, modules in (
        ("Current form", "nki", {"language": language, "isa": isa}),
        (
            "Older form",
            "neuronxcc.nki",
            {name: older[f"neuronxcc.nki.{name}"] for name in ("language", "isa", "compiler")},
        ),
    ):
        yield f"## {title}"
        for name, module in modules.items():
            yield f"### {prefix}.{name}"
            yield from _module_sections(module)
    yield "## Names as published"
    yield from _published()
    yield "## Versions"
    yield from _versions()
    yield "## Tensors of the current form"
    members = {n: v for n, v in vars(tensor.Tensor).items() if not n.startswith("_")}
    told = [_described(name, value) for name, value in members.items()]
    yield _table(("name", "meaning"), [row for row in told if row[1]])


PUBLISHED = tomllib.loads((Path(__file__).parent / "nki_names.toml").read_text("utf-8"))
_PARTS: dict[str, tuple[str, object]] = {
    "language": ("nki.language", language),
    "isa": ("nki.isa", isa),
    "isa_members": ("members of nki.isa", isa),
    "collectives": ("nki.collectives", collectives),
    "tensor": ("tensors", tensor.Tensor),
    "tile_size": ("nl.tile_size", language.TileSize),
}


def missing(part: str) -> list[str]:
    """The published names of a part that do not exist here."""
    return [name for name in PUBLISHED[part]["names"] if not _has(_PARTS[part][1], name)]


def _has(owner: object, name: str) -> bool:
    for each in name.split("."):
        if not hasattr(owner, each):
            return False
        owner = getattr(owner, each)
    return True


def _published() -> Lines:
    yield "Every public name of SDK 2.32 (NKI 0.6): whether it is here, and how it deviates."
    rows = []
    for part, (title, _) in _PARTS.items():
        absent = missing(part)
        names = PUBLISHED[part]["names"]
        rows.append((title, str(len(names) - len(absent)), str(len(names)), _listed(absent)))
    yield _table(("where", "here", "published", "not here"), rows)
    told = [(f"`{name}`", _cell(text)) for name, text in PUBLISHED["deviations"].items()]
    yield _table(("name", "how it deviates"), told)
    yield "All others are as published: " + _listed(_as_published()) + "."


def _as_published() -> list[str]:
    return [
        f"{part}.{name}"
        for part in _PARTS
        for name in PUBLISHED[part]["names"]
        if f"{part}.{name}" not in PUBLISHED["deviations"] and name not in missing(part)
    ]


def _versions() -> Lines:
    yield (
        f"`accel run --nki` and `accel test --nki` take {_listed(versions.VERSIONS)}. Without "
        "one, the names of all are there and both spellings of a call are accepted where they can "
        "be told apart. The older form, `neuronxcc.nki`, ends before "
        f"{versions.OLDER_UNTIL}; the current one begins with {versions.CURRENT_SINCE}."
    )
    yield _table(
        ("name", "from", "until", "use instead"),
        [(f"`nki.{n}`", r.since, r.until, _cell(r.instead)) for n, r in versions.LIFETIMES.items()],
    )
    told = [
        (f"`nki.{name}`", change.since, change.until, _cell(change.what))
        for name, changed in changes.CHANGES.items()
        for change in changed
    ]
    told += [
        (f"every `nki.{part}` call", change.since, change.until, _cell(change.what))
        for part, changed in changes.EVERY_CALL.items()
        for change in changed
    ]
    yield _table(("call", "from", "before", "meaning"), told)


def _module_sections(module: ModuleType) -> Lines:
    names = _public_names(module)
    values = {name: getattr(module, name) for name in names}
    tokens = sorted(name for name, value in values.items() if isinstance(value, Token))
    calls = [n for n, v in values.items() if inspect.isroutine(v) and not isinstance(v, Token)]
    rest = sorted(set(names) - set(tokens) - set(calls))
    if calls:
        yield _table(
            ("call", "meaning"), [_described(name, values[name]) for name in sorted(calls)]
        )
    if tokens:
        yield f"Operators and functions, to call or to pass as `op=`: {_listed(tokens)}."
    if rest:
        yield f"Dtypes, buffers, enumerations and other values: {_listed(rest)}."


def _public_names(module: ModuleType) -> list[str]:
    """What a module defines, or lists in `__all__`; never what it only imports for itself."""
    listed = set(getattr(module, "__all__", ()))
    tokens = {name for name, value in getattr(module, "TOKENS", {}).items() if value is not None}
    return sorted(
        listed | tokens | {n for n in _defined(module) if n[0].islower() and n not in listed}
    )


def _defined(module: ModuleType) -> Iterator[str]:
    tree = ast.parse(inspect.getsource(module))
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name))


def _described(name: str, value: object) -> tuple[str, str]:
    text = inspect.getdoc(value) or ""
    return f"`{name}`", " ".join(text.split("\n\n")[0].split())


# --- isa.md ---------------------------------------------------------------------------------------


def isa_page() -> Lines:
    """The instruction table."""
    yield "# Instructions"
    yield (
        "One row of `accel.isa.ISA` an instruction. Engines: the default one first. Operands: "
        "`w` written, `r` read, `a` accumulated, `?` optional, with the memories they may lie in. "
        "N is the number of elements a partition of the largest operand. "
        "[The timing model](../explanation/timing-model.md) says what the cycles cost in time."
    )
    for name in sorted(ISA):
        yield from _instruction(ISA[name])
    yield "## ALU operators"
    rows = [
        (f"`{o.name}`", o.kind, _mark(o.unary), _mark(o.reduce is not None))
        for o in (OPERATORS[name] for name in sorted(OPERATORS))
    ]
    yield _table(("operator", "kind", "one input", "may reduce"), rows)
    yield "## Activation functions"
    yield _listed(sorted(FUNCTIONS)) + "."


def _instruction(row: Row) -> Lines:
    yield f"## {row.name}"
    facts = [
        ("meaning", _cell(row.summary)),
        ("engines", _engines(row)),
        ("operands", ", ".join(map(_role, row.roles))),
        ("attributes", _listed(row.attributes)),
        ("cost", _cell(row.source)),
    ]
    yield _table(("", ""), [fact for fact in facts if fact[1]])


def _engines(row: Row) -> str:
    by_engines: dict[tuple[Engine, ...], list[int]] = {}
    for generation, engines in row.engines.items():
        by_engines.setdefault(tuple(engines), []).append(generation)
    told = [f"{', '.join(engines)}" for engines in by_engines]
    if len(by_engines) == 1 and len(row.engines) == 3:
        return told[0]
    return "; ".join(
        f"{text} (gen{', gen'.join(map(str, generations))})"
        for text, generations in zip(told, by_engines.values(), strict=True)
    )


_MODES = {Mode.READ: "r", Mode.WRITE: "w", Mode.ACCUMULATE: "a"}


def _role(role: Any) -> str:
    memories = "/".join(str(memory.value) for memory in role.memories)
    return f"`{role.name}` {_MODES[role.mode]}{'?' if role.optional else ''} {memories}"


def _mark(flag: bool) -> str:
    return "yes" if flag else ""


# --- chips.md -------------------------------------------------------------------------------------


def chips_page() -> Lines:
    """Every number of every chip with where it comes from."""
    yield "# Chips"
    yield _docstring(Chip)
    yield (
        "`published`: the source says so. `derived`: computed from what a source says. "
        "`assumed`: nobody says; the reason is given. Abbreviations of sources: "
        + _sentence_from(accel.chip.__doc__ or "", "SDK =")
    )
    for chip in CHIPS.values():
        origins = [fact.origin for _, fact in chip.facts]
        counts = ", ".join(f"{origins.count(o)} {o}" for o in ("published", "derived", "assumed"))
        yield f"## {chip.name}"
        yield f"{accuracy_of(chip.name).capitalize()}. {counts}."
        rows = [
            (f"`{name}`", f"{fact.value:,}", fact.origin, _cell(fact.source))
            for name, fact in chip.facts
        ]
        yield _table(("number", "value", "origin", "source"), rows)


def _sentence_from(text: str, start: str) -> str:
    return " ".join(text[text.index(start) :].split())


# --- metrics.md -----------------------------------------------------------------------------------


_UNITS = {"_us": "µs", "_ps": "ps", "_percent": "%", "_bytes": "bytes", "_flops": "FLOP"}


def metrics_page() -> Lines:
    """What a simulation reports."""
    yield "# Metrics of a simulation"
    yield (
        "`accel run --json` prints them under `metrics`; names follow the vendor's profiler. "
        "[The timing model](../explanation/timing-model.md) says how far to trust them."
    )
    yield _docstring(Metrics)
    fields = [f.name for f in dataclasses.fields(Metrics) if f.name != "stalls_us"]
    yield _table(("metric", "unit"), [(f"`{name}`", _unit(name)) for name in fields])
    yield "## Stalls"
    yield (
        "`stalls` lists how long each queue stood idle before an instruction, by what that "
        f"instruction waited for last: {_listed(WAITS)}. `raw`, `war` and `waw` are hazards, "
        "`space` is the memory of a tile that was in use, `order` an instruction of one engine "
        "that must not be passed, `queue` the queue itself."
    )
    yield "## Compiler profiles"
    forms = ", ".join(f"`{form}` kernels get `{name}`" for form, name in PROFILE_OF_FORM.items())
    yield f"`accel run --compiler` names one, or rules joined by `+`. With `auto` {forms}."
    yield _table(
        ("profile", "rules"),
        [(f"`{n}`", _listed(rules) or "none") for n, rules in PROFILES.items()],
    )
    policies = [
        (f"`{name}`", f"Starts whichever is ready of the {ahead} instructions at a queue's head.")
        for name, ahead in LOOKAHEAD.items()
    ]
    rules = [_described(name, rule) for name, rule in RULES.items()]
    yield _table(("rule", "what it does"), [*rules, *policies])
    yield "## Ablations"
    yield f"`accel.sim.simulate(…, ablate=frozenset(…))` leaves effects out: {_listed(ABLATIONS)}."


def _unit(name: str) -> str:
    return next((unit for suffix, unit in _UNITS.items() if name.endswith(suffix)), "")


# --- configuration.md -----------------------------------------------------------------------------


MEANINGS: dict[str, dict[str, str]] = {
    "tool.perfgate": {
        "suite": "folder or file that `perfgate run` measures, from the file's folder",
        "store": "file or database URL where runs are kept",
        "pinned": "run or revision, usually the last release, from which exact metrics may drift "
        "no further than `drift_threshold`",
        "policy": "the tables below",
        "path": "folders below the file's own that hold the measured packages; they come first "
        "where a suite imports from, before `src`, if there is one, and the file's own folder",
    },
    "tool.perfgate.policy": {
        "exact_threshold": "relative change from which on an exact metric that gates counts",
        "drift_threshold": "the same against the pinned release",
        "sampled_min_effect": "smallest relative effect of a sampled metric that counts",
        "alpha": "false discovery rate over all sampled comparisons of one gate",
        "sampled_gate": "when sampled metrics may gate: measured in one session, in equal "
        "environments, or never",
        "rules": "see below; the first that matches holds",
        "waivers": "see below",
    },
    "[[tool.perfgate.policy.rules]]": {
        "case": "pattern of case ids; `*` is any text, `?` one character",
        "metric": "pattern of metric names",
        "gates": "whether matching metrics may decide a verdict",
        "threshold": "relative change that counts, instead of the policy's",
    },
    "[[tool.perfgate.policy.waivers]]": {
        "case": "pattern of case ids",
        "metric": "pattern of metric names",
        "who": "who accepted the regression",
        "why": "why",
        "until": "last day on which the waiver holds, `2026-01-31`",
    },
}

_TABLES: dict[str, type] = {
    "tool.perfgate": config.Config,
    "tool.perfgate.policy": policy.Policy,
    "[[tool.perfgate.policy.rules]]": policy.Rule,
    "[[tool.perfgate.policy.waivers]]": policy.Waiver,
}

_DEFAULTS = {"suite": config.DEFAULT_SUITE, "store": config.DEFAULT_STORE, "policy": "", "root": ""}


def configuration_page() -> Lines:
    """The keys of a configuration file."""
    yield "# Configuration"
    yield (
        "Read from the nearest folder upwards that has a `perfgate.toml`, or a `pyproject.toml` "
        "with a `[tool.perfgate]` table. In `perfgate.toml` the prefix `tool.perfgate` is left "
        f"out. The environment variable `{config.STORE_VARIABLE}` overrides `store`. An unknown "
        "key or a value that does not fit is an error."
    )
    for title, record in _TABLES.items():
        yield f"## {title}"
        yield _table(("key", "type", "default", "meaning"), _keys(record, MEANINGS[title]))
    yield "## Rules that always hold last"
    told = [
        f"case `{r.case}`, metric `{r.metric}`, gates `{str(r.gates).lower()}`"
        for r in policy.DEFAULT_RULES
    ]
    yield "; ".join(told) + ". A sampled metric gates unless a rule says that it does not."


def _keys(record: type, meanings: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    types = get_type_hints(record)
    for field in dataclasses.fields(record):
        if field.name == "root":  # where the file is, not a key
            continue
        default = _DEFAULTS.get(field.name, field.default)
        shown = "needed" if default is dataclasses.MISSING else _toml(default)
        yield f"`{field.name}`", _type_name(types[field.name]), shown, meanings[field.name]


def _toml(value: object) -> str:
    if value is None or value == () or value == "":
        return ""
    return f"`{json.dumps(value)}`"


_TYPE_NAMES = {"Path": "text", "str": "text", "float": "fraction", "bool": "true or false"}


def _type_name(hint: Any) -> str:
    if hint == policy.SampledGate:
        return " or ".join(f"`{choice}`" for choice in get_args(policy.SampledGate))
    if Path in get_args(hint):
        return "list of text"
    text = str(getattr(hint, "__name__", hint)).replace(" | None", "")
    if text.startswith("tuple"):
        return "list of tables"
    return _TYPE_NAMES.get(text, "table")


# --- schema.md ------------------------------------------------------------------------------------


def example_run() -> model.Run:
    """A run with one exact and one sampled case."""
    latency = model.Metric("latency_us", "us", kind=model.MetricKind.EXACT)
    time = model.Metric("time_s", "s")
    return model.Run(
        run_id="20260131T120000000-0a1b2c",
        revision=model.Revision(
            commit="5f0c1d2e3a4b5c6d7e8f90a1b2c3d4e5f6071829",
            branch="main",
            author="Ada",
            subject="Search names by halving",
            committed_at="2026-01-31T11:58:00+00:00",
        ),
        environment=model.Environment(
            cpu="Example CPU", cores=2, os="Linux", python="CPython 3.11.9"
        ),
        started_at="2026-01-31T12:00:00.000+00:00",
        finished_at="2026-01-31T12:00:02.500+00:00",
        results=(
            model.CaseResult(
                case_id="kernels.matmul[chip=trn2,m=4096]",
                samples=(model.Sample(latency, (1830.25,)),),
                duration_s=1.25,
                digest="b1946ac92492d2347c6235b4d2611184",
            ),
            model.CaseResult(
                case_id="parse.document",
                samples=(model.Sample(time, (0.0125, 0.0121, 0.0124)),),
                duration_s=1.0,
            ),
        ),
    )


_RECORDS = (
    model.Run,
    model.Revision,
    model.Environment,
    model.CaseResult,
    model.Sample,
    model.Metric,
    model.Summary,
    model.ProfileNode,
    model.Span,
    model.GateResult,
    model.Verdict,
    model.Comparison,
)


def schema_page() -> Lines:
    """The JSON of runs and gates."""
    yield "# JSON schema"
    yield (
        f"Schema version {model.SCHEMA_VERSION}. `--json` prints one document with `kind` and "
        "`schema_version` around records. A field equal to its default is left out. Reading is "
        "strict: an unknown or missing field, a wrong type and a number that is not finite are "
        "errors that name the path. Profiles and timelines are kept in the store and left out of "
        "`--json`."
    )
    yield "What `perfgate run --json` prints:"
    yield f"```json\n{run_json(example_run()).rstrip()}\n```"
    for record in _RECORDS:
        yield f"## {record.__name__}"
        yield _docstring(record)
        yield _table(("field", "type", "default"), _fields(record))


def _fields(record: type) -> Iterator[tuple[str, str, str]]:
    for field in dataclasses.fields(record):
        has_default = field.default is not dataclasses.MISSING
        default = field.default if has_default else None
        needed = not has_default and field.default_factory is dataclasses.MISSING
        shown = "needed" if needed else f"`{json.dumps(default if has_default else [])}`"
        yield f"`{field.name}`", f"`{field.type}`".replace("|", "\\|"), shown


# --- markdown -------------------------------------------------------------------------------------


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _plain(text: str | None) -> str:
    return _cell(text or "")


def _docstring(record: type) -> str:
    return inspect.getdoc(record) or ""


# --- writing --------------------------------------------------------------------------------------


PAGES: dict[str, Callable[[], Lines]] = {
    "cli.md": cli_page,
    "nki.md": nki_page,
    "isa.md": isa_page,
    "chips.md": chips_page,
    "metrics.md": metrics_page,
    "configuration.md": configuration_page,
    "schema.md": schema_page,
}

_NOTE = "<!-- Written by docs/generate.py; edit the code it reads, not this page. -->"


def render(name: str) -> str:
    """The text of one page."""
    return "\n\n".join((_NOTE, *filter(None, PAGES[name]()))) + "\n"


def stale_pages(folder: Path = FOLDER) -> dict[str, str]:
    """The pages whose file is missing or differs, with the text they should have."""
    texts = {name: render(name) for name in PAGES}
    return {name: text for name, text in texts.items() if _written(folder / name) != text}


def _written(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def write_accuracy(file: Path = ACCURACY, page: Path = VALIDATION) -> None:
    """Predict every published timing, and keep the errors for `accel run` and the pages."""
    file.write_text(accuracy_text(kernel_accuracy(validate())), encoding="utf-8")
    kernel_errors.cache_clear()
    told = validation_page(lambda step: print(f"without {step}", file=sys.stderr, flush=True))
    page.write_text(told, encoding="utf-8")


def main(arguments: Sequence[str], folder: Path = FOLDER) -> int:
    """Write what is stale, or with `--check` only name it; the exit code."""
    if "--validate" in arguments:
        write_accuracy()
    stale = stale_pages(folder)
    if "--check" in arguments:
        for name in stale:
            print(f"stale: {name}", file=sys.stderr)
        return 1 if stale else 0
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in stale.items():
        (folder / name).write_text(text, encoding="utf-8")
        print(f"written: {folder.name}/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
