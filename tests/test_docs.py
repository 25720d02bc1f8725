"""The docs hold: examples run and print what the page shows, links lead somewhere.

A page's blocks run in order, in a folder of its own. `file=NAME` after the language writes a file;
`console` runs the lines after `$` and compares what follows; `python` is executed; `pycon` is a
doctest. What differs between two runs (times, hashes, run ids, folders) is made equal first. A
block after `<!-- not run: REASON -->` is only shown. `--update-golden` rewrites shown output.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer.main

import accel.cli
import perfgate.cli
from accel.validation.report import validation_page

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
APPS = {"perfgate": perfgate.cli.app, "accel": accel.cli.app}
MAINS: dict[str, Callable[[list[str]], int]] = {
    "perfgate": perfgate.cli.main,
    "accel": accel.cli.main,
}
FENCE = re.compile(
    r"(?:<!-- not run: (?P<reason>[^>]+?) -->\n+)?"
    r"^```(?P<info>[^\n]*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
RUNS = ("console", "python", "pycon")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: language, the file it is written to, text, and where the text starts."""

    language: str
    file: str
    text: str
    start: int
    reason: str


def blocks_of(text: str) -> Iterator[Block]:
    for match in FENCE.finditer(text):
        language, _, rest = match["info"].partition(" ")
        file = rest.removeprefix("file=") if rest.startswith("file=") else ""
        yield Block(language, file, match["text"], match.start("text"), match["reason"] or "")


def runnable(page: Path) -> bool:
    blocks = blocks_of(page.read_text(encoding="utf-8"))
    return any(block.language in RUNS and not block.reason for block in blocks)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


# --- running --------------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with the two programs on the path and git knowing who commits."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in APPS:
        script = programs / name
        script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m {name} "$@"\n')
        script.chmod(0o755)
    home = tmp_path / "home"
    home.mkdir()
    for name, value in {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
        "GIT_CONFIG_GLOBAL": os.devnull,
        **{f"GIT_{role}_NAME": "Ada" for role in ("AUTHOR", "COMMITTER")},
        **{f"GIT_{role}_EMAIL": "ada@example.org" for role in ("AUTHOR", "COMMITTER")},
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PERFGATE_STORE", raising=False)
    return home


def start_folder(page: Path, home: Path) -> Path:
    """Where a page begins: the tutorial in an empty folder, all others in a clone."""
    if page.name == "tutorial.md":
        folder = home / "lookup"
        folder.mkdir()
        return folder
    folder = home / "perfgate"
    for part in ("benchmarks", "docs/examples"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    for part in ("pyproject.toml", ".gitignore"):
        shutil.copy(ROOT / part, folder / part)
    commands = "git init -q -b main && git add -A && git commit -qm 'Begin'"
    subprocess.run(("bash", "-ec", commands), cwd=folder, check=True)
    return folder


def output_of(command: str, folder: Path) -> str:
    """What a terminal would show. Commands that start no process of their own run in this one."""
    words = shlex.split(command, comments=True)
    plain = not set(command) & set(";&|<>$`")
    if plain and words[0] in MAINS and words[:2] != ["perfgate", "run"]:
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
            MAINS[words[0]](words[1:])
        return shown.getvalue()
    done = subprocess.run(
        ("bash", "-c", command),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout


def steps_of(text: str) -> Iterator[tuple[str, str]]:
    """(command as typed, expected output) pairs of a console block."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        lines = part.splitlines(keepends=True)
        count = 1
        while lines[count - 1].rstrip("\n").endswith("\\"):
            count += 1
        yield "".join(lines[:count]), "".join(lines[count:])


STAND_INS = (
    (re.compile(r"\d{8}T\d{9}-[0-9a-f]{6}"), "RUN"),
    (re.compile(r"\b(?=[a-f]*\d)[0-9a-f]{10,64}\b"), "HASH"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d"), "DATE"),
    (re.compile(r" +[\d.]+ s$", re.MULTILINE), "  TIME"),
    (re.compile(r"^\d+ of \d+ cases\n", re.MULTILINE), ""),
    (re.compile(r" {2,}"), "  "),
    (re.compile(r" +$", re.MULTILINE), ""),
)


def comparable(text: str) -> str:
    for pattern, stand_in in STAND_INS:
        text = pattern.sub(stand_in, text)
    return text.strip()


def agrees(expected: str, actual: str) -> bool:
    """Whether two outputs are equal; a line `...` stands for any lines."""
    parts = [re.escape(comparable(part)) for part in re.split(r"^\.\.\.$", expected, flags=re.M)]
    return re.fullmatch(r"\s*(?:.*?)\s*".join(parts), comparable(actual), re.DOTALL) is not None


def run_console(block: Block, folder: Path, update: bool) -> str:
    """Run a block's commands and return the block with what they print now."""
    steps = []
    for command, expected in steps_of(block.text):
        actual = output_of(command.replace("\\\n", " ").strip(), folder)
        actual = actual.replace(str(folder.parent), "/home/ada")
        actual = STAND_INS[4][0].sub("", actual)
        assert "internal error" not in actual, actual
        same = agrees(expected, actual)
        if not update:
            assert same, f"$ {command}shows\n{actual}\nand the page says\n{expected}"
        kept = expected if same else actual + ("\n" if expected.endswith("\n\n") else "")
        steps.append(f"$ {command}{kept}")
    return "".join(steps)


def run_doctest(block: Block, page: Path, names: dict[str, object]) -> None:
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    test = doctest.DocTestParser().get_doctest(block.text, names, name_of(page), str(page), 0)
    shown = io.StringIO()
    doctest.DocTestRunner(optionflags=flags).run(test, out=shown.write, clear_globs=False)
    names.update(test.globs)

    assert not shown.getvalue(), shown.getvalue()


@pytest.mark.parametrize("page", [page for page in PAGES if runnable(page)], ids=name_of)
def test_the_examples_of_a_page_run_and_print_what_it_shows(
    page: Path, home: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    update = bool(request.config.getoption("--update-golden"))
    folder = start_folder(page, home)
    monkeypatch.chdir(folder)
    text = page.read_text(encoding="utf-8")
    names: dict[str, object] = {}
    pieces, end = [], 0
    for block in blocks_of(text):
        shown = block.text
        if block.reason:
            continue
        if block.file:
            (folder / block.file).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.file).write_text(block.text, encoding="utf-8")
        elif block.language == "console":
            shown = run_console(block, folder, update)
        elif block.language == "pycon":
            run_doctest(block, page, names)
        elif block.language == "python":
            exec(compile(block.text, name_of(page), "exec"), names)
        pieces += [text[end : block.start], shown]
        end = block.start + len(block.text)
    if update:
        page.write_text("".join((*pieces, text[end:])), encoding="utf-8")


def test_a_difference_in_output_is_noticed() -> None:
    assert agrees("2 regressed\n", "2 regressed\n")
    assert agrees("a\n...\nz\n", "a\nb\nc\nz\n")
    assert not agrees("2 regressed\n", "1 regressed\n")
    assert not agrees("", "error: no such file\n")
    assert not agrees("a\n...\nz\n", "a\nb\n")


@pytest.mark.slow
def test_the_accuracy_shown_is_what_validation_finds(
    home: Path, request: pytest.FixtureRequest
) -> None:
    page = ROOT / "docs/explanation/timing-model.md"
    text = page.read_text(encoding="utf-8")
    [block] = [b for b in blocks_of(text) if b.text.startswith("$ accel validate")]

    update = bool(request.config.getoption("--update-golden"))
    shown = run_console(block, home, update)

    if update:
        page.write_text(text.replace(block.text, shown), encoding="utf-8")


@pytest.mark.slow
def test_the_validation_page_is_what_validation_finds() -> None:
    page = (ROOT / "docs/validation.md").read_text(encoding="utf-8")

    assert validation_page() == page, "run: python docs/generate.py --validate"


# --- words and links ------------------------------------------------------------------------------

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
MACHINE_PATH = re.compile(r"(?<![\w.~])/(?:work|root|tmp|opt|mnt|srv|Users)/|/home/(?!ada/)")


def headings(page: Path) -> set[str]:
    """Anchors of a page, as GitHub makes them."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_internal_link_leads_somewhere(page: Path) -> None:
    for link in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page

        assert target.exists(), link
        assert not anchor or anchor in headings(target), link


def test_every_page_of_docs_can_be_reached_from_the_readme() -> None:
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached or page.suffix != ".md":
            continue
        reached.add(page)
        links = [link.partition("#")[0] for link in LINK.findall(page.read_text(encoding="utf-8"))]
        waiting += [(page.parent / link).resolve() for link in links if link and "://" not in link]

    assert set(PAGES) <= reached


@pytest.mark.parametrize("page", [*PAGES, *sorted((ROOT / "docs").rglob("*.py"))], ids=name_of)
def test_no_page_names_a_path_of_a_machine(page: Path) -> None:
    assert not MACHINE_PATH.findall(page.read_text(encoding="utf-8"))


def test_readme_has_the_two_command_lines_that_ci_takes_from_it() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    run, test = [block.text for block in blocks_of(text) if block.language == "bash"]

    assert run.strip().endswith(".venv/bin/perfgate run")
    assert test.strip().endswith("-m pytest -n auto")


# --- the two command lines ------------------------------------------------------------------------

COMMANDS = [
    (program, name)
    for program, app in APPS.items()
    for name in ("", *typer.main.get_command(app).commands)  # type: ignore[attr-defined]
]


def command_of(program: str, name: str):
    group = typer.main.get_command(APPS[program])
    return group.commands[name] if name else group  # type: ignore[attr-defined]


@pytest.mark.parametrize(("program", "name"), COMMANDS)
def test_every_command_and_every_option_says_what_it_does(program: str, name: str) -> None:
    command = command_of(program, name)

    assert command.help
    assert len(command.help.splitlines()[0]) <= 72 or not name
    assert all(parameter.help for parameter in command.params)


@pytest.mark.parametrize(("program", "name"), COMMANDS)
def test_the_example_of_every_command_can_be_typed(program: str, name: str) -> None:
    epilog = command_of(program, name).epilog

    assert epilog.startswith(f"Example: {program} {name}".rstrip())
    for line in epilog.removeprefix("Example: ").split(" && "):
        called, subcommand, *arguments = shlex.split(line)
        command_of(called, subcommand).make_context(subcommand, arguments)
