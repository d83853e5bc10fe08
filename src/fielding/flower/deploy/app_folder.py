"""The folder of a Flower app: read and checked before anything is started for it."""

import shutil
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fielding import _version
from fielding._typing import Json
from fielding.atomic import make_private
from fielding.errors import InputError, OptionError, OutputError, echo
from fielding.records.run_folder import SUMMARY, check_changes, read_manifest

PROJECT = "pyproject.toml"
DEFAULT_MIN_NODES = 2  # number of nodes that an app waits for if its config does not say
LEAST_BYTES = 16_000_000  # what must be free on the disk of a federation, in bytes
_COMPONENTS = ("serverapp", "clientapp")
_SURE = ("rounds", "seed")  # keys by which the config of a run can be told from another before the app itself is loaded


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AppFolder:
    """A Flower app: its folder, and its ``[tool.flwr.app.config]``."""

    path: Path
    config: Mapping[str, Any]

    def overrides(self, out: Path, *, n_nodes: int, rounds: int | None = None) -> dict[str, str | int | float | bool]:
        """Return what to change in the settings so that the app runs into a folder, on so many nodes.

        An app that would wait for more nodes than there are waits for those that there are.

        Raises
        ------
        OptionError
            If the app has no such setting: Flower changes only those that are there.
        """
        changes: dict[str, str | int | float | bool] = {"out": str(out)}
        if rounds is not None:
            changes["rounds"] = rounds
        least = self.config.get("min-nodes", DEFAULT_MIN_NODES)
        if type(least) is int and least > n_nodes:
            changes["min-nodes"] = n_nodes
        for key, value in changes.items():
            if key not in self.config:
                raise OptionError(
                    f"{self.path / PROJECT} has no {key} under [tool.flwr.app.config], so it cannot be set to "
                    f"{echo(value)}; put one there"
                )
        return changes

    def check_run(self, out: Path, rounds: int | None) -> None:
        """Raise if a run folder holds a run that this app, with so many rounds, cannot be going on with.

        Only what is sure without loading the app is told here; the app itself tells the rest.

        Raises
        ------
        InputError
            If it was begun with another seed, or more rounds are done than are wanted.
        """
        wanted: dict[str, Json] = {key: self.config[key] for key in _SURE if type(self.config.get(key)) is int}
        if rounds is not None:
            wanted["rounds"] = rounds
        stored = read_manifest(out)
        if isinstance(config := stored.get("config"), dict):
            check_changes(out, {**stored, "config": {**config, **wanted}})

    def is_complete(self, out: Path, rounds: int | None) -> bool:
        """Return whether a run folder holds a run that came to its end, and no more rounds are wanted."""
        config = read_manifest(out).get("config")
        stored = config.get("rounds") if isinstance(config, dict) else None
        wanted = self.config.get("rounds") if rounds is None else rounds
        return (out / SUMMARY).is_file() and (wanted == stored or type(wanted) is not int)


def read_app(folder: Path) -> AppFolder:
    """Return the app in a folder.

    Raises
    ------
    InputError
        If there is none, or Flower would not take it.
    """
    path = folder / PROJECT
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{folder} holds no {PROJECT}; name the folder of a Flower app") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"cannot read {path}: {error}") from None
    app = _table(table, "tool", "flwr", "app")
    if not app:
        raise InputError(f"{path} has no [tool.flwr.app]; name the folder of a Flower app")
    components = _table(app, "components")
    for name in _COMPONENTS:
        module, colon, attribute = str(components.get(name, "")).partition(":")
        if not (module and colon and attribute):
            raise InputError(
                f'{path} names no {name} under [tool.flwr.app.components]; give one as "package.module:app"'
            )
    return AppFolder(path=folder, config=_table(app, "config"))


def shipped_app() -> Path:
    """Return the folder of the example: in the installed package, or beside it in a clone.

    Raises
    ------
    InputError
        If it is in neither.
    """
    package = Path(_version.__file__).parent
    for folder in (package / "flower" / "example", package.parent.parent / "examples" / "flower"):
        if (folder / PROJECT).is_file():
            return folder
    raise InputError(f"the example app did not come with {package}; name the folder of a Flower app with --app")


def check_writable(folder: Path) -> None:
    """Raise if nothing can be written into a folder, which is made if need be."""
    trial = folder / ".fielding-trial"
    try:
        make_private(folder)
        trial.write_bytes(b"\0" * 4096)
        trial.unlink()
    except OSError as error:
        raise OutputError(f"cannot write into {folder}: {error.strerror or error}; name another folder") from error


def check_room(folder: Path) -> None:
    """Raise if a disk has too little room for a federation's database, logs and states.

    Raises
    ------
    OutputError
        A full disk shows as anything in the processes that meet it, so it is looked for here.
    """
    free = shutil.disk_usage(folder).free
    if free < LEAST_BYTES:
        raise OutputError(
            f"the disk of {folder} has {free:,} bytes left, and a federation needs {LEAST_BYTES:,}; make room, or name "
            "another folder"
        )


def _table(table: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    """Return the table below some keys; an empty one if there is none."""
    for key in keys:
        inner = table.get(key)
        table = inner if isinstance(inner, Mapping) else {}
    return table
