"""What is said of a chip's accuracy: figures, or that it was compared with nothing."""

from accel.accuracy import accuracy_of, kernel_errors
from accel.chip import CHIPS


def test_a_validated_chip_states_its_figures():
    figures = kernel_errors()["trn2"]

    shown = accuracy_of("trn2")
    assert f"median error {100 * figures['median']:.1f} %" in shown
    assert f"worst {100 * figures['worst']:.0f} %" in shown
    assert f"over {figures['count']} published timings" in shown


def test_a_chip_that_was_compared_with_nothing_says_so():
    assert kernel_errors().keys() < CHIPS.keys()
    assert "trn3" not in kernel_errors()
    assert accuracy_of("trn3").startswith("not validated")
    assert accuracy_of("a what-if chip").startswith("not validated")
