"""The best rival of a scenario, by the seeds for choosing alone, and the file that keeps it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.beyond.rows import RIVALS
from fielding._typing import Json
from fielding.atomic import replaced_file

FIGURES = {"raw": "final_accuracy", "corrected": "final_accuracy_corrected"}
"""Both come from the same run; every rival counts by whichever is better for it."""
Summary = Mapping[str, Json]
Summaries = Mapping[tuple[str, int], Summary]
"""The summaries of runs that came to their end, by row and seed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """The best rival of a scenario.

    Parameters
    ----------
    rival
        Which row.
    how
        ``"raw"`` or ``"corrected"``.
    means
        Mean accuracy of every rival over the seeds for choosing, raw and corrected; None for one that cannot be chosen
        because a run is missing or failed.
    """

    rival: str
    how: str
    means: Mapping[str, Mapping[str, float | None]]

    def record(self, seeds: Sequence[int]) -> dict[str, Json]:
        """Return it for ``chosen.json``."""
        means: dict[str, Json] = {rival: dict(both) for rival, both in self.means.items()}
        return {
            "rival": self.rival,
            "how": self.how,
            "mean": self.means[self.rival][self.how],
            "seeds": list(seeds),
            "means": means,
        }


def accuracy(summary: Summary | None, how: str) -> float | None:
    """Return the final accuracy of a run, raw or corrected; None if there is none."""
    value = None if summary is None else summary.get(FIGURES[how])
    return float(value) if isinstance(value, (int, float)) else None


def accuracies(found: Summaries, row: str, seeds: Sequence[int], how: str) -> list[float] | None:
    """Return the final accuracies of a row on some seeds; None if one of them is missing."""
    values = [value for seed in seeds if (value := accuracy(found.get((row, seed)), how)) is not None]
    return values if len(values) == len(seeds) else None


def best_rival(found: Summaries, seeds: Sequence[int]) -> Best | None:
    """Return the rival with the highest mean, raw or corrected (ties: the earlier, raw); None if none is whole."""
    means: dict[str, dict[str, float | None]] = {}
    for rival in RIVALS:
        values = {how: accuracies(found, rival, seeds, how) for how in FIGURES}
        means[rival] = {how: None if one is None else sum(one) / len(one) for how, one in values.items()}
    ranked = [(mean, rival, how) for rival, both in means.items() for how, mean in both.items() if mean is not None]
    if not ranked:
        return None
    _, rival, how = max(ranked, key=lambda one: one[0])  # the first of equals
    return Best(rival=rival, how=how, means=means)


def write_choice(path: Path, chosen: Mapping[str, Json]) -> None:
    """Write ``chosen.json``; scenarios that are not in ``chosen`` stay as they were."""
    whole = {**read_choice(path), **chosen}
    with replaced_file(path) as file:
        file.write((json.dumps(whole, indent=2, sort_keys=True) + "\n").encode())


def read_choice(path: Path) -> dict[str, Json]:
    """Return what was chosen so far, by scenario; nothing if there is no file."""
    return dict(json.loads(path.read_text())) if path.exists() else {}
