"""The last one to leave: ends every process of a local federation once the process that started it is gone.

Runs as a small process of its own (``python reaper.py MARK``, standard library only) and waits on a pipe that closes
when its owner ends, however that happens. Processes are told apart by a mark in their environment, which everything
they start inherits, also across sessions; names of programs don't matter.
"""

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

MARK = "FIELDING_LOCAL_FEDERATION"
"""The environment variable that all processes of a local federation carry: the folder of that federation."""
PATIENCE_S = 5.0  # seconds between the polite signal and the other
_POLL_S = 0.05
_KILLS_S = 10.0
_EMPTY_LOOKS = 2  # a process that is just becoming another program shows no environment for a moment
_PROCESSES = Path("/proc")


def marked_processes(mark: str) -> list[int]:
    """Return the ids of the processes that carry a mark, rising, without this one.

    Only where the system shows the environment of processes (Linux); else nothing is found, and only the process
    groups that the supervisor knows can be ended.
    """
    try:
        ids = sorted(int(entry.name) for entry in _PROCESSES.iterdir() if entry.name.isdigit())
    except OSError:
        return []
    return [pid for pid in ids if pid != os.getpid() and is_marked(pid, mark)]


def is_marked(pid: int, mark: str) -> bool:
    """Return whether a process carries a mark; processes of others and those that have ended do not."""
    try:
        environment = (_PROCESSES / str(pid) / "environ").read_bytes()
    except OSError:
        return False
    return os.fsencode(f"{MARK}={mark}") in environment.split(b"\0")


def command_of(pid: int) -> list[str]:
    """Return the command line of a process, empty if it has ended or is not shown."""
    try:
        words = (_PROCESSES / str(pid) / "cmdline").read_bytes()
    except OSError:
        return []
    return [os.fsdecode(word) for word in words.split(b"\0") if word]


def signal_marked(pid: int, mark: str, number: int) -> None:
    """Send a signal to a process if it carries the mark; an id that was given to another meanwhile is spared."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if not hasattr(os, "pidfd_open"):
            if is_marked(pid, mark):
                os.kill(pid, number)
            return
        process = os.pidfd_open(pid)  # from here on it is this process or none
        try:
            if is_marked(pid, mark):
                signal.pidfd_send_signal(process, number)
        finally:
            os.close(process)


def end_marked(mark: str, *, patience_s: float = PATIENCE_S) -> list[int]:
    """End all processes that carry a mark, politely first, and return those that are still there."""
    asked: set[int] = set()
    n_empty = 0
    polite_until = time.monotonic() + patience_s
    give_up = polite_until + _KILLS_S
    while True:
        left = marked_processes(mark)
        n_empty = 0 if left else n_empty + 1
        if n_empty == _EMPTY_LOOKS or time.monotonic() >= give_up:
            return left
        is_over = time.monotonic() >= polite_until
        for pid in left if is_over else set(left) - asked:  # some are born while others end
            signal_marked(pid, mark, signal.SIGKILL if is_over else signal.SIGTERM)
        asked.update(left)
        time.sleep(_POLL_S)


def end_groups(leaders: list[int], *, patience_s: float = PATIENCE_S) -> None:
    """End process groups by the ids of their leaders: for systems that do not show marks."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for leader in leaders:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(leader, number)
        if number == signal.SIGTERM and leaders:
            time.sleep(patience_s)


def reap() -> None:
    """Wait for the end of standard input, which names leaders of groups to end, and end what is left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # a signal to the whole family must not end its guard
    alive: dict[int, None] = {}
    for line in sys.stdin:
        sign, pid = line[0], int(line[1:])
        if sign == "+":
            alive[pid] = None
        else:
            alive.pop(pid, None)
    if _PROCESSES.is_dir():
        end_marked(sys.argv[1])
    else:
        end_groups(list(alive))


if __name__ == "__main__":
    reap()
