"""Run folders made by hand, and what trackers hold, read back with their own packages."""

import json
from collections.abc import Iterator
from pathlib import Path

from fielding._typing import Json
from fielding.tracking.tracker import Ending, Figures, TrackedRun

CONFIG = 'seed = 7\nrounds = 4\n\n[method]\nname = "fielding"\n\n[trace]\nname = "digits"\nshare = 0.5\n'


def row_of(round_index: int) -> dict[str, Json]:
    """Return a line of ``rounds.jsonl``: the accuracy is in tenths of the round, and only in even ones."""
    accuracy: dict[str, Json] = {"accuracy": round_index / 10} if round_index % 2 == 0 else {}
    return {
        "round": round_index,
        "time_s": 60.0 * (round_index + 1),
        "reclustered": round_index == 2,
        "train_loss": None,
        **accuracy,
    }


def run_folder(folder: Path, n_rounds: int, *, is_complete: bool = False) -> Path:
    """Write a run of so many rounds, with a summary if it is complete, and return its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(CONFIG)
    (folder / "rounds.jsonl").write_text("".join(f"{json.dumps(row_of(at))}\n" for at in range(n_rounds)))
    if is_complete:
        (folder / "summary.json").write_text(
            json.dumps({"method": "fielding", "n_rounds": n_rounds, "final_accuracy": 0.25, "dip": None})
        )
    return folder


class Notebook:
    """A tracker that keeps what it is told, and fails in rounds that it is asked to fail in."""

    name = "notebook"

    def __init__(self, *fails_in: int) -> None:
        self.fails_in = set(fails_in)
        self.rows: dict[int, dict[str, float]] = {}
        self.begun: list[TrackedRun] = []
        self.ended: list[tuple[Ending, dict[str, float]]] = []

    def begin(self, run: TrackedRun) -> int:
        """Return the first round that is not there."""
        self.begun.append(run)
        return max(self.rows, default=-1) + 1

    def add(self, round_index: int, figures: Figures) -> None:
        """Keep a round; a second time would be a mistake of whoever tells."""
        if round_index in self.fails_in:
            self.fails_in.remove(round_index)
            raise ConnectionError("the server at http://me:secret@host is away")
        if round_index in self.rows:
            raise ValueError(f"round {round_index} was told twice")
        self.rows[round_index] = dict(figures)

    def end(self, ending: Ending, figures: Figures) -> None:
        """Keep how it ended."""
        self.ended.append((ending, dict(figures)))


def scalars_in(place: Path) -> dict[str, list[tuple[int, float]]]:
    """Return all scalars in a folder of events by name, raw: nothing is thinned out, and repetitions stay."""
    found: dict[str, list[tuple[int, float]]] = {}
    for step, name, value in _raw_scalars(place):
        found.setdefault(name, []).append((step, value))
    return found


def _raw_scalars(place: Path) -> Iterator[tuple[int, str, float]]:
    from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader

    for path in sorted(place.iterdir()):
        for event in LegacyEventFileLoader(str(path)).Load():
            for value in event.summary.value:
                if value.HasField("simple_value"):
                    yield event.step, value.tag, value.simple_value
