"""The tables: verdicts on the seeds for scoring, rivals on those for choosing, who fares worst, costs, and parts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from experiments.beyond.choosing import SCORES, Bests, Summaries, figures, mean_figure, scored_rows
from experiments.beyond.rows import AUTO, GLOBAL, PARTS, RIVALS
from experiments.beyond.traffic import Traffic
from fielding.reporting.numbers.paired import Estimate, estimate, paired_difference

Cells = list[list[str]]
Seeds = Mapping[str, Sequence[int]]
"""The seeds that each scenario is scored on."""
MARGIN = 0.01
"""An interval below minus this is a defeat that counts."""
NOTABLE = 0.005
"""A mean below minus this is named."""
NOT_RUN = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How ``auto`` does against the best rival of a scenario, by one score.

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


def verdict(found: Summaries, rival: str | None, seeds: Sequence[int], score: str) -> Verdict | None:
    """Return the verdict on a scenario from the runs for scoring; None if one is missing, or the rival unknown."""
    ours, theirs = (None if row is None else figures(found, row, seeds, SCORES[score]) for row in (AUTO, rival))
    return None if ours is None or theirs is None else Verdict(difference=paired_difference(ours, theirs))


def front_cells(
    by_scenario: Mapping[str, Summaries],
    bests: Bests,
    seeds: Seeds,
    worse: Mapping[str, Sequence[tuple[float, float]]],
) -> Cells:
    """Return the one table that matters: ``auto`` by both scores, and how far ahead of the best rival by each it is.

    ``seeds``: those that each scenario was scored on; ``worse``: as :func:`fairness_cells` takes it.
    """
    lines = [
        [
            "scenario",
            "auto, window",
            "ahead of the best rival",
            "auto, next",
            "ahead of the best rival",
            "ahead of one model",
            "clients clearly worse off",
        ]
    ]
    for name, found in by_scenario.items():
        line, own = [name], seeds[name]
        for score, figure in SCORES.items():
            best = bests.get(name, {}).get(score)
            result = verdict(found, best, own, score)
            line.append(_percent(figures(found, AUTO, own, figure)))
            line.append(NOT_RUN if result is None else f"{points(result.difference)} ({best})")
        plain = [verdict(found, GLOBAL, own, score) for score in SCORES]
        line.append(" / ".join(NOT_RUN if one is None else points(one.difference) for one in plain))
        clear = [one for _, one in worse.get(name, ())]
        line.append(f"{100 * sum(clear) / len(clear):.0f} %" if clear else NOT_RUN)
        lines.append(line)
    return lines


def conclusion(verdicts: Mapping[str, Verdict | None]) -> list[str]:
    """Return what the verdicts on all scenarios by one score come to, a line each."""
    known = {name: one for name, one in verdicts.items() if one is not None}
    words = [one.word for one in known.values()]
    counts = ", ".join(f"{word} {words.count(word)}" for word in ("ahead", "level", "behind"))
    n_above = sum(one.difference.mean > 0.0 for one in known.values())
    lower = [name for name, one in known.items() if one.difference.mean < -NOTABLE]
    below = [name for name, one in known.items() if one.is_below]
    return [
        f"scored: {len(known)} of {len(verdicts)} scenarios; {counts}",
        f"mean above 0: {n_above} of {len(known)}",
        f"mean below -0.5 points: {', '.join(lower) or 'nowhere'}",
        f"whole interval below -1 point: {', '.join(below) or 'nowhere'}",
    ]


def rival_cells(by_scenario: Mapping[str, Summaries], seeds: Sequence[int]) -> Cells:
    """Return both scores of all rivals, a column per scenario; the best of each score is bold."""
    lines = [["method", *by_scenario], *([rival] for rival in RIVALS)]
    for found in by_scenario.values():
        columns = []
        for figure in SCORES.values():
            means = [mean_figure(found, rival, seeds, figure) for rival in RIVALS]
            best = max((mean for mean in means if mean is not None), default=None)
            words = [NOT_RUN if mean is None else f"{100 * mean:.1f}" for mean in means]
            columns.append(
                [
                    f"**{word}**" if mean is not None and mean == best else word
                    for word, mean in zip(words, means, strict=True)
                ]
            )
        for line, both in zip(lines[1:], zip(*columns, strict=True), strict=True):
            line.append(" / ".join(both))
    return lines


def row_cells(by_scenario: Mapping[str, Summaries], rows: Sequence[str], seeds: Seeds, score: str) -> Cells:
    """Return a score of some rows, a line per scenario; in brackets how far ``auto`` is ahead, seed by seed."""
    lines = [["scenario", *rows]]
    for name, found in by_scenario.items():
        line = [name]
        for row in rows:
            ahead = verdict(found, row, seeds[name], score) if row != AUTO else None
            behind = "" if ahead is None else f" ({points(ahead.difference)})"
            line.append(_percent(figures(found, row, seeds[name], SCORES[score])) + behind)
        lines.append(line)
    return lines


def fairness_cells(
    by_scenario: Mapping[str, Summaries],
    bests: Bests,
    seeds: Seeds,
    worse: Mapping[str, Sequence[tuple[float, float]]],
) -> Cells:
    """Return the accuracy of the worst tenth of the clients, and which share ``auto`` serves worse than a plain model.

    ``worse``: by scenario, the shares of clients of each seed that was run, worse and clearly worse.
    """
    lines = [
        ["scenario", "auto", "best rival by window", "global", "worse than by the plain global model, %", "clearly"]
    ]
    for name, found in by_scenario.items():
        best = bests.get(name, {}).get("window")
        ours, theirs, plain = (
            NOT_RUN if row is None else _percent(figures(found, row, seeds[name], "worst_decile_served"))
            for row in (AUTO, best, GLOBAL)
        )
        lines.append(
            [
                name,
                ours,
                NOT_RUN if best is None else f"{best}: {theirs}",
                plain,
                *(_percent([one[at] for one in worse[name]] or None) for at in (0, 1)),
            ]
        )
    return lines


def expert_cells(
    by_scenario: Mapping[str, Summaries], alone: Mapping[str, Mapping[int, Mapping[str, Mapping[str, float]]]]
) -> Cells:
    """Return what ``auto`` serves beside the best of its experts alone, chosen with hindsight by the mean of all seeds.

    ``alone``: by scenario, seed and score, the accuracy of each expert. The label correction by itself stands there as
    a warning: it is what one would switch on by belief.
    """
    lines = [["scenario", "score", "served", "best expert alone", "served minus it", "the correction alone"]]
    for name, found in by_scenario.items():
        seeds = sorted(alone.get(name, {}))
        for score, figure in SCORES.items():
            served = figures(found, AUTO, seeds, figure) if seeds else None
            if served is None:
                lines.append([name, score, *[NOT_RUN] * 4])
                continue
            by_expert = {
                expert: [alone[name][seed][score][expert] for seed in seeds] for expert in alone[name][seeds[0]][score]
            }
            best = max(by_expert, key=lambda expert: sum(by_expert[expert]))
            lines.append(
                [
                    name,
                    score,
                    _percent(served),
                    f"{best}: {_percent(by_expert[best])}",
                    points(paired_difference(served, by_expert[best])),
                    _percent(figures(found, AUTO, seeds, figure.replace("served", "corrected"))),
                ]
            )
    return lines


def cost_cells(by_scenario: Mapping[str, Summaries], bests: Bests, seeds: Seeds) -> Cells:
    """Return what ``auto``, the best rivals and the global model cost, means over the seeds."""
    columns = {
        "MB up": ("bytes_up", 1e6, 1),
        "MB down": ("bytes_down", 1e6, 1),
        "client hours": ("client_seconds", 3600.0, 1),
        "K at the end": ("n_clusters_last", 1.0, 1),
        "reports": ("n_reports", 1.0, 0),
        "moves": ("moves", 1.0, 0),
        "re-clusterings": ("reclusterings", 1.0, 1),
    }
    lines = [["scenario", "method", *columns, "bytes / those of global"]]
    for name, found in by_scenario.items():
        for row in scored_rows(bests.get(name, {})):
            cells = []
            for figure, unit, places in columns.values():
                mean = mean_figure(found, row, seeds[name], figure)
                cells.append(NOT_RUN if mean is None else f"{mean / unit:.{places}f}")
            ours, theirs = (_mean_bytes(found, one, seeds[name]) for one in (row, GLOBAL))
            lines.append([name, row, *cells, NOT_RUN if ours is None or not theirs else f"{ours / theirs:.2f}"])
    return lines


def traffic_cells(by_scenario: Mapping[str, Sequence[Traffic]]) -> Cells:
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
    for name, many in by_scenario.items():
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
    """Return both scores of ``auto``, then what each gains or loses, in points, when one part is switched off."""
    lines = [["method", *by_scenario], *([part] for part in PARTS)]
    for found in by_scenario.values():
        for line, part in zip(lines[1:], PARTS, strict=True):
            cells = []
            for figure in SCORES.values():
                ours, theirs = (mean_figure(found, row, seeds, figure) for row in (AUTO, part))
                if ours is None or theirs is None:
                    cells.append(NOT_RUN)
                else:
                    cells.append(f"{100 * ours:.1f}" if part == AUTO else f"{100 * (theirs - ours):+.1f}")
            line.append(" / ".join(cells))
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


def _percent(values: Sequence[float] | None) -> str:
    return NOT_RUN if values is None else points(estimate(values)).removeprefix("+")


def _mean_bytes(found: Summaries, row: str, seeds: Sequence[int]) -> float | None:
    up, down = (mean_figure(found, row, seeds, figure) for figure in ("bytes_up", "bytes_down"))
    return None if up is None or down is None else up + down
