"""What the catalog knows about a data set: what it is, where it comes from, how it is opened."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from fielding._typing import Codes, Counts, Vector
from fielding.errors import InputError
from fielding.inputs import located
from fielding.traces.features import TEXT_FEATURES
from fielding.traces.images import Decoding, ImageSpec, cache_folder
from fielding.traces.intervals import parse_span
from fielding.traces.pool import Pool
from fielding.traces.trace import Trace

N_INTERVALS = 10  # intervals that the paper cuts the samples of each client into


def ranks_within(groups: Codes) -> tuple[Counts, Counts]:
    """Return the position of each row among the rows of its group, and how many rows its group has."""
    order = np.argsort(groups, kind="stable")
    sizes = np.bincount(groups)
    begins = np.cumsum(sizes) - sizes
    ranks = np.empty(groups.size, dtype=np.int64)
    ranks[order] = np.arange(groups.size) - begins[groups[order]]
    return ranks, sizes[groups].astype(np.int64)


def interval_times(client: Codes, n_intervals: int = N_INTERVALS) -> Vector:
    """Return the interval of each row as its time: every client's rows, in their order, in equal parts.

    Rows of a client stand in the order in which they were recorded; one with fewer samples than parts leaves some
    empty.

    Examples
    --------
    >>> interval_times(np.array([0, 0, 0, 0, 1, 1], dtype=np.int32), 2).tolist()
    [0.0, 0.0, 1.0, 1.0, 0.0, 1.0]
    """
    ranks, sizes = ranks_within(client)
    return (ranks * n_intervals // sizes).astype(np.float64)


FOLDER_VARIABLE = "FIELDING_DATA"  # the environment variable that names the folder of data sets

Kind: TypeAlias = Literal["pool", "natural"]
"""``"pool"``: samples that a scenario deals to clients; ``"natural"``: real clients and times."""
Source: TypeAlias = Pool | Trace  # what a data set opens as: a pool, or a trace with features


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowing:
    """Which part of a natural trace is used: first the last stretch of time, then the clients most active in it.

    ``last`` is a span such as ``"1050d"``; None, as of ``clients``, for all.
    """

    last: str | None = None
    clients: int | None = None

    def apply(self, trace: Trace) -> Trace:
        """Return the part of the trace."""
        trace = trace if self.last is None else trace.last(parse_span(self.last))
        return trace if self.clients is None else trace.most_active(self.clients)


@dataclass(frozen=True, slots=True, kw_only=True)
class NaturalDefaults:
    """How the time of a natural trace is used unless a config says otherwise.

    ``interval``: real time between arrivals, such as ``"6h"``; ``align``: ``"calendar"`` or ``"client"``; ``block``: a
    time that is all train or all test, such as ``"1h"``, ``"none"`` for each sample by itself; None: as measured.
    """

    interval: str = "1d"
    align: str = "calendar"
    block: str | None = None
    narrowing: Narrowing = Narrowing()


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """How a data set is to be opened.

    None stands for the default of the data set; ``narrowing`` is ``Narrowing()`` for all of it. ``cache``: folder of
    decoded images, ``~/.cache/fielding/images`` by default. ``seed`` decides what a data set leaves to chance: of Open
    Images, which labels a client sees when. ``on_images`` is called with how many images of how many are decoded.
    """

    narrowing: Narrowing | None = None
    size: int | None = None
    n_text_features: int = TEXT_FEATURES
    cache: Path | None = None
    seed: int = 0
    on_images: Callable[[int, int], None] | None = None


DEFAULT_OPENING = Opening()


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A data set of the catalog.

    Sizes are None where not known before it is read. ``files`` must be in the folder: file names, or folders with a
    slash at the end; none if it comes with Fielding. ``load`` opens it from that folder; ``defaults`` is None for a
    pool.
    """

    name: str
    summary: str
    kind: Kind
    n_samples: int | None
    n_clients: int | None = None
    n_classes: int | None
    licence: str
    how_to_get: str
    files: tuple[str, ...]
    load: Callable[[Path, Opening], Source] = field(repr=False)
    defaults: NaturalDefaults | None = None
    fetchable: bool = False

    def missing(self, folder: Path) -> str | None:
        """Return the first file or folder that is not there, or None if all are."""
        for name in self.files:
            if not ((folder / name).is_dir() if name.endswith("/") else (folder / name).is_file()):
                return name
        return None

    def open(self, folder: Path, opening: Opening = DEFAULT_OPENING) -> Source:
        """Return the samples, or raise :class:`InputError` that names the missing file and how to get it."""
        missing = self.missing(folder)
        if missing is not None:
            raise InputError(
                f"{self.name} needs {missing}, which is not in {folder}; {self.how_to_get}, or name the folder "
                f"that has it with {FOLDER_VARIABLE} or --data"
            )
        if opening.narrowing is None and self.defaults is not None:
            opening = replace(opening, narrowing=self.defaults.narrowing)
        return self.load(folder, opening)


def narrowing_of(opening: Opening) -> Narrowing:
    """Return which part of a trace is wanted; all of it if nothing is said."""
    return opening.narrowing or Narrowing()


def decoding_of(opening: Opening, *, size: int) -> Decoding:
    """Return how images are decoded, to this size unless another is asked for."""
    spec = ImageSpec(size=size if opening.size is None else opening.size)
    return Decoding(spec=spec, folder=opening.cache, on_images=opening.on_images)


def data_folder(given: str | Path | None = None) -> Path:
    """Return the folder of data sets: the one given, the one of the environment, or ``~/.cache/fielding/data``."""
    named = os.environ.get(FOLDER_VARIABLE) if given is None else given
    return located(named) if named else cache_folder("data")
