"""The status line: drawn on a terminal only, wiped when work ends or the kernel prints."""

import io

import pytest

from accel.cli.status import StatusLine


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


WIPE = "\r\x1b[2K"


def test_a_line_says_what_is_done_and_for_how_long() -> None:
    terminal, clock = Terminal(), Clock()
    line = StatusLine(terminal, clock)

    with line.doing("recording silu"):
        clock.now_s = 3.2
        line.tick()

    drawn, wiped = terminal.getvalue().removeprefix(WIPE).split(WIPE)[0], terminal.getvalue()
    assert drawn[1:] == " recording silu 3 s"
    assert wiped.endswith(WIPE)


def test_work_that_ends_at_once_shows_nothing() -> None:
    terminal, clock = Terminal(), Clock()
    line = StatusLine(terminal, clock)

    with line.doing("recording silu"):
        clock.now_s = 0.1
        line.tick()

    assert terminal.getvalue() == ""


def test_nothing_is_drawn_where_stderr_is_no_terminal() -> None:
    log, clock = io.StringIO(), Clock()
    line = StatusLine(log, clock)

    with line.doing("recording silu"):
        clock.now_s = 60
        line.tick()

    assert log.getvalue() == ""


def test_what_a_kernel_prints_replaces_the_line_until_the_next_work() -> None:
    terminal, clock = Terminal(), Clock()
    line = StatusLine(terminal, clock)

    with line.beside_output(), line.doing("recording silu"):
        clock.now_s = 2
        line.tick()
        print("shape (128, 64)")
        line.tick()

    assert terminal.getvalue().endswith(f"recording silu 2 s{WIPE}shape (128, 64)\n")


def test_an_error_wipes_the_line() -> None:
    terminal, clock = Terminal(), Clock()
    line = StatusLine(terminal, clock)

    def fail() -> None:
        with line.doing("recording silu"):
            clock.now_s = 2
            line.tick()
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()

    assert terminal.getvalue().endswith(WIPE)
