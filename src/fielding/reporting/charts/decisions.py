"""What the coordinator decided and why: reports, moves, and the shift of centers against what would be too much."""

from collections.abc import Sequence

import numpy as np

from fielding._typing import Counts
from fielding.reporting.charts.figures import Figure, Line, bars_figure, bin_sums, change_layout, lines_figure
from fielding.reporting.formatting import digits
from fielding.reporting.numbers.run_record import Row, RunRecord, column
from fielding.reporting.page import Section, merge_views

MOST_EVENTS = 400  # events that are drawn; more would lie upon each other
MOST_ROWS = 30  # events in the table
_HEADS = ("round", "decision", "reports", "moved", "joined", "shift / threshold")
_SHOWN, _LONGEST_ID = 3, 24


def draw_coordinator(run: RunRecord, group: str | None) -> Section:
    """Return what the coordinator decided and why, and how many clients reported and moved."""
    return merge_views(
        "What the coordinator decided, and why",
        {"decisions": draw_decisions(run, group), "reports and moves": draw_traffic(run, group)},
    )


def draw_decisions(run: RunRecord, group: str | None) -> Section:
    """Return the shift of each event against its threshold, and a table of the newest events."""
    title, n_events = "What the coordinator decided, and why", len(run.events)
    if not run.events:
        why = "Nothing was decided yet." if not run.rounds else "No coordinator decides in this run, or none spoke yet."
        return Section(title=title, missing=why, group=group)
    counted = f"the newest {MOST_ROWS} of {n_events:,} events" if n_events > MOST_ROWS else "all events"
    return Section(
        title=title,
        text=(
            "After reports, clients move to the nearest center. If no center went farther than the threshold, that is "
            f"all; else all clients are grouped anew. The table has {counted}, newest first."
        ),
        figure=_shift_figure(run.events) if np.isfinite(column(run.events, "shift")).any() else None,
        table=[_HEADS, *(_cells(row) for row in run.events[: -MOST_ROWS - 1 : -1])],
        group=group,
    )


def draw_traffic(run: RunRecord, group: str | None) -> Section:
    """Return how many clients reported and how many moved in each round."""
    title = "Reports and moves"
    reported, moved = (np.nan_to_num(column(run.rounds, name)) for name in ("n_reports", "n_moved"))
    if not reported.any() and not moved.any():
        why = "There is no round yet." if not run.rounds else "Nobody reported, and nobody moved."
        return Section(title=title, missing=why, group=group)
    starts, reports, width = bin_sums(reported)
    _, moves, _ = bin_sums(moved)
    bars = [Line(name="clients that moved to another cluster", x=starts, y=moves, style=1)]
    text = "A move takes a client to a cluster that fits its samples better."
    if reported.any():
        bars.insert(0, Line(name="clients that reported", x=starts, y=reports, style=4))
        text = f"A report says that a client's samples changed. {text}"
    else:
        text = f"{text} Nobody reports here."
    each = "round" if width == 1 else f"{width} rounds"
    figure = bars_figure(bars, x_title="round", y_title=f"clients per {each}", mode="group")
    return Section(title=title, text=text, figure=figure, group=group)


def _shift_figure(events: Sequence[Row]) -> Figure:
    """Return how far the centers went, what would be too far, and where all were grouped anew."""
    shown = [events[at] for at in kept_events(events).tolist()]
    measured = [row for row in shown if row["shift"] is not None]
    calm, fired = [row for row in measured if not row["fired"]], [row for row in measured if row["fired"]]
    lines = [
        Line(name="threshold", x=column(shown, "round"), y=column(shown, "threshold"), style=6),
        Line(name="moves were enough", x=column(calm, "round"), y=column(calm, "shift"), symbol="circle"),
    ]
    if fired:
        x, y = column(fired, "round"), column(fired, "shift")
        lines.append(Line(name="all were grouped anew", x=x, y=y, style=5, symbol="diamond", is_main=True))
    figure = lines_figure(lines, x_title="round", y_title="largest shift of a center")
    return change_layout(
        figure, yaxis={"hoverformat": ".3f"}, xaxis={"hoverformat": "d"}, hoverlabel={"namelength": -1}
    )


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
    shift, threshold, moved = event.get("shift"), event.get("threshold"), event.get("n_moved")
    measured = shift is not None and threshold is not None
    if event.get("started"):
        words = ["made the first clusters"]
    elif event.get("fired"):
        words = [f"re-clustered: {digits(shift)} > {digits(threshold)}" if measured else "re-clustered"]
    else:
        words = [f"moved {moved}" if moved else "nobody moved"]
        words += [f"no center went too far: {digits(shift)} of {digits(threshold)}"] if measured else []
    tried, guard, merged = event.get("silhouettes"), event.get("guard"), event.get("merged")
    if isinstance(tried, dict) and tried:
        scores = ", ".join(f"{k}: {digits(score, 2)}" for k, score in tried.items())
        words.append(f"{event.get('n_clusters')} clusters (silhouettes {scores})")
    if isinstance(guard, dict):
        error = "" if guard.get("error") is None else f" \u00b1 {digits(guard.get('error'))}"
        words.append(
            f"guard: clusters spare {digits(guard.get('gain'))}{error} of loss by {guard.get('n_judged')} verdicts"
        )
    if isinstance(merged, list) and merged:
        words.append(f"guard merged {len(merged)} clusters into {len({str(one) for one in merged})}")
    return "; ".join(words)


def _cells(event: Row) -> list[str]:
    kinds = event.get("kinds")
    seen = ", ".join(f"{n} {kind}" for kind, n in kinds.items()) if isinstance(kinds, dict) else ""
    silenced = f", {event.get('n_silenced')} silent" if event.get("n_silenced") else ""
    who, n_moved = event.get("who_moved"), event.get("n_moved")
    moved = str(n_moved) if n_moved else "-"
    if n_moved and isinstance(who, list):
        first = ", ".join(str(one)[:_LONGEST_ID] for one in who[:_SHOWN])
        moved = f"{n_moved}: {first}{', ...' if isinstance(n_moved, int) and n_moved > _SHOWN else ''}"
    shift = f"{digits(event.get('shift'))} / {digits(event.get('threshold'))}"
    return [
        str(event["round"]),
        decision_words(event),
        f"{event.get('n_reported')}{f' ({seen})' if seen else ''}{silenced}",
        moved,
        str(event.get("n_joined") or "-"),
        "-" if event.get("shift") is None else shift,
    ]
