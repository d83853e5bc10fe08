"""What results depend on, written down first, so that a resume with anything else is refused."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from fielding._typing import Json
from fielding.atomic import replaced_file
from fielding.errors import InputError, echo


def write_json(path: Path, record: Mapping[str, Json]) -> None:
    """Write a record for people and programs, whole or not at all."""
    with replaced_file(path) as file:
        file.write(f"{json.dumps(record, indent=2, allow_nan=False)}\n".encode())


def check_manifest(path: Path, manifest: Mapping[str, Json], *, what: str, ignored: Sequence[str] = ()) -> None:
    """Raise if what is in a folder is not what is to go on.

    Parameters
    ----------
    path
        The manifest file.
    manifest
        What it should say.
    what
        What it should be the manifest of, for the message.
    ignored
        Keys that may differ, or be missing: manifests of older versions lack the newer ones.
    """
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({error}); name another folder") from error
    if not isinstance(stored, dict) or (stored.keys() ^ manifest.keys()) - set(ignored):
        raise InputError(f"{path} is not of a {what}; name another folder")
    for key in manifest:  # in their order: the config before the data that follow from it
        differing = "" if key in ignored else difference(stored[key], manifest[key], key)
        if differing:
            raise InputError(f"cannot resume {path.parent}: {differing}")


def difference(stored: Json, now: Json, name: str) -> str:
    """Return the first setting that differs, in words; nothing if all are equal. A missing key is as good as None.

    Examples
    --------
    >>> difference({"seed": 1, "metric": "l1"}, {"seed": 1, "metric": "js"}, "policy")
    "policy.metric was 'l1', now it is 'js'"
    >>> difference({"seed": 1}, {"seed": 1, "file": "a.npz"}, "config")
    "config.file was not given, now it is 'a.npz'"
    """
    if isinstance(stored, dict) and isinstance(now, dict):
        keys = dict.fromkeys([*stored, *now])
        found = (difference(stored.get(key), now.get(key), f"{name}.{key}") for key in keys)
        return next(filter(None, found), "")
    return "" if stored == now else f"{name} was {_told(stored)}, now it is {_told(now)}"


def _told(value: Json) -> str:
    return "not given" if value is None else echo(value)
