"""Run the command line as a user does: in a process of its own."""

import atexit
import gc
import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NoReturn

CODE = "from fielding.cli import main; main()"
PLAIN = {"COLUMNS": "120", "NO_COLOR": "1"}
ROOT = Path(__file__).resolve().parent.parent.parent
PRELOADED = (
    "fielding.cli.app",
    "fielding.comparing.progress",
    "fielding.reporting.page",
    "fielding.simulation",
    "plotly.graph_objects",
    "rich.markdown",
    "sklearn.metrics",
    "typer.rich_utils",
)
"""What most commands import sooner or later, and that starts no thread: a fork of a process with threads may hang."""


def fielding(
    *arguments: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None, code: str = CODE
) -> subprocess.CompletedProcess[str]:
    """Return what a command printed and its exit code; its process is a fork of one that has imported all it needs."""
    return _fork_server().run([*map(str, arguments)], cwd or Path.cwd(), {**os.environ, **PLAIN, **(env or {})}, code)


def benchmarks(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Return what a benchmark printed and its exit code."""
    return run_command([sys.executable, "-m", "benchmarks", *arguments], ROOT)


def run_command(command: list[str], cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Return what any command printed and its exit code; it starts from nothing."""
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**os.environ, **PLAIN},
        stdin=subprocess.DEVNULL,
    )


def start_fielding(*arguments: str | Path, code: str = CODE) -> subprocess.Popen[str]:
    """Return a running command."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **PLAIN},
    )


def assert_one_line_error(done: subprocess.CompletedProcess[str], *words: str, code: int = 2) -> None:
    """Check that a command failed with one clear line and no traceback."""
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    for word in words:
        assert word in done.stderr


# ---- the process that commands are forked from -------------------------------------------------------------------


class ForkServer:
    """A process that forks itself for every command: importing anew takes most of a second each time."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="fielding-commands-")
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from tests.cli.invoke import serve_forks; serve_forks()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, **PLAIN},
        )

    def run(
        self, arguments: list[str], cwd: Path, env: Mapping[str, str], code: str
    ) -> subprocess.CompletedProcess[str]:
        """Return what a command printed and its exit code."""
        out, err = (Path(self._folder.name, name) for name in ("out", "err"))
        place = {"cwd": str(cwd), "env": dict(env), "out": str(out), "err": str(err)}
        order = {"arguments": arguments, "program": code, **place}
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        ended_with = int(self._process.stdout.readline())
        return subprocess.CompletedProcess(arguments, ended_with, out.read_text(), err.read_text())

    def close(self) -> None:
        """End it; it has no command under way."""
        self._process.communicate()
        self._folder.cleanup()


@cache
def _fork_server() -> ForkServer:
    server = ForkServer()
    atexit.register(server.close)
    return server


def serve_forks() -> None:
    """Fork for every line of standard input, and print how each fork ended."""
    for name in PRELOADED:
        import_module(name)
    os.fsync = lambda _file: None  # type: ignore[assignment]  # as in the tests themselves
    gc.freeze()  # what is there already is not looked at by the forks, and stays shared
    for line in sys.stdin:
        child = os.fork()
        if not child:
            _run_here(**json.loads(line))
        sys.stdout.write(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n")
        sys.stdout.flush()


def _run_here(arguments: list[str], program: str, cwd: str, env: dict[str, str], out: str, err: str) -> NoReturn:
    """Run a command in this process as if it had been started for it, and end it."""
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = ["fielding", *arguments]
    for path, mode, stream in ((os.devnull, "rb", sys.stdin), (out, "wb", sys.stdout), (err, "wb", sys.stderr)):
        with Path(path).open(mode) as file:
            os.dup2(file.fileno(), stream.fileno())
    code: object = 0
    try:
        exec(program, {"__name__": "__main__"})
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        traceback.print_exc()
        code = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(bool(code)))  # to free all that was imported takes long
