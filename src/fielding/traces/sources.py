"""From the config's trace section to a pool, a schedule and the plan that maps its intervals to rounds."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fielding._typing import Codes, Counts
from fielding.config.keys import TraceSection
from fielding.errors import InputError, OptionError, echo, unknown_name
from fielding.inputs import located
from fielding.rng import hashed
from fielding.traces.catalog import (
    FOLDER_VARIABLE,
    Narrowing,
    NaturalDefaults,
    Opening,
    Source,
    data_folder,
    entry_named,
    open_source,
)
from fielding.traces.csv_table import sort_ids
from fielding.traces.features import InputColumn, describe_columns
from fielding.traces.histograms import WindowPlan, window_seconds
from fielding.traces.images import Decoding, ImageSpec, image_folder, image_index, is_image_list
from fielding.traces.importers import Columns, OnNote, feature_names, header_of, ignore_note, import_samples
from fielding.traces.intervals import BY_SAMPLE, checked_align, parse_block, parse_interval, parse_span
from fielding.traces.likeness import measure_likeness, split_warning
from fielding.traces.natural import n_rounds, natural_schedule, needed_intervals, pool_of
from fielding.traces.pool import BLOCKS_PER_TEST, Pool, fill_gaps, scale_note, standardize
from fielding.traces.scenarios import SCENARIOS, DealRequest, scenario_named
from fielding.traces.scenarios.shared import add_shared
from fielding.traces.schedule import Schedule
from fielding.traces.trace import Trace

DEFAULT_CLIENTS = 100  # clients that a pool is dealt to unless a config says otherwise
DEFAULT_SCENARIO = "places"
NATURAL = "natural"
BY_SEED = "seed"  # as trace.fold: seeds that follow each other test other blocks
AHEAD = 1  # intervals that a scenario deals beyond those that rounds reach, for models to be tested on
LARGEST_PART = 4  # at most one in so many training samples of a class is held out: the clients need them, too

OnImages = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dealt:
    """Samples, which client sees which of them when, and how that maps to rounds.

    ``is_natural``: a trace as it is, whose labels may mean different things at different clients; of what a scenario
    deals, the labels of the pool are true. ``notes``: what a user should know of: how a trace was split if nobody said
    how, tests on near-duplicates, features on scales that models do not learn from. ``columns``: what features were
    made of, if they were columns of a table.
    """

    pool: Pool
    schedule: Schedule
    plan: WindowPlan
    is_natural: bool = False
    notes: tuple[str, ...] = ()
    columns: tuple[InputColumn, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeldOut:
    """Samples of the server's own, which no client gets: a shared model is trained on them.

    ``samples`` are rows of the pool, rising.
    """

    samples: Counts
    labels: Codes


def deal_samples(
    section: TraceSection, *, rounds: int, seed: int, source: Source | None = None, on_images: OnImages | None = None
) -> Dealt:
    """Return what a trace section describes.

    The data must last for ``rounds``, or this raises. ``source``: samples or a trace of the caller's own, instead of a
    named one.
    """
    check_window(section)
    check_scenario(section)
    try:
        known = None if section.file or source is not None else entry_named(section.name).defaults
    except OptionError as error:
        raise OptionError(f"trace.name: {error}") from None
    check_times(section)
    defaults = known or NaturalDefaults()
    try:
        plan = WindowPlan(
            interval=section.interval or defaults.interval,
            gap=section.gap,
            window=section.window,
            align=section.align or defaults.align,
        )
    except OptionError as error:
        raise OptionError(f"trace.{error}") from None
    if source is None:
        check_columns(section)
    notes: list[str] = []
    opened = source or open_samples(section, seed=seed, on_images=on_images, on_note=notes.append)
    if isinstance(opened, Trace) and section.scenario in (None, NATURAL):
        check_no_options(section)
        if source is not None:
            opened = Narrowing(last=section.last, clients=section.clients).apply(opened)
        fold = seed % BLOCKS_PER_TEST if section.fold == BY_SEED else int(section.fold)
        dealt = _schedule_natural(opened, plan, rounds, given=section.block, usual=defaults.block, fold=fold)
        dealt = _add_shared(dealt, section, seed)
        pool = fill_gaps(dealt.pool, first_samples(dealt))
        dealt = replace(dealt, notes=(*notes, *dealt.notes), columns=opened.columns, pool=pool)
        if section.standardize:
            return replace(dealt, pool=standardize(dealt.pool, first_samples(dealt)))
    else:
        if plan.seconds is not None:
            raise OptionError(no_times(section, f"{section.file or section.name} knows no times"))
        n_intervals = needed_intervals(rounds, plan)
        dealt = _deal_scenario(opened, section, plan, n_intervals, seed=seed)
        columns = opened.columns if isinstance(opened, Trace) else ()
        dealt = replace(dealt, notes=tuple(notes), columns=columns, pool=fill_gaps(dealt.pool, first_samples(dealt)))
        if section.standardize:
            # Dealt again, because looks are made for the features as models see them; who gets what stays the same.
            pool = standardize(dealt.pool, first_samples(dealt))
            again = _deal_scenario(pool, section, plan, n_intervals, seed=seed)
            return replace(again, notes=dealt.notes, columns=columns)
    note = scale_note(dealt.pool, first_samples(dealt))
    return dealt if note is None else replace(dealt, notes=(*dealt.notes, note))


def first_samples(dealt: Dealt) -> Counts:
    """Return the training samples that some client can see at the start, rising, each once."""
    seen = np.unique(dealt.schedule.sample[dealt.schedule.interval < dealt.plan.n_first])
    return np.asarray(seen[~dealt.pool.is_test()[seen]])


def check_window(section: TraceSection) -> None:
    """Raise if data leave the window before others arrive, or a window goes by time where there is none."""
    if isinstance(section.window, str):
        try:
            window_seconds(section.window)
        except OptionError as error:
            raise OptionError(f"trace.{error}") from None
        if section.scenario not in (None, NATURAL):
            raise OptionError(no_times(section, f"scenario {section.scenario} deals samples by rounds"))
        if section.shared:
            raise OptionError(no_times(section, "trace.shared deals samples by rounds"))
    elif section.window < section.gap:
        raise OptionError(f"trace.window is {section.window}; it must be at least trace.gap, which is {section.gap}")


def no_times(section: TraceSection, why: str) -> str:
    """Return in a line that a window cannot go by time."""
    return f"trace.window is {echo(section.window)}, a length of time, but {why}; give a whole number of rounds"


def check_times(section: TraceSection) -> None:
    """Raise if the times of a trace section make no sense."""
    for name, check in (
        ("interval", parse_interval),
        ("align", checked_align),
        ("block", parse_block),
        ("fold", check_fold),
        ("last", parse_span),
    ):
        try:
            if (given := getattr(section, name)) is not None:
                check(given)
        except InputError as error:
            raise OptionError(f"trace.{name}: {error}") from None


def check_fold(fold: object) -> None:
    """Raise unless it is the number of a fold, or the word that leaves it to the seed."""
    is_number = isinstance(fold, int) and not isinstance(fold, bool) and 0 <= fold < BLOCKS_PER_TEST
    if not is_number and fold != BY_SEED:
        raise OptionError(f"{echo(fold)} is no fold; give a whole number from 0 to {BLOCKS_PER_TEST - 1}, or seed")


def check_columns(section: TraceSection) -> None:
    """Raise if a CSV or Parquet file is named but none of its columns as features; before all of it is read."""
    path = located(section.file or "")
    if section.file is None or path.is_dir() or path.suffix == ".npz" or section.features or section.text:
        return
    left = [name for name in header_of(path) if name not in (section.client, section.time, section.label)]
    if is_image_list(path):
        return
    shown = ", ".join(echo(name) for name in left[:12]) + (", ..." if len(left) > 12 else "")
    raise InputError(
        f"{path} has labels, but training needs features; name columns in trace.features, or a column of "
        f"text in trace.text; at hand: {shown or 'none'}"
    )


def check_scenario(section: TraceSection) -> None:
    """Raise if the scenario or one of its options is unknown; costs nothing, so it comes before data are read."""
    if section.scenario is None and not section.options:
        return
    name = section.scenario or DEFAULT_SCENARIO
    if name == NATURAL:
        check_no_options(section)
        return
    if name not in SCENARIOS:
        raise OptionError(f"trace.scenario: {unknown_name('scenario', name, [*SCENARIOS, NATURAL])}")
    try:
        scenario_named(name, section.options)
    except OptionError as error:
        raise OptionError(f"trace: {error}") from None


def check_no_options(section: TraceSection) -> None:
    """Raise if there is an option, because nothing is dealt."""
    if section.options:
        option = next(iter(section.options))
        raise OptionError(
            f"unknown key trace.{option}; a natural trace has no options, name a scenario to deal it anew"
        )


def check_present(section: TraceSection) -> None:
    """Raise if a section names a known data set of which a file is missing, with how to get it; costs nothing."""
    if section.file is not None:
        return
    entry, folder = entry_named(section.name), data_folder(section.data)
    missing = entry.missing(folder)
    if missing is not None:
        raise InputError(
            f"{entry.name} needs {missing}, which is not in {folder}; {entry.how_to_get}; if it is elsewhere, name its "
            f"folder in trace.data or in the environment variable {FOLDER_VARIABLE}"
        )


def open_samples(
    section: TraceSection, *, seed: int, on_images: OnImages | None = None, on_note: OnNote = ignore_note
) -> Source:
    """Open the file, folder or known data set that a section names; ``on_note`` hears how a file was understood."""
    narrowing = Narrowing(last=section.last, clients=section.clients)
    if section.file is None:
        entry = entry_named(section.name)
        check_present(section)
        if entry.defaults is not None:
            usual = entry.defaults.narrowing
            narrowing = Narrowing(last=section.last or usual.last, clients=section.clients or usual.clients)
        opening = Opening(narrowing=narrowing, seed=seed, on_images=on_images)
        return open_source(section.name, section.data, opening)
    path = located(section.file)
    decoding = Decoding(spec=ImageSpec(size=section.image_size), on_images=on_images)
    columns = Columns(
        client=section.client,
        time=section.time,
        label=section.label,
        text=section.text,
        features=feature_names(section.features),
    )
    index = path / "index.csv" if path.is_dir() else path
    if path.is_dir() and not index.exists():
        return image_folder(path, decoding, layout=section.layout, narrow=narrowing.apply, on_note=on_note)
    is_described = columns.features or columns.text is not None
    if path.is_dir() or (not is_described and is_image_list(path)):
        return image_index(index, decoding, columns=columns, narrow=narrowing.apply, on_note=on_note)
    found = import_samples(path, columns, narrow=narrowing.apply, on_note=on_note)
    if isinstance(found, Trace):
        for line in describe_columns(found.columns, found.x):
            on_note(line)
    return found


def sort_samples(trace: Trace) -> Trace:
    """Return the same samples by client id, then by time and label, so that results do not hang on their order.

    Rows equal in all three keep their order. Features in a file of their own (images) are not moved: their rows stay
    as they are, and with them a split into train and test by sample, which goes by row.

    Examples
    --------
    >>> trace = Trace(client_ids=("b", "a"), client=np.array([0, 1, 0]), time=np.array([2.0, 9.0, 1.0]),
    ...               y=np.array([0, 1, 1]), classes=("cat", "dog"))
    >>> sort_samples(trace).client_ids, sort_samples(trace).client.tolist(), sort_samples(trace).time.tolist()
    (('a', 'b'), [0, 1, 1], [9.0, 1.0, 2.0])
    """
    ids, client = sort_ids(trace.client_ids, trace.client)
    client_ids = tuple(ids)
    order = np.lexsort((trace.y, trace.time, client))
    if isinstance(trace.x, np.memmap) or (order[1:] > order[:-1]).all():
        is_ordered = client_ids == trace.client_ids
        return trace if is_ordered else replace(trace, client_ids=client_ids, client=client)
    return replace(
        trace,
        client_ids=client_ids,
        client=client[order],
        time=trace.time[order],
        y=trace.y[order],
        x=None if trace.x is None else trace.x[order],
        count=None if trace.count is None else trace.count[order],
        concept=None if trace.concept is None else trace.concept[order],
    )


def _schedule_natural(
    trace: Trace, plan: WindowPlan, rounds: int, *, given: str | None, usual: str | None, fold: int
) -> Dealt:
    """Return a trace as it is; it must last for the rounds.

    Train and test are split by the block that the user gave, or that is usual for the data set, or else is measured.
    """
    sorted_trace, block, note = sort_samples(trace), given or usual, None
    if block is None or given == BY_SAMPLE:
        found = measure_likeness(sorted_trace, parse_interval(plan.interval))
        block = given or found.block
        note = split_warning(found, block)
        if block != BY_SAMPLE:
            still = ", though samples so far apart are still alike" if found.is_short else ""
            note = f"train and test are split by blocks of {block}, as measured{still}; set trace.block for others"
    seconds = parse_block(block)
    as_given = natural_schedule(trace, plan, block=seconds, fold=fold)  # first, because mistakes are named by row
    is_sorted = sorted_trace is trace
    pool, schedule = as_given if is_sorted else natural_schedule(sorted_trace, plan, block=seconds, fold=fold)
    lasts = n_rounds(schedule.n_intervals, plan)
    if lasts < rounds:
        raise OptionError(
            f"rounds is {rounds}, but the trace ends after {lasts} rounds: it has {schedule.n_intervals} intervals of "
            f"{plan.interval}, one every {plan.gap} rounds; lower rounds, or choose a shorter interval or a larger gap"
        )
    return Dealt(pool=pool, schedule=schedule, plan=plan, is_natural=True, notes=() if note is None else (note,))


def _deal_scenario(source: Source, section: TraceSection, plan: WindowPlan, n_intervals: int, *, seed: int) -> Dealt:
    """Deal a pool; of a natural trace only the samples are used."""
    if section.scenario == NATURAL:
        folder = section.file is not None and located(section.file).is_dir()
        way = "; lay images out as <client>/<class>/<image>, or list them in index.csv" if folder else ""
        what = section.file or section.name
        raise OptionError(f"trace.scenario is 'natural', but {what} knows no clients and times{way}")
    if isinstance(source, Trace):
        source = pool_of(source)
    request = DealRequest(
        n_clients=section.clients or DEFAULT_CLIENTS,
        n_intervals=n_intervals + AHEAD,
        n_first=min(plan.n_first, n_intervals),
        n_ahead=AHEAD,
        samples_per_interval=section.samples,
    )
    scenario = scenario_named(section.scenario or DEFAULT_SCENARIO, section.options)
    schedule = replace(scenario.deal(source, request, seed=seed), n_ahead=AHEAD)
    return _add_shared(Dealt(pool=source, schedule=schedule, plan=plan), section, seed)


def _add_shared(dealt: Dealt, section: TraceSection, seed: int) -> Dealt:
    """Give every client the samples that all of them share, if any."""
    try:
        schedule = add_shared(dealt.schedule, dealt.pool, section.shared, n_visible=dealt.plan.n_visible, seed=seed)
    except OptionError as error:
        raise OptionError(f"trace: {error}") from None
    return replace(dealt, schedule=schedule)


def hold_out(dealt: Dealt, per_class: int, *, seed: int) -> tuple[Dealt, HeldOut]:
    """Take samples away from all clients, the same ones whatever the method.

    Of a pool that a scenario deals, any training samples; of a natural trace, training samples of the first window
    alone, since a server knows nothing of what is to come.

    ``per_class``: samples of each class, or a quarter of its training samples if these are fewer; none to spare raises.
    """
    candidates = np.flatnonzero(~dealt.pool.is_test())
    if dealt.is_natural:
        candidates = first_samples(dealt)
    labels = dealt.pool.y[candidates]
    order = np.lexsort((hashed(seed, "held out", candidates.astype(np.uint64)), labels))
    sizes = np.bincount(labels, minlength=len(dealt.pool.classes))
    rank = np.arange(order.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    quota = np.minimum(per_class, sizes // LARGEST_PART)
    samples = np.sort(candidates[order[rank < quota[labels[order]]]])
    if not samples.size:
        raise OptionError(
            f"trace.held_out is {per_class}, but no class has {LARGEST_PART} training samples to spare one of; "
            "give more samples, or another coordinator.shared_model"
        )
    if np.isin(dealt.schedule.sample, samples).all():
        raise OptionError(f"trace.held_out is {per_class}, which leaves the clients no sample; lower it")
    return without_samples(dealt, samples), HeldOut(samples=samples, labels=dealt.pool.y[samples])


def without_samples(dealt: Dealt, samples: Counts) -> Dealt:
    """Take some samples of the pool away from all clients."""
    kept = np.flatnonzero(~np.isin(dealt.schedule.sample, samples))
    columns = {name: getattr(dealt.schedule, name)[kept] for name in ("client", "interval", "sample", "y", "look")}
    last = dealt.schedule.last
    return replace(dealt, schedule=replace(dealt.schedule, **columns, last=None if last is None else last[kept]))
