"""Start processes, wait until they are ready, and end them: by their ids, whatever happens in between."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from fielding.errors import FieldingError, OptionError
from fielding.flower.deploy import reaper
from fielding.flower.deploy.certificates import private_folder

POLL_S = 0.1  # seconds between two looks at a process
PATIENCE_S = 10.0  # seconds that a process has to end after it was asked to
_TAIL_LINES, _TAIL_BYTES = 3, 20_000
_GUARD_S = 20.0
_COLORS = re.compile(r"\x1b\[[0-9;]*m")


class ProcessError(FieldingError, RuntimeError):
    """A process did not start, did not become ready in time, or ended when it should not."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Process:
    """A process that the supervisor started, the leader of a group of its own.

    All its output goes to the file ``log``, which has its name; that of this start begins at ``log_start``, in bytes.
    """

    name: str
    running: "subprocess.Popen[bytes]"
    log: Path
    log_start: int

    @property
    def pid(self) -> int:
        """Its id."""
        return self.running.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not ended; one that has keeps its id until it is ended here, so that its group can be."""
        if self.running.returncode is not None:
            return False
        if not hasattr(os, "waitid"):
            return self.running.poll() is None
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        except ChildProcessError:
            return False

    def words(self) -> str:
        """Return what it has said since this start."""
        with self.log.open("rb") as file:
            file.seek(self.log_start)
            return file.read().decode(errors="replace")

    def last_words(self) -> str:
        """Return its last lines as one, for a message."""
        lines = [" ".join(line.split()) for line in _COLORS.sub("", self.words()[-_TAIL_BYTES:]).splitlines()]
        return " / ".join([line for line in lines if line][-_TAIL_LINES:]) or "nothing"


@dataclass(slots=True, kw_only=True, eq=False)
class Supervisor:
    """Starts processes and ends them all when the block is left, by an error or Ctrl-C as well.

    Should this process itself be killed, a guard (a small process) ends them. What they start in turn carries the
    same mark in its environment and ends with them, in whatever session it lives (Linux; elsewhere only what stays in
    their process groups).

    Parameters
    ----------
    folder
        Where they run and where ``logs/NAME.log`` are; it is their mark, too: one supervisor per folder.
    environment
        All that they get to know; see :func:`~fielding.flower.deploy.environment.clean_environment`.
    patience_s
        Seconds that a process has to end after SIGTERM before it is killed.
    """

    folder: Path
    environment: Mapping[str, str]
    patience_s: float = PATIENCE_S
    processes: dict[str, Process] = field(init=False, default_factory=dict)
    _guard: "subprocess.Popen[bytes] | None" = field(init=False, default=None)

    def __post_init__(self) -> None:
        if os.name != "posix":
            raise OptionError("a local federation needs signals and process groups; use Linux or macOS")
        self.folder = private_folder(self.folder).resolve()

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End all processes."""
        self.close()

    @property
    def mark(self) -> str:
        """What all processes carry as ``FIELDING_LOCAL_FEDERATION``."""
        return str(self.folder)

    @property
    def marked_environment(self) -> dict[str, str]:
        """The environment with the mark, for processes that are started elsewhere and have to end as well."""
        return {**self.environment, reaper.MARK: self.mark}

    def start(self, name: str, command: Sequence[str | Path | int]) -> Process:
        """Start a process; the name must be free, or its last bearer must have ended."""
        if name in self.processes:
            if self.processes[name].is_running:
                raise ProcessError(f"{name} is running already; end it first")
            self.stop(name)
        self._begin_guard()
        log = private_folder(self.folder / "logs") / f"{name}.log"
        with log.open("ab") as words:
            start = words.tell()
            try:
                running = subprocess.Popen(
                    [str(word) for word in command],
                    cwd=self.folder,
                    env=self.marked_environment,
                    stdin=subprocess.DEVNULL,
                    stdout=words,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                raise ProcessError(f"cannot start {command[0]}: {error.strerror or error}") from error
        self.processes[name] = Process(name=name, running=running, log=log, log_start=start)
        self._tell_guard("+", running.pid)
        return self.processes[name]

    def wait_until(self, process: Process, is_ready: Callable[[], bool], *, within_s: float) -> None:
        """Wait until a process is ready.

        Raises
        ------
        ProcessError
            If it ends before, or if the time passes: it is ended then. The message has its last words.
        """
        give_up = time.monotonic() + within_s
        while not is_ready():
            ended, late = not process.is_running, time.monotonic() >= give_up
            if ended and is_ready():  # its very last words
                return
            if ended or late:
                self.stop(process.name)
                how = f"ended with {process.running.returncode}" if ended else f"was not ready after {within_s:g} s"
                raise ProcessError(f"{process.name} {how}; it said: {process.last_words()} (more in {process.log})")
            time.sleep(POLL_S)

    def stop(self, *names: str) -> None:
        """End processes and what they left in their groups: with SIGTERM, and after a while with SIGKILL."""
        stopping = [self.processes[name] for name in names if name in self.processes]
        try:
            for process in stopping:
                if process.is_running:
                    os.kill(process.pid, signal.SIGTERM)
            give_up = time.monotonic() + self.patience_s
            while any(process.is_running for process in stopping) and time.monotonic() < give_up:
                time.sleep(POLL_S / 2)
        finally:  # Ctrl-C while waiting ends the waiting, not the ending
            self._kill(stopping)

    def kill(self, *names: str) -> None:
        """Kill processes at once with all of their groups: they get no chance to say good-bye."""
        self._kill([self.processes[name] for name in names if name in self.processes])

    def _kill(self, processes: Iterable[Process]) -> None:
        for process in processes:
            if process.running.returncode is None:  # not reaped: the id is still its own
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.running.wait()
                self._tell_guard("-", process.pid)

    def find_marked(self, word: str = "") -> list[int]:
        """Return the ids of all processes that carry the mark and have a word in their command line (Linux)."""
        return [
            pid for pid in reaper.marked_processes(self.mark) if any(word in part for part in reaper.command_of(pid))
        ]

    def signal(self, pid: int, number: int) -> None:
        """Send a signal to a process that carries the mark; any other is spared."""
        reaper.signal_marked(pid, self.mark, number)

    def close(self) -> None:
        """End all processes and whatever they started; may be called again."""
        try:
            self.stop(*self.processes)
        finally:
            try:
                left = reaper.end_marked(self.mark, patience_s=self.patience_s)
            finally:
                self._end_guard()
        if left:
            raise ProcessError(f"processes {left} could not be ended; end them with: kill -9 {left[0]} ...")

    def _begin_guard(self) -> None:
        if self._guard is not None and self._guard.poll() is None:
            return
        self._guard = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(reaper.__file__)), self.mark],
            env={},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        for process in self.processes.values():
            if process.running.returncode is None:
                self._tell_guard("+", process.pid)

    def _tell_guard(self, sign: str, pid: int) -> None:
        if self._guard is not None and self._guard.stdin is not None:
            with contextlib.suppress(OSError, ValueError):  # it was killed; the next start brings a new one
                self._guard.stdin.write(f"{sign}{pid}\n".encode())
                self._guard.stdin.flush()

    def _end_guard(self) -> None:
        """Let the guard look once more and go."""
        if (ending := self._guard) is None:
            return
        self._guard = None
        if ending.stdin is not None:
            with contextlib.suppress(OSError):
                ending.stdin.close()
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                ending.wait(_GUARD_S)
        finally:
            ending.kill()  # does nothing to one that has ended
            ending.wait()
