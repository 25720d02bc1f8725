"""Starting, limiting and ending processes on Linux, so that none outlives its purpose.

Three things keep a machine clean: every case has its own process group, which is killed as a whole;
a process asks the kernel to be killed when its parent dies; and a worker ends when the pipe its
parent holds is closed, which happens however the parent dies.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO

# Two BLAS threads on two busy cores take a small product from 0.1 ms to several, so a process that
# measures gets one thread, unless the caller's environment says otherwise.
THREAD_LIMITS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)

# The suite's folder comes first on the path, and may hold another version of this package.
_BOOT = """
import json, sys
home, path = json.loads(sys.argv[1])
sys.path[:] = [home, *path]
from perfgate.suite.{module} import main
sys.path[:] = path
sys.exit(main(sys.argv[2:]))
"""
_HOME = str(Path(__file__).parents[2])

_PR_SET_PDEATHSIG = 1


def start_interpreter(
    module: str, arguments: Sequence[str], stderr: int | IO[bytes], pass_fds: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    """`main(arguments)` of a module of this package in a fresh interpreter with our import path.

    Standard input and output are pipes, or, with `pass_fds`, the null device and `stderr`.
    The process leads a session of its own, so Ctrl-C at the terminal does not reach it.
    """
    piped = not pass_fds
    paths = json.dumps([_HOME, sys.path])
    environment = dict.fromkeys(THREAD_LIMITS, "1") | dict(os.environ)
    return subprocess.Popen(
        [sys.executable, "-c", _BOOT.format(module=module), paths, *arguments],
        stdin=subprocess.PIPE if piped else subprocess.DEVNULL,
        stdout=subprocess.PIPE if piped else stderr,
        stderr=stderr,
        pass_fds=pass_fds,
        env=environment,
        start_new_session=True,
        bufsize=0,
    )


def die_with(parent_pid: int) -> None:
    """Have the kernel kill this process when the thread that started it ends."""
    _set_death_signal(signal.SIGKILL)
    if os.getppid() != parent_pid:
        os._exit(1)


def outlive_parent() -> None:
    """Undo `die_with`."""
    _set_death_signal(0)


def _set_death_signal(number: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")


def prepare_case_process(parent_pid: int, memory_bytes: int | None) -> None:
    """Limits and crash reports for the process of one case, which must lead its process group."""
    die_with(parent_pid)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory_bytes is not None:
        # Private writable memory; address space as such is reserved freely by compilers and arenas.
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    faulthandler.enable(2)


def kill_group(pid: int) -> None:
    """Kill a process group; one that is gone already is fine."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def describe_exit(exit_code: int) -> str:
    """How a process ended: `was killed by SIGSEGV` for -11, `exited with status 3` for 3."""
    if exit_code >= 0:
        return f"exited with status {exit_code}"
    try:
        name = signal.Signals(-exit_code).name
    except ValueError:
        name = f"signal {-exit_code}"
    return f"was killed by {name}{' (out of memory?)' if name == 'SIGKILL' else ''}"
