"""The tables: rivals on the seeds for choosing, verdicts on the seeds for scoring, costs, and parts switched off."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from experiments.beyond.choosing import FIGURES, Summaries, accuracies
from experiments.beyond.rows import AUTO, GLOBAL, PARTS, REFERENCES, RIVALS
from experiments.beyond.traffic import Traffic
from fielding.reporting.numbers.paired import Estimate, estimate, paired_difference

Cells = list[list[str]]
MARGIN = 0.01
"""An interval below minus this is a defeat that counts."""
LEAST_SILENT = 0.99
LONGEST_S = 45.0
NOT_RUN = "-"
VERDICT_HEAD = (
    "scenario",
    "best rival",
    "its accuracy",
    "auto, raw",
    "auto, corrected",
    "auto minus best rival",
    "verdict",
    "interval below -1",
    "auto minus global, corrected",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How ``auto``, corrected, does against the best rival of a scenario.

    Parameters
    ----------
    difference
        Accuracy of ``auto`` minus that of the rival, seed by seed.
    """

    difference: Estimate

    @property
    def low(self) -> float:
        """The lower end of the 95 % interval; that of a single seed is unknown, so minus infinity."""
        half = self.difference.half_width
        return float("-inf") if half is None else self.difference.mean - half

    @property
    def high(self) -> float:
        """The upper end."""
        half = self.difference.half_width
        return float("inf") if half is None else self.difference.mean + half

    @property
    def word(self) -> Literal["ahead", "level", "behind"]:
        """What the interval says."""
        return "ahead" if self.low > 0.0 else "behind" if self.high < 0.0 else "level"

    @property
    def is_below(self) -> bool:
        """Whether the whole interval lies below -1 point."""
        return self.high < -MARGIN

    @property
    def reaches_below(self) -> bool:
        """Whether a part of it does."""
        return self.low < -MARGIN


def verdict(found: Summaries, best: tuple[str, str], seeds: Sequence[int]) -> Verdict | None:
    """Return the verdict on a scenario; None if a run is missing.

    Parameters
    ----------
    found
        Summaries of the runs for scoring.
    best
        The best rival, and whether raw or corrected.
    seeds
        For scoring.
    """
    ours, theirs = accuracies(found, AUTO, seeds, "corrected"), accuracies(found, best[0], seeds, best[1])
    return None if ours is None or theirs is None else Verdict(difference=paired_difference(ours, theirs))


def rival_cells(by_scenario: Mapping[str, Summaries], seeds: Sequence[int]) -> Cells:
    """Return raw / corrected accuracy of all rivals, a column per scenario; its best is bold."""
    lines = [["method", *by_scenario]]
    best = {
        name: max((mean for row in RIVALS for mean in _both(found, row, seeds) if mean is not None), default=None)
        for name, found in by_scenario.items()
    }
    for row in (*RIVALS, *REFERENCES):
        lines.append([row, *(_pair(_both(found, row, seeds), best[name]) for name, found in by_scenario.items())])
    return lines


def verdict_cells(
    by_scenario: Mapping[str, Summaries], bests: Mapping[str, tuple[str, str]], seeds: Sequence[int]
) -> Cells:
    """Return ``auto`` against the best rival and against the corrected global model, a line per scenario."""
    lines = [list(VERDICT_HEAD)]
    for name, found in by_scenario.items():
        best = bests.get(name)
        result = None if best is None else verdict(found, best, seeds)
        against_global = verdict(found, (GLOBAL, "corrected"), seeds)
        lines.append(
            [
                name,
                NOT_RUN if best is None else f"{best[0]}, {best[1]}",
                NOT_RUN if best is None else _percent(accuracies(found, best[0], seeds, best[1])),
                *(_percent(accuracies(found, AUTO, seeds, how)) for how in FIGURES),
                NOT_RUN if result is None else points(result.difference),
                "not run" if result is None else result.word,
                NOT_RUN if result is None else _below(result),
                NOT_RUN if against_global is None else points(against_global.difference),
            ]
        )
    return lines


def conclusion(verdicts: Mapping[str, Verdict | None], silent: Sequence[float], walls: Sequence[float]) -> list[str]:
    """Return what the proof asks for, a line each, with whether it holds.

    Parameters
    ----------
    verdicts
        By scenario.
    silent
        Per seed, the share of client-rounds of ``auto`` in the static scenario that sent nothing.
    walls
        Seconds of all runs.
    """
    known = {name: one for name, one in verdicts.items() if one is not None}
    words = [one.word for one in known.values()]
    n_higher = sum(one.difference.mean > 0.0 for one in known.values())
    below = [name for name, one in known.items() if one.is_below]
    reaching = [name for name, one in known.items() if one.reaches_below]
    counts = ", ".join(f"{word} {words.count(word)}" for word in ("ahead", "level", "behind"))
    return [
        f"scored: {len(known)} of {len(verdicts)} scenarios; {counts}; higher mean on {n_higher}",
        f"whole interval below -1 point: {', '.join(below) or 'nowhere'}",
        f"interval reaches below -1 point: {', '.join(reaching) or 'nowhere'}",
        _silent_line(silent),
        f"longest run: {max(walls):.0f} s ({_holds(max(walls) <= LONGEST_S)}: at most {LONGEST_S:.0f} s)"
        if walls
        else "longest run: not known",
    ]


def cost_cells(
    by_scenario: Mapping[str, Summaries], bests: Mapping[str, tuple[str, str]], seeds: Sequence[int]
) -> Cells:
    """Return what ``auto``, the best rival and the global model cost, means over the seeds."""
    names = ["MB up", "MB down", "client hours", "K at the end", "reports", "moves", "re-clusterings"]
    lines = [["scenario", "method", *names]]
    for name, found in by_scenario.items():
        rows = dict.fromkeys((AUTO, *([bests[name][0]] if name in bests else []), GLOBAL))
        lines += [[name, row, *_costs(found, row, seeds)] for row in rows]
    return lines


def traffic_cells(by_scenario: Mapping[str, Mapping[int, Traffic]]) -> Cells:
    """Return what clients of ``auto`` sent beside trained models, sums over the seeds that were run."""
    lines = [
        [
            "scenario",
            "client-rounds",
            "reports",
            "of these joins",
            "guard answers, at most",
            "kB beside models",
            "silent",
        ]
    ]
    for name, by_seed in by_scenario.items():
        many = list(by_seed.values())
        if not many:
            lines.append([name, *[NOT_RUN] * 6])
            continue
        total = Traffic(
            n_client_rounds=sum(one.n_client_rounds for one in many),
            n_reports=sum(one.n_reports for one in many),
            n_joins=sum(one.n_joins for one in many),
            most_judged=sum(one.most_judged for one in many),
            beside_bytes=sum(one.beside_bytes for one in many),
        )
        counts = (total.n_client_rounds, total.n_reports, total.n_joins, total.most_judged)
        lines.append([name, *map(str, counts), f"{total.beside_bytes / 1000:.0f}", f"{100 * total.silent_share:.2f} %"])
    return lines


def part_cells(by_scenario: Mapping[str, Summaries], seeds: Sequence[int]) -> Cells:
    """Return ``auto``, then what it gains or loses (points; per seed) when one part is switched off."""
    lines = [["method", *by_scenario], [AUTO], ["auto, not corrected"], *([part] for part in PARTS if part != AUTO)]
    for found in by_scenario.values():
        ours = accuracies(found, AUTO, seeds, "corrected")
        lines[1].append(_percent(ours))
        others = [(AUTO, "raw"), *((part, "corrected") for part in PARTS if part != AUTO)]
        for line, (row, how) in zip(lines[2:], others, strict=True):
            theirs = accuracies(found, row, seeds, how)
            line.append(NOT_RUN if ours is None or theirs is None else _by_seed(paired_difference(theirs, ours)))
    return lines


def points(one: Estimate) -> str:
    """Return a difference of accuracies in points.

    Examples
    --------
    >>> points(estimate([0.01, 0.02, 0.03]))
    '+2.0 ± 2.5'
    """
    width = "" if one.half_width is None else f" ± {100 * one.half_width:.1f}"
    return f"{100 * one.mean:+.1f}{width}"


def _by_seed(one: Estimate) -> str:
    """Return a mean with what it is made of: an interval from two seeds says nothing."""
    return f"{100 * one.mean:+.1f} ({', '.join(f'{100 * value:+.1f}' for value in one.per_seed)})"


def _percent(values: Sequence[float] | None) -> str:
    return NOT_RUN if values is None else points(estimate(values)).removeprefix("+")


def _both(found: Summaries, row: str, seeds: Sequence[int]) -> list[float | None]:
    both = (accuracies(found, row, seeds, how) for how in FIGURES)
    return [None if values is None else sum(values) / len(values) for values in both]


def _pair(means: Sequence[float | None], best: float | None) -> str:
    words = [NOT_RUN if mean is None else f"{100 * mean:.1f}" for mean in means]
    return " / ".join(
        f"**{word}**" if mean is not None and mean == best else word for word, mean in zip(words, means, strict=True)
    )


def _below(result: Verdict) -> str:
    return "yes" if result.is_below else "in part" if result.reaches_below else "no"


def _costs(found: Summaries, row: str, seeds: Sequence[int]) -> list[str]:
    figures = (
        ("bytes_up", 1e6, 1),
        ("bytes_down", 1e6, 1),
        ("client_seconds", 3600.0, 1),
        ("n_clusters_last", 1.0, 1),
        ("n_reports", 1.0, 0),
        ("moves", 1.0, 0),
        ("reclusterings", 1.0, 1),
    )
    cells: list[str] = []
    for name, unit, places in figures:
        values = [value for seed in seeds if isinstance(value := found.get((row, seed), {}).get(name), (int, float))]
        cells.append(f"{sum(values) / len(values) / unit:.{places}f}" if values else NOT_RUN)
    return cells


def _silent_line(silent: Sequence[float]) -> str:
    if not silent:
        return "static, client-rounds that sent nothing: not known"
    mean, least = sum(silent) / len(silent), min(silent)
    return (
        f"static, client-rounds that sent nothing: {100 * mean:.2f} %, at least {100 * least:.2f} % "
        f"({_holds(mean >= LEAST_SILENT)}: at least {100 * LEAST_SILENT:.0f} %)"
    )


def _holds(is_so: bool) -> str:
    return "holds" if is_so else "FAILS"
