"""What results depend on, written down first, so that a resume with anything else is refused."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from fielding._typing import Json
from fielding.atomic import check_no_pipe, replaced_file
from fielding.errors import FileFormatError, InputError, echo
from fielding.json_text import parse_json
from fielding.traces.reports import ReportStream

_SIZE = 16


def file_digest(path: Path) -> str:
    """Return the blake2b digest of a file's bytes, as hexadecimal text."""
    digest = hashlib.blake2b(digest_size=_SIZE)
    try:
        with path.open("rb") as file:
            while piece := file.read(1 << 20):
                digest.update(piece)
    except OSError as error:
        raise FileFormatError(f"cannot read {path}: {error.strerror or error}") from error
    return digest.hexdigest()


def stream_digest(stream: ReportStream) -> str:
    """Return the blake2b digest of a stream of reports that was never a file."""
    digest = hashlib.blake2b(repr(stream.client_ids).encode(), digest_size=_SIZE)
    for array in (stream.step, stream.client, stream.representations):
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def write_json(path: Path, record: Mapping[str, Json]) -> None:
    """Write a record for people and programs, whole or not at all."""
    with replaced_file(path) as file:
        file.write(f"{json.dumps(record, indent=2, allow_nan=False)}\n".encode())


def read_json(path: Path) -> dict[str, Json]:
    """Return a record that :func:`write_json` wrote; nothing if there is none, or it is damaged."""
    try:
        check_no_pipe(path)
        found = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def check_manifest(
    path: Path,
    manifest: Mapping[str, Json],
    *,
    what: str,
    ignored: Sequence[str] = (),
    part: Callable[[Mapping[str, Json]], Mapping[str, Json]] = dict,
) -> dict[str, Json]:
    """Return the manifest in a file, or raise if it is not that of what is to go on: a ``what``, for the message.

    ``ignored`` keys may differ, or be missing: manifests of older versions lack the newer ones. ``part``: what of a
    manifest is compared; all by default.
    """
    try:
        check_no_pipe(path)
        stored = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({error}); name another folder") from error
    before, now = part(stored) if isinstance(stored, dict) else {}, part(manifest)
    if not isinstance(stored, dict) or (before.keys() ^ now.keys()) - set(ignored):
        raise InputError(f"{path} is not of a {what}; name another folder")
    for key in now:  # in their order
        differing = "" if key in ignored else first_difference(before[key], now[key], key)
        if differing:
            raise InputError(f"cannot resume {path.parent}: {differing}")
    return stored


def first_difference(stored: Json, now: Json, name: str) -> str:
    """Return the first setting that differs, in words; nothing if all are equal. A missing key is as good as None.

    Examples
    --------
    >>> first_difference({"seed": 1, "metric": "l1"}, {"seed": 1, "metric": "js"}, "policy")
    "policy.metric was 'l1', now it is 'js'"
    >>> first_difference({"seed": 1}, {"seed": 1, "file": "a.npz"}, "config")
    "config.file was not given, now it is 'a.npz'"
    """
    if isinstance(stored, dict) and isinstance(now, dict):
        keys = dict.fromkeys([*stored, *now])
        found = (first_difference(stored.get(key), now.get(key), f"{name}.{key}") for key in keys)
        return next(filter(None, found), "")
    before, after = ("not given" if value is None else echo(value) for value in (stored, now))
    return "" if stored == now else f"{name} was {before}, now it is {after}"
