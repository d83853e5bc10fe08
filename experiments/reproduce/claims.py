"""What the paper says beside what we found."""

from collections.abc import Mapping

from experiments.reproduce.figures import FIGURES, Figure, Results, n_reached
from experiments.reproduce.reading import Claim, Experiment
from fielding.errors import InputError, unknown_name

HEAD = ("what", "where", "the paper", "ours", "ours minus the paper's", "so")


def ours_of(claim: Claim, experiment: Experiment, results: Results) -> Figure | None:
    """Return the figure of a comparison that stands beside a claim; None if it cannot be told."""
    name = str(claim.ours.get("figure"))
    if name not in FIGURES:
        raise unknown_name("figure", name, FIGURES)
    of, against = pair_of(claim, experiment)
    return FIGURES[name](results, of, against, corrected=bool(claim.ours.get("corrected", False)))


def pair_of(claim: Claim, experiment: Experiment) -> tuple[str, str]:
    """Return the variant that a claim is about, and the one that it is held against."""
    of = str(claim.ours["of"])
    return of, str(claim.ours.get("against", experiment.held_against(of)))


def measured_row(claim: Claim, found: Mapping[str, Figure]) -> list[str]:
    """Return the cells of a claim about something measured; seconds of two machines are not judged."""
    name = str(claim.ours.get("measured"))
    if name not in found:
        raise unknown_name("measured figure", name, found)
    return row_of(claim, found[name], so="other machines" if claim.unit in ("s", "MB") else None)


def row_of(claim: Claim, ours: Figure | None, *, so: str | None = None) -> list[str]:
    """Return the cells of a claim."""
    if ours is None:
        return [claim.says, claim.source, paper_words(claim), "never", "-", so or "never reached"]
    return [
        claim.says,
        claim.source,
        paper_words(claim),
        f"{figure_words(ours, claim)} {claim.unit}".strip(),
        difference_words(ours, claim),
        so or reading(ours, claim),
    ]


def compared_row(claim: Claim, experiment: Experiment, results: Results) -> list[str]:
    """Return the cells of a claim about runs; for a speed-up, also on how many seeds it is reached."""
    ours = ours_of(claim, experiment, results)
    row = row_of(claim, ours)
    if claim.ours.get("figure") == "speedup" and ours is not None:
        of, against = pair_of(claim, experiment)
        n_there, n_seeds = n_reached(results, of, against), len(results.seeds)
        if n_there < n_seeds:
            row[3] += f" ({n_there} of {n_seeds} seeds get there)"
    return row


def paper_words(claim: Claim) -> str:
    """Return the paper's number.

    Examples
    --------
    >>> claim = Claim(says="", source="", value=(1.5, 4.0), unit="points", ours={})
    >>> paper_words(claim)
    '1.5 to 4 points'
    """
    number = " to ".join(f"{one:g}" for one in claim.value)
    sign = {"above": "> ", "below": "<= "}.get(claim.relation, "")
    return f"{sign}{number} {claim.unit}".strip()


def figure_words(ours: Figure, claim: Claim | None = None) -> str:
    """Return a figure with its interval; the sign where it is a difference.

    Examples
    --------
    >>> figure_words(Figure(mean=0.0123, low=0.0120, high=0.0126)), figure_words(Figure(mean=51.234))
    ('0.0123 (0.0120 to 0.0126)', '51.2')
    """
    sign = "+" if claim is not None and claim.ours.get("figure") in _SIGNED else ""
    places = places_of(ours.mean, claim)
    if ours.low is None or ours.high is None:
        return f"{ours.mean:{sign}.{places}f}"
    return f"{ours.mean:{sign}.{places}f} ({ours.low:{sign}.{places}f} to {ours.high:{sign}.{places}f})"


_SIGNED = ("gain", "mean difference", "largest difference", "heterogeneity change")


def places_of(value: float, claim: Claim | None = None) -> int:
    """Return how many decimals a number has: one, or as many as give three digits to a small one."""
    if claim is not None and claim.unit in ("points", "%", "% of no clustering"):
        return 1
    if claim is not None and claim.unit == "times":
        return 2
    size = abs(value)
    return 1 if size >= 10 else 2 if size >= 1 else 3 if size >= 0.1 or size == 0 else 4


def difference_words(ours: Figure, claim: Claim) -> str:
    """Return ours minus the paper's; for a range, how far outside of it ours is.

    Examples
    --------
    >>> claim = Claim(says="", source="", value=(1.5, 4.0), unit="points", ours={})
    >>> difference_words(Figure(mean=5.0), claim), difference_words(Figure(mean=2.0), claim)
    ('+1.0', 'within')
    """
    low, high = min(claim.value), max(claim.value)
    places = places_of(max(abs(ours.mean - low), abs(ours.mean - high)), claim)
    if ours.mean > high:
        return f"{ours.mean - high:+.{places}f}"
    if ours.mean < low:
        return f"{ours.mean - low:+.{places}f}"
    return "within" if len(claim.value) > 1 else f"{0.0:.{places}f}"


def reading(ours: Figure, claim: Claim) -> str:
    """Return whether our interval agrees with what the paper says.

    Examples
    --------
    >>> claim = Claim(says="", source="", value=(0.0,), unit="points", ours={}, relation="above")
    >>> reading(Figure(mean=1.0, low=0.5, high=1.5), claim), reading(Figure(mean=1.0, low=-0.5, high=2.5), claim)
    ('agrees', 'not clear')
    """
    if ours.low is None or ours.high is None:
        return "one seed: no interval"
    low, high = min(claim.value), max(claim.value)
    if claim.relation == "equal":
        if ours.high < low:
            return "ours is lower"
        return "ours is higher" if ours.low > high else "within the interval"
    is_above, is_below = ours.low > high, ours.high <= low
    if not is_above and not is_below:
        return "not clear"
    if claim.relation not in ("above", "below"):
        raise InputError(f"relation is {claim.relation!r}; give above, below or equal")
    return "agrees" if is_above == (claim.relation == "above") else "disagrees"
