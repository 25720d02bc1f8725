"""The `accel` command: what can be typed, and how it ends.

Each command names its options and hands over to a module beside this one, loaded when the command
runs. `main` is the one place where errors are caught: exit code 0 all is well, 1 a kernel differs
from its reference, 2 bad input or a failure of accel itself, 130 stopped by Ctrl-C.
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

from accel import __version__
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
KernelArgument = Annotated[
    str, typer.Argument(metavar="FILE.py:FUNCTION", help="The kernel; the file stays unchanged.")
]
ChipOption = Annotated[
    str,
    typer.Option(
        "--chip", metavar="NAME", help="Chip to run on: see accel chips; or a .toml file."
    ),
]
InputOption = Annotated[
    list[str] | None,
    typer.Option(
        "--input", metavar="NAME=SHAPE:DTYPE", help="A tensor argument, as x=128x512:float32."
    ),
]
ArgOption = Annotated[
    list[str] | None,
    typer.Option(
        "--arg", metavar="NAME=VALUE", help="Any other argument, a Python literal or a word."
    ),
]
GridOption = Annotated[
    str, typer.Option("--grid", metavar="N[,N...]", help="SPMD grid. [default: one program]")
]
NkiOption = Annotated[
    str,
    typer.Option(
        "--nki",
        metavar="VERSION",
        help="Version of the language, 0.1 to 0.6: calls behave and names exist as in that one. "
        "[default: accept all]",
    ),
]
CompilerOption = Annotated[
    str,
    typer.Option(
        "--compiler",
        metavar="PROFILE",
        help="Rewrites of a vendor compiler to assume; auto: what built the kernel's form.",
    ),
]
StrictOption = Annotated[
    bool,
    typer.Option("--strict", help="Reject Python that the vendor's compiler does not take."),
]
MatmulOption = Annotated[
    str,
    typer.Option(
        "--fp32-matmul",
        metavar="exact|device",
        help="Products of float32 values: exact, or with the machine's error of 1.4e-5.",
    ),
]


def _print_version(wanted: bool) -> None:
    if not wanted:
        return
    typer.echo(f"accel {__version__}")
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
    """Run accelerator kernels without the hardware: values, latency, and what bounds it."""


@app.command(epilog="Example: accel run kernels.py:softmax --input x=4096x8192:bfloat16")
def run(
    kernel: KernelArgument,
    chip: ChipOption = "trn2",
    inputs: InputOption = None,
    args: ArgOption = None,
    grid: GridOption = "",
    values: Annotated[
        bool,
        typer.Option(
            "--values", help="Compute with random inputs; check reads element by element."
        ),
    ] = False,
    seed: Annotated[
        int, typer.Option("--seed", min=0, metavar="N", help="Seed of the inputs of --values.")
    ] = 0,
    ranks: Annotated[
        int,
        typer.Option(
            "--ranks", min=1, metavar="N", help="With --values: how many ranks run together."
        ),
    ] = 1,
    rank: Annotated[
        int,
        typer.Option(
            "--rank", min=0, metavar="N", help="The rank to report on; they count from 0."
        ),
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
    measured: Annotated[
        Path | None,
        typer.Option(
            "--measured", metavar="FILE", help="Compare with JSON of what a profiler measured."
        ),
    ] = None,
    compiler: CompilerOption = "auto",
    nki: NkiOption = "",
    strict: StrictOption = False,
    fp32_matmul: MatmulOption = "exact",
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
            ranks=ranks,
            rank=rank,
            trace=trace,
            program=program,
            measured=measured,
            compiler=compiler,
            nki=nki,
            strict=strict,
            fp32_matmul=fp32_matmul,
            as_json=as_json,
        )
    )


@app.command(epilog="Example: accel profile kernels.py:softmax --input x=4096x8192:bfloat16")
def profile(
    kernel: KernelArgument,
    chip: ChipOption = "trn2",
    inputs: InputOption = None,
    args: ArgOption = None,
    grid: GridOption = "",
    top: Annotated[
        int, typer.Option("--top", min=1, metavar="N", help="Rows of each list to print.")
    ] = 8,
    compiler: CompilerOption = "auto",
    nki: NkiOption = "",
    as_json: JsonOption = False,
) -> None:
    """Show where a kernel's time goes, and what it would be if."""
    from accel.cli.profiling import profile_kernel
    from accel.cli.run import Request

    profile_kernel(
        Request(
            target=kernel,
            chip=chip,
            inputs=tuple(inputs or ()),
            args=tuple(args or ()),
            grid=grid,
            compiler=compiler,
            nki=nki,
            as_json=as_json,
        ),
        top,
    )


@app.command(
    epilog="Example: accel diff old.py:softmax new.py:softmax --input x=4096x8192:bfloat16"
)
def diff(
    kernel: KernelArgument,
    other: Annotated[
        str,
        typer.Argument(
            metavar="[FILE.py:FUNCTION]", help="The kernel to compare it with. [default: itself]"
        ),
    ] = "",
    chip: ChipOption = "trn2",
    other_chip: Annotated[
        str,
        typer.Option(
            "--other-chip", metavar="NAME", help="Chip of the second. [default: the same]"
        ),
    ] = "",
    inputs: InputOption = None,
    args: ArgOption = None,
    grid: GridOption = "",
    top: Annotated[
        int, typer.Option("--top", min=1, metavar="N", help="Lines of the path to print.")
    ] = 10,
    compiler: CompilerOption = "auto",
    nki: NkiOption = "",
    as_json: JsonOption = False,
) -> None:
    """Say why one kernel takes longer than another, or than on another chip."""
    from accel.cli.differing import diff_kernels
    from accel.cli.run import Request

    request = Request(
        target=kernel,
        chip=chip,
        inputs=tuple(inputs or ()),
        args=tuple(args or ()),
        grid=grid,
        compiler=compiler,
        nki=nki,
        as_json=as_json,
    )
    diff_kernels(request, other, other_chip, top)


@app.command(
    epilog="Example: accel sweep kernels.py:softmax --input x={rows}x4096:bfloat16 "
    "--sweep rows=128..8192:*2"
)
def sweep(
    kernel: KernelArgument,
    sweeps: Annotated[
        list[str],
        typer.Option(
            "--sweep",
            metavar="NAME=SIZES",
            help="Sizes for {NAME} in --input, --arg and --grid: 128..8192:*2, 1..9:+2 or 1,5,7.",
        ),
    ],
    chip: ChipOption = "trn2",
    inputs: InputOption = None,
    args: ArgOption = None,
    grid: GridOption = "",
    compiler: CompilerOption = "auto",
    nki: NkiOption = "",
    as_json: JsonOption = False,
) -> None:
    """Predict a kernel's latency at many sizes, as a table with bars."""
    from accel.cli.run import Request
    from accel.cli.sweeping import sweep_kernel

    sweep_kernel(
        Request(
            target=kernel,
            chip=chip,
            inputs=tuple(inputs or ()),
            args=tuple(args or ()),
            grid=grid,
            compiler=compiler,
            nki=nki,
            as_json=as_json,
        ),
        sweeps,
    )


@app.command(
    "test",
    epilog="Example: accel test kernels.py:softmax --reference reference.py:softmax "
    "--input x=256x512:bfloat16",
)
def compare(
    kernel: KernelArgument,
    reference: Annotated[
        str,
        typer.Option(
            "--reference",
            metavar="FILE.py:FUNCTION",
            help="What it should compute: a function of arrays, or one to import, as numpy.add.",
        ),
    ],
    chip: ChipOption = "trn2",
    inputs: InputOption = None,
    args: ArgOption = None,
    grid: GridOption = "",
    cases: Annotated[
        int, typer.Option("--cases", min=1, metavar="N", help="Sets of random inputs to try.")
    ] = 3,
    seed: Annotated[
        int, typer.Option("--seed", min=0, metavar="N", help="Seed of the first set of inputs.")
    ] = 0,
    rtol: Annotated[
        float | None,
        typer.Option(
            "--rtol",
            min=0.0,
            metavar="FRACTION",
            help="Relative error allowed. [default: as the result's dtype explains]",
        ),
    ] = None,
    atol: Annotated[
        float | None,
        typer.Option(
            "--atol",
            min=0.0,
            metavar="ERROR",
            help="Absolute error allowed. [default: rtol of the expected root mean square]",
        ),
    ] = None,
    nki: NkiOption = "",
    strict: StrictOption = False,
    fp32_matmul: MatmulOption = "exact",
    as_json: JsonOption = False,
) -> int:
    """Compare a kernel with a reference, and name where they part."""
    from accel.cli.comparing import Request, compare_kernel
    from accel.parity.comparison import Tolerance

    return compare_kernel(
        Request(
            target=kernel,
            reference=reference,
            chip=chip,
            inputs=tuple(inputs or ()),
            args=tuple(args or ()),
            grid=grid,
            seed=seed,
            cases=cases,
            tolerance=Tolerance(rtol, atol),
            nki=nki,
            strict=strict,
            fp32_matmul=fp32_matmul,
            as_json=as_json,
        )
    )


@app.command(epilog="Example: accel chips trn2 --provenance")
def chips(
    name: Annotated[
        str, typer.Argument(metavar="[NAME]", help="One chip, or a .toml file that changes one.")
    ] = "",
    provenance: Annotated[
        bool, typer.Option("--provenance", help="Show every number, and where it comes from.")
    ] = False,
    instances: Annotated[
        bool, typer.Option("--instances", help="Show machines with such chips, and their links.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """List the chips there are, and how far their timing is validated."""
    from accel.cli.show import show_chips

    show_chips(name, provenance, instances, as_json)


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
