"""Versions of the models of clusters in a run folder: the last few as files, a log of all, and pins of operators.

``models/r41-c2.safetensors`` is the model of cluster 2 at the end of round 41, ``models/r41-all.safetensors`` the one
for clients without a cluster. All models of a round are one release. ``models/versions.jsonl`` has a line per release;
``models/pins.jsonl`` one for every pin, and is never cut: the last line about a cluster or a client counts.
"""

import contextlib
import getpass
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from fielding._typing import ClientId, Json, Models
from fielding.atomic import replaced_file
from fielding.errors import InputError, OutputError, echo
from fielding.json_text import parse_json
from fielding.records.model_file import SUFFIX, read_model, write_model
from fielding.training.layout import Layout

FOLDER, VERSIONS, PINS = "models", "versions.jsonl", "pins.jsonl"
FOR_ALL = -1  # in place of a cluster: the model for clients without one
KEPT = 5  # releases whose models stay, beside those that are pinned


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A model of a cluster: made at the end of a round, with how many clients, and how it was tested, if it was."""

    round_index: int
    cluster: int
    n_members: int
    at: str  # when it was written, UTC
    scores: Mapping[str, Json] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What it is called.

        Examples
        --------
        >>> Version(round_index=41, cluster=2, n_members=7, at="").name
        'r41-c2'
        """
        return version_name(self.round_index, self.cluster)


def version_name(round_index: int, cluster: int) -> str:
    """Return the name of the version of a cluster's model of a round."""
    return f"r{round_index}-{'all' if cluster == FOR_ALL else f'c{cluster}'}"


def now_text() -> str:
    """Return the time, UTC, to the second."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class ModelVersions:
    """The versions in the folder of a run."""

    def __init__(self, run_folder: Path) -> None:
        self._folder = run_folder / FOLDER

    # ---- releases --------------------------------------------------------------------------------------------------

    def release(
        self, versions: Sequence[Version], models: Models, layout: Layout, manifest: Mapping[str, Json] | None = None
    ) -> None:
        """Write all models of a round, then the line that tells of them, then let go of old ones.

        A line of the same round or a later one, of a server that was killed before it committed the round, is replaced.
        """
        try:
            self._folder.mkdir(exist_ok=True)
        except OSError as error:
            raise OutputError(f"cannot make {self._folder}: {error.strerror or error}") from error
        for version, model in zip(versions, models, strict=True):
            about: dict[str, Json] = {"version": version.name, "at": version.at, "scores": dict(version.scores)}
            write_model(model, layout, self.path(version.name), manifest, about)
        line: dict[str, Json] = {
            "round": versions[0].round_index,
            "at": versions[0].at,
            "clusters": [
                {"cluster": one.cluster, "members": one.n_members, "scores": dict(one.scores)} for one in versions
            ],
        }
        lines = [one for one in _lines(self._folder / VERSIONS) if _round_of(one) < versions[0].round_index]
        with replaced_file(self._folder / VERSIONS) as file:
            file.write("".join(f"{json.dumps(one, allow_nan=False)}\n" for one in (*lines, line)).encode())
        kept = {f"r{_round_of(one)}" for one in (*lines, line)[-KEPT:]}
        kept |= {name.partition("-")[0] for name in self.pins().values()}
        for path in self._folder.glob(f"r*{SUFFIX}"):
            if path.stem.partition("-")[0] not in kept:
                with contextlib.suppress(OSError):
                    path.unlink()

    def path(self, name: str) -> Path:
        """Return the file of a version."""
        return self._folder / f"{name}{SUFFIX}"

    def releases(self) -> list[list[Version]]:
        """Return all versions that there ever were, the oldest release first; of many the models are gone."""
        found = []
        for line in _lines(self._folder / VERSIONS):
            clusters = line.get("clusters")
            found.append(
                [
                    Version(
                        round_index=_round_of(line),
                        cluster=int(str(one["cluster"])),
                        n_members=int(str(one["members"])),
                        at=str(line.get("at", "")),
                        scores=scores if isinstance(scores := one.get("scores"), dict) else {},
                    )
                    for one in (clusters if isinstance(clusters, list) else [])
                    if isinstance(one, dict)
                ]
            )
        return [one for one in found if one]

    def find(self, name: str) -> Version:
        """Return a version whose model is there, or raise."""
        known = [one for release in self.releases() for one in release]
        for version in known:
            if version.name == name and self.path(name).exists():
                return version
        there = [one.name for one in known if self.path(one.name).exists()]
        raise InputError(f"there is no version {echo(name)}; there are {', '.join(there[-10:]) or 'none'}")

    def models(self, versions: Sequence[Version], layout: Layout) -> Models:
        """Return the models of versions, a row each, or raise if one is gone."""
        return np.stack([read_model(self.path(one.name), layout) for one in versions])

    # ---- pins ------------------------------------------------------------------------------------------------------

    def pin(self, target: tuple[str, str], version: str | None, *, by: str | None = None) -> None:
        """Pin a cluster or a client, as ``("cluster", "2")``, to a version; None: to the newest again."""
        kind, which = target
        line: dict[str, Json] = {"at": now_text(), "by": by or _user(), kind: which, "version": version}
        try:
            self._folder.mkdir(exist_ok=True)
            # One write at the end: nothing that was recorded before can be lost.
            handle = os.open(self._folder / PINS, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                size = os.fstat(handle).st_size
                is_cut = size > 0 and os.pread(handle, 1, size - 1) != b"\n"  # by a crash: it stays a line of its own
                os.write(handle, f"{chr(10) if is_cut else ''}{json.dumps(line)}\n".encode())
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            raise OutputError(f"cannot write {self._folder / PINS}: {error.strerror or error}") from error

    def pins(self) -> dict[tuple[str, str], str]:
        """Return the version that each cluster or client is pinned to."""
        found: dict[tuple[str, str], str] = {}
        for line in self.pin_lines():
            target = ("client", str(line["client"])) if "client" in line else ("cluster", str(line.get("cluster")))
            if isinstance(version := line.get("version"), str):
                found[target] = version
            else:
                found.pop(target, None)
        return found

    def pin_lines(self) -> list[dict[str, Json]]:
        """Return all pins that ever were, with who and when."""
        return _lines(self._folder / PINS)

    def pins_changed_at(self) -> int:
        """Return a number that is another one after a pin."""
        try:
            found = (self._folder / PINS).stat()
        except OSError:
            return 0
        return found.st_mtime_ns ^ found.st_size


def pinned_version(pins: Mapping[tuple[str, str], str], client: ClientId | None, cluster: int | None) -> str | None:
    """Return the version that a client is pinned to, by itself or with its cluster; None for the newest."""
    by_client = None if client is None else pins.get(("client", str(client)))
    return by_client or (None if cluster is None else pins.get(("cluster", str(cluster))))


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return "unknown"


def _round_of(line: Mapping[str, Json]) -> int:
    return int(str(line["round"]))


def _lines(path: Path) -> list[dict[str, Json]]:
    """Return the lines of a file that are whole; none if it is not there."""
    try:
        texts = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path}: {error}") from error
    found: list[dict[str, Json]] = []
    for text in texts:
        with contextlib.suppress(ValueError):  # a line that a crash cut short
            record = parse_json(text)
            if isinstance(record, dict):
                found.append(record)
    return found
