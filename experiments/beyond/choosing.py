"""The best rival of a scenario by each score, on the seeds for choosing alone, and the file that keeps them."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.beyond.rows import ALWAYS, RIVALS
from fielding._typing import Json
from fielding.atomic import replaced_file

SCORES = {"window": "final_accuracy_served", "next": "final_next_accuracy_served"}
"""Names of the figures in ``summary.json``, by score. Each score has a best rival of its own."""
Summary = Mapping[str, Json]
Summaries = Mapping[tuple[str, int], Summary]
"""The summaries of runs that came to their end, by row and seed."""
Bests = Mapping[str, Mapping[str, str]]
"""The best rivals, by scenario and score."""


def figures(found: Summaries, row: str, seeds: Sequence[int], name: str) -> list[float] | None:
    """Return a figure of a row on some seeds; None if one of them is missing."""
    values = [found.get((row, seed), {}).get(name) for seed in seeds]
    known = [float(value) for value in values if isinstance(value, (int, float))]
    return known if len(known) == len(seeds) else None


def mean_figure(found: Summaries, row: str, seeds: Sequence[int], name: str) -> float | None:
    """Return the mean of a figure of a row over some seeds; None if one of them is missing."""
    values = figures(found, row, seeds, name)
    return None if values is None else sum(values) / len(values)


def best_rival(found: Summaries, seeds: Sequence[int], score: str) -> dict[str, Json] | None:
    """Return the rival with the highest mean (ties: the earlier) as ``chosen.json`` has it; None if none is whole.

    ``means`` has the mean of every rival; None for one that cannot be chosen because a run is missing or failed.
    """
    means = {rival: mean_figure(found, rival, seeds, SCORES[score]) for rival in RIVALS}
    known = {rival: mean for rival, mean in means.items() if mean is not None}
    if not known:
        return None
    best = max(known, key=known.__getitem__)  # the first of equals
    return {"rival": best, "mean": known[best], "seeds": list(seeds), "means": {**means}}


def write_choice(path: Path, chosen: Mapping[str, Json]) -> None:
    """Write ``chosen.json``; scenarios that are not in ``chosen`` stay as they were."""
    whole = {**read_choice(path), **chosen}
    with replaced_file(path) as file:
        file.write((json.dumps(whole, indent=2, sort_keys=True) + "\n").encode())


def read_choice(path: Path) -> dict[str, Json]:
    """Return what was chosen so far, by scenario and score; nothing if there is no file."""
    return dict(json.loads(path.read_text())) if path.exists() else {}


def chosen_rivals(path: Path) -> dict[str, dict[str, str]]:
    """Return the best rival of each scenario that has one, by score."""
    return {
        name: {score: str(one["rival"]) for score in SCORES if isinstance(one := by_score.get(score), dict)}
        for name, by_score in read_choice(path).items()
        if isinstance(by_score, dict)
    }


def scored_rows(bests: Mapping[str, str]) -> list[str]:
    """Return the rows that are scored on a scenario: ``auto``, one model, Flash, and the best rival by each score."""
    return list(dict.fromkeys((*ALWAYS, *bests.values())))
