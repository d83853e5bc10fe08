"""The paper's figure on concept drift: half of the clients swap two labels at each event, and accuracy holds or not."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.representations.tasks import Table
from experiments.tables import folder_name, merged
from fielding._typing import Json
from fielding.comparing.sweep import Finished
from fielding.config.keys import Config
from fielding.config.reader import config_from
from fielding.records.logs import read_lines
from fielding.records.run_folder import ROUNDS
from fielding.reporting.numbers.paired import Estimate, estimate, paired_difference

GAP, N_ROUNDS, EVERY = 20, 100, 5
SCENES: dict[str, Table] = {
    "own swaps (the paper)": {"concepts": 0},
    "three sets of meanings": {"concepts": 3},
}
"""Options of concept-swap by what tables call them."""
GLOBAL, ORACLE = "global", "oracle"
REPRESENTED = ("label", "embedding", "gradient", "head-gradient", "confusion", "soft-confusion", "class-means", "auto")
AFTER_EVENT = EVERY
"""Rounds after an event at which accuracy is shown, beside the last round before the next one."""


def rows_on(scene: str) -> dict[str, Table]:
    """Return what is compared, by what tables call it; true groups only where there are some."""
    rows: dict[str, Table] = {GLOBAL: {"method": {"name": GLOBAL}}}
    for name in REPRESENTED:
        # Labels as in the paper: every change is told. The others by the test that suits them.
        told: Table = {"detector": "any-change"} if name == "label" else {}
        rows[f"fielding, {name}"] = {"coordinator": {"representation": name, **told}}
    return {**rows, ORACLE: {"method": {"name": ORACLE}}} if SCENES[scene]["concepts"] else rows


def runs(seeds: Sequence[int], *, size: Table | None = None) -> dict[str, Config]:
    """Return all runs by the name of their folder; ``size`` lies over what they share."""
    base: Table = {
        "rounds": N_ROUNDS,
        "trace": {
            "name": "fashion_mnist",
            "scenario": "concept-swap",
            "share": 0.5,
            "same_samples": True,
            "clients": 60,
            "samples": 100,
            "gap": GAP,
            "window": GAP,
            "held_out": 200,
        },
        "training": {"local_steps": 10, "participants": 20, "momentum": 0.9},
        "serving": {"correction": "prior"},
        "evaluation": {"every": EVERY},
    }
    return {
        run_name(scene, row, seed): config_from(
            merged(base, {"seed": seed, "trace": SCENES[scene]}, settings, size or {})
        )
        for seed in seeds
        for scene in SCENES
        for row, settings in rows_on(scene).items()
    }


def run_name(scene: str, row: str, seed: int) -> str:
    """Return the folder of a run."""
    return f"concepts-{SCENES[scene]['concepts']}-{folder_name(row)}-{seed}"


def final_table(scene: str, seeds: Sequence[int], done: Mapping[str, Finished]) -> list[list[str]]:
    """Return final figures as cells, heads first; a row that failed says why."""
    head = ["", "final accuracy", "against global", "corrected", "ARI", "K at the end", "re-clusterings", "MB up"]
    lines = [head]
    base = _figures([done[run_name(scene, GLOBAL, seed)] for seed in seeds], "final_accuracy")
    for row in rows_on(scene):
        finished = [done[run_name(scene, row, seed)] for seed in seeds]
        failed = [one.error for one in finished if one.summary is None]
        if failed:
            lines.append([row, f"failed: {failed[0]}", *[""] * (len(head) - 2)])
            continue
        final = _figures(finished, "final_accuracy")
        lines.append(
            [
                row,
                _percent(estimate(final)),
                _percent(paired_difference(final, base), sign="+"),
                _percent(estimate(_figures(finished, "final_accuracy_corrected"))),
                estimate(_figures(finished, "final_ari")).words(2),
                f"{estimate(_figures(finished, 'n_clusters_last')).mean:.1f}",
                f"{estimate(_figures(finished, 'reclusterings')).mean:.1f}",
                f"{estimate(_figures(finished, 'bytes_up')).mean / 1e6:.1f}",
            ]
        )
    return lines


def shown_rounds(n_rounds: int, gap: int) -> list[int]:
    """Return how many rounds are done when accuracy is shown: at the end of each gap, and soon after it.

    Examples
    --------
    >>> shown_rounds(60, 20)
    [20, 25, 40, 45, 60]
    """
    ends = range(gap, n_rounds + 1, gap)
    return sorted({after for end in ends for after in (end, end + AFTER_EVENT) if after <= n_rounds})


def course_table(scene: str, seeds: Sequence[int], out: Path, *, shown: Sequence[int] | None = None) -> list[list[str]]:
    """Return accuracy over the rounds as cells, heads first: mean over seeds, raw."""
    at = shown or shown_rounds(N_ROUNDS, GAP)
    lines = [["after round", *map(str, at)]]
    for row in rows_on(scene):
        courses = [accuracies(out / run_name(scene, row, seed)) for seed in seeds]
        known = [[course[one] for course in courses if one in course] for one in at]
        lines.append([row, *(_percent(estimate(values)) if values else "-" for values in known)])
    return lines


def accuracies(folder: Path) -> dict[int, float]:
    """Return the accuracy of a run by the number of rounds done; nothing if it never began."""
    if not (folder / ROUNDS).exists():
        return {}
    rows = list(read_lines(folder / ROUNDS))
    return {int(str(row["round"])) + 1: float(str(row["accuracy"])) for row in rows if row.get("accuracy") is not None}


def _figures(finished: Sequence[Finished], name: str) -> list[float]:
    values: list[Json] = [(one.summary or {}).get(name) for one in finished]
    return [float(value) if isinstance(value, (int, float)) else float("nan") for value in values]


def _percent(one: Estimate, *, sign: str = "") -> str:
    width = "" if one.half_width is None else f" ± {100 * one.half_width:.1f}"
    return f"{100 * one.mean:{sign}.1f}{width}"
