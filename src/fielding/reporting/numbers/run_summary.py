"""The totals of a run, from the lines of its logs alone, and how long it took to a target."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import ceil, hypot, isfinite

import numpy as np

from fielding._typing import Json, Vector
from fielding.federation.evaluation import TREATMENTS

Row = Mapping[str, Json]
LAST_SHARE = 0.1  # share of the rounds, at the end, whose evaluations make the final figures
FEWEST = 5  # evaluations that the final figures are made of at least, if the second half of the rounds has so many
IN_A_ROW = 5  # evaluations in a row at which a target counts as held


def evaluations(rounds: Sequence[Row]) -> list[Row]:
    """Return the rounds in which clients were tested."""
    return [row for row in rounds if isinstance(value := row.get("accuracy"), float) and isfinite(value)]


def final_evaluations(rounds: Sequence[Row]) -> list[Row]:
    """Return the evaluations that the final figures are means over.

    Those in the last tenth of the rounds, at least five, but none from the first half of the rounds, where models are
    hardly trained; if none is left, the last one.

    Examples
    --------
    >>> rows = [{"round": at, "accuracy": 0.5 if at % 4 == 0 else None} for at in range(20)]
    >>> [row["round"] for row in final_evaluations(rows)]
    [12, 16]
    """
    tested = evaluations(rounds)
    first = len(rounds) - ceil(LAST_SHARE * len(rounds))
    chosen = [row for row in tested if int(str(row["round"])) >= first]
    chosen = chosen if len(chosen) >= FEWEST else tested[-FEWEST:]
    return [row for row in chosen if 2 * int(str(row["round"])) >= len(rounds)] or tested[-1:]


def final_mean(rounds: Sequence[Row], name: str = "accuracy") -> float | None:
    """Return the mean of a figure over the final evaluations; None if it was never measured in them.

    Never the best one: that would be chosen by looking at the test samples.

    Examples
    --------
    >>> final_mean([{"round": at, "accuracy": float(at)} for at in range(100)])
    94.5
    """
    chosen = final_evaluations(rounds)
    values = [float(value) for row in chosen if isinstance(value := row.get(name), (int, float))]
    return sum(values) / len(values) if values else None


def final_words(summary: Row) -> str:
    """Return over which evaluations the final figures of a summary are means.

    Examples
    --------
    >>> final_words({"final_from_round": 180, "n_final_evaluations": 5})
    'mean over the 5 evaluations since round 180'
    """
    n_used, first = summary["n_final_evaluations"], summary["final_from_round"]
    if n_used == 1:
        return f"from the one evaluation after round {first}"
    return f"mean over the {n_used} evaluations since round {first}"


def largest_dip(rounds: Sequence[Row], gap: int) -> float | None:
    """Return the largest fall of accuracy within a gap after a re-clustering; None if there was none to measure.

    Examples
    --------
    >>> rows = [{"round": 0, "accuracy": 0.8, "reclustered": False}, {"round": 1, "accuracy": 0.7, "reclustered": True},
    ...         {"round": 2, "accuracy": 0.9, "reclustered": False}]
    >>> round(largest_dip(rows, gap=2), 3)
    0.1
    """
    tested = evaluations(rounds)
    when = [int(str(row["round"])) for row in tested]
    accuracy = [float(str(row["accuracy"])) for row in tested]
    dips: list[float] = []
    for at in (int(str(row["round"])) for row in rounds if row.get("reclustered")):
        first, stop = bisect_left(when, at), bisect_left(when, at + gap)
        if 0 < first < stop:
            dips.append(accuracy[first - 1] - min(accuracy[first:stop]))
    return max(dips) if dips else None


def last_crossing(rounds: Sequence[Row], target: float) -> Row | None:
    """Return the evaluation from which on the accuracy never was below a target; None if it ends below.

    Examples
    --------
    >>> rows = [{"round": at, "accuracy": accuracy} for at, accuracy in enumerate([0.5, 0.9, 0.7, 0.8, 0.9])]
    >>> last_crossing(rows, 0.8)["round"], last_crossing(rows, 0.95)
    (3, None)
    """
    tested = evaluations(rounds)
    first = 1 + max((at for at, row in enumerate(tested) if float(str(row["accuracy"])) < target), default=-1)
    return tested[first] if first < len(tested) else None


def first_crossing(rounds: Sequence[Row], target: float) -> Row | None:
    """Return the first evaluation whose accuracy was not below a target; None if all were."""
    return next((row for row in evaluations(rounds) if float(str(row["accuracy"])) >= target), None)


def first_hold(rounds: Sequence[Row], target: float, n_in_a_row: int = IN_A_ROW) -> Row | None:
    """Return the first of so many evaluations in a row whose accuracy was not below a target; None without such.

    Examples
    --------
    >>> rows = [{"round": at, "accuracy": accuracy} for at, accuracy in enumerate([0.9, 0.7, 0.8, 0.9, 0.8])]
    >>> first_hold(rows, 0.8, 3)["round"], first_hold(rows, 0.8, 4)
    (2, None)
    """
    tested = evaluations(rounds)
    below = [at for at, row in enumerate(tested) if float(str(row["accuracy"])) < target]
    gaps = pairwise([-1, *below, len(tested)])
    return next((tested[before + 1] for before, at in gaps if at - before > n_in_a_row), None)


def times_to_target(
    rounds: Sequence[Row], target: float | None, curve: tuple[Vector, Vector] | None = None
) -> dict[str, float | None]:
    """Return after how many rounds and simulated seconds a run was at a target, in three senses.

    ``rounds_to_target`` and ``time_to_target_s``: until accuracy came to stay at the target or above (its last upward
    crossing). ``..._first_crossing...``: until it first was there. ``..._held...``: until the first of five evaluations
    in a row that were there. A run that is there at its first evaluation needs the rounds up to that one; None if it
    never is. ``target``: the accuracy; None if it is not known, and then nothing is. ``curve``: accuracy over time, as
    ``progress`` gives it. Rounds are counted, and targets held, by evaluations, so that all methods are looked at
    equally often; the time is that from which on the curve is at the target up to the end of that evaluation.

    Examples
    --------
    >>> rows = [{"round": at, "time_s": 60.0 * (at + 1), "accuracy": at / 4} for at in range(4)]
    >>> found = times_to_target(rows, 0.5)
    >>> found["rounds_to_target"], found["time_to_target_s"], found["rounds_to_held"]
    (3.0, 180.0, None)
    """
    found: dict[str, float | None] = {}
    for name, crossing in (("target", last_crossing), ("first_crossing", first_crossing), ("held", first_hold)):
        row = None if target is None else crossing(rounds, target)
        found[f"rounds_to_{name}"] = None if row is None else float(str(row["round"])) + 1
        found[f"time_to_{name}_s"] = None if row is None else float(str(row["time_s"]))
        if curve is not None and target is not None and row is not None:
            n_seen = int(np.searchsorted(curve[0], float(str(row["time_s"])), side="right"))
            first = 1 + int(np.flatnonzero(curve[1][:n_seen] < target).max(initial=-1))
            if first < n_seen:  # else some clusters are at a later evaluation by then, and worse
                found[f"time_to_{name}_s"] = float(curve[0][first])
    return found


def dynamic_regret(rounds: Sequence[Row], oracle: Sequence[Row]) -> float | None:
    """Return how much more accurate the oracle was, as a mean over the rounds in which both were evaluated.

    Examples
    --------
    >>> dynamic_regret([{"round": 0, "accuracy": 0.5}, {"round": 1, "accuracy": 0.75}], [{"round": 1, "accuracy": 1.0}])
    0.25
    """
    best = {row["round"]: float(str(row["accuracy"])) for row in evaluations(oracle)}
    gaps = [best[row["round"]] - float(str(row["accuracy"])) for row in evaluations(rounds) if row["round"] in best]
    return sum(gaps) / len(gaps) if gaps else None


def run_summary(rounds: Sequence[Row], events: Iterable[Row], *, gap: int) -> dict[str, Json]:
    """Return the figures of a run.

    Among others ``final_from_round`` and ``n_final_evaluations``, what the final figures are means over (None and 0 if
    no client was tested); the three scores ``final_accuracy`` (of the window), ``final_newest_accuracy`` and
    ``final_next_accuracy``, the last over those evaluations that have an interval to come; final figures that end in
    ``_corrected``, ``_tuned`` and ``_served`` if clients do that to their models; ``final_metric/NAME`` and its kin of
    metrics of the user's own; ``final_accuracy_ci95``, half the width of the 95 % interval of ``final_accuracy`` if
    samples of the clients were tested; ``n_trained``, trainings that came back in time, and ``n_failed``, those of them
    that gave no finite model; ``n_reports``, and ``n_first_reports``, those of them by which a client joined (None
    where there is no coordinator that knows). ``gap``: rounds between arrivals of data.
    """

    def total(name: str) -> int | float:
        return sum(value for row in rounds if isinstance(value := row.get(name), (int, float)))

    seen = [(event.get("mean_client_distance"), count_joined(event)) for event in events]
    distances = [value for value, _ in seen if isinstance(value, float)]
    final = final_evaluations(rounds)
    n_failed, n_reports = total("n_failed"), total("n_reports")
    otherwise = {
        f"{name}_{how}": final_mean(rounds, f"{how}_{name.removeprefix('final_')}")
        for how in TREATMENTS
        for name in ("final_accuracy", "worst_decile", "final_newest_accuracy", "final_next_accuracy")
    }
    known = {name: value for name, value in otherwise.items() if value is not None}
    following = {"final_next_accuracy": final_mean(rounds, "next_accuracy")}
    own = {name: _final_name(name) for row in final for name in row if "metric/" in name}
    # Until the next release under the old name, too, what had it.
    before = {
        name.replace("next", "prequential"): value
        for name, value in (following | known).items()
        if name.startswith("final_next") and not name.endswith("served")
    }
    return {
        "n_rounds": len(rounds),
        "time_s": rounds[-1]["time_s"] if rounds else 0.0,
        "final_from_round": final[0]["round"] if final else None,
        "n_final_evaluations": len(final),
        "final_accuracy": final_mean(rounds),
        "final_newest_accuracy": final_mean(rounds, "newest_accuracy"),
        **following,
        **_final_half_width(final),
        "final_accuracy_weighted": final_mean(rounds, "accuracy_weighted"),
        "worst_decile": final_mean(rounds, "worst_decile"),
        **known,
        **{final_name: final_mean(rounds, name) for name, final_name in own.items()},
        **before,
        "final_ari": final_mean(rounds, "ari"),
        "dip": largest_dip(rounds, gap),
        "n_trained": total("n_participants") + n_failed,
        "n_failed": n_failed,
        "n_reports": n_reports,
        "n_first_reports": None if n_reports and not seen else sum(joined for _, joined in seen),
        "moves": total("n_moved"),
        "reclusterings": total("reclustered"),
        "n_clusters_last": rounds[-1]["n_clusters"] if rounds else 0,
        "heterogeneity": sum(distances) / len(distances) if distances else None,
        "measured_heterogeneity": final_mean(rounds, "measured_heterogeneity"),
        "unclustered_heterogeneity": final_mean(rounds, "unclustered_heterogeneity"),
        "bytes_down": total("bytes_down"),
        "bytes_up": total("bytes_up"),
        "client_seconds": total("client_seconds"),
    }


def _final_name(name: str) -> str:
    """Return what the summary calls the final value of a metric of the user's own.

    Examples
    --------
    >>> _final_name("next_metric/f1"), _final_name("served_next_metric/f1")
    ('final_next_metric/f1', 'final_next_metric/f1_served')
    """
    how = next((one for one in TREATMENTS if name.startswith(f"{one}_")), "")
    return f"final_{name.removeprefix(f'{how}_')}_{how}" if how else f"final_{name}"


def _final_half_width(final: Sequence[Row]) -> dict[str, Json]:
    """Return half the width of the 95 % interval of the final accuracy where samples of the clients were tested.

    Samples of different evaluations are drawn independently of each other.
    """
    if not final or not any("accuracy_ci95" in row for row in final):
        return {}
    widths = [row.get("accuracy_ci95") for row in final]
    known = [float(width) for width in widths if isinstance(width, (int, float))]
    half = hypot(*known) / len(known) if len(known) == len(widths) else None
    return {"final_accuracy_ci95": half}


def count_joined(event: Row) -> int:
    """Return how many clients joined at an event, which names them or holds their number.

    Examples
    --------
    >>> count_joined({"joined": ["ann", "bob"]}), count_joined({"n_joined": 2}), count_joined({})
    (2, 2, 0)
    """
    joined = event.get("joined")
    return len(joined) if isinstance(joined, list) else int(str(event.get("n_joined", 0)))


LONGEST_ID, LONGEST_SAID, MOST_FAILING = 16, 80, 3


def failing_words(rounds: Sequence[Mapping[str, Json]]) -> tuple[int, str]:
    """Return how many clients fail at the end of some rounds, and in words which, and when they are asked again.

    Examples
    --------
    >>> failing = [{"client": "ann", "failures": 2, "asked_from": 9, "said": "disk full"}]
    >>> failing_words([{"round": 6, "n_failing": 1, "failing": failing}])
    (1, 'ann: 2 times in a row, asked again from round 9 on (disk full)')
    """
    last = rounds[-1] if rounds else {}
    n_failing, failing = last.get("n_failing"), last.get("failing")
    if not isinstance(n_failing, int) or not isinstance(failing, list):
        return 0, ""
    told = []
    for one in failing[:MOST_FAILING]:
        if isinstance(one, dict):
            said = f" ({str(one['said'])[:LONGEST_SAID]})" if one.get("said") else ""
            times = "once" if one.get("failures") == 1 else f"{one.get('failures')} times in a row"
            who = str(one.get("client"))[:LONGEST_ID]
            told.append(f"{who}: {times}, asked again from round {one.get('asked_from')} on{said}")
    return n_failing, "; ".join(told) + (f"; and {n_failing - len(told)} more" if n_failing > len(told) else "")
