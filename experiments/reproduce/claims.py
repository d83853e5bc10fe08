"""What the paper says beside what we found."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from experiments.reproduce.figures import FIGURES, NEXT, SIGNED, SPEEDUPS
from experiments.reproduce.reading import RELATIONS, Claim, Experiment
from experiments.reproduce.results import Figure, Results
from experiments.reproduce.speed import n_reached
from fielding.errors import unknown_name

HEAD = ("what", "the paper", "ours", "so")
MARGIN = 1.0
"""Points, or percent, within which two things count as level; fixed before the results that it judges."""
BOTH_SCORES = {"gain": "next gain", "corrected gain": "corrected next gain"}
"""Figures on the window, and the same on the next interval: a claim of being better holds on both."""
BESIDE = " / "
"""Between two figures of ours in a cell."""
_MACHINE_UNITS = ("s", "MB")


def ours_of(claim: Claim, experiment: Experiment, results: Results) -> Figure | None:
    """Return the figure of a comparison that stands beside a claim; None if it cannot be told."""
    name = str(claim.ours.get("figure"))
    if name not in FIGURES:
        raise unknown_name("figure", name, FIGURES)
    of, against = pair_of(claim, experiment)
    return FIGURES[name](results, of, against)


def pair_of(claim: Claim, experiment: Experiment) -> tuple[str, str]:
    """Return the variant that a claim is about, and the one that it is held against."""
    of = str(claim.ours["of"])
    return of, str(claim.ours.get("against", experiment.held_against(of)))


def measured_row(claim: Claim, found: Mapping[str, Figure]) -> list[str]:
    """Return the cells of a claim about something measured; seconds of two machines are not judged."""
    name = str(claim.ours.get("measured"))
    if name not in found:
        raise unknown_name("measured figure", name, found)
    return row_of(claim, found[name], so="other machines" if claim.unit in _MACHINE_UNITS else None)


def row_of(claim: Claim, ours: Figure | None, *, so: str | None = None) -> list[str]:
    """Return the cells of a claim; what the claim itself says about the reading counts first."""
    so = claim.so or so
    if ours is None:
        return [claim.says, paper_words(claim), "never", so or "never reached"]
    unit = "" if claim.value else f" {claim.unit}"  # else it stands beside the paper's number
    return [claim.says, paper_words(claim), f"{figure_words(ours, claim)}{unit}".strip(), so or reading(ours, claim)]


def compared_row(claim: Claim, experiment: Experiment, results: Results) -> list[str]:
    """Return the cells of a claim about runs, with two figures of ours where one would say half of it.

    For a speed-up by the clock and in rounds; for a gain on the window, as the paper has it, and on the next interval.
    """
    figure = str(claim.ours.get("figure"))
    if figure in BOTH_SCORES:
        on_next = replace(claim, ours={**claim.ours, "figure": BOTH_SCORES[figure]})
        # Data that are all there from the start have no interval to come.
        has_next = all(None not in results.values(one, NEXT) for one in pair_of(claim, experiment))
        return joined([row_of(one, ours_of(one, experiment, results)) for one in (claim, on_next)[: 1 + has_next]])
    if figure != "speedup":
        return row_of(claim, ours_of(claim, experiment, results))
    in_rounds = replace(claim, ours={**claim.ours, "figure": "speedup in rounds"})
    return joined([_speedup_row(one, experiment, results) for one in (claim, in_rounds)])


def joined(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows of a claim as one; a verdict that all share stands once.

    Examples
    --------
    >>> joined([["gain", "5 points", "+4", "agrees"], ["gain", "5 points", "+6", "agrees"]])
    ['gain', '5 points', '+4 / +6', 'agrees']
    """
    says, paper, *_ = rows[0]
    verdicts = [row[-1] for row in rows]
    return [says, paper, BESIDE.join(row[2] for row in rows), BESIDE.join(dict.fromkeys(verdicts))]


def verdicts_in(row: Sequence[str]) -> list[str]:
    """Return the verdicts of a row, one for each figure of ours.

    Examples
    --------
    >>> verdicts_in(["gain", "5 points", "+4 / +6", "agrees"])
    ['agrees', 'agrees']
    """
    verdicts = row[-1].split(BESIDE)
    return verdicts if len(verdicts) > 1 else verdicts * len(row[2].split(BESIDE))


def _speedup_row(claim: Claim, experiment: Experiment, results: Results) -> list[str]:
    """Return the cells of a speed-up; one that is reached on some seeds only is not judged."""
    of, against = pair_of(claim, experiment)
    n_there, n_seeds = n_reached(results, of, against, SPEEDUPS[str(claim.ours["figure"])]), len(results.seeds)
    so = f"reached on {n_there} of {n_seeds} seeds" if 0 < n_there < n_seeds else None
    return row_of(claim, ours_of(claim, experiment, results), so=so)


def paper_words(claim: Claim) -> str:
    """Return the paper's number, a dash where it has none.

    Examples
    --------
    >>> claim = Claim(says="", source="", value=(1.5, 4.0), unit="points", ours={})
    >>> paper_words(claim)
    '1.5 to 4 points'
    """
    if not claim.value:
        return "-"
    number = " to ".join(f"{one:g}" for one in claim.value)
    sign = {"above": "> ", "below": "<= ", "no gain": "<= ", "level": "level: "}.get(claim.relation, "")
    return f"{sign}{number} {claim.unit}".strip()


def figure_words(ours: Figure, claim: Claim | None = None) -> str:
    """Return a figure with its interval; the sign where it is a difference.

    Examples
    --------
    >>> figure_words(Figure(mean=0.0123, low=0.0120, high=0.0126)), figure_words(Figure(mean=51.234))
    ('0.0123 [0.0120, 0.0126]', '51.2')
    """
    sign = "+" if claim is not None and claim.ours.get("figure") in SIGNED else ""
    places = places_of(ours.mean, claim)
    if ours.low is None or ours.high is None:
        return f"{ours.mean:{sign}.{places}f}"
    return f"{ours.mean:{sign}.{places}f} [{ours.low:{sign}.{places}f}, {ours.high:{sign}.{places}f}]"


def places_of(value: float, claim: Claim | None = None) -> int:
    """Return how many decimals a number has: one, or as many as give three digits to a small one."""
    if claim is not None and claim.unit in ("points", "%", "% of no clustering", "% of the rounds"):
        return 1
    if claim is not None and claim.unit == "times":
        return 2
    size = abs(value)
    return 1 if size >= 10 else 2 if size >= 1 else 3 if size >= 0.1 or size == 0 else 4


def reading(ours: Figure, claim: Claim) -> str:
    """Return whether our interval agrees with what the paper says.

    Examples
    --------
    >>> claim = Claim(says="", source="", value=(0.0,), unit="points", ours={}, relation="above")
    >>> reading(Figure(mean=1.0, low=0.5, high=1.5), claim), reading(Figure(mean=1.0, low=-0.5, high=2.5), claim)
    ('agrees', 'not clear')
    """
    if claim.relation not in RELATIONS:
        raise unknown_name("relation", claim.relation, dict.fromkeys(RELATIONS))
    if not claim.value:
        return "-"
    if ours.low is None or ours.high is None:
        return "one seed: no interval"
    ends = ours.low, ours.high
    if claim.relation == "equal":
        return _beside_number(ends, ours.mean, claim.value)
    value = claim.value[0]
    if claim.relation == "level":
        is_outside = ours.low > value + MARGIN or ours.high < value - MARGIN
        is_inside = ours.low >= value - MARGIN and ours.high <= value + MARGIN
        return "differs" if is_outside else "level" if is_inside else "not clear"
    return _beside_bound(ends, value + (MARGIN if claim.relation == "no gain" else 0.0), claim.relation == "above")


def _beside_number(ends: tuple[float, float], mean: float, value: tuple[float, ...]) -> str:
    low, high = min(value), max(value)
    if ends[1] < low:
        return "lower"
    if ends[0] > high:
        return "higher"
    if len(value) == 1:
        return "within"
    return "within" if low <= mean <= high else "overlaps"


def _beside_bound(ends: tuple[float, float], bound: float, is_above_said: bool) -> str:
    is_above, is_below = ends[0] > bound, ends[1] <= bound
    if not is_above and not is_below:
        return "not clear"
    return "agrees" if is_above == is_above_said else "disagrees"
