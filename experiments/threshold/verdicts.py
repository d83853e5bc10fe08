"""What the runs came to: tables of triggers, and how learned tau does beside the best fixed one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from experiments.tables import markdown
from experiments.threshold.cases import FIXED, LEARNED, Case
from fielding._typing import Json
from fielding.comparing.sweep import Finished
from fielding.reporting.numbers.paired import Estimate, estimate, paired_difference

HEAD = ("trigger", "final accuracy", "against the best fixed", "re-clusterings", "K at the end")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a case came to, seed by seed; or why it failed."""

    accuracy: tuple[float, ...] = ()
    reclusterings: tuple[float, ...] = ()
    n_clusters: tuple[float, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How learned tau did beside the best fixed one.

    Parameters
    ----------
    best
        The fixed row with the highest mean accuracy (ties: the lower tau).
    behind
        Learned minus best, seed by seed.
    """

    best: str
    behind: Estimate

    @property
    def holds(self) -> bool:
        """Whether the 95 % interval of the difference reaches 0; a single seed tells by its sign."""
        return self.behind.mean + (self.behind.half_width or 0.0) >= 0.0


def outcome(case: Case, done: Mapping[str, Finished], seeds: Sequence[int]) -> Outcome:
    """Return what the runs of a case came to."""
    runs = [done[case.run_name(seed)] for seed in seeds]
    failed = [one.error for one in runs if one.summary is None]
    if failed:
        return Outcome(error=failed[0])
    return Outcome(
        accuracy=_figures(runs, "final_accuracy"),
        reclusterings=_figures(runs, "reclusterings"),
        n_clusters=_figures(runs, "n_clusters_last"),
    )


def _figures(runs: Sequence[Finished], name: str) -> tuple[float, ...]:
    values: list[Json] = [(one.summary or {}).get(name) for one in runs]
    return tuple(float(value) if isinstance(value, (int, float)) else float("nan") for value in values)


def best_fixed(outcomes: Mapping[str, Outcome]) -> str | None:
    """Return the fixed row with the highest mean accuracy, of those that did not fail; ties: the lower tau."""
    means = {row: estimate(outcomes[row].accuracy).mean for row in FIXED if row in outcomes and outcomes[row].accuracy}
    return max(means, key=lambda row: means[row]) if means else None


def verdict(outcomes: Mapping[str, Outcome]) -> Verdict | None:
    """Return how learned tau did beside the best fixed one; None where one of them failed or was not run."""
    best = best_fixed(outcomes)
    learned = outcomes.get(LEARNED)
    if best is None or learned is None or not learned.accuracy:
        return None
    return Verdict(best=best, behind=paired_difference(learned.accuracy, outcomes[best].accuracy))


def rows_of(outcomes: Mapping[str, Outcome]) -> list[list[str]]:
    """Return a table of cells of one ground, detector and noise floor, heads first; rows that failed say why."""
    best = best_fixed(outcomes)
    lines = [list(HEAD)]
    for row, one in outcomes.items():
        if one.error is not None or best is None:
            lines.append([row, f"failed: {one.error}", *[""] * (len(HEAD) - 2)])
            continue
        behind = "best" if row == best else percent(paired_difference(one.accuracy, outcomes[best].accuracy), sign="+")
        counts = (f"{estimate(values).mean:.1f}" for values in (one.reclusterings, one.n_clusters))
        lines.append([row, percent(estimate(one.accuracy)), behind, *counts])
    return lines


def percent(one: Estimate, *, sign: str = "") -> str:
    """Return a share in points, with the half width of its interval.

    Examples
    --------
    >>> percent(estimate([0.5, 0.52]))
    '51.0 ± 12.7'
    """
    width = "" if one.half_width is None else f" ± {100 * one.half_width:.1f}"
    return f"{100 * one.mean:{sign}.1f}{width}"


def side_by_side(off: list[list[str]], on: list[list[str]]) -> list[list[str]]:
    """Return the table without the noise floor, with the figures with it beside; a row that has none has dashes."""
    by_row = {line[0]: line[1:4] for line in on[1:]}
    head = [*off[0], *(f"{name}, floor" for name in HEAD[1:4])]
    return [head, *([*line, *by_row.get(line[0], ["-"] * 3)] for line in off[1:])]


def verdict_line(ground: str, detector: str, floor: str, found: Verdict | None) -> list[str]:
    """Return a line of the table of verdicts."""
    if found is None:
        return [ground, detector, floor, "-", "-", "not known"]
    words = "within the interval or above" if found.holds else "BEHIND"
    return [ground, detector, floor, found.best, percent(found.behind, sign="+"), words]


def tell(done: Mapping[str, Finished], chosen: Sequence[Case], seeds: Sequence[int]) -> None:
    """Print all tables."""
    verdicts = [["ground", "reports", "noise floor", "best fixed", "learned minus best", "verdict"]]
    for ground, detector in dict.fromkeys((case.ground, case.detector) for case in chosen):
        by_floor: dict[str, dict[str, Outcome]] = {}
        for case in chosen:
            if (case.ground, case.detector) == (ground, detector):
                by_floor.setdefault(case.floor, {})[case.row] = outcome(case, done, seeds)
        tables = [rows_of(outcomes) for outcomes in by_floor.values()]
        both = side_by_side(*tables) if len(tables) == 2 else tables[0]
        print(f"\n### {ground}, {detector} reports\n\n{markdown(both)}")
        verdicts += [verdict_line(ground, detector, floor, verdict(found)) for floor, found in by_floor.items()]
    print(f"\n### Verdicts\n\n{markdown(verdicts)}")
