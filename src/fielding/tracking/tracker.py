"""What a tracker is told of a run: its config, the numbers of every round by name, and how it ended."""

import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from fielding._typing import Json
from fielding.errors import InputError
from fielding.json_text import parse_json
from fielding.records.manifest import write_json
from fielding.records.run_folder import CONFIG

NAME = "tracking.json"
Figures: TypeAlias = Mapping[str, float]  # numbers by name; the same names in every tracker
Ending: TypeAlias = Literal["complete", "stopped", "failed"]
"""How a run ended: it has its summary; it was stopped and can go on; an error ended it."""
SUMMARY_PREFIX = "summary/"  # what the names of a summary's figures begin with
ALWAYS_THERE = "time_s"  # a figure of every round


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedRun:
    """A run as trackers see it: its folder, all keys of its config as tables in tables, and the same as TOML."""

    folder: Path
    config: Mapping[str, Json]
    config_text: str

    @property
    def name(self) -> str:
        """What to call it: the name of its folder."""
        return self.folder.resolve().name

    @property
    def method(self) -> str:
        """The name of its method."""
        section = self.config.get("method")
        return str(section.get("name", "")) if isinstance(section, dict) else ""


class Tracker(Protocol):
    """Shows runs somewhere else while they go on. It may raise whatever it likes: the run goes on without it."""

    @property
    def name(self) -> str:
        """What users call it."""
        ...

    def begin(self, run: TrackedRun) -> int:
        """Open the place of a run, an old one if it was tracked before; return the first round that is not there."""
        ...

    def add(self, round_index: int, figures: Figures) -> None:
        """Take the figures of a round; rounds come in their order, each once."""
        ...

    def end(self, ending: Ending, figures: Figures) -> None:
        """Take the figures of the summary, none if the run is not complete, and close the place."""
        ...


@runtime_checkable
class Placed(Protocol):
    """A tracker that can tell where it writes; trackers need not be able to."""

    def place(self, folder: Path) -> str:
        """Return where the runs in a folder, or the one in it, are shown, and how to look at them."""
        ...


def tracked_run(folder: Path) -> TrackedRun:
    """Return a run by its folder."""
    try:
        text = (folder / CONFIG).read_text(encoding="utf-8")
        return TrackedRun(folder=folder, config=tomllib.loads(text), config_text=text)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {folder / CONFIG}: {error}") from error


def figures_of(record: Mapping[str, Json], prefix: str = "") -> dict[str, float]:
    """Return the numbers of a line of ``rounds.jsonl`` or of a summary, under the names that all trackers use.

    Yes and no become 1 and 0; tables within are named ``outer/inner``. What is no number is left out, and so is the
    round itself, which is the step. Characters that MLflow refuses in names become ``_``.

    Examples
    --------
    >>> figures_of({"round": 3, "accuracy": 0.5, "reclustered": True, "train_loss": None, "failed": [1, 2]})
    {'accuracy': 0.5, 'reclustered': 1.0}
    >>> figures_of({"method": "fielding", "moves": 4, "bytes": {"models": 10}}, "summary/")
    {'summary/moves': 4.0, 'summary/bytes/models': 10.0}
    """
    found: dict[str, float] = {}
    for key, value in record.items():
        name = f"{prefix}{plain_name(key)}"
        if isinstance(value, dict):
            found |= figures_of(value, f"{name}/")
        elif isinstance(value, (bool, int, float)) and name != "round" and math.isfinite(value):
            found[name] = float(value)
    return found


def plain_name(name: str) -> str:
    """Return a name without the characters that a tracker might refuse.

    Examples
    --------
    >>> plain_name("share of <b>")
    'share of _b_'
    """
    return re.sub(r"[^\w./ -]", "_", name)


def recall_place(folder: Path, tracker: str, target: str) -> str | None:
    """Return the place that a run has with a tracker at a target (a server, a folder); None if it has none."""
    place = _places(folder).get(tracker, {}).get(target)
    return place if isinstance(place, str) else None


def remember_place(folder: Path, tracker: str, target: str, *, place: str) -> None:
    """Write down the place that a run has with a tracker at a target."""
    places = _places(folder)
    places.setdefault(tracker, {})[target] = place
    write_json(folder / NAME, {name: {**targets} for name, targets in places.items()})


def _places(folder: Path) -> dict[str, dict[str, str]]:
    """Return what is written down; nothing if it cannot be read, for then the run gets a new place."""
    try:
        stored = parse_json((folder / NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    items = stored.items() if isinstance(stored, dict) else ()
    return {name: targets for name, targets in items if isinstance(targets, dict)}
