"""Accuracy around drifts: how far it drops and how soon it comes back, as a mean over all drifts of a run."""

from collections.abc import Sequence
from itertools import product

import numpy as np

from fielding._typing import Vector
from fielding.reporting.charts.curves import (
    SCORES,
    Curves,
    clip_band,
    counted_runs,
    curves_figure,
    drop_many_bands,
    fit_axis,
    mean_line,
    points,
    readings,
    seeds_words,
)
from fielding.reporting.charts.figures import mark_places
from fielding.reporting.formatting import amount, digits
from fielding.reporting.numbers.groups import Group, RunGroups
from fielding.reporting.numbers.run_metrics import drift_figures, drift_rounds
from fielding.reporting.numbers.run_record import RunRecord
from fielding.reporting.page import Section

TITLE = "Accuracy around drifts"
N_BEFORE = 2  # evaluations before a drift that are shown
MOST_AFTER = 12  # evaluations after a drift that are shown
_SHOWN = ("window", "next interval")
_HEADS = ["", "drifts per run", "drop", "rounds to recover", "not recovered"]


def around_drifts(rounds: Vector, accuracy: Vector, drifts: Sequence[float]) -> tuple[Vector, Vector, int] | None:
    """Return rounds since a drift, rising, the mean accuracy there, and how many drifts it is a mean over.

    Steps are as long as the usual time between evaluations, and go on for the usual time between drifts. A drift counts
    if every step has an evaluation, so that all points are means over the same drifts. None without such a drift, or
    where fewer than two evaluations lie between drifts: then no curve tells a drop from a recovery.

    ``rounds``: those that were evaluated, rising. ``drifts``: rounds in which data drifted, rising; the evaluation of
    such a round is the first that feels it.

    Examples
    --------
    >>> rounds = np.arange(4.0, 40.0, 5.0)  # after rounds 4, 9, 14, ... 39
    >>> accuracy = np.array([0.5, 0.7, 0.6, 0.7, 0.5, 0.6, 0.4, 0.6])
    >>> since, mean, n_drifts = around_drifts(rounds, accuracy, [10.0, 20.0, 30.0])
    >>> since.tolist(), mean.round(3).tolist(), n_drifts
    ([-6.0, -1.0, 4.0, 9.0], [0.533, 0.667, 0.5, 0.633], 3)
    """
    if rounds.size < 2 or not drifts:
        return None
    step = float(np.median(np.diff(rounds)))
    gap = float(np.median(np.diff(drifts))) if len(drifts) > 1 else float(rounds[-1]) + 1.0 - drifts[0]
    n_after = min(int(gap // step), MOST_AFTER)
    if n_after < 2:
        return None
    offsets, values = [], []
    for at in drifts:
        steps = np.floor((rounds - at) / step).astype(np.int64)
        rows = [np.flatnonzero(steps == one) for one in range(-N_BEFORE, n_after)]
        if all(one.size for one in rows):
            offsets.append([float((rounds[one] - at).mean()) for one in rows])
            values.append([float(accuracy[one].mean()) for one in rows])
    if not values:
        return None
    return np.mean(offsets, axis=0), np.mean(values, axis=0), len(values)


def draw_around_drifts(gathered: RunGroups) -> Section:
    """Return the mean accuracy before and after a drift, a line for each group, on the window and the next interval."""
    views: list[Section] = []
    for score, (reading, prefix) in product(_SHOWN, readings(gathered).items()):
        name = f"{prefix}{SCORES[score]}accuracy"
        lines, counts = [], []
        for group in gathered.groups:
            found = [
                one for run in counted_runs(group) if (one := around_drifts(*points(run, name), drift_rounds(run)))
            ]
            found = [one for one in found if one[0].size == found[0][0].size]
            if found:
                curves = Curves(x=found[0][0], values=np.stack([mean for _, mean, _ in found]))
                style = gathered.styles[group.name]
                lines.append(clip_band(mean_line(curves, group.name, style=style, group=group.name), (0.0, 1.0)))
                counts += [n_drifts for _, _, n_drifts in found]
        if not lines:
            continue
        lines = drop_many_bands(lines)
        figure = curves_figure(lines, x_title="rounds since the drift", y_title=f"accuracy, {score}", from_zero=False)
        is_first = not views
        n_drifts = f"{min(counts)} to {max(counts)}" if min(counts) < max(counts) else f"{max(counts)}"
        spacing = float(np.median(np.diff(np.asarray(lines[0].x, dtype=np.float64))))
        text = (
            f"Mean over {n_drifts} {'drift' if max(counts) == 1 else 'drifts'} per run: "
            f"{_drift_words([run for _, run in gathered.runs])}. Models are tested every {amount(spacing)} rounds; "
            f"what happens between two tests is not seen. {seeds_words(gathered)}"
        )
        if is_first:
            text += (
                " Drop: accuracy before minus the lowest after a drift; recovered: back at 95 % of before, counted "
                "from the drift."
            )
        views.append(
            Section(
                title=TITLE,
                text=text,
                figure=mark_places(fit_axis(figure, lines), [0.0]),
                table=[_HEADS, *[_cells(group) for group in gathered.groups]] if is_first else (),
                row_groups=[group.name for group in gathered.groups] if is_first else (),
                words=(score, reading),
            )
        )
    if not views:
        why = "Data did not drift in these runs, or fewer than two evaluations lie between drifts."
        return Section(title=TITLE, missing=why)
    return Section(title=TITLE, views=views)


def _drift_words(runs: Sequence[RunRecord]) -> str:
    if all(run.concepts() for run in runs):
        return "rounds in which the true concept of a client changed"
    return "rounds in which new samples arrived, since no true concepts are known"


def _cells(group: Group) -> list[str]:
    """Return what followed on drifts, as means over the runs of a group."""
    runs = counted_runs(group)
    found = [drift_figures(run) for run in runs]
    means = {}
    for name in ("drift_dip", "drift_recovery_rounds", "drift_unrecovered"):
        known = [float(value) for one in found if isinstance(value := one.get(name), (int, float))]
        means[name] = sum(known) / len(known) if known else None
    n_drifts = sum(len(drift_rounds(run)) for run in runs) / max(1, len(runs))
    recovery, lost = means["drift_recovery_rounds"], means["drift_unrecovered"]
    return [
        group.name,
        amount(n_drifts),
        digits(means["drift_dip"]),
        "-" if recovery is None else amount(recovery),
        "-" if lost is None else f"{lost:.0%}",
    ]
