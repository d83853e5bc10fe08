"""What a report is about, in a title and a paragraph."""

from collections.abc import Sequence

from fielding._typing import Json
from fielding.reporting.comparison_words import seed_count_words
from fielding.reporting.gathering import Gathered
from fielding.reporting.run_record import FINISHED, RunRecord
from fielding.reporting.run_summary import final_words, run_summary

MOST_NAMES = 8
"""Groups that the paragraph names."""


def is_whole(runs: Gathered) -> bool:
    """Return whether all runs are finished, and none is still to come."""
    return not runs.awaited and all(run.state == FINISHED for _, run in runs.runs)


def report_title(runs: Gathered) -> str:
    """Return the title: how many methods, those that wait for their first run too, and whether that is all."""
    so_far = "" if is_whole(runs) else " so far"
    if len(runs.variants) > 1:
        return f"{len(runs.variants)} methods compared{so_far}"
    if len(runs.runs) == 1 and not runs.awaited:
        return f"What the run gave{so_far}: {runs.title}"
    return f"{runs.title}: {len(runs.runs)} runs{so_far}"


def report_lead(runs: Gathered) -> str:
    """Return what was run: methods, data, rounds, seeds, and what accuracy is."""
    if not runs.groups:
        return "No run has begun yet."
    names = [group.name for group in runs.groups]
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    every = [run for _, run in runs.runs]
    return (
        f"{', '.join(names[:MOST_NAMES])}{more} on {_sources(every)}; {_lengths(every)}, {_seeds(runs)}. Accuracy is "
        "measured on each client's own test samples, with the model that serves it, unweighted mean over "
        f"clients.{_final(runs)}"
    )


def _sources(runs: Sequence[RunRecord]) -> str:
    """Return the data sets of runs with their drift scenarios, each once; runs without a config do not count."""
    known = [run for run in runs if run.config] or runs
    found = list(
        dict.fromkeys((_source(run), None if run.is_deployed else run.setting("trace", "scenario")) for run in known)
    )
    if len(found) == 1:
        ((source, scenario),) = found
        return f"{source}, drift scenario {scenario}" if scenario else source
    names = [f"{source} (drift scenario {scenario})" if scenario else source for source, scenario in found]
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _source(run: RunRecord) -> str:
    if run.is_deployed:
        return "real devices"
    return str(run.setting("trace", "file") or run.setting("trace", "name") or "samples of one's own")


def _lengths(runs: Sequence[RunRecord]) -> str:
    lengths = [run.n_expected or len(run.rounds) for run in runs]
    low, high = min(lengths), max(lengths)
    return f"{low:,} to {high:,} rounds" if low < high else f"{high:,} rounds"


def _seeds(runs: Gathered) -> str:
    counts = [len(group.runs) for group in runs.groups]
    if max(counts) > 1:
        return f"{seed_count_words(counts)}, with 95 % intervals"
    seeds = list(dict.fromkeys(str(run.seed) for _, run in runs.runs))
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"one seed each ({', '.join(seeds)})"


def _final(runs: Gathered) -> str:
    """Return what final figures are means over, where that is so for all runs alike."""
    if not is_whole(runs):
        return ""
    found = {final_words(summary) for _, run in runs.runs if (summary := _summary(run))["n_final_evaluations"]}
    return f" Final figures: {found.pop()}." if len(found) == 1 else ""


def _summary(run: RunRecord) -> dict[str, Json]:
    return run_summary(run.rounds, (), gap=run.gap)
