"""What the coordinator decided and why: reports, moves, and the shift of centers against what would be too much."""

from collections.abc import Sequence

import numpy as np

from fielding._typing import Counts
from fielding.reporting.charts.figures import Figure, Line, bars_figure, lines_figure, with_layout
from fielding.reporting.charts.thinning import binned
from fielding.reporting.numbers.run_record import Row, RunRecord, column
from fielding.reporting.page import Section
from fielding.reporting.words import digits

MOST_EVENTS = 400
"""Events that are drawn; more would lie upon each other."""
MOST_ROWS = 30
"""Events in the table."""
_TITLE = "What the coordinator decided, and why"
_TRAFFIC = "Reports and moves"
_HEADS = ("round", "decision", "reports", "moved", "joined", "shift / threshold")


def decisions(run: RunRecord, group: str | None) -> Section:
    """Return the shift of each event against its threshold, and a table of the newest events."""
    if not run.events:
        why = "Nothing was decided yet." if not run.rounds else "No coordinator decides in this run, or none spoke yet."
        return Section(title=_TITLE, missing=why, group=group)
    n_events = len(run.events)
    counted = f"the newest {MOST_ROWS} of {n_events:,} events" if n_events > MOST_ROWS else "all events"
    return Section(
        title=_TITLE,
        text=(
            "After reports, clients move to the nearest center. If no center went farther than the threshold, that is "
            f"all; else all clients are grouped anew. The table has {counted}, newest first."
        ),
        figure=shift_figure(run.events) if np.isfinite(column(run.events, "shift")).any() else None,
        table=[_HEADS, *(_cells(row) for row in run.events[: -MOST_ROWS - 1 : -1])],
        group=group,
    )


def traffic(run: RunRecord, group: str | None) -> Section:
    """Return how many clients reported and how many moved in each round."""
    reported, moved = (np.nan_to_num(column(run.rounds, name)) for name in ("n_reports", "n_moved"))
    if not reported.any() and not moved.any():
        why = "There is no round yet." if not run.rounds else "Nobody reported, and nobody moved."
        return Section(title=_TRAFFIC, missing=why, group=group)
    starts, reports, width = binned(reported)
    _, moves, _ = binned(moved)
    bars = [Line(name="clients that moved to another cluster", x=starts, y=moves, style=1)]
    if reported.any():
        bars.insert(0, Line(name="clients that reported", x=starts, y=reports, style=4))
    each = "round" if width == 1 else f"{width} rounds"
    figure = bars_figure(bars, x_title="round", y_title=f"clients per {each}", mode="group")
    text = "A move takes a client to a cluster that fits its samples better."
    text = (
        f"A report says that a client's samples changed. {text}" if reported.any() else f"{text} Nobody reports here."
    )
    return Section(title=_TRAFFIC, text=text, figure=figure, group=group)


def shift_figure(events: Sequence[Row]) -> Figure:
    """Return how far the centers went, what would be too far, and where all were grouped anew."""
    shown = [events[at] for at in kept_events(events).tolist()]
    quiet = [row for row in shown if not row["fired"] and row["shift"] is not None]
    loud = [row for row in shown if row["fired"] and row["shift"] is not None]
    lines = [
        Line(name="threshold", x=column(shown, "round"), y=column(shown, "threshold"), style=6),
        Line(name="moves were enough", x=column(quiet, "round"), y=column(quiet, "shift"), symbol="circle"),
    ]
    if loud:
        lines.append(
            Line(
                name="all were grouped anew",
                x=column(loud, "round"),
                y=column(loud, "shift"),
                style=5,
                symbol="diamond",
                is_main=True,
            )
        )
    figure = lines_figure(lines, x_title="round", y_title="largest shift of a center")
    return with_layout(figure, yaxis={"hoverformat": ".3f"}, xaxis={"hoverformat": "d"}, hoverlabel={"namelength": -1})


def kept_events(events: Sequence[Row], most: int = MOST_EVENTS) -> Counts:
    """Return the places of the events to draw: re-clusterings first, the last one, and others evenly; rising."""
    if len(events) <= most:
        return np.arange(len(events))
    is_fired = np.array([bool(row["fired"]) for row in events])
    fired = np.flatnonzero(is_fired)
    fired = fired[np.unique(np.linspace(0, fired.size - 1, min(fired.size, most - 1)).astype(np.int64))]
    others = np.flatnonzero(~is_fired)
    evenly = np.linspace(0, others.size - 1, max(0, min(others.size, most - 1 - fired.size))).astype(np.int64)
    return np.unique([*fired.tolist(), *others[evenly].tolist(), len(events) - 1])


def decision_words(event: Row) -> str:
    """Return what was decided in an event, and why.

    Examples
    --------
    >>> decision_words({"shift": 0.12, "threshold": 0.41, "fired": False, "n_moved": 3})
    'moved 3; no center went too far: 0.120 of 0.410'
    >>> decision_words({"shift": 0.52, "threshold": 0.41, "fired": True, "n_clusters": 3,
    ...                 "silhouettes": {"2": 0.31, "3": 0.35}})
    're-clustered: 0.520 > 0.410; 3 clusters (silhouettes 2: 0.31, 3: 0.35)'
    """
    return "; ".join(part for part in (_decided(event), _number_words(event), *_guard_words(event)) if part)


def _decided(event: Row) -> str:
    shift, threshold = event.get("shift"), event.get("threshold")
    measured = shift is not None and threshold is not None
    if event.get("started"):
        return "made the first clusters"
    if event.get("fired"):
        return f"re-clustered: {digits(shift)} > {digits(threshold)}" if measured else "re-clustered"
    moved = event.get("n_moved")
    said = f"moved {moved}" if moved else "nobody moved"
    return f"{said}; no center went too far: {digits(shift)} of {digits(threshold)}" if measured else said


def _number_words(event: Row) -> str:
    """Return which numbers of clusters were tried, with the silhouette of each."""
    tried = event.get("silhouettes")
    if not isinstance(tried, dict) or not tried:
        return ""
    scores = ", ".join(f"{k}: {digits(score, 2)}" for k, score in tried.items())
    return f"{event.get('n_clusters')} clusters (silhouettes {scores})"


def _guard_words(event: Row) -> list[str]:
    words = []
    guard, merged = event.get("guard"), event.get("merged")
    if isinstance(guard, dict):
        error = "" if guard.get("error") is None else f" \u00b1 {digits(guard.get('error'))}"
        words.append(
            f"guard: clusters spare {digits(guard.get('gain'))}{error} of loss by {guard.get('n_judged')} verdicts"
        )
    if isinstance(merged, list) and merged:
        words.append(f"guard merged {len(merged)} clusters into {len({str(one) for one in merged})}")
    return words


def _cells(event: Row) -> list[str]:
    kinds = event.get("kinds")
    seen = ", ".join(f"{n} {kind}" for kind, n in kinds.items()) if isinstance(kinds, dict) else ""
    silenced = f", {event.get('n_silenced')} silent" if event.get("n_silenced") else ""
    shift = f"{digits(event.get('shift'))} / {digits(event.get('threshold'))}"
    return [
        str(event["round"]),
        decision_words(event),
        f"{event.get('n_reported')}{f' ({seen})' if seen else ''}{silenced}",
        _moved(event),
        _count(event.get("n_joined")),
        "-" if event.get("shift") is None else shift,
    ]


def _count(value: object) -> str:
    return str(value) if value else "-"


def _moved(event: Row) -> str:
    """Return how many moved, and the first few of them."""
    who, n_moved = event.get("who_moved"), event.get("n_moved")
    if not n_moved or not isinstance(who, list):
        return _count(n_moved)
    first = ", ".join(str(one)[:_LONGEST_ID] for one in who[:_SHOWN])
    return f"{n_moved}: {first}{', ...' if isinstance(n_moved, int) and n_moved > _SHOWN else ''}"


_SHOWN, _LONGEST_ID = 3, 24
