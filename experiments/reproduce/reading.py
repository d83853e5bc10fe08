"""Experiments as their TOML files describe them: a stand-in, what is compared on it, what the paper says."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from experiments.peers.benchmarks import BENCHMARKS
from experiments.peers.rows import ROWS
from experiments.peers.tuning import choice_file, chosen_for, read_choices
from fielding._typing import Json
from fielding.errors import InputError, unknown_name

HERE = Path(__file__).parent
STANDINS = HERE / "standins"
Table: TypeAlias = dict[str, Json]

ORDER = (
    "fmow", "cityscapes", "waymo", "open-images", "differences", "clusters", "tau", "static-data", "feddrift",
    "selection", "aggregation", "malicious", "heterogeneity", "representations", "concept-drift", "pairwise",
    "jensen-shannon", "gradient-table", "overhead",
)  # fmt: skip
"""All experiments, most important first: what is run until time is up."""
RELATIONS = ("equal", "above", "below", "level", "no gain")
"""What a claim may say about a number: it is that, more, at most that; about as much; at most about as much."""

KINDS = ("time", "difference", "course", "bars")
"""What a figure may be: accuracy over time, differences over rounds, a figure over rounds, final accuracies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandIn:
    """What stands for a data set of the paper.

    Parameters
    ----------
    name, title, stands_for
        What it is called, and for what it stands.
    why
        Why it may, and what differs.
    needs
        Files of the data folder.
    builder
        What makes the file of the trace, if no known data set is it.
    config, quick
        What all runs share, in full and in the quick form, which needs no data.
    """

    name: str
    title: str
    stands_for: str
    why: str
    config: Table
    quick: Table
    needs: tuple[str, ...] = ()
    builder: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Something that the paper says, and which of our figures stands beside it.

    Parameters
    ----------
    says, source
        What, and where.
    value
        The number; two for a range; none where the paper has no such figure.
    unit
        Of it.
    ours
        Which of our figures: ``figure``, ``of``, ``against``, or ``measured``.
    relation
        One of ``RELATIONS``; ``"equal"`` for a number or a range.
    so
        What is said instead of a verdict, where the two cannot be held against each other.
    """

    says: str
    source: str
    value: tuple[float, ...]
    unit: str
    ours: Mapping[str, Json]
    relation: str = "equal"
    so: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """An accuracy that the paper states for its own data, and what it is."""

    says: str
    value: tuple[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """What the paper's figure shows.

    Parameters
    ----------
    kind
        One of ``KINDS``.
    panels
        By title the variants of each panel: what it is about first, then what that is held against. Of bars, a panel
        is a group; of differences, it has what is subtracted second.
    series
        What the bars of a group are called, in their order.
    axis
        Title of the axis that the kind does not settle: over which bars are, what a course is of.
    level
        An accuracy that the paper states.
    note
        More words.
    """

    kind: str
    panels: Mapping[str, tuple[str, ...]]
    series: tuple[str, ...] = ()
    axis: str = ""
    level: Level | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """One figure or table of the paper.

    Parameters
    ----------
    name, title, of_paper
        What it is called, and which figure or table it is.
    standin
        The data; None where none are needed.
    variants
        By name, the settings by dotted key.
    served
        Variants of which the scores of corrected or tuned models count, and which of the two.
    reference
        The variant that others are held against, unless ``against`` names another one.
    seeds
        How many, from 1; 0 where nothing is drawn.
    config, quick
        Settings by dotted key over those of the stand-in.
    runs_of
        The experiment whose runs these are; its own if None.
    measure
        What measures it, where it is no comparison of runs.
    curves
        Pairs of variants whose difference over the rounds is told.
    course
        A figure whose course over the rounds is told for every variant.
    columns
        Of the table, instead of the usual ones.
    note
        More words.
    claims
        What the paper says.
    plot
        The figure; None where the paper has none.
    """

    name: str
    title: str
    of_paper: str
    standin: StandIn | None
    variants: Mapping[str, Table]
    reference: str
    seeds: int
    claims: tuple[Claim, ...]
    served: Mapping[str, str] = field(default_factory=dict)
    config: Table = field(default_factory=dict)
    quick: Table = field(default_factory=dict)
    against: Mapping[str, str] = field(default_factory=dict)
    runs_of: str | None = None
    measure: str | None = None
    curves: tuple[tuple[str, str], ...] = ()
    course: str | None = None
    columns: tuple[str, ...] = ()
    note: str = ""
    plot: Plot | None = None

    def held_against(self, variant: str) -> str:
        """Return the variant that a variant is held against."""
        return self.against.get(variant, self.reference)


def names() -> list[str]:
    """Return all experiments, most important first."""
    return list(ORDER)


def read(name: str) -> Experiment:
    """Return an experiment by its name; an unknown one raises with the nearest.

    Raises
    ------
    InputError
        If its file is no TOML or lacks something.
    """
    if name not in ORDER:
        raise unknown_name("experiment", name, dict.fromkeys(ORDER))
    table = _table(HERE / f"{name}.toml")
    runs_of = table.get("runs_of")
    runs = _table(HERE / f"{runs_of}.toml") if runs_of else table
    quick = table.get("quick", {})
    try:
        return Experiment(
            name=name,
            title=table["title"],
            of_paper=table["of_paper"],
            standin=standin(table["standin"]) if "standin" in table else None,
            variants={
                variant: variant_settings(settings, runs.get("tuning"))
                for variant, settings in runs.get("variants", {}).items()
            },
            served={
                variant: ROWS[settings["row"]].served
                for variant, settings in runs.get("variants", {}).items()
                if "row" in settings and ROWS[settings["row"]].served
            },
            reference=table.get("reference", ""),
            seeds=runs["seeds"],
            claims=tuple(_claim(one) for one in table["paper"]),
            config=runs.get("set", {}),
            quick=quick.get("set", table.get("set", {})),
            against=table.get("against", {}),
            runs_of=runs_of,
            measure=table.get("measure"),
            curves=tuple((one, other) for one, other in table.get("curves", [])),
            course=table.get("course"),
            columns=tuple(table.get("columns", [])),
            note=table.get("note", "").strip(),
            plot=_plot(table["plot"]) if "plot" in table else None,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{name}.toml: {error!r}") from error


def variant_settings(settings: Mapping[str, Json], tuning: str | None) -> Table:
    """Return the settings of a variant; ``row`` stands for those of a row of the comparison of peers.

    With them come the knobs that were chosen for it on the first half of the trace (``tuning``), but for the rates of
    learning, which are the paper's for everybody here; a server optimiser keeps its own. Untuned, they are where the
    search starts.
    """
    own = {key: value for key, value in settings.items() if key != "row"}
    if "row" not in settings:
        return own
    name = str(settings["row"])
    row = ROWS[name]
    chosen: Table = {knob.key: knob.start for knob in row.knobs}
    if tuning is not None and choice_file(BENCHMARKS[tuning]).exists():
        chosen = chosen_for(name, row, read_choices(BENCHMARKS[tuning]))
    chosen.pop("training.learning_rate", None)
    if "aggregation.name" not in row.settings:
        chosen.pop("aggregation.eta", None)
    return {**row.settings, **chosen, **own}


def standin(name: str) -> StandIn:
    """Return a stand-in by its name."""
    table = _table(STANDINS / f"{name}.toml")
    return StandIn(
        name=name,
        title=table["title"],
        stands_for=table["stands_for"],
        why=table["why"].strip(),
        config=table["config"],
        quick=table["quick"],
        needs=tuple(table.get("needs", [])),
        builder=table.get("builder"),
    )


def _plot(table: Mapping[str, Any]) -> Plot:
    if table["kind"] not in KINDS:
        raise unknown_name("kind of plot", table["kind"], dict.fromkeys(KINDS))
    level = table.get("level")
    return Plot(
        kind=table["kind"],
        panels={title: tuple(variants) for title, variants in table["panels"].items()},
        series=tuple(table.get("series", [])),
        axis=table.get("axis", ""),
        level=None if level is None else Level(says=level["says"], value=(float(level["value"]),)),
        note=table.get("note", "").strip(),
    )


def _claim(table: Mapping[str, Any]) -> Claim:
    value = table.get("value", [])
    return Claim(
        says=table["says"],
        source=table["source"],
        value=tuple(float(one) for one in value) if isinstance(value, list) else (float(value),),
        unit=table["unit"],
        ours=table["ours"],
        relation=table.get("relation", "equal"),
        so=table.get("so"),
    )


def _table(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path.name} cannot be read: {error}") from error
