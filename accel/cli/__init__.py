"""The `accel` command: what can be typed, and how it ends.

Each command names its options and hands over to a module beside this one, loaded when the command
runs. `main` is the one place where errors are caught: exit code 0 all is well, 2 bad input or a
failure of accel itself, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import io
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from accel.errors import UserError

USAGE, STOPPED, BROKEN_PIPE = 2, 130, 141

# Old versions of typer stand on click, newer ones on a copy of it; this name is the same in both.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]

app = typer.Typer(
    name="accel",
    help="Run accelerator kernels without the hardware: values, latency, and what bounds it.",
    epilog="Example: accel run kernels.py:softmax --input x=4096x8192:bfloat16 --chip trn2",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


@app.callback()
def options(
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the Python traceback of an error.")
    ] = False,
) -> None:
    """Run accelerator kernels without the hardware: values, latency, and what bounds it."""


@app.command(epilog="Example: accel run kernels.py:softmax --input x=4096x8192:bfloat16")
def run(
    kernel: Annotated[
        str,
        typer.Argument(metavar="FILE.py:FUNCTION", help="The kernel; the file stays unchanged."),
    ],
    chip: Annotated[
        str, typer.Option("--chip", metavar="NAME", help="Generation to run on: see accel chips.")
    ] = "trn2",
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input", metavar="NAME=SHAPE:DTYPE", help="A tensor argument, as x=128x512:float32."
        ),
    ] = None,
    args: Annotated[
        list[str] | None,
        typer.Option(
            "--arg", metavar="NAME=VALUE", help="Any other argument, a Python literal or a word."
        ),
    ] = None,
    grid: Annotated[
        str, typer.Option("--grid", metavar="N[,N...]", help="SPMD grid. [default: one program]")
    ] = "",
    values: Annotated[
        bool,
        typer.Option(
            "--values", help="Compute with random inputs; check reads element by element."
        ),
    ] = False,
    seed: Annotated[
        int, typer.Option("--seed", min=0, metavar="N", help="Seed of the inputs of --values.")
    ] = 0,
    trace: Annotated[
        Path | None,
        typer.Option(
            "--trace", metavar="FILE", help="Write the timeline as JSON that Perfetto opens."
        ),
    ] = None,
    program: Annotated[
        Path | None,
        typer.Option("--program", metavar="FILE", help="Write the recorded instructions as text."),
    ] = None,
    compiler: Annotated[
        str,
        typer.Option(
            "--compiler",
            metavar="PROFILE",
            help="Rewrites of a vendor compiler to assume; auto: what built the kernel's form.",
        ),
    ] = "auto",
    as_json: JsonOption = False,
) -> None:
    """Predict a kernel's latency, what bounds it, and what it moves."""
    from accel.cli.run import Request, run_kernel

    run_kernel(
        Request(
            target=kernel,
            chip=chip,
            inputs=tuple(inputs or ()),
            args=tuple(args or ()),
            grid=grid,
            values=values,
            seed=seed,
            trace=trace,
            program=program,
            compiler=compiler,
            as_json=as_json,
        )
    )


@app.command(epilog="Example: accel chips --json")
def chips(as_json: JsonOption = False) -> None:
    """List the chips there are, and how far their timing is validated."""
    from accel.cli.show import show_chips

    show_chips(as_json)


@app.command(epilog="Example: accel validate --json")
def validate(as_json: JsonOption = False) -> None:
    """Compare published latencies with what the simulator predicts."""
    from accel.cli.validation import show_validation

    show_validation(as_json)


# What the base install leaves out.
_EXTRA = frozenset({"ml_dtypes", "numba", "llvmlite"})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code. Never raises for what a user can cause."""
    # Tiles are at most 128×512: a second BLAS thread only costs. Read when numpy is first loaded.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    _ready_streams()
    given = list(sys.argv[1:] if arguments is None else arguments)
    # `--debug` is for the moment after a failure, so it may stand anywhere on the line.
    debug = "--debug" in given
    given = [argument for argument in given if argument != "--debug"]
    try:
        return _invoke(given)
    except UserError as error:
        return _fail(error.args[0], error.hint or "`accel run --help` lists what to give", debug)
    except _UsageError as error:
        return _fail(_usage_message(error), _usage_hint(error), debug)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("stopped", "", debug, STOPPED)
    except (BrokenPipeError, SystemExit):
        # Whoever read our output has seen enough; typer exits with 1 then. Python would complain
        # about the pipe again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except MemoryError as error:
        hint = "use smaller shapes, or leave out --values, which holds every tensor"
        return _fail(f"out of memory: {error}", hint, debug)
    except OSError as error:
        place = error.filename or "the output"
        text = f"{place}: {(error.strerror or type(error).__name__).lower()}"
        return _fail(text, "choose a path that can be read or written", debug)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name in _EXTRA:
            hint = "install it with: pip install 'perfgate[accel]'"
            return _fail(f"the accel extra is not installed: no module {error.name}", hint, debug)
        message = f"internal error: {type(error).__name__}: {error}"
        return _fail(message, "run it again with --debug and report the traceback", debug)


def _ready_streams() -> None:
    """A closed stream is thrown away, and a character that a stream does not know becomes `?`."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            # Else the next file opened, such as the trace, would get the number of the stream.
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _invoke(arguments: list[str]) -> int:
    code = app(args=arguments, prog_name="accel", standalone_mode=False)
    sys.stdout.flush()
    return code if isinstance(code, int) else 0


def _fail(message: str, hint: str, debug: bool, code: int = USAGE) -> int:
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
    path = context.command_path if context is not None else "accel"
    return f"`{path} --help` lists what can be given"
