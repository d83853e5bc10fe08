"""Pipes among the files of a run: whoever opens one waits for ever, so a test must give up by itself."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PATIENCE_S = 20
needs_pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with names")


def put_pipe(path: Path) -> None:
    """Put a pipe, which nobody writes into or reads from, in the place of a file."""
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)


@contextmanager
def no_waiting() -> Iterator[None]:
    """Fail if what is done here is still waiting after a while; no code under test can catch that."""

    def give_up(_number: int, _frame: object) -> None:
        pytest.fail(f"still waiting after {PATIENCE_S} s")  # no Exception: a reader may pass over those

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(PATIENCE_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
