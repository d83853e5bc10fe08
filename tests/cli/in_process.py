"""The command line called within this process, which is faster than `invoke`, on a small config."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fielding.cli import main

CONFIG = """
rounds = 6
[trace]
clients = 8
gap = 3
window = 6
samples = 12
[model]
hidden = 8
[training]
participants = 8
local_steps = 2
batch_size = 5
[coordinator]
detector = "any-change"
[evaluation]
every = 2
[checkpoint]
every = 1
"""


class Command:
    """Calls the command line in this process and keeps what it said."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        command_line: Callable[[], None] = main,
    ) -> None:
        self._monkeypatch, self._capsys, self._command_line = monkeypatch, capsys, command_line
        self.out = self.err = ""

    def __call__(self, *arguments: str | Path) -> int:
        self._monkeypatch.setattr(sys, "argv", ["fielding", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            self._command_line()
        self.out, self.err = self._capsys.readouterr()
        return int(ended.value.code or 0)

    def refuses(self, *arguments: str | Path, code: int = 2) -> str:
        """Call, and return the one line that says what is wrong."""
        assert self(*arguments) == code, self.out
        assert self.out == ""
        assert self.err.startswith("error: ")
        assert self.err.count("\n") == 1
        return self.err


RUN = ("run", "small.toml", "--no-page", "--out", "out")
"""The arguments of a small run into ``out``."""
