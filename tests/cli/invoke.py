"""Run the command line as a user does: in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

CODE = "from fielding.cli import main; main()"


def fielding(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Return what a command printed and its exit code."""
    return _run([sys.executable, "-c", CODE, *map(str, arguments)], cwd)


def benchmarks(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Return what a benchmark printed and its exit code."""
    return _run([sys.executable, "-m", "benchmarks", *arguments], Path(__file__).parent.parent.parent)


def _run(command: list[str], cwd: Path | None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**os.environ, "COLUMNS": "120", "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
    )


def start_fielding(*arguments: str | Path, code: str = CODE) -> subprocess.Popen[str]:
    """Return a running command."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def assert_one_line_error(done: subprocess.CompletedProcess[str], *words: str, code: int = 2) -> None:
    """Check that a command failed with one clear line and no traceback."""
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    for word in words:
        assert word in done.stderr
