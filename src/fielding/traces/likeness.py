"""How alike samples of a client are by how far apart in time, and the blocks that keep train and test apart.

A model that has seen the minute before knows the label of this one. Natural traces are therefore split into train and
test by blocks of time (docs/decisions, 33): long enough that samples a block apart are hardly more alike than those an
interval apart, short enough that an interval holds several.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fielding._typing import Counts, Mask, Vector
from fielding.rng import client_keys, hashed
from fielding.traces.intervals import BY_SAMPLE, Interval, parse_block, parse_span
from fielding.traces.pool import choose_test
from fielding.traces.trace import Trace

LADDER = ("1s", "5s", "15s", "1m", "5m", "15m", "1h", "3h", "6h", "12h", "1d", "7d", "30d", "90d")
"""Lags that are looked at, and lengths of blocks to choose from."""
BLOCKS_IN_INTERVAL = 5  # an interval holds so many blocks, so that about one of them is for testing
INTERVALS_IN_WINDOW = 5  # of a usual window: likeness that lasts from one interval to so many is no near-duplication
MOST_COMPARED = 20_000  # clients
LEAST_PAIRS = 200  # fewer pairs of a lag, or fewer copied labels, tell nothing
HARDLY = 0.25  # of what neighbours are more alike than the window, so much may be left a block apart
LITTLE = 0.1  # neighbours that are less than this beyond the window need no blocks
NEARLY_ALL = 0.5  # neighbours that go so far of the way from the window's likeness to sameness are near-duplicates
MONTH = 365.25 / 12 * 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """How often two samples of one client, so far apart in time, have the same label.

    ``chance``: the same for any two samples of these clients; ``excess``: how far ``same`` goes from chance (0) to
    always (1), below 0 if less often than by chance.
    """

    same: float
    chance: float
    excess: float
    n_pairs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Copying:
    """How often a test sample has the label of the training sample of its client that is nearest in time.

    ``majority``: how often it has the label that its client has most often in training; ``chance``, ``excess``: as of
    :class:`Lag`. Test samples of clients without training samples do not count.
    """

    same: float
    majority: float
    chance: float
    excess: float
    n_tested: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Likeness:
    """What decides on the block of a trace.

    Parameters
    ----------
    lags
        By lag, those with enough pairs; a pair is a sample and the next one at least so much later.
    neighbours
        Excess of copying the nearest training label if samples are split one by one, or of the shortest lag if that is
        larger (samples of one moment may be made to differ); None if there are too few.
    window
        Mean excess of lags from one interval to five: the likeness that a window has anyway.
    block
        The shortest block that is long enough, of those that an interval holds five of; the longest of these if none
        is. Where times are too coarse for five, the shortest that an interval holds. ``"none"`` if neighbours are
        hardly more alike than the window, or if no block fits.
    is_short
        Whether samples a block apart are still clearly more alike than those of a window.
    """

    lags: dict[str, Lag]
    neighbours: float | None
    window: float
    block: str
    is_short: bool

    @property
    def are_duplicates(self) -> bool:
        """Whether neighbours in time are near-duplicates: a split by sample tests on what was trained on."""
        return self.neighbours is not None and self.neighbours - self.window >= NEARLY_ALL * (1.0 - self.window)


def measure_likeness(trace: Trace, interval: Interval) -> Likeness:
    """Return how alike the samples of clients are by lag, and the block that follows where data arrive by interval.

    Of more than 20,000 clients as many are looked at.

    Examples
    --------
    Ten labels in turns of an hour, a sample a minute: an hour apart nothing is left of the likeness of neighbours.

    >>> minutes = np.arange(30_000)
    >>> trace = Trace(client_ids=("a",), client=np.zeros(30_000, dtype=np.int32), time=minutes * 60.0,
    ...               y=minutes // 60 * 7 % 10, classes=tuple("abcdefghij"))
    >>> found = measure_likeness(trace, 86_400.0)
    >>> found.block, found.are_duplicates
    ('1h', True)
    """
    if len(trace.client_ids) > MOST_COMPARED:
        order = np.argsort(hashed(0, "alike", client_keys(trace.client_ids)), kind="stable")
        trace = trace.rows((order.argsort() < MOST_COMPARED)[trace.client])
    cells = _Cells(trace)
    length, spans = MONTH if interval == "month" else interval, {name: parse_span(name) for name in LADDER}
    bounds = pairwise([*spans.values(), np.inf])
    lags = {name: cells.lag(least, below) for name, (least, below) in zip(spans, bounds, strict=True)}
    known = {name: lag for name, lag in lags.items() if lag.n_pairs >= LEAST_PAIRS}
    beside = cells.copying(choose_test(trace.n_rows))
    nearest = [lag.excess for lag in known.values()][:1]
    neighbours = max([beside.excess, *nearest]) if beside.n_tested >= LEAST_PAIRS else None
    far = [lag.excess for name, lag in known.items() if length <= spans[name] <= length * INTERVALS_IN_WINDOW]
    level = float(np.mean(far)) if far else 0.0
    fitting = [name for name in known if spans[name] * BLOCKS_IN_INTERVAL <= length]
    fitting = fitting or [name for name in known if spans[name] <= length][:1]
    beyond = 0.0 if neighbours is None else neighbours - level
    enough = [name for name in fitting if known[name].excess - level <= HARDLY * beyond]
    needs_none = beyond < LITTLE
    block = BY_SAMPLE if needs_none or not fitting else (enough or fitting[-1:])[0]
    return Likeness(
        lags=known, neighbours=neighbours, window=level, block=block, is_short=not (needs_none or bool(enough))
    )


def measure_copying(trace: Trace, block: str) -> Copying:
    """Return how far copying the label of the nearest training sample goes if train and test are split by this block.

    Examples
    --------
    >>> trace = Trace(client_ids=("a",), client=np.zeros(600, dtype=np.int32), time=np.arange(600) * 60.0,
    ...               y=np.arange(600) // 60 % 2, classes=("cat", "dog"))
    >>> round(measure_copying(trace, "none").same, 2), round(measure_copying(trace, "1h").same, 2)
    (0.99, 0.0)
    """
    length = parse_block(block)
    return _Cells(trace).copying(choose_test(trace.n_rows, None if length is None else trace.blocks_of(length)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitDescription:
    """How a trace is split into train and test, and how much of the one can be copied from the other.

    Parameters
    ----------
    block, chosen
        The block, and who chose it: the user, the data set, or what was measured.
    measured, is_short
        The block that the measurement gives, and whether even it is too short (:class:`Likeness`).
    by_sample, by_block
        Copying if samples are split one by one, and as the block says.
    """

    block: str
    chosen: str
    measured: str
    is_short: bool
    lags: dict[str, Lag]
    by_sample: Copying
    by_block: Copying


def describe_split(
    trace: Trace, interval: Interval, *, given: str | None = None, usual: str | None = None
) -> tuple[SplitDescription, str | None]:
    """Return how a trace is split, and what to warn of; ``given`` by the user, ``usual`` for the data set."""
    found = measure_likeness(trace, interval)
    block = given or usual or found.block
    who = "as asked for" if given else "as usual for this data set" if usual else "measured"
    description = SplitDescription(
        block=block,
        chosen=who,
        measured=found.block,
        is_short=found.is_short,
        lags=found.lags,
        by_sample=measure_copying(trace, BY_SAMPLE),
        by_block=measure_copying(trace, block),
    )
    return description, split_warning(found, block)


def split_warning(found: Likeness, block: str) -> str | None:
    """Return what to warn of if models would be tested on near-duplicates of what they train on."""
    if block != BY_SAMPLE or not found.are_duplicates:
        return None
    way = "set trace.block" if found.block == BY_SAMPLE else f'set trace.block = "{found.block}"'
    return (
        "neighbours in time are near-duplicates, and train and test are split by sample: models are tested on what "
        f"they have all but seen; {way} (`fielding data info` shows how alike neighbours are)"
    )


class _Cells:
    """The samples of a trace by moment and label: a moment is a client and a time, a cell a moment and a label.

    Samples of one moment have no order, so they are compared as shares, whatever the order of the rows.
    """

    def __init__(self, trace: Trace) -> None:
        n_labels, order = len(trace.classes), np.lexsort((trace.time, trace.client))
        client, time = trace.client[order], trace.time[order]
        is_new = np.ones(order.size, dtype=np.bool_)
        is_new[1:] = (client[1:] != client[:-1]) | (time[1:] != time[:-1])
        moment = np.empty(order.size, dtype=np.int64)
        moment[order] = np.cumsum(is_new) - 1
        self.client, self.time = client[is_new].astype(np.int64), time[is_new]
        self.n_labels, self.n_clients = n_labels, len(trace.client_ids)
        self.key, self.cell_of = np.unique(moment * n_labels + trace.y, return_inverse=True)
        self.moment, self.label = np.divmod(self.key, n_labels)
        self.size = np.bincount(self.cell_of)
        # How often any other sample of the client has the label of the cell.
        of_label, of_client = self._sum_up(self.size)
        self.chance = (of_label - 1) / np.maximum(1, of_client - 1)

    def _sum_up(self, size: Counts) -> tuple[Counts, Counts]:
        """Return how many samples the client of each cell has of the cell's label, and of any."""
        owner = self.client[self.moment]
        table = np.bincount(owner * self.n_labels + self.label, size, self.n_clients * self.n_labels)
        by_client = table.reshape(self.n_clients, self.n_labels).astype(np.int64)
        return by_client[owner, self.label], by_client.sum(axis=1)[owner]

    def _count(self, moment: Counts, size: Counts) -> Vector:
        """Return how many samples of the label of each cell a moment has, of which the cells have ``size``."""
        key = moment * self.n_labels + self.label
        at = np.minimum(np.searchsorted(self.key, key), self.key.size - 1)
        return np.where(self.key[at] == key, size[at], 0).astype(np.float64)

    def lag(self, least: float, below: float) -> Lag:
        """Compare every sample with those of the first moment that is at least so much later, if it is near enough."""
        partner = np.empty(self.client.size, dtype=np.int64)
        bounds = np.searchsorted(self.client, np.arange(self.n_clients + 1)).tolist()
        for start, stop in pairwise(bounds):
            times = self.time[start:stop]
            found = np.searchsorted(times, times + least)
            is_near = found < times.size
            is_near[is_near] = times[found[is_near]] - times[is_near] < below
            partner[start:stop] = np.where(is_near, start + found, -1)
        of_cell = partner[self.moment]
        is_paired = of_cell >= 0
        per_moment = np.bincount(self.moment, self.size)
        same = self._count(of_cell, self.size)[is_paired] / per_moment[of_cell[is_paired]]
        weight = self.size[is_paired]
        share, chance = _mean(same, weight), _mean(self.chance[is_paired], weight)
        return Lag(same=share, chance=chance, excess=_excess(share, chance), n_pairs=int(weight.sum()))

    def copying(self, is_test: Mask) -> Copying:
        """Give every test sample the label of the nearest training sample; those equally near count by their share."""
        n_test = np.bincount(self.cell_of, is_test, self.key.size).astype(np.int64)
        n_train = self.size - n_test
        per_moment = np.bincount(self.moment, n_train)
        trained = np.flatnonzero(per_moment)
        if not trained.size:
            return Copying(same=0.0, majority=0.0, chance=0.0, excess=0.0, n_tested=0)
        place = np.searchsorted(trained, self.moment)
        sides = np.stack([trained[np.maximum(place - 1, 0)], trained[np.minimum(place, trained.size - 1)]])
        distance = np.abs(self.time[sides] - self.time[self.moment])
        distance[self.client[sides] != self.client[self.moment]] = np.inf
        is_nearest = np.isfinite(distance) & (distance == distance.min(axis=0))
        is_nearest[1] &= sides[0] != sides[1]  # a moment at the end stands on both sides
        counted = np.array([self._count(side, n_train) for side in sides])
        near = np.where(is_nearest, per_moment[sides], 0.0).sum(axis=0)
        is_tested = (n_test > 0) & (near > 0.0)
        same = np.where(is_nearest, counted, 0.0).sum(axis=0)[is_tested] / near[is_tested]
        table = np.bincount(self.client[self.moment] * self.n_labels + self.label, n_train)
        usual = np.zeros(self.n_clients * self.n_labels)
        usual[: table.size] = table
        is_usual = usual.reshape(-1, self.n_labels).argmax(axis=1)[self.client[self.moment]] == self.label
        weight = n_test[is_tested]
        share, chance = _mean(same, weight), _mean(self.chance[is_tested], weight)
        majority = _mean(is_usual[is_tested].astype(np.float64), weight)
        return Copying(
            same=share, majority=majority, chance=chance, excess=_excess(share, chance), n_tested=int(weight.sum())
        )


def _mean(values: Vector, weight: Counts) -> float:
    return float(np.average(values, weights=weight)) if weight.size else 0.0


def _excess(same: float, chance: float) -> float:
    return (same - chance) / (1.0 - chance) if chance < 1.0 else 0.0
