"""A first Ctrl-C or SIGTERM asks the work to stop at the next step; a second one stops it at once."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


@dataclass
class StopRequest:
    """Whether somebody asked to stop, and with which signal."""

    received: int | None = None

    @property
    def exit_code(self) -> int:
        """What the shell is told: 130 after Ctrl-C, 143 after SIGTERM."""
        return 128 + (self.received or 0)


@contextmanager
def stop_on_signal() -> Iterator[StopRequest]:
    """Note SIGINT and SIGTERM in the request that is handed out; the old handlers come back afterwards."""
    request = StopRequest()

    def note(number: int, _frame: FrameType | None) -> None:
        request.received = number
        for known, handler in before.items():
            signal.signal(known, handler)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, note)
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
