"""The command line: what can be typed, and how it ends.

Each command here only names its options and hands over to a function of `perfgate.commands`, which
is loaded when the command runs, so that `perfgate --help` loads neither the database nor numpy.
`main` is the one place where errors are caught. Exit codes: 0 all is well, 1 a case regressed,
2 usage, configuration or a failure of perfgate itself, 3 something could not be decided, 130
stopped by Ctrl-C.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from perfgate import __version__
from perfgate.errors import UserError

USAGE, STOPPED, BROKEN_PIPE = 2, 130, 141

LONGEST_S, MOST_RUNS = 1_000_000.0, 1_000_000

# Old versions of typer stand on click, newer ones on a copy of it; this name is the same in both.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]

app = typer.Typer(
    name="perfgate",
    help="Decide whether a change made software slower, by how much, and how sure that is.",
    epilog="Example: perfgate run && perfgate gate --base main",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="Where runs are kept: a file or a database URL. "
        "[default: from the configuration, else .perfgate/history.db]",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
MetricOption = Annotated[
    str | None,
    typer.Option("--metric", metavar="NAME", help="Only this metric. [default: all]"),
]
LimitOption = Annotated[
    int,
    typer.Option(
        "--limit", min=1, max=MOST_RUNS, metavar="N", help="Newest runs to list.", show_default=True
    ),
]
SessionOption = Annotated[
    str,
    typer.Option(
        "--session",
        metavar="NAME",
        help="Name of the job in which base and head are measured in turns, each several times; "
        "only then are their sampled metrics compared. [default: none]",
        show_default=False,
    ),
]


def _print_version(wanted: bool) -> None:
    if not wanted:
        return
    typer.echo(f"perfgate {__version__}")
    raise typer.Exit


@app.callback()
def options(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and stop."
        ),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the Python traceback of an error.")
    ] = False,
) -> None:
    """Decide whether a change made software slower, by how much, and how sure that is."""


@app.command(epilog="Example: perfgate run benchmarks -k matmul --jobs 4")
def run(
    suite: Annotated[
        Path | None,
        typer.Argument(
            metavar="SUITE",
            help="Folder or file with benchmarks. "
            "[default: from the configuration, else benchmarks]",
            show_default=False,
        ),
    ] = None,
    pattern: Annotated[
        str | None,
        typer.Option(
            "-k", metavar="PATTERN", help="Only cases with this in their id; * and ? match."
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs", min=1, metavar="N", help="Exact cases at a time. [default: one per core]"
        ),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout",
            min=0.001,
            max=LONGEST_S,
            metavar="SECONDS",
            help="Limit of one case that sets none itself. [default: 300]",
        ),
    ] = None,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Measure cases whose inputs did not change as well.")
    ] = False,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="Call every exact benchmark twice to see that its numbers do not change, not only "
            "the quick ones without digest; stored numbers are not used.",
        ),
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Finish the newest run that was stopped.")
    ] = False,
    no_report: Annotated[
        bool, typer.Option("--no-report", help="Do not write the HTML report.")
    ] = False,
    session: SessionOption = "",
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure a suite and keep the results. Exit code 3 if a case failed."""
    from perfgate.commands.measure import Request, measure

    raise typer.Exit(
        measure(
            Request(
                suite=suite,
                pattern=pattern,
                jobs=jobs,
                timeout_s=timeout,
                use_cache=not no_cache,
                verify=verify,
                resume=resume,
                session=session,
                store=store,
                report=not no_report,
                as_json=as_json,
            )
        )
    )


@app.command(epilog="Example: perfgate gate --base main --markdown comment.md")
def gate(
    base: Annotated[
        str,
        typer.Option(
            "--base",
            metavar="REV",
            help="Branch or commit whose merge base is the baseline.",
        ),
    ],
    head: Annotated[
        str | None,
        typer.Option(
            "--head",
            metavar="RUN|REV",
            help="Run id or revision to judge. [default: the working tree]",
            show_default=False,
        ),
    ] = None,
    pinned: Annotated[
        str | None,
        typer.Option(
            "--pinned",
            metavar="RUN|REV",
            help="Release from which exact metrics must not drift. "
            "[default: from the configuration]",
            show_default=False,
        ),
    ] = None,
    markdown: Annotated[
        Path | None,
        typer.Option(
            "--markdown", metavar="FILE", help="Also write a Markdown table for a pull request."
        ),
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare stored runs. Exit code 1 if a case regressed, 3 if undecided."""
    from perfgate.commands.judge import Request, gate_runs

    raise typer.Exit(gate_runs(Request(base, head, pinned, markdown, store, as_json)))


@app.command(epilog="Example: perfgate compare HEAD~1 HEAD")
def compare(
    base: Annotated[str, typer.Argument(metavar="A", help="Run id or revision to compare with.")],
    head: Annotated[str, typer.Argument(metavar="B", help="Run id or revision to look at.")],
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show how run B differs from run A. Decides nothing: exit code 0."""
    from perfgate.commands.judge import show_comparison

    show_comparison(base, head, store, as_json)


@app.command(epilog="Example: perfgate history kernels.matmul --metric latency_us")
def history(
    case: Annotated[
        str, typer.Argument(metavar="CASE", help="Case id, or words that only one id has.")
    ],
    metric: MetricOption = None,
    limit: LimitOption = 20,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the numbers of one case over all runs."""
    from perfgate.commands.show import show_history

    show_history(case, metric, limit, store, as_json)


@app.command(epilog="Example: perfgate report --base main --output site")
def report(
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            metavar="DIR",
            help="Folder to write index.html to. [default: .perfgate/report]",
            show_default=False,
        ),
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(
            "--base",
            metavar="REV",
            help="Branch or commit the newest run is compared with. [default: the run before]",
            show_default=False,
        ),
    ] = None,
    newest: Annotated[
        int | None,
        typer.Option(
            "--runs",
            min=1,
            max=MOST_RUNS,
            metavar="N",
            help="Newest runs to show. [default: all]",
        ),
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write all history as one HTML page that needs no network."""
    from perfgate.commands.publish import Request, write_report

    write_report(Request(output, base, newest, store, as_json))


@app.command(name="import", epilog="Example: perfgate import pytest-benchmark results.json")
def import_results(
    format_name: Annotated[
        str, typer.Argument(metavar="FORMAT", help="Tool that wrote the files: pytest-benchmark.")
    ],
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH", help="Files, or folders of saved runs.")
    ],
    commit: Annotated[
        str | None,
        typer.Option(
            "--commit",
            metavar="REV",
            help="Revision that was measured. [default: what the file says]",
            show_default=False,
        ),
    ] = None,
    session: SessionOption = "",
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Keep results that another tool measured."""
    from perfgate.commands.load import Request, import_files

    import_files(Request(format_name, paths, commit, session, store, as_json))


@app.command(epilog="Example: perfgate runs --limit 5")
def runs(
    limit: LimitOption = 20,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the runs in the store, newest first."""
    from perfgate.commands.show import list_runs

    list_runs(limit, store, as_json)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code. Never raises for what a user can cause."""
    _ready_streams()
    given = list(sys.argv[1:] if arguments is None else arguments)
    # `--debug` is for the moment after a failure, so it may stand anywhere on the line.
    debug = "--debug" in given
    given = [argument for argument in given if argument != "--debug"]
    try:
        return _invoke(given)
    except UserError as error:
        return _fail(error.message, error.hint, debug)
    except _UsageError as error:
        return _fail(_usage_message(error), _usage_hint(error), debug)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("stopped", "", debug, STOPPED)
    except (BrokenPipeError, SystemExit):
        # Whoever read our output has seen enough; typer exits with 1 then, which is the code of a
        # regression. Python would complain about the pipe again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except OSError as error:
        place = error.filename or "the output"
        message = f"{place}: {(error.strerror or str(error)).lower()}"
        return _fail(message, "make room or grant access, and run it again", debug)
    except Exception as error:  # a bug must not look like a regression either
        message = f"internal error: {type(error).__name__}: {error}"
        return _fail(message, "run it again with --debug and report the traceback", debug)


def _ready_streams() -> None:
    """A closed stream is thrown away, and a character that a stream does not know becomes `?`."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            # Else the next file opened, such as the store, would get the number of the stream.
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _invoke(arguments: list[str]) -> int:
    for argument in arguments:
        if not argument or (argument.startswith("--") and argument.endswith("=")):
            raise UserError(
                f"argument {argument!r} is empty", "is a variable in this command line not set?"
            )
    code = app(args=arguments, prog_name="perfgate", standalone_mode=False)
    sys.stdout.flush()
    return code if isinstance(code, int) else 0


def _fail(message: str, hint: str, debug: bool, code: int = USAGE) -> int:
    # Where nothing can be said, the exit code still has to be right.
    with contextlib.suppress(OSError):
        if debug:
            traceback.print_exc()
        print(f"error: {_one_line(message)}", file=sys.stderr)
        if hint:
            print(f"hint: {_one_line(hint)}", file=sys.stderr)
    return code


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _usage_message(error: Exception) -> str:
    text: str = getattr(error, "format_message", lambda: str(error))()
    text = _one_line(text).rstrip(".")
    return text[:1].lower() + text[1:]


def _usage_hint(error: Exception) -> str:
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "perfgate"
    return f"`{path} --help` lists what can be given"
