"""What the processes of a run say to each other: one JSON record a line, over pipes.

Parent → worker: one `Job`, then an `Answer` to each digest. Worker → parent: `Event`s. A case's
process → worker: `{"digest": …}` at most once, then its `CaseResult`. A line counts only when it is
complete, so a process that dies in the middle of writing has said nothing.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from enum import StrEnum

from perfgate.codec import decode, encode
from perfgate.errors import UserError
from perfgate.model import CaseResult
from perfgate.suite.execute import failed

# More than a pipe holds (64 KiB), so that one read empties it.
READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Order:
    """One case for a worker to run; the paths are those of `Case`.

    `processes` is how many a sampled case is measured in, and 0 for an exact case.
    """

    case_id: str
    suite: str
    file: str
    processes: int
    timeout_s: float
    folders: tuple[str, ...] = ()

    @property
    def sampled(self) -> bool:
        """Whether the case is measured alone and in processes of its own."""
        return self.processes > 0


@dataclass(frozen=True, slots=True)
class Job:
    """Everything one worker process is asked to do, exact cases before sampled ones."""

    orders: tuple[Order, ...]
    jobs: int = 1
    load_timeout_s: float = 300.0
    memory_bytes: int | None = None
    budget_s: float | None = None
    verify: bool = False


class EventKind(StrEnum):
    """What a worker reports."""

    WARNING = "warning"
    STARTED = "started"
    DIGEST = "digest"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class Event:
    """`text` is a warning or a digest; `pid` the process, and process group, of a started case."""

    kind: EventKind
    case_id: str = ""
    pid: int = 0
    text: str = ""
    result: CaseResult | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether a case whose digest was asked about must run (else its stored result is used)."""

    case_id: str
    run: bool


@dataclass(slots=True)
class LineReader:
    """Complete lines out of a pipe. `ended` turns true when nobody can write to it any more."""

    fd: int
    ended: bool = False
    _rest: bytearray = field(default_factory=bytearray)

    def read(self) -> list[bytes]:
        """The lines that one read completes; nothing where a non-blocking descriptor is empty."""
        try:
            chunk = os.read(self.fd, READ_BYTES)
        except BlockingIOError:
            return []
        self.ended = not chunk
        self._rest += chunk
        if b"\n" not in chunk:
            return []
        *lines, rest = bytes(self._rest).split(b"\n")
        self._rest = bytearray(rest)
        return lines


def to_line(value: object) -> bytes:
    """A record, or data, as one line. Lone surrogates, which no store takes, become `?`."""
    text = json.dumps(encode(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "replace") + b"\n"


def event_of(line: bytes) -> Event:
    """An event back from its line; a result that does not fit the schema becomes a failed one."""
    data = json.loads(line)
    try:
        return decode(Event, data)
    except (UserError, RecursionError) as error:
        case_id = str(data["case_id"])
        return Event(EventKind.FINISHED, case_id, result=failed(case_id, f"bad result: {error}"))


def write_all(fd: int, data: bytes) -> None:
    """Write everything to a blocking descriptor, however little the pipe takes at a time."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
