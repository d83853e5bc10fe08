"""The totals of a run, from the lines of its logs alone."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from math import ceil, isfinite

from fielding._typing import Json

Row = Mapping[str, Json]
LAST_SHARE = 0.1
"""Share of the rounds, at the end, whose evaluations make the final figures."""
FEWEST = 5
"""Evaluations that the final figures are made of at least, if the second half of the rounds has so many."""


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
    >>> final_words({"final_from_round": 7, "n_final_evaluations": 1})
    'from the one evaluation after round 7'
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


def reached(rounds: Sequence[Row], target: float) -> Row | None:
    """Return the evaluation from which on the accuracy never was below a target; None if it ends below.

    Examples
    --------
    >>> rows = [{"round": at, "accuracy": accuracy} for at, accuracy in enumerate([0.5, 0.9, 0.7, 0.8, 0.9])]
    >>> reached(rows, 0.8)["round"], reached(rows, 0.95)
    (3, None)
    """
    tested = evaluations(rounds)
    first = 1 + max((at for at, row in enumerate(tested) if float(str(row["accuracy"])) < target), default=-1)
    return tested[first] if first < len(tested) else None


def first_crossing(rounds: Sequence[Row], target: float) -> Row | None:
    """Return the first evaluation whose accuracy was not below a target; None if all were.

    Examples
    --------
    >>> rows = [{"round": at, "accuracy": accuracy} for at, accuracy in enumerate([0.5, 0.9, 0.7, 0.8, 0.9])]
    >>> first_crossing(rows, 0.8)["round"], first_crossing(rows, 0.95)
    (1, None)
    """
    return next((row for row in evaluations(rounds) if float(str(row["accuracy"])) >= target), None)


def run_summary(rounds: Sequence[Row], events: Iterable[Row], *, gap: int) -> dict[str, Json]:
    """Return the figures of a run.

    Parameters
    ----------
    rounds, events
        Lines of ``rounds.jsonl`` and ``events.jsonl``.
    gap
        Rounds between arrivals of data.

    Returns
    -------
    Among others ``final_from_round`` and ``n_final_evaluations``, what the final figures are means over (None and 0 if
    nobody was tested); final figures that end in ``_corrected`` and ``_tuned`` if clients correct or tune their models;
    ``n_trained``, trainings that came back in time, and ``n_failed``, those of them that gave no
    finite model; ``n_reports``, and ``n_first_reports``, those of them by which a client joined
    (None where there is no coordinator that knows).
    """
    seen = [(event.get("mean_client_distance"), n_joined(event)) for event in events]
    distances = [value for value, _ in seen if isinstance(value, float)]
    final = final_evaluations(rounds)
    n_failed, n_reports = _total(rounds, "n_failed"), _total(rounds, "n_reports")
    return {
        "n_rounds": len(rounds),
        "time_s": rounds[-1]["time_s"] if rounds else 0.0,
        "final_from_round": final[0]["round"] if final else None,
        "n_final_evaluations": len(final),
        "final_accuracy": final_mean(rounds),
        "final_accuracy_weighted": final_mean(rounds, "accuracy_weighted"),
        "worst_decile": final_mean(rounds, "worst_decile"),
        "final_newest_accuracy": final_mean(rounds, "newest_accuracy"),
        "final_prequential_accuracy": final_mean(rounds, "prequential_accuracy"),
        **_served_otherwise(rounds),
        "final_ari": final_mean(rounds, "ari"),
        "dip": largest_dip(rounds, gap),
        "n_trained": _total(rounds, "n_participants") + n_failed,
        "n_failed": n_failed,
        "n_reports": n_reports,
        "n_first_reports": None if n_reports and not seen else sum(joined for _, joined in seen),
        "moves": _total(rounds, "n_moved"),
        "reclusterings": _total(rounds, "reclustered"),
        "n_clusters_last": rounds[-1]["n_clusters"] if rounds else 0,
        "heterogeneity": sum(distances) / len(distances) if distances else None,
        "measured_heterogeneity": final_mean(rounds, "measured_heterogeneity"),
        "unclustered_heterogeneity": final_mean(rounds, "unclustered_heterogeneity"),
        "bytes_down": _total(rounds, "bytes_down"),
        "bytes_up": _total(rounds, "bytes_up"),
        "client_seconds": _total(rounds, "client_seconds"),
    }


def _served_otherwise(rounds: Sequence[Row]) -> dict[str, Json]:
    """Return the final figures of models that clients corrected or tuned; nothing if they did not."""
    names = ("final_accuracy", "worst_decile", "final_newest_accuracy", "final_prequential_accuracy")
    found = {
        f"{name}_{how}": final_mean(rounds, f"{how}_{name.removeprefix('final_')}")
        for how in ("corrected", "tuned")
        for name in names
    }
    return {name: value for name, value in found.items() if value is not None}


def n_joined(event: Row) -> int:
    """Return how many clients joined at an event, which names them or holds their number.

    Examples
    --------
    >>> n_joined({"joined": ["ann", "bob"]}), n_joined({"n_joined": 2}), n_joined({})
    (2, 2, 0)
    """
    joined = event.get("joined")
    return len(joined) if isinstance(joined, list) else int(str(event.get("n_joined", 0)))


def _total(rounds: Sequence[Row], name: str) -> int | float:
    return sum(value for row in rounds if isinstance(value := row.get(name), (int, float)))
