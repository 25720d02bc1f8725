"""status: one line on a terminal that says what is being done, and for how long.

Drawn on stderr by a thread, only where that is a terminal, and wiped when the work ends: what is
printed, piped or logged is the same with and without it. While a kernel runs, its own output comes
first: the line is wiped before it and stays away until the next piece of work, so that a kernel may
stop in a debugger.
"""

from __future__ import annotations

import contextlib
import io
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TextIO

_TURNS = "|/-\\"
_WIPE = "\r\x1b[2K"
_INTERVAL_S = 0.125
_QUICK_S = 0.25  # work that ends sooner shows no line


class StatusLine:
    """The line of one stream. `tick` draws it as of now; a thread calls that while work goes on."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream, clock
        self._shows = stream.isatty()
        self._text, self._since_s, self._turn = "", 0.0, 0
        self._drawn = False
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def doing(self, text: str) -> Iterator[None]:
        """Shows `text` while the body runs."""
        if not self._shows:
            yield
            return
        self._text, self._since_s = text, self._clock()
        ended = threading.Event()
        thread = threading.Thread(target=self._keep_drawing, args=(ended,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            self.stop()

    def _keep_drawing(self, ended: threading.Event) -> None:
        while not ended.wait(_INTERVAL_S):
            self.tick()

    def tick(self) -> None:
        """Draws the line, if there is work that is not over at once."""
        with self._lock:
            elapsed_s = self._clock() - self._since_s
            if not self._text or elapsed_s < _QUICK_S:
                return
            self._turn += 1
            turn = _TURNS[self._turn % len(_TURNS)]
            self._stream.write(f"{_WIPE}{turn} {self._text} {elapsed_s:.0f} s")
            self._stream.flush()
            self._drawn = True

    def stop(self) -> None:
        """Wipes the line; it comes back with the next piece of work."""
        with self._lock:
            self._text = ""
            if self._drawn:
                self._stream.write(_WIPE)
                self._stream.flush()
            self._drawn = False

    @contextlib.contextmanager
    def beside_output(self) -> Iterator[None]:
        """Sends what the body prints to this stream, above the line."""
        with contextlib.redirect_stdout(_Above(self, self._stream)):
            yield


class _Above(io.TextIOBase):
    """A stream that stops the line before it writes."""

    def __init__(self, line: StatusLine, stream: TextIO) -> None:
        self._line, self._stream = line, stream

    def write(self, text: str) -> int:
        self._line.stop()
        return self._stream.write(text)

    def flush(self) -> None:
        self._stream.flush()

    def isatty(self) -> bool:
        return self._stream.isatty()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stream.encoding

    def fileno(self) -> int:
        return self._stream.fileno()


def status_line() -> StatusLine:
    """The line of this process's stderr."""
    return StatusLine(sys.stderr)
