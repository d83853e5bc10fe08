"""The first signal is acknowledged and waits for the step in hand; the second does not wait."""

import os
import signal
import sys

import pytest

from fielding.cli.options import StopRequest, stop_on_signal

SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]


@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_the_first_signal_is_noted_and_answered(
    capsys: pytest.CaptureFixture[str], number: signal.Signals, code: int
) -> None:
    with stop_on_signal("round") as stop:
        os.kill(os.getpid(), number)

    assert (stop.received, stop.exit_code) == (number, code)
    assert capsys.readouterr() == ("", "stopping after this round; once more to stop now\n")


@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_the_second_signal_interrupts(number: signal.Signals, code: int) -> None:
    with stop_on_signal() as stop:
        os.kill(os.getpid(), number)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)

    assert stop.exit_code == code


def test_before_the_steps_begin_the_first_signal_interrupts(capsys: pytest.CaptureFixture[str]) -> None:
    with stop_on_signal(is_stepping=False) as stop, pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)

    assert stop.received == signal.SIGINT
    assert capsys.readouterr().err == ""


def test_the_old_handlers_come_back() -> None:
    before = [signal.getsignal(number) for number, _ in SIGNALS]

    with stop_on_signal():
        os.kill(os.getpid(), signal.SIGTERM)

    assert [signal.getsignal(number) for number, _ in SIGNALS] == before


def test_a_signal_that_comes_while_a_line_is_written_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    class Busy:
        def write(self, _text: str) -> None:
            raise RuntimeError("reentrant call")

    with stop_on_signal() as stop:
        monkeypatch.setattr(sys, "stderr", Busy())
        os.kill(os.getpid(), signal.SIGINT)

    assert stop == StopRequest(received=signal.SIGINT)
