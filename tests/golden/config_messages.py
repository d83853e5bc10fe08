"""What users are told about a config with a mistake; run as a script it renews the golden file.

The mistakes (:mod:`tests.golden.config_mistakes`) go in by the doors that users have: `fielding.run`,
`fielding.compare` and the command line.
"""

import contextlib
import io
import json
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from fielding import FieldingError, Own, Pool, compare, run
from fielding.cli import main
from tests.golden.config_mistakes import (
    CHANGES,
    COMPARED,
    FILES,
    SMALL,
    SPECIAL,
    TINY,
    TOP,
    VARIANTS,
    Table,
    key_mistakes,
    option_mistakes,
    shown,
)

GOLDEN = Path(__file__).with_name("config_messages.json")
TAKEN = "taken"
"""What stands for a message where there is none."""
NOBODY = "nobody at all"
"""A reference that no comparison has: what gets as far as that has no mistake that is told before."""


def messages() -> dict[str, str]:
    """Return what is told of every mistake, by a name that begins with the door."""
    with scratch() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of values that are taken, but make no sense
        told = dict(_told(folder))
    return {name: plain(message, folder) for name, message in told.items()}


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """Make an empty folder the current one, which also is where data sets are looked for."""
    before = list(sys.path)
    with tempfile.TemporaryDirectory(prefix="fielding-golden-") as name:
        folder = Path(name).resolve()
        for file in ("empty.csv", "empty.npz"):
            (folder / file).touch()
        (folder / "small.toml").write_text(SMALL)
        surroundings = {"FIELDING_DATA": str(folder / "data"), "COLUMNS": "120", "NO_COLOR": "1"}
        with contextlib.chdir(folder), mock.patch.dict(os.environ, surroundings):
            yield folder
    sys.path[:] = before  # to which commands add the current folder


def plain(message: str, folder: Path) -> str:
    """Return a message without what differs between machines and versions of Python."""
    return re.sub(r"( is no TOML:) .*", r"\1 ...", message.replace(str(folder), "FOLDER"))


def _told(folder: Path) -> Iterator[tuple[str, str]]:
    for name, table in key_mistakes():
        yield f"run: {name}", told_by_run(table)
    for name, table in (SPECIAL | TOP).items():
        yield f"run: {name}", told_by_run(table)
        yield f"compare: {name}", told_by_compare(table)
    for heading, name, table in option_mistakes():
        # Methods look at the values of their options only when they begin.
        if heading == "Methods":
            yield f"run: {name}", told_by_run(table, own_samples())
        else:
            yield f"compare: {name}", told_by_compare(table)
    for name, variants in VARIANTS.items():
        yield f"compare variants: {name}", told_by_compare(TINY, variants)
    for name, content in FILES.items():
        (folder / "mine.toml").write_bytes(content)
        yield f"fielding run: {name}", told_by_command("run", "mine.toml", "--out", "out", "--no-page", "--quiet")
    for name in ("none.toml", "."):
        yield f"fielding run: {name}", told_by_command("run", name, "--out", "out")
    for change in CHANGES:
        words = ("run", "small.toml", "--out", "out", "--no-page", "--quiet", "--set", change)
        yield f"fielding run --set {shown(change)}", told_by_command(*words)
    for name, options in COMPARED.items():
        blocked = options if "--reference" in options else [*options, "--reference", NOBODY]
        command = ("compare", "small.toml", "--out", "out", "--no-page", "--quiet", *blocked)
        yield f"fielding compare: {name}", told_by_command(*command)


def own_samples() -> Own:
    """Return a few samples, which are dealt faster than the digits."""
    y = np.arange(60, dtype=np.int32) % 3
    return Own(samples=Pool(x=np.eye(3, dtype=np.float32)[y], y=y, classes=("a", "b", "c")))


def told_by_run(table: Table, own: Own | None = None) -> str:
    """Return what the user of Python is told when a table is run; a run without a mistake ends with its first round."""
    try:
        run(table, own=own, watch=lambda _row: False)
    except Exception as error:
        return _named(error)
    return TAKEN


def told_by_compare(table: Table, variants: Any = None) -> str:
    """Return what the user of Python is told when a table is compared; nothing is ever run."""
    try:
        compare(table, variants, seeds=1, out="out", reference=NOBODY)
    except Exception as error:
        return TAKEN if NOBODY in str(error) else _named(error)
    return "CRASH: something was run"


def _named(error: Exception) -> str:
    """Return an error with its name; whatever is not raised on purpose is no message."""
    return f"{'' if isinstance(error, FieldingError) else 'CRASH: '}{type(error).__name__}: {error}"


def told_by_command(*words: str) -> str:
    """Return what a command writes, and how it ends."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["fielding", *words]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
            code: object = 0
        except SystemExit as ended:
            code = ended.code or 0
        except Exception as error:
            code = _named(error)
    if NOBODY in err.getvalue():
        return TAKEN
    return f"exit {code}: {out.getvalue()}{err.getvalue()}".strip()


def write_golden(told: dict[str, str], path: Path) -> None:
    """Renew the golden file."""
    path.write_text(json.dumps(told, indent=0, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_golden(messages(), GOLDEN)
