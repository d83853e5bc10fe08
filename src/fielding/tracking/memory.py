"""Where a run is tracked, remembered in its folder, so that a resumed run goes on in the same place."""

import json
from pathlib import Path

from fielding.records.manifest import write_json

NAME = "tracking.json"


def remembered(folder: Path, tracker: str, target: str) -> str | None:
    """Return the place that a run has with a tracker at a target (a server, a folder); None if it has none."""
    place = _places(folder).get(tracker, {}).get(target)
    return place if isinstance(place, str) else None


def remember(folder: Path, tracker: str, target: str, *, place: str) -> None:
    """Write down the place that a run has with a tracker at a target."""
    places = _places(folder)
    places.setdefault(tracker, {})[target] = place
    write_json(folder / NAME, {name: {**targets} for name, targets in places.items()})


def _places(folder: Path) -> dict[str, dict[str, str]]:
    """Return what is written down; nothing if it cannot be read, for then the run gets a new place."""
    try:
        stored = json.loads((folder / NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    items = stored.items() if isinstance(stored, dict) else ()
    return {name: targets for name, targets in items if isinstance(targets, dict)}
