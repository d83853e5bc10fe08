"""What a file holds, as lines for people or as JSON."""

from collections.abc import Mapping
from datetime import UTC, datetime

from fielding.cli.console import say, say_json
from fielding.traces.intervals import LAST_MOMENT

_EARLIEST = 1e8
"""Numbers below this are no unix time that anybody means: 1973."""
_UNITS = (("day", 86_400.0), ("hour", 3600.0), ("minute", 60.0), ("second", 1.0))
_SHOWN = 12
"""Classes whose counts are told; of more only the largest are."""

TITLES = {
    "trace": "samples over time",
    "pool": "samples without clients and times: a scenario deals them",
    "reports": "reports (of a trace: one whenever the label shares in the window change)",
    "clusters": "clusters of the first reports",
    "over_time": "what changes from interval to interval of a client?",
    "between_clients": "what differs between clients in the same interval?",
    "probe": "the small model through which inputs and meanings were looked at",
    "verdict": "does it drift beyond sampling noise?",
    "advice": "what to use:",
}
WORDS = {
    "n_rows": "rows",
    "n_samples": "samples",
    "n_clients": "clients",
    "n_classes": "classes",
    "first_time": "first sample",
    "last_time": "last sample",
    "span": "time between them",
    "samples_per_client": "samples per client",
    "samples_per_class": "samples per class",
    "shape": "shape of a sample",
    "interval": "length of an interval",
    "align": "intervals begin by",
    "n_intervals": "intervals",
    "active_per_interval": "clients with samples, per interval",
    "drift": "change of label shares, interval to interval (L1)",
    "noise": "the same by sampling alone",
    "excess": "standard errors between the two",
    "min_samples": "samples that an interval needs to be compared",
    "n_pairs": "pairs that were compared",
    "n_clients_compared": "clients that were compared",
    "n_steps": "steps",
    "n_features": "numbers in a report",
    "n_silent": "reports of having no data",
    "first_step": "first step",
    "last_step": "last step",
    "reports_per_client": "reports per client",
    "metric": "distance",
    "delta": "largest step of a client between reports (the paper's delta)",
    "mean_step": "mean step, over reports",
    "n_clusters": "clusters",
    "delta_within": "largest distance within a cluster (the paper's Delta)",
    "is_exact": "measured on all pairs",
    "labels": "label mix",
    "inputs": "inputs of a label",
    "meanings": "meaning of labels",
    "n_trained": "samples it was trained on",
    "n_compared": "samples that were compared",
    "accuracy": "share of these that it gets right",
}
OWN_WORDS = {"reports": {"drift": "mean step, over clients"}}
"""Words for what has another meaning in one part than elsewhere."""

ABSENT = {
    "trace": "- (nothing to compare; the verdict says why)",
    "pool": "- (images are brought to one size when they are decoded)",
    "reports": "- (no client reports twice)",
    "clusters": "- (every client is a cluster of its own)",
    "probe": "- (nothing to look at but labels)",
}
"""Why there is nothing to tell."""


def say_description(record: Mapping[str, object], *, as_json: bool) -> None:
    """Print a record of records, each under its title."""
    if as_json:
        say_json(record)
        return
    for part, values in record.items():
        title = TITLES.get(part, part)
        if not isinstance(values, dict):
            say(f"{title} {values}")
            continue
        say(title)
        known = WORDS | OWN_WORDS.get(part, {})
        words = {name: known[name] if name in known else str(name) for name in values}
        width = max(map(len, words.values()))
        for name, value in values.items():
            told = ABSENT.get(part, "-") if value is None else _told(name, value)
            say(f"  {words[name]:<{width}}  {told}")


def _told(name: str, value: object) -> str:
    """Return a value as people write it."""
    if name in ("first_time", "last_time") and isinstance(value, float):
        return moment(value)
    if name in ("span", "interval") and isinstance(value, float):
        return time_span(value)
    if name == "samples_per_class" and isinstance(value, dict):
        return largest_counts(value)
    if isinstance(value, dict) and "verdict" in value:
        return str(value["verdict"])
    if isinstance(value, dict):
        return ", ".join(f"{inner} {number(one)}" for inner, one in value.items())
    if isinstance(value, tuple):
        return " x ".join(map(str, value))
    return number(value)


def number(value: object) -> str:
    """Return a number with few digits and no exponent where none is needed; yes or no; a dash for nothing.

    Examples
    --------
    >>> number(0.12345), number(2156012.0), number(True), number(None)
    ('0.1235', '2,156,012', 'yes', '-')
    """
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and abs(value) < 1000.0:
        return f"{value:.4g}"
    return f"{value:,.0f}" if isinstance(value, (int, float)) else str(value)


def moment(time: float) -> str:
    """Return a time as a date if it can be unix seconds, else the number.

    Examples
    --------
    >>> moment(1.7e9), moment(2156012.0)
    ('2023-11-14 22:13 UTC', '2,156,012 (no unix time)')
    """
    if _EARLIEST < time < LAST_MOMENT:
        return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"{number(time)} (no unix time)"


def time_span(seconds: float) -> str:
    """Return a length of time in its longest unit.

    Examples
    --------
    >>> time_span(86400.0), time_span(21600.0), time_span(0.5)
    ('1 day', '6 hours', '0.5 seconds')
    """
    unit, length = next((pair for pair in _UNITS if seconds >= pair[1]), _UNITS[-1])
    amount = number(seconds / length)
    return f"{amount} {unit}{'' if amount == '1' else 's'}"


def largest_counts(counts: Mapping[str, int]) -> str:
    """Return how many samples classes have; of many classes those with most.

    Examples
    --------
    >>> largest_counts({"cat": 1, "dog": 2000})
    'cat 1, dog 2,000'
    """
    if len(counts) <= _SHOWN:
        return ", ".join(f"{name} {count:,}" for name, count in counts.items())
    most = sorted(counts.items(), key=lambda pair: -pair[1])[:_SHOWN]
    told = ", ".join(f"{name} {count:,}" for name, count in most)
    return f"{told}, and {len(counts) - _SHOWN:,} more with at least {min(counts.values()):,} each"
