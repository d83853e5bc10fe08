"""How long each group takes to the accuracy that the global model, or the reference, ends with."""

from collections.abc import Mapping, Sequence

from fielding.reporting.charts.group_bars import Bar, amount, group_bars
from fielding.reporting.charts.mean_curves import counted, final_accuracy
from fielding.reporting.gathering import Gathered, Group
from fielding.reporting.page import Section
from fielding.reporting.paired import estimate
from fielding.reporting.run_summary import evaluations
from fielding.reporting.targets import times_to_target
from fielding.reporting.words import SECONDS, counterpart_words, time_unit

_TITLES = {"time_to_target_s": "Simulated time to the target", "rounds_to_target": "Rounds to the target"}


def targets(gathered: Gathered) -> list[Section]:
    """Return the simulated time and the rounds to the target, with intervals; nothing for one group only."""
    if gathered.reference is None or len(gathered.groups) < 2:
        return []
    goals = gathered.targets
    whose = counterpart_words(list(dict.fromkeys(name for name in goals.values() if name is not None)))
    finals = {name: _finals(gathered.group(name)) for name in goals.values()}
    found = {group.name: _times(group, finals[goals[group.name]]) for group in gathered.groups}
    if not any(found.values()):
        why = f"No seed has both an evaluation of {whose}, whose final accuracy is the target, and of another group."
        return [Section(title=title, missing=why) for title in _TITLES.values()]
    return [_section(gathered, whose, found, name) for name in _TITLES]


def _finals(group: Group | None) -> dict[int | None, float]:
    """Return the final accuracy of each seed of a group; nothing if there is no such group."""
    runs = () if group is None else counted(group)
    return {run.seed: final for run in runs if (final := final_accuracy(run)) is not None}


Times = Mapping[str, float | None]
"""How long a run took, by sense; None: it never got there."""


def _times(group: Group, finals: Mapping[int | None, float]) -> list[Times]:
    """Return how long each run took to the target of its seed; runs without a target or an evaluation are left out."""
    return [
        times_to_target(run.rounds, finals[run.seed])
        for run in counted(group)
        if run.seed in finals and evaluations(run.rounds)
    ]


def _section(gathered: Gathered, goal: str, found: Mapping[str, Sequence[Times]], name: str) -> Section:
    longest = max((value for times in found.values() for one in times if (value := one[name]) is not None), default=0.0)
    unit = time_unit(longest) if name == "time_to_target_s" else "rounds"
    lengths = {
        group: [None if (value := one[name]) is None else value / SECONDS.get(unit, 1.0) for one in times]
        for group, times in found.items()
    }
    return Section(
        title=_TITLES[name],
        text=f"Until the accuracy came to stay at the final accuracy of {goal} on the same seed, or above. Bars are "
        "means over the seeds that got there, with 95 % t-intervals; shorter is better.",
        figure=group_bars(
            [_bar(group, values, gathered.styles[group]) for group, values in lengths.items()],
            {group: _words(values, unit) for group, values in lengths.items()},
            x_title=unit if unit == "rounds" else f"simulated {unit}",
        ),
    )


def _bar(group: str, values: Sequence[float | None], style: int) -> Bar:
    known = [value for value in values if value is not None]
    if not known:
        return Bar(group=group, length=0.0, style=style)
    mean = estimate(known)
    return Bar(group=group, length=mean.mean, margin=mean.half_width, style=style)


def _words(values: Sequence[float | None], unit: str) -> str:
    """Return how long it took, and on how many seeds.

    Examples
    --------
    >>> _words([2.0, 4.0], "hours"), _words([2.0, None], "hours"), _words([None], "hours"), _words([], "hours")
    ('3 hours', '2 hours (1 of 2 seeds)', 'never on 1 seed', 'not known yet')
    """
    known = [value for value in values if value is not None]
    if not known:
        return f"never on {len(values)} {'seed' if len(values) == 1 else 'seeds'}" if values else "not known yet"
    some = f" ({len(known)} of {len(values)} seeds)" if len(known) < len(values) else ""
    return f"{amount(sum(known) / len(known))} {unit}{some}"
