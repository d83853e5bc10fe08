"""From the config's trace section to a pool, a schedule and the plan that maps its intervals to rounds."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fielding.engine.config import TraceSection
from fielding.errors import InputError, OptionError, unknown_name
from fielding.traces.catalog import Narrowing, NaturalDefaults, Opening, Source, entry_named, open_source
from fielding.traces.histograms import WindowPlan
from fielding.traces.image_cache import ImageSpec
from fielding.traces.images import Decoding, image_index, image_pool
from fielding.traces.importers import Columns, import_samples
from fielding.traces.natural import n_rounds, natural_schedule, needed_intervals
from fielding.traces.pool import Pool
from fielding.traces.scenarios import SCENARIOS, DealRequest, scenario_named
from fielding.traces.schedule import Schedule
from fielding.traces.trace import Trace

DEFAULT_CLIENTS = 100
"""Clients that a pool is dealt to unless a config says otherwise."""
DEFAULT_SCENARIO = "places"
NATURAL = "natural"

OnImages = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dealt:
    """Samples, who sees which of them when, and how that maps to rounds."""

    pool: Pool
    schedule: Schedule
    plan: WindowPlan


def dealt_samples(
    section: TraceSection, *, rounds: int, seed: int, source: Source | None = None, on_images: OnImages | None = None
) -> Dealt:
    """Return what a trace section describes.

    Parameters
    ----------
    section
        The section.
    rounds
        Training rounds that the data must last for.
    seed
        Of the scenario.
    source
        Samples or a trace of the caller's own, instead of a named one.
    on_images
        Told how many images of how many are decoded.

    Raises
    ------
    InputError
        If there is no such data, they do not last, or the options do not fit together.
    """
    if section.window < section.gap:
        raise OptionError(f"trace.window is {section.window}; it must be at least trace.gap, which is {section.gap}")
    check_scenario(section)
    defaults = NaturalDefaults() if section.file or source else entry_named(section.name).defaults or NaturalDefaults()
    plan = WindowPlan(
        interval=section.interval or defaults.interval,
        gap=section.gap,
        window=section.window,
        align=section.align or defaults.align,
    )
    opened = source if source is not None else opened_source(section, seed=seed, on_images=on_images)
    is_natural = isinstance(opened, Trace) and section.scenario in (None, NATURAL)
    if is_natural and isinstance(opened, Trace):
        return _natural(_narrowed(opened, section) if source is not None else opened, plan, rounds)
    return _scenario(opened, section, plan, needed_intervals(rounds, plan), seed=seed)


def check_scenario(section: TraceSection) -> None:
    """Raise if the scenario or one of its options is unknown; costs nothing, so it comes before data are read."""
    if section.scenario is None and not section.options:
        return
    name = section.scenario or DEFAULT_SCENARIO
    if name == NATURAL:
        if section.options:
            option = next(iter(section.options))
            raise OptionError(f"unknown key trace.{option}; a natural trace has no options")
        return
    if name not in SCENARIOS:
        raise OptionError(f"trace.scenario: {unknown_name('scenario', name, [*SCENARIOS, NATURAL])}")
    try:
        scenario_named(name, section.options)
    except OptionError as error:
        raise OptionError(f"trace: {error}") from None


def opened_source(section: TraceSection, *, seed: int, on_images: OnImages | None = None) -> Source:
    """Open the file, folder or known data set that a section names."""
    narrowing = Narrowing(last=section.last, clients=section.clients)
    if section.file is None:
        entry = entry_named(section.name)
        if entry.defaults is not None:
            usual = entry.defaults.narrowing
            narrowing = Narrowing(last=section.last or usual.last, clients=section.clients or usual.clients)
        opening = Opening(narrowing=narrowing, seed=seed, on_images=on_images)
        return open_source(section.name, section.data, opening)
    path = Path(section.file).expanduser()
    decoding = Decoding(spec=ImageSpec(size=section.image_size), on_images=on_images)
    if path.is_dir():
        index = path / "index.csv"
        return image_index(index, decoding, narrow=narrowing.apply) if index.exists() else image_pool(path, decoding)
    columns = Columns(
        client=section.client,
        time=section.time,
        label=section.label,
        text=section.text,
        features=tuple(name.strip() for name in section.features.split(",")) if section.features else (),
    )
    return import_samples(path, columns, narrow=narrowing.apply)


def _narrowed(trace: Trace, section: TraceSection) -> Trace:
    return Narrowing(last=section.last, clients=section.clients).apply(trace)


def _natural(trace: Trace, plan: WindowPlan, rounds: int) -> Dealt:
    pool, schedule = natural_schedule(trace, plan)
    lasts = n_rounds(schedule.n_intervals, plan)
    if lasts < rounds:
        raise InputError(
            f"rounds is {rounds}, but the trace ends after {lasts} rounds: it has {schedule.n_intervals} intervals of "
            f"{plan.interval}, one every {plan.gap} rounds; lower rounds, or choose a shorter interval or a larger gap"
        )
    return Dealt(pool=pool, schedule=schedule, plan=plan)


def _scenario(source: Source, section: TraceSection, plan: WindowPlan, n_intervals: int, *, seed: int) -> Dealt:
    """Deal a pool; of a natural trace only the samples are used."""
    if section.scenario == NATURAL:
        raise OptionError(f"trace.scenario is 'natural', but {section.file or section.name} knows no clients and times")
    if isinstance(source, Trace):
        if source.x is None:
            raise InputError("the trace has labels but no features; training needs x, one row per sample")
        source = Pool(x=source.x, y=source.y, classes=source.classes)
    request = DealRequest(
        n_clients=section.clients or DEFAULT_CLIENTS,
        n_intervals=n_intervals,
        n_first=min(plan.n_first, n_intervals),
        samples_per_interval=section.samples,
    )
    scenario = scenario_named(section.scenario or DEFAULT_SCENARIO, section.options)
    return Dealt(pool=source, schedule=scenario.deal(source, request, seed=seed), plan=plan)
