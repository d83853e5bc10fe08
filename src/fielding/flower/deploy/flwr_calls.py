"""Run several command lines of Flower in one process: its program takes a second to load, each command little more.

Runs as a process of its own (``python flwr_calls.py``). Command lines come as JSON on standard input, a list of lists
of words; for each, ``{"code", "out", "err"}`` goes to standard output as JSON, in order. It calls what the program
``flwr`` calls, so nothing here depends on the inside of Flower.
"""

import json
import os
import sys
import tempfile
import traceback
from importlib.metadata import entry_points


def called(words: list[str]) -> dict[str, object]:
    """Run one command line and return its exit code and what it wrote, by whatever way it wrote it."""
    (command,) = entry_points(group="console_scripts", name="flwr")
    code, sys.argv = 0, ["flwr", *words]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        try:
            command.load()()
        except SystemExit as ending:
            code = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
        except Exception:
            traceback.print_exc()
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
        return {"code": code, "out": _written(out.fileno()), "err": _written(err.fileno())}


def _written(handle: int) -> str:
    os.lseek(handle, 0, os.SEEK_SET)
    with os.fdopen(os.dup(handle), "rb") as file:
        return file.read().decode(errors="replace")


def call_flower() -> None:
    """Run all command lines of standard input."""
    with os.fdopen(os.dup(1), "w") as results:
        json.dump([called(words) for words in json.load(sys.stdin)], results)


if __name__ == "__main__":
    call_flower()
