"""What counts as a signal of the operator's, and what does not."""

import signal
import threading

import pytest

from vsphere_ai.cli.console import signals


@pytest.fixture
def handled(monkeypatch):
    """What the first signal was told, and what left at once."""
    first, left = [], []
    gone = threading.Event()
    monkeypatch.setattr(signals, "leave", lambda code: (left.append(code), gone.set()))
    monkeypatch.setattr(signals, "_hung_up", float("-inf"))
    with signals.orderly(), signals.first(first.append):
        yield first, lambda: gone.wait(2) and left


def test_a_second_signal_leaves(handled):
    first, left = handled
    signals._handle(signal.SIGTERM, None)
    signals._handle(signal.SIGTERM, None)
    assert (first, left()) == ([signal.SIGTERM], [143])


def test_a_terminal_that_is_closed_is_one_signal(handled):
    """Its shell sends SIGHUP, and then the kernel once more."""
    first, left = handled
    signals._handle(signal.SIGHUP, None)
    signals._handle(signal.SIGHUP, None)
    assert first == [signal.SIGHUP]
    assert signals._arrived == [signal.SIGHUP]
    signals._handle(signal.SIGINT, None)
    assert left() == [130]


def test_two_hangups_with_time_between_are_two(handled, monkeypatch):
    first, left = handled
    monkeypatch.setattr(signals, "ONE_HANGUP", 0.0)
    signals._handle(signal.SIGHUP, None)
    signals._handle(signal.SIGHUP, None)
    assert (first, left()) == ([signal.SIGHUP], [129])


@pytest.mark.parametrize("before", [True, False])
def test_a_reason_of_our_own_is_not_the_operators_signal(handled, before):
    first, left = handled
    executor = [signals.stop, lambda: signals._handle(signal.SIGINT, None)]
    for do in executor if before else reversed(executor):
        do()
    assert sorted(first) == [signal.SIGINT, signal.SIGTERM]
    signals._handle(signal.SIGINT, None)
    assert left() == [130]
