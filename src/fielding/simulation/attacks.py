"""Clients that lie: a share of them reports another representation than its own, and trains honestly."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fielding._typing import ClientId, Counts, Mask, Models
from fielding.client.fleet import FleetReports
from fielding.errors import OptionError, echo, unknown_name
from fielding.rng import Hashes, client_key, hashed
from fielding.runtime.observe import LookingCosts, Observer
from fielding.simulation.hardware import unit_numbers
from fielding.traces.sliding import SlidingWindows

SPOILS = ("none", "sign-flip", "scale", "nan")  # what attackers may do to the models that they upload
SCALE = 10.0  # factor on the update of a client that scales it


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Spoiling:
    """Attackers, a yes or no per client, shape ``(n_clients,)``, and how they spoil uploads: one of :data:`SPOILS`."""

    attackers: Mask
    kind: str = "none"

    def __post_init__(self) -> None:
        check_spoil(self.kind)

    def apply(self, models: Models, clients: Counts, *, offered: Models, start: Counts) -> Models:
        """Return the models as they are uploaded; the argument itself if none is spoiled, and never changed.

        Parameters
        ----------
        models, clients
            The trained models, one row per job, and the client of each job.
        offered, start
            The models that training started from, and the row of each job's model.

        Examples
        --------
        >>> spoiling = Spoiling(attackers=np.array([False, True]), kind="sign-flip")
        >>> offered, trained = np.array([[1.0]], dtype=np.float32), np.array([[2.0], [3.0]], dtype=np.float32)
        >>> spoiling.apply(trained, np.array([0, 1]), offered=offered, start=np.array([0, 0])).tolist()
        [[2.0], [-1.0]]
        """
        jobs = np.flatnonzero(self.attackers[clients])
        if self.kind == "none" or not jobs.size:
            return models
        uploads = models.copy()
        uploads[jobs] = spoil_models(models[jobs], offered[start[jobs]], kind=self.kind)
        return uploads


def spoil_models(models: Models, start: Models, *, kind: str) -> Models:
    """Return what attackers upload instead of the models that they trained.

    Parameters
    ----------
    models, start
        Their models after and before training, float32, one row per attacker, shape ``(n_attackers, n_numbers)``.
    kind
        ``"none"``: the models themselves; ``"sign-flip"``: the update turned round; ``"scale"``: ten times the update;
        ``"nan"``: the first number is none.

    Examples
    --------
    >>> trained, before = np.array([[3.0, 1.0]], dtype=np.float32), np.array([[2.0, 1.5]], dtype=np.float32)
    >>> [spoil_models(trained, before, kind=kind).tolist() for kind in ("sign-flip", "scale", "nan")]
    [[[1.0, 2.0]], [[12.0, -3.5]], [[nan, 1.0]]]
    """
    check_spoil(kind)
    if kind == "none":
        return models
    if kind == "nan":
        broken = models.copy()
        broken[:, :1] = np.nan
        return broken
    factor = np.float32(SCALE if kind == "scale" else -1.0)
    with np.errstate(over="ignore", invalid="ignore"):  # too large an upload is for the server to refuse
        return start + factor * (models - start)


def check_spoil(kind: str) -> None:
    """Raise :class:`OptionError` unless uploads can be spoiled so."""
    if kind not in SPOILS:
        raise unknown_name("spoil", kind, SPOILS)


LIES = {
    "permute": "the own representation, its coordinates exchanged by one permutation per liar (the paper)",
    "permute-anew": "the same with a new permutation for every report",
    "random": "a random point, new for every report",
    "one-hot": "a single label, one per liar",
    "collude": "a single label, the same for all liars",
    "collude-two": "a single label, one of two for all liars",
    "mimic": "what an honest client unlike the liar reported last",
    "flip-flop": "the truth and its permutation by turns, at every arrival of data",
}
"""What liars may report, in a line each."""
CANDIDATES = 8  # honest clients of whom a mimic picks the one that is least like it

Rows = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lie:
    """How a share of the clients, from 0 to 1, lies; ``kind`` is one of :data:`LIES`.

    If reports are histograms of labels, lies are too; of other vectors lies keep the Euclidean length.
    """

    kind: str = "permute"
    share: float = 0.0
    is_histogram: bool = True

    def __post_init__(self) -> None:
        if self.kind not in LIES:
            raise unknown_name("lie", self.kind, LIES)
        _check_share(self.share)


def draw_liars(client_ids: Sequence[ClientId], share: float, *, seed: int) -> Mask:
    """Return which clients lie: those with the smallest draws, so that the liars of a small share lie in a larger too.

    Draws depend on the seed and the ids alone. The number of liars is rounded to the nearest whole number, halves to
    the even one. Returned is a yes or no per client, shape ``(n_clients,)``.

    Examples
    --------
    >>> liars = draw_liars(("ann", "bob", "cid", "dan"), 0.5, seed=1)
    >>> int(liars.sum()), bool((liars[::-1] == draw_liars(("dan", "cid", "bob", "ann"), 0.5, seed=1)).all())
    (2, True)
    """
    _check_share(share)
    draws = hashed(seed, "liars", _keys_of(client_ids))
    liars = np.zeros(len(client_ids), dtype=np.bool_)
    liars[np.argsort(draws, kind="stable")[: round(share * len(client_ids))]] = True
    return liars


class LyingObserver:
    """Reports of all clients, those of some replaced by lies; all train honestly (METHODS.md B10).

    A lie follows from the seed, the client's id, the round and what was observed up to it, so a resumed run, which
    observes all rounds again, tells the same ones. A client that goes silent says so truly. The truth, and when it is
    told, comes from the ``inner`` observer; flip-flops speak whenever data arrive in the windows.
    """

    def __init__(self, inner: Observer, windows: SlidingWindows, *, lie: Lie, seed: int) -> None:
        self._inner, self._windows, self._lie, self._seed = inner, windows, lie, seed
        self._liars = draw_liars(windows.schedule.client_ids, lie.share, seed=seed)
        self._keys = _keys_of(windows.schedule.client_ids)
        self._truth: Rows = np.zeros((windows.n_clients, 0), dtype=np.float32)
        self._ever_spoke, self._speaks = (np.zeros(windows.n_clients, dtype=np.bool_) for _ in range(2))
        self._posed_as = np.full(windows.n_clients, -1, dtype=np.int64)

    @property
    def looked(self) -> LookingCosts:
        """What it took clients to look at what arrived; a lie costs as much as the truth."""
        return self._inner.looked

    @property
    def level(self) -> float | None:
        """Share of clients that report drift by chance; None if it is not known."""
        return self._inner.level

    @property
    def span(self) -> int:
        """Rounds that a window spans."""
        return self._inner.span

    @property
    def liars(self) -> Mask:
        """Which clients lie, a read-only view of shape ``(n_clients,)``."""
        view = self._liars.view()
        view.flags.writeable = False
        return view

    def observe(self, round_index: int) -> FleetReports:
        """Return the reports that are due, with those of liars as they tell them."""
        reports = self._inner.observe(round_index)
        self._remember(reports)
        # At the start all clients with data report by themselves.
        n_complete = self._windows.n_complete
        if self._lie.kind == "flip-flop" and round_index and n_complete(round_index) != n_complete(round_index - 1):
            reports = self._with_flips(reports, round_index)
        rows = np.flatnonzero(self._liars[reports.clients] & reports.representations.any(axis=1))
        if not rows.size:
            return reports
        representations = reports.representations.copy()
        representations[rows] = self._lies(reports.clients[rows], representations[rows], round_index)
        return replace(reports, representations=representations)

    def hold(self, clients: Counts) -> None:
        """Let clients report again in the next round."""
        self._inner.hold(clients)

    def _remember(self, reports: FleetReports) -> None:
        """Keep the newest true representation of each client that has one."""
        if not len(reports):
            return
        if not self._truth.shape[1]:
            self._truth = np.zeros((self._windows.n_clients, reports.representations.shape[1]), dtype=np.float32)
        speaks = reports.representations.any(axis=1)
        self._speaks[reports.clients] = speaks
        self._ever_spoke[reports.clients[speaks]] = True
        self._truth[reports.clients[speaks]] = reports.representations[speaks]

    def _with_flips(self, reports: FleetReports, round_index: int) -> FleetReports:
        """Return the reports together with those of liars that have nothing to tell."""
        is_more = self._liars & self._speaks
        is_more[reports.clients] = False
        more = np.flatnonzero(is_more)
        if not more.size:
            return reports
        clients = np.concatenate([reports.clients, more])
        rows = self._truth[more]
        if len(reports):
            rows = np.concatenate([reports.representations, rows])
        n_samples = np.concatenate([reports.n_samples, self._windows.training(round_index).sizes[more]])
        order = np.argsort(clients)
        return FleetReports(clients=clients[order], representations=rows[order], n_samples=n_samples[order])

    def _lies(self, clients: Counts, rows: Rows, round_index: int) -> Rows:
        """Return what liars tell instead of their rows, none of which is all zeros."""
        keys, kind = self._keys[clients], self._lie.kind
        match kind:
            case "permute":
                return self._permute(rows, keys)
            case "permute-anew":
                return self._permute(rows, keys, round_index)
            case "random":
                return self._random(rows, keys, round_index)
            case "mimic":
                return self._mimic(clients, rows)
            case "flip-flop":
                n_arrivals = self._windows.n_complete(round_index) - self._windows.n_complete(0)
                return self._permute(rows, keys) if n_arrivals % 2 else rows
            case _:
                points = np.zeros(rows.shape)
                points[np.arange(clients.size), self._labels(keys, rows.shape[1])] = 1.0
                return self._scale(points, rows)

    def _permute(self, rows: Rows, keys: Hashes, *moment: int) -> Rows:
        draws = hashed(self._seed, "lie", *moment, keys[:, np.newaxis], _numbers(rows.shape[1]))
        return np.take_along_axis(rows, np.argsort(draws, axis=1, kind="stable"), axis=1)

    def _random(self, rows: Rows, keys: Hashes, round_index: int) -> Rows:
        """Return points spread evenly over all histograms, or directions over the sphere."""
        cells = (round_index, keys[:, np.newaxis], _numbers(rows.shape[1]))
        points = -np.log(unit_numbers(hashed(self._seed, "lie size", *cells)))
        if self._lie.is_histogram:
            return self._scale(points, rows)
        angles = 2.0 * np.pi * unit_numbers(hashed(self._seed, "lie angle", *cells))
        return self._scale(np.sqrt(2.0 * points) * np.cos(angles), rows)  # Box and Muller's normal numbers

    def _labels(self, keys: Hashes, n_labels: int) -> Counts:
        """Return the only label of each liar, or the target that it shares with others."""
        if self._lie.kind == "one-hot":
            return (hashed(self._seed, "target", keys) % np.uint64(n_labels)).astype(np.int64)
        first, step = hashed(self._seed, "targets", _numbers(2)) % np.array([n_labels, max(1, n_labels - 1)], np.uint64)
        side = hashed(self._seed, "side", keys) % np.uint64(2 if self._lie.kind == "collude-two" else 1)
        # At least one further on: two targets are two labels.
        return np.asarray((first + side * (np.uint64(1) + step)) % np.uint64(n_labels), dtype=np.int64)

    def _scale(self, points: npt.NDArray[np.float64], rows: Rows) -> Rows:
        """Return points as large as the true rows: all shares sum to 1, vectors keep their length."""
        if self._lie.is_histogram:
            return np.asarray(points / points.sum(axis=1, keepdims=True), dtype=np.float32)
        lengths = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
        return np.asarray(points * lengths / np.linalg.norm(points, axis=1, keepdims=True), dtype=np.float32)

    def _mimic(self, clients: Counts, rows: Rows) -> Rows:
        """Return the last reports of the honest clients that liars pose as; the truth while there is none."""
        honest = np.flatnonzero(self._ever_spoke & ~self._liars)
        if not honest.size:
            return rows
        is_new = self._posed_as[clients] < 0
        new = clients[is_new]
        draws = hashed(self._seed, "mimic", self._keys[new][:, np.newaxis], _numbers(CANDIDATES))
        candidates = honest[(draws % np.uint64(honest.size)).astype(np.int64)]
        distances = np.abs(self._truth[candidates] - rows[is_new][:, np.newaxis]).sum(axis=2)
        self._posed_as[new] = candidates[np.arange(new.size), distances.argmax(axis=1)]
        return self._truth[self._posed_as[clients]]


def _check_share(share: float) -> None:
    if isinstance(share, bool) or not isinstance(share, (int, float, np.floating)) or not 0.0 <= share <= 1.0:
        raise OptionError(f"the share of liars is {echo(share)}; give a number from 0 to 1")


def _keys_of(client_ids: Sequence[ClientId]) -> Hashes:
    return np.array([client_key(one) for one in client_ids], dtype=np.uint64)


def _numbers(count: int) -> Hashes:
    return np.arange(count, dtype=np.uint64)
