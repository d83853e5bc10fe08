"""What `fielding data info` is pointed at: a file, a folder of images, or the name of a known data set."""

from dataclasses import asdict
from pathlib import Path

from fielding.cli.console import counting, progress_bar
from fielding.errors import unknown_name
from fielding.traces.catalog import CATALOG, Entry, Narrowing, Opening, data_folder
from fielding.traces.csv_table import open_table
from fielding.traces.histograms import WindowPlan
from fielding.traces.images import FILE, FoundImages, find_images, listed_images
from fielding.traces.importers import Columns, import_pool, import_trace
from fielding.traces.npz_file import array_names
from fielding.traces.pool import Pool
from fielding.traces.statistics import PoolDescription, describe_pool
from fielding.traces.trace import Trace


def known_set(place: Path) -> Entry | None:
    """Return the data set of this name, None for a path; files and folders that are there come first."""
    if place.exists() or place.suffix or len(place.parts) != 1:
        return None
    if str(place) not in CATALOG:
        raise unknown_name("file or data set", str(place), CATALOG)
    return CATALOG[str(place)]


def names_in(file: Path) -> tuple[str, ...]:
    """Return the columns or arrays of a file."""
    return tuple(array_names(file, ["client", "time", "y"])) if file.suffix == ".npz" else open_table(file).header


def is_reports(place: Path) -> bool:
    """Return whether a file holds reports rather than samples, by the names of its columns."""
    names = () if place.is_dir() else names_in(place)
    return "representation" in names or ("step" in names and "client" in names)


def known_samples(
    entry: Entry, narrowing: Narrowing, *, folder: Path | None, quiet: bool = False
) -> Trace | PoolDescription:
    """Return a known data set; of a natural trace the part that is used by default, unless another is wanted."""
    usual = Narrowing() if entry.defaults is None else entry.defaults.narrowing
    part = Narrowing(last=narrowing.last or usual.last, clients=narrowing.clients or usual.clients)
    with progress_bar(f"reading {entry.name}", None, quiet=quiet) as bar:
        advance = counting(bar)
        opening = Opening(narrowing=part, on_images=lambda done, _total: advance(done))
        source = entry.open(data_folder(folder), opening)
    return _described(source) if isinstance(source, Pool) else source


def own_samples(place: Path, columns: Columns, narrowing: Narrowing, *, quiet: bool = False) -> Trace | PoolDescription:
    """Return the trace of a file or of a folder of images, or its description if nobody knows clients and times.

    No image is decoded.
    """
    if place.is_dir():
        index = place / "index.csv"
        return _told(listed_images(index, columns) if index.exists() else find_images(place), narrowing)
    names = names_in(place)
    has_owners = bool({columns.client, columns.time} & set(names))
    if place.suffix == ".npz" and "x" in names and not has_owners:
        return _described(import_pool(place, columns))
    if place.suffix != ".npz" and FILE in names and not has_owners:
        return _told(listed_images(place, columns), narrowing)
    return narrowing.apply(read_trace_with_progress(place, columns, quiet=quiet))


def read_trace_with_progress(source: Path, columns: Columns, *, quiet: bool) -> Trace:
    """Read a trace, showing the rows read so far."""
    with progress_bar(f"reading {source.name}", None, quiet=quiet) as advance:
        return import_trace(source, columns, on_rows=counting(advance))


def inspected_trace(trace: Trace, plan: WindowPlan, metric: str, *, quiet: bool) -> dict[str, object]:
    """Return all that can be told of a trace: its numbers, its kinds of drift, what to use, and the verdict."""
    from fielding.engine.inspection import inspect_trace
    from fielding.simulation.drift_kinds import drift_kinds

    found = inspect_trace(trace, plan, metric)
    with progress_bar("telling kinds of drift apart", None, quiet=quiet) as bar:
        kinds = asdict(drift_kinds(trace, found.trace, on_pair=bar))
    probe = {name: kinds.pop(name) for name in ("n_trained", "n_compared", "accuracy")}
    verdict, advice = found.verdict, kinds.pop("advice")
    told = {name: part for name, part in asdict(found).items() if name != "verdict"}
    return {**told, **kinds, "probe": probe, "verdict": verdict, "advice": advice}


def _told(found: FoundImages, narrowing: Narrowing) -> Trace | PoolDescription:
    return describe_pool(found.y, found.classes) if found.trace is None else narrowing.apply(found.trace)


def _described(pool: Pool) -> PoolDescription:
    return describe_pool(pool.y, pool.classes, shape=pool.shape)
