"""The head of the page about runs: one sentence that says what came of them, and the three charts that carry it."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from fielding._typing import Json
from fielding.reporting.charts.curves import (
    clip_band,
    counted_runs,
    curves_figure,
    fit_axis,
    group_lines,
    mean_line,
    over_rounds,
)
from fielding.reporting.charts.drift_events import draw_around_drifts
from fielding.reporting.charts.experts import STYLES, WORDS
from fielding.reporting.charts.fairness import draw_fairness
from fielding.reporting.charts.figures import PALETTE, Figure, as_text, blank_figure, change_layout, mark_places
from fielding.reporting.charts.group_bars import GroupBar, bytes_figure, group_bars
from fielding.reporting.comparison_tables import named_records, seed_count_words
from fielding.reporting.formatting import digits
from fielding.reporting.numbers.comparison import CLAIMED, ORACLE
from fielding.reporting.numbers.groups import BASELINE, METHOD, Group, RunGroups
from fielding.reporting.numbers.paired import estimate_of
from fielding.reporting.numbers.run_record import FINISHED
from fielding.reporting.numbers.run_summary import evaluations, run_summary
from fielding.reporting.page import Section

Row = Mapping[str, Json]
CLEAR = 0.05  # a difference is clear if its adjusted p-value is below
OURS = "fielding"
SERVED = tuple(f"{figure}_served" for figure in CLAIMED.values())
"""The same figures of what clients are served, where their experts read what models say."""
MOST_ROWS = 12  # groups that the first chart shows
HEIGHT = 300  # of the charts, in pixels, unless rows of groups need more
MOST_NAMED = 4  # groups whose accuracy a sentence tells
_LONGEST_NAME = 20


# ---------------------------------------------------------------- the sentence


def write_sentence(runs: RunGroups, summary: Row) -> str:
    """Return in a sentence what came of some runs; ``summary`` is their comparison, as in ``summary.json``."""
    if not any(evaluations(run.rounds) for _, run in runs.runs):
        return "No run has been evaluated yet."
    subject = choose_subject(runs, summary)
    if subject is not None:
        return _compared_sentence(runs, summary, subject)
    if len(runs.groups) == 1:
        return _single_sentence(runs.groups[0])
    told = [f"{group.name} {_last_words(group)}" for group in runs.groups[:MOST_NAMED]]
    more = f" and {len(runs.groups) - MOST_NAMED} more" if len(runs.groups) > MOST_NAMED else ""
    so_far = "" if all(run.state == FINISHED for _, run in runs.runs) else " so far"
    return f"Accuracy on the window{so_far}: {', '.join(told)}{more}."


def choose_subject(runs: RunGroups, summary: Row) -> str | None:
    """Return the group that the sentence is about, None if no difference is known: the most accurate of its rivals."""
    rivals = _find_rivals(runs, summary)
    return max(rivals, key=lambda name: rivals[name], default=None)


def _find_rivals(runs: RunGroups, summary: Row) -> dict[str, float]:
    """Return the gains of the groups that the sentence chooses from.

    Those that have the method ``fielding``; if there is none, those of any method but the oracle that are compared with
    the reference. Where that has no difference to any, those that are compared with another one.
    """
    gains = {}
    for name in named_records(summary, "paired"):
        mean = _record(summary, "paired", name, _claimed(summary, name)[0]).get("mean")
        if isinstance(mean, (int, float)) and runs.group(name) is not None and _method(runs, name) != ORACLE:
            gains[name] = float(mean)
    near = {name: gain for name, gain in gains.items() if runs.references.get(name) == runs.reference}
    ours = {name: gain for name, gain in gains.items() if _method(runs, name) == OURS}
    return ours or near or gains


def _method(runs: RunGroups, name: str) -> str:
    return str(runs.variants.get(name, {}).get(METHOD, name))


def _compared_sentence(runs: RunGroups, summary: Row, subject: str) -> str:
    reference = str(runs.references[subject])
    figures = _claimed(summary, subject)
    gains = [_record(summary, "paired", subject, figure) for figure in figures]
    points = [100 * float(mean) if isinstance(mean := one.get("mean"), (int, float)) else None for one in gains]
    n_rivals = len(_find_rivals(runs, summary))
    chosen = f"{subject}, the best of {n_rivals}," if n_rivals > 1 else subject
    first = f"{chosen} {_signed(points[0])} points over {_model_words(reference)} on the window{_clear_words(gains[0])}"
    if points[1] is not None:
        link = "but" if (points[1] < 0) != (points[0] is not None and points[0] < 0) else "and"
        first = f"{first}, {link} {_signed(points[1])} on the next interval{_clear_words(gains[1])}"
    if traffic := _bytes_words(summary, subject, reference):
        first = f"{first}, with {traffic}"
    clauses = [first]
    others = {
        name: gain
        for name in named_records(summary, "paired")
        if runs.references.get(name) == reference and _method(runs, name) != ORACLE
        if (gain := _record(summary, "paired", name, figures[0]).get("mean")) is not None
    }
    best = max(others, key=lambda name: float(str(others[name])))
    if best != subject:
        clauses.append(f"{best} is higher ({_signed(100 * float(str(others[best])))})")
    group = runs.group(subject)
    if group is not None and (served := served_words(group)):
        clauses.append(served)
    return f"{'; '.join(clauses)}."


def _claimed(summary: Row, name: str) -> tuple[str, str]:
    """Return the two figures that a claim is about: of what clients are served, if both sides have experts."""
    paired = named_records(summary, "paired").get(name, {})
    has_served = isinstance(one := paired.get(SERVED[0]), dict) and one.get("mean") is not None
    window, following = SERVED if has_served else tuple(CLAIMED.values())
    return window, following


def _record(summary: Row, part: str, name: str, figure: str) -> Row:
    found = named_records(summary, part).get(name, {}).get(figure)
    return found if isinstance(found, dict) else {}


def _signed(points: float | None) -> str:
    """Return points with their sign.

    Examples
    --------
    >>> _signed(2.71), _signed(-0.96)
    ('+2.7', '-1.0')
    """
    return digits(None) if points is None else f"{points:+.1f}"


def _clear_words(gain: Row) -> str:
    """Return whether seeds tell that a difference is one.

    Examples
    --------
    >>> _clear_words({"p_holm": 0.0021, "n_seeds": 5}), _clear_words({"p_holm": 0.13, "n_seeds": 5})
    (', clear (p = 0.002)', ', not clear (p = 0.13)')
    """
    p = gain.get("p_holm")
    if not isinstance(p, (int, float)):
        return " (one seed, not tested)" if gain.get("n_seeds") == 1 else ""
    shown = "p < 0.001" if p < 0.001 else f"p = {p:.1g}" if p < 0.01 else f"p = {p:.2g}"
    return f", {'clear' if p < CLEAR else 'not clear'} ({shown})"


def _model_words(reference: str) -> str:
    return "one model" if reference == BASELINE else reference


def _bytes_words(summary: Row, name: str, reference: str) -> str:
    """Return how many bytes a group needs beside its reference; nothing if that is not known."""
    sums = []
    for one in (name, reference):
        found = [estimate_of(dict(_record(summary, "methods", one, way))) for way in ("bytes_down", "bytes_up")]
        sums.append(sum(part.mean for part in found if part is not None))
    if not all(sums):
        return ""
    ratio = sums[0] / sums[1]
    if ratio >= 2:
        return f"{ratio:.1f} times the bytes"
    if abs(ratio - 1) < 0.005:
        return "as many bytes"
    return f"{100 * abs(ratio - 1):.0f} % {'fewer' if ratio < 1 else 'more'} bytes"


def served_words(group: Group) -> str:
    """Return by what most clients of a group are served best at the end, over its seeds; nothing without experts."""
    counts = expert_counts(group)
    if not counts:
        return ""
    name, number = counts.most_common(1)[0]
    return f"{number / counts.total():.0%} of clients are served best by {WORDS.get(name, name)}".replace("%", " %")


def expert_counts(group: Group) -> Counter[str]:
    """Return how many clients are served best by each expert at the last evaluation of each run of a group."""
    counts: Counter[str] = Counter()
    for run in counted_runs(group):
        rows = [one for row in run.rounds if isinstance(one := row.get("experts"), dict)]
        counts.update({name: n for name, n in (rows[-1] if rows else {}).items() if isinstance(n, int) and n > 0})
    return counts


def _single_sentence(group: Group) -> str:
    """Return the final accuracy of one group, how many clusters there are, and what clients are served by."""
    runs = counted_runs(group)
    summaries = [run_summary(run.rounds, run.events, gap=run.gap) for run in runs]

    def mean(name: str) -> float | None:
        known = [float(value) for one in summaries if isinstance(value := one.get(name), (int, float))]
        return sum(known) / len(known) if known else None

    ending = "" if mean("final_accuracy_served") is None else "_served"
    if any(run.state != FINISHED for run in runs):
        clauses = [f"Accuracy so far: {_last_words(group)}"]
    else:
        words = [f"{'Served' if ending else 'Final'} accuracy {digits(mean(f'final_accuracy{ending}'))} on the window"]
        if (following := mean(f"final_next_accuracy{ending}")) is not None:
            words.append(f"{digits(following)} on the next interval")
        worst = mean(f"worst_decile{ending}")
        tenth = "" if worst is None else f", {digits(worst)} for the worst tenth of the clients"
        seeds = f", mean over {seed_count_words([len(runs)])}" if len(runs) > 1 else ""
        clauses = [f"{' and '.join(words)}{tenth}{seeds}"]
    n_clusters = mean("n_clusters_last")
    if group.is_clustered and n_clusters is not None:
        clauses.append(f"{n_clusters:.3g} {'cluster' if n_clusters == 1 else 'clusters'}")
    if served := served_words(group):
        clauses.append(served)
    tests = [one for run in runs if (one := run.last_test()) is not None]
    n_clients = sum(len(one.client_ids) for one in tests)
    n_silent = sum(int((one.n_test == 0).sum()) for one in tests)
    if n_silent:
        clauses.append(f"{100 * n_silent / n_clients:.0f} % of clients have no test samples now")
    return f"{'; '.join(clauses)}."


def _last_words(group: Group) -> str:
    """Return the last accuracy of a group, and how far its runs are unless all are finished."""
    runs = counted_runs(group)
    last = [float(str(tested[-1]["accuracy"])) for run in runs if (tested := evaluations(run.rounds))]
    words = digits(sum(last) / len(last) if last else None)
    if all(run.state == FINISHED for run in runs):
        return words
    counts = [len(run.rounds) for run in runs]
    rounds = f"{min(counts):,} to {max(counts):,}" if min(counts) < max(counts) else f"{max(counts):,}"
    n_expected = max(run.n_expected for run in runs)
    return f"{words} (round {rounds}{f' of {n_expected:,}' if n_expected else ''})"


# ---------------------------------------------------------------- the charts


def draw_highlights(runs: RunGroups, summary: Row) -> list[Section]:
    """Return the three charts that carry the sentence; fewer where runs do not have the numbers for them."""
    found = _compared_charts(runs, summary) if len(runs.groups) > 1 else _single_charts(runs)
    height = max(HEIGHT, 80 + 28 * min(MOST_ROWS, len(runs.groups)))
    return [
        replace(
            one,
            figure=change_layout(
                one.figure or {}, height=height, margin={"l": 40, "r": 10, "t": 10, "b": 40}, annotations=[]
            ),
        )
        for one in found
    ]


def _compared_charts(runs: RunGroups, summary: Row) -> list[Section]:
    subject = choose_subject(runs, summary)
    is_served = subject is not None and _claimed(summary, subject) == SERVED
    name = "served_accuracy" if is_served else "accuracy"
    what = ", as served" if is_served else ""
    charts = []
    if (figure := _gains_figure(runs, summary, subject)) is not None:
        references = [name for name in dict.fromkeys(runs.references.values()) if name is not None]
        of = "" if subject is None else _model_words(references[0]) if len(references) == 1 else "the reference"
        charts.append(
            Section(
                title=f"Points over {of}" if of else "Final accuracy",
                text="Filled: window, open: next; 95 % intervals.",
                figure=figure,
                key="results-in-numbers",
            )
        )
    if lines := group_lines(runs, partial(over_rounds, name=name), (0.0, 1.0)):
        figure = curves_figure(lines, x_title="round", y_title="accuracy", from_zero=False)
        text = f"On the window{what}, mean over clients."
        charts.append(Section(title="Accuracy over rounds", text=text, figure=fit_axis(figure, lines), key="accuracy"))
    if (figure := bytes_figure(runs, name)) is not None:
        text = "Final, on the window; upper left is best."
        charts.append(Section(title="Accuracy against bytes", text=text, figure=figure, key="accuracy-against-bytes"))
    return charts


def _gains_figure(runs: RunGroups, summary: Row, subject: str | None) -> Figure | None:
    """Return the difference of each group to its reference in points, or its final accuracy where none is known."""
    figures = tuple(CLAIMED.values()) if subject is None else _claimed(summary, subject)
    part, scale = ("methods", 1.0) if subject is None else ("paired", 100.0)
    found = {
        group.name: [estimate_of(dict(_record(summary, part, group.name, figure))) for figure in figures]
        for group in runs.groups
    }
    means = {name: pair[0].mean for name, pair in found.items() if pair[0] is not None}
    if not means:
        return None
    if subject is not None:  # what others are compared with lies at zero
        means |= {name: 0.0 for name in runs.references.values() if name in found}
    order = sorted(means, key=lambda name: -means[name])
    shown = order[:MOST_ROWS] if subject is None or subject in order[:MOST_ROWS] else [*order[: MOST_ROWS - 1], subject]
    apart = 0.15 if len(shown) > 5 else 0.09
    traces = []
    for row, name in enumerate(shown):
        color = PALETTE[runs.styles[name] % len(PALETTE)]
        for at, (one, word) in enumerate(zip(found[name], ("window", "next"), strict=True)):
            if one is None and (at or name not in means):
                continue
            mean, ends = (means[name], None) if one is None else (one.mean, one.ends)
            trace: dict[str, Any] = {
                "type": "scatter", "mode": "markers", "x": [scale * mean], "y": [row + (2 * at - 1) * apart],
                "name": as_text(name), "meta": {"group": name}, "cliponaxis": False, "showlegend": False,
                "marker": {
                    "symbol": "circle-open" if at else "circle", "size": 9, "color": color,
                    "line": {"width": 2, "color": color},
                },
                "hovertemplate": f"{as_text(name)}, {word}: %{{x:.3~f}}<extra></extra>",
            }  # fmt: skip
            if ends is not None:
                trace["error_x"] = {
                    "type": "data", "array": [scale * (ends[1] - mean)], "arrayminus": [scale * (mean - ends[0])],
                    "symmetric": False, "thickness": 1.5, "width": 3, "color": color,
                }  # fmt: skip
            traces.append(trace)
    names = [name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…" for name in shown]
    figure = change_layout(
        blank_figure(traces, x_title="points" if subject else "final accuracy", y_title=""),
        hovermode="closest",
        showlegend=False,
        xaxis={"rangemode": "normal", "zeroline": False},
        yaxis={
            "range": [len(shown) - 0.5, -0.5], "tickvals": list(range(len(shown))), "rangemode": "normal",
            "ticktext": [as_text(name) for name in names], "showgrid": False, "zeroline": False,
        },
    )  # fmt: skip
    return figure if subject is None else mark_places(figure, [0.0], color="#808080")


def _single_charts(runs: RunGroups) -> list[Section]:
    if not runs.groups:
        return []
    group, charts = runs.groups[0], []
    scores = {"window": "accuracy", "next interval": "next_accuracy"}
    if over_rounds(counted_runs(group), "served_accuracy") is not None:
        scores = {"served, window": "served_accuracy", "served, next": "served_next_accuracy", "models": "accuracy"}
    lines = [
        clip_band(mean_line(found, words, style=style), (0.0, 1.0))
        for style, (words, name) in enumerate(scores.items())
        if (found := over_rounds(counted_runs(group), name)) is not None
    ]
    if lines:
        figure = curves_figure(lines, x_title="round", y_title="accuracy", from_zero=False)
        text = "Mean over clients."
        charts.append(Section(title="Accuracy over rounds", text=text, figure=fit_axis(figure, lines), key="accuracy"))
    if counts := expert_counts(group):
        shares = {name: 100 * number / counts.total() for name, number in counts.most_common()}
        bars = [
            GroupBar(group=WORDS.get(name, name), length=share, style=STYLES.get(name, 9))
            for name, share in shares.items()
        ]
        words = {WORDS.get(name, name): f"{share:.0f} %" for name, share in shares.items()}
        charts.append(
            Section(
                title="What serves clients best",
                text="By the evidence of each client, at the end.",
                # Bars as thick as in other figures, whatever the height.
                figure=change_layout(
                    group_bars(bars, words, x_title="% of the clients"), bargap=1 - 15 * len(bars) / (HEIGHT - 60)
                ),
                key="what-clients-are-served-by",
            )
        )
    elif (fairness := draw_fairness(runs)).figure is not None or fairness.views:
        text = "Share of clients with no more; right is better."
        charts.append(replace((*fairness.views, fairness)[0], text=text, table=(), row_groups=(), words=()))
    around = draw_around_drifts(runs).views
    if around:
        served = [view for view in around if "served" in view.words]
        text = f"Mean over drifts{', as served' if served else ''}; a drift is at zero."
        charts.append(replace((served or around)[0], text=text, table=(), row_groups=(), words=()))
    return charts
