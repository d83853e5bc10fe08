"""A first Ctrl-C or SIGTERM asks the work to stop at the next step; a second one stops it at once."""

import contextlib
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from fielding.cli.console import tell


@dataclass
class StopRequest:
    """Whether somebody asked to stop, with which signal, and whether there is a step to wait for.

    Parameters
    ----------
    received
        The last signal.
    is_stepping
        Whether the work goes in steps by now; while it is still prepared, the first signal stops it at once.
    """

    received: int | None = None
    is_stepping: bool = True

    @property
    def exit_code(self) -> int:
        """What the shell is told: 130 after Ctrl-C, 143 after SIGTERM."""
        return 128 + (self.received or signal.SIGINT)


@contextmanager
def stop_on_signal(step: str = "step", *, is_stepping: bool = True) -> Iterator[StopRequest]:
    """Note SIGINT and SIGTERM in the request that is handed out; the old handlers come back afterwards.

    The first signal is acknowledged with a line. A second one, or the first before the steps begin, raises
    KeyboardInterrupt.
    """
    request = StopRequest(is_stepping=is_stepping)

    def note(number: int, _frame: FrameType | None) -> None:
        is_first, request.received = request.received is None, number
        if not (is_first and request.is_stepping):
            raise KeyboardInterrupt
        with contextlib.suppress(RuntimeError):  # it came while a line was being written
            tell(f"stopping after this {step}; once more to stop now")

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, note)
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
