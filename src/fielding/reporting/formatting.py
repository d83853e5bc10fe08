"""Values as people write them, for pages and for the terminal."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from fielding._typing import Json
from fielding.federation.evaluation import TREATMENTS

SECONDS = {"days": 86_400.0, "hours": 3_600.0, "minutes": 60.0}  # units of time, longest first
UNTESTED = "none, no client had test samples"
_LABELS = {
    "method": "method",
    "n_rounds": "rounds",
    "final_accuracy": "final accuracy on the window, mean over clients",
    "final_newest_accuracy": "on the newest interval",
    "final_next_accuracy": "on the next interval",
    "worst_decile": "of the worst tenth of the clients",
    "final_accuracy_corrected": "corrected to clients' label mixes",
    "final_newest_accuracy_corrected": "corrected, on the newest interval",
    "final_next_accuracy_corrected": "corrected, on the next interval",
    "worst_decile_corrected": "corrected, of the worst tenth",
    "final_accuracy_tuned": "tuned on clients' own samples",
    "final_newest_accuracy_tuned": "tuned, on the newest interval",
    "final_next_accuracy_tuned": "tuned, on the next interval",
    "worst_decile_tuned": "tuned, of the worst tenth",
    "final_accuracy_served": "served by the best of clients' experts",
    "final_newest_accuracy_served": "served, on the newest interval",
    "final_next_accuracy_served": "served, on the next interval",
    "worst_decile_served": "served, of the worst tenth",
    "final_ari": "agreement with the true groups (ARI)",
    "n_clusters_last": "clusters at the end",
    "n_first_reports": "first reports, to join",
    "n_drift_reports": "reports of drift",
    "moves": "moves one by one",
    "reclusterings": "re-clusterings of all",
}
Row: TypeAlias = Mapping[str, Json]


def metric_heads(figures: Iterable[str]) -> dict[str, str]:
    """Return what tables call final figures of metrics of the user's own, by figure; other figures are left out.

    Of scores, tables have those on the window and on the next interval.

    Examples
    --------
    >>> metric_heads(["final_accuracy", "final_metric/f1", "final_next_metric/f1_served"])
    {'final_metric/f1': 'f1', 'final_next_metric/f1_served': 'f1 (next, served)'}
    """
    found = {}
    for figure in figures:
        score, is_metric, name = figure.partition("metric/")
        if is_metric and score in ("final_", "final_next_"):
            how = next((one for one in TREATMENTS if name.endswith(f"_{one}")), "")
            words = ", ".join([*(["next"] if score == "final_next_" else []), *([how] if how else [])])
            found[figure] = f"{name.removesuffix(f'_{how}')} ({words})" if words else name
    return dict(sorted(found.items(), key=lambda one: (one[1].split(" ")[0], len(one[1]))))


def plain(value: object) -> str:
    """Return a value as people write it: few digits, a dash for nothing, records in one line.

    Examples
    --------
    >>> plain({"tau": 1 / 3, "reference": "previous", "least": None})
    'tau 0.3333, reference previous, least -'
    """
    if isinstance(value, dict):
        return ", ".join(f"{name} {plain(inner)}" for name, inner in value.items())
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def digits(value: object, places: int = 3) -> str:
    """Return a number with so many digits after the point, a dash for nothing.

    Examples
    --------
    >>> digits(0.97654), digits(None), digits(float("nan"))
    ('0.977', '-', '-')
    """
    if not isinstance(value, (int, float)) or value != value:
        return "-"
    return f"{value:,.{places}f}"


def places_of(largest: float) -> int:
    """Return how many digits after the point numbers up to so large a one need, for it to have three that count.

    Examples
    --------
    >>> [places_of(one) for one in (0.0, 0.00123, 0.5, 1.0, 12.34, 1234.5)]
    [3, 5, 3, 3, 1, 0]
    """
    if largest == 0.0 or 0.1 <= largest <= 1.0:
        return 3
    return max(0, 2 - math.floor(math.log10(largest)))


def megabytes(value: object) -> str:
    """Return a number of bytes in megabytes.

    Examples
    --------
    >>> megabytes(46_176_000), megabytes(1_234_567_890), megabytes(40_000), megabytes(0)
    ('46.2 MB', '1,235 MB', '0.040 MB', '0 MB')
    """
    amount = float(value) / 1e6 if isinstance(value, (int, float)) else float("nan")
    return f"{digits(amount, 0 if amount >= 1000 or not amount else 1 if amount >= 1 else 3)} MB"


def amount(value: float) -> str:
    """Return an amount with three digits that count.

    Examples
    --------
    >>> amount(1234.5), amount(12.345), amount(0.01234), amount(0.0), amount(1e-5)
    ('1,234', '12.3', '0.0123', '0', '< 0.001')
    """
    if 0 < value < 0.001:
        return "< 0.001"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def counterpart_words(names: Sequence[str], most: int = 3) -> str:
    """Return the name of the one reference, or of several (the first ``most`` of them) that the right one is meant.

    Examples
    --------
    >>> counterpart_words(["global gap=2", "global gap=5", "global gap=9"], 2)
    'whichever of global gap=2, global gap=5 and 1 more has the same settings'
    """
    if len(names) == 1:
        return names[0]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"whichever of {', '.join(names[:most])}{more} has the same settings"


def as_time(seconds: float) -> str:
    """Return a span of time in words.

    Examples
    --------
    >>> as_time(75), as_time(7260), as_time(200_000)
    ('1m15s', '2h01m', '2d07h')
    """
    minutes, hours, days = (int(seconds // SECONDS[unit]) for unit in ("minutes", "hours", "days"))
    if days:
        return f"{days}d{hours % 24:02d}h"
    return f"{hours}h{minutes % 60:02d}m" if hours else f"{minutes}m{int(seconds) % 60:02d}s"


def time_unit(seconds: float) -> str:
    """Return the longest unit of ``SECONDS`` of which there are at least three, else minutes.

    Examples
    --------
    >>> time_unit(4 * 86_400.0), time_unit(5 * 3_600.0), time_unit(90.0)
    ('days', 'hours', 'minutes')
    """
    return next((unit for unit, length in SECONDS.items() if seconds >= 3 * length), "minutes")


def run_table(summary: Row) -> list[list[str]]:
    """Return a row for each figure of a run that tells something: its name, its value."""
    figures = {**summary, "n_drift_reports": n_drift_reports(summary)}
    if figures["n_clusters_last"] == 1:
        figures["final_ari"] = None  # one cluster agrees with any truth no better than chance
    labels, own = list(_LABELS.items()), metric_heads(figures).items()
    at = list(_LABELS).index("final_ari")  # behind all accuracies
    labels[at:at] = own
    rows = [[label, plain(figures[name])] for name, label in labels if figures.get(name) is not None]
    if summary["final_accuracy"] is None:
        rows.insert(2, ["final accuracy", UNTESTED])
    if summary["n_failed"]:
        rows.append(["trainings without a finite model", f"{summary['n_failed']} of {summary['n_trained']}"])
    rows.append(["simulated time", as_time(float(str(summary["time_s"])))])
    return rows + [[label, megabytes(summary[name])] for name, label in (("bytes_down", "down"), ("bytes_up", "up"))]


def score_words(row: Row) -> str:
    """Return the three scores of an evaluated round, or of a summary, and as clients are served if they have experts.

    Nothing for another round.

    Examples
    --------
    >>> score_words({"accuracy": 0.5, "newest_accuracy": 0.25, "next_accuracy": None}), score_words({"round": 3})
    ('accuracy 0.500 (newest 0.250)', '')
    >>> score_words({"accuracy": 0.5, "served_accuracy": 0.75, "served_next_accuracy": 0.7})
    'accuracy 0.500, served 0.750 (next 0.700)'
    """

    def words(title: str, before: str, after: str) -> str:
        known = [(name, row.get(f"{before}{name}_accuracy{after}")) for name in ("newest", "next")]
        others = ", ".join(f"{name} {value:.3f}" for name, value in known if isinstance(value, float))
        accuracy = row.get(f"{before}accuracy{after}")
        if not isinstance(accuracy, float):
            return ""
        return f"{title} {accuracy:.3f}{f' ({others})' if others else ''}"

    served = words("served", "served_", "") or words("served", "", "_served")  # of a round, of a summary
    return ", ".join(one for one in (words("accuracy", "", ""), served) if one)


def n_drift_reports(summary: Row) -> int | None:
    """Return how many reports told of drift; the others are those by which clients joined.

    Examples
    --------
    >>> n_drift_reports({"n_reports": 76, "n_first_reports": 40})
    36
    """
    if summary["n_first_reports"] is None:
        return None
    return max(0, int(str(summary["n_reports"])) - int(str(summary["n_first_reports"])))


def failure_words(summary: Row) -> str:
    """Return how many trainings diverged and what helps; nothing if none did.

    Examples
    --------
    >>> failure_words({"n_failed": 3, "n_trained": 400})
    '3 of 400 trainings gave no finite model; lower training.learning_rate'
    """
    if not summary["n_failed"]:
        return ""
    return (
        f"{summary['n_failed']} of {summary['n_trained']} trainings gave no finite model; lower training.learning_rate"
    )
