"""The drifting stream of the golden replay: clients in places that differ in what is seen there.

Nothing in it was tuned on results of training. A client sees the label mix of the place it is in. On most days a few
clients move; twice much happens at once, and then single moves no longer do (the reports of a day are those of the
step before, because two days are seen before step 0):

======== =============================================================================
day      what happens
======== =============================================================================
always   a client moves to another place on one day in 250
7-43     five clients join late
12       six clients move together
16-24    ten clients are silent; half of them return to another place
27       two clients in five move, and one place changes its mix
39       seven clients move together
45       a fifth place opens, and one client in three moves there
54       the fourth place closes; its clients spread over the others
======== =============================================================================
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fielding._typing import Matrix, Vector
from fielding.traces.histograms import WindowPlan
from fielding.traces.trace import Trace

Places: TypeAlias = npt.NDArray[np.int8]
"""The place of each client on each day, shape ``(n_days, n_clients)``; -1 where it has no data."""
Today: TypeAlias = npt.NDArray[np.int8]
"""The place of some clients on one day, shape ``(n_clients,)``."""

N_CLIENTS, N_LABELS, N_PLACES, N_DAYS = 120, 10, 5, 63
ABSENT = -1
DAY = 86_400.0
FIRST_DAY = 1_704_067_200.0
"""2024-01-01 in unix seconds."""
CONCENTRATION = 0.5
"""Parameter of the Dirichlet distribution of label mixes: a place has two or three frequent labels."""
NEAREST_MIXES = 0.9
"""L1 distance that two mixes keep at least: places that look alike would be one."""
SAMPLES_A_DAY = 40.0
MOVES_A_DAY = 1 / 250
MOVES_TOGETHER = {12: 6, 39: 7}
MASS_DAY = 27
CHANGED_PLACE = 2
OPENING_DAY, OPENED_PLACE = 45, 4
CLOSING_DAY, CLOSED_PLACE = 54, 3
JOIN_DAYS = (7, 15, 22, 34, 43)
N_SILENT = 10
SILENT_DAYS = slice(16, 25)
PLAN = WindowPlan(interval="1d", gap=1, window=2)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlaceStream:
    """A trace of which the truth is known.

    Parameters
    ----------
    trace
        The samples; the clients are called ``client-000`` and so on.
    places
        Where each client really is on each day, in the order of ``trace.client_ids``.
    plan
        How to turn it into reports.
    """

    trace: Trace
    places: Places
    plan: WindowPlan

    def places_at(self, step: int) -> Today:
        """Return the true place of each client when the reports of a step are made, shape ``(n_clients,)``."""
        return np.asarray(self.places[step + self.plan.n_first - 1])


def place_stream(rng: np.random.Generator) -> PlaceStream:
    """Return the stream; equal generators give equal streams.

    Examples
    --------
    >>> from fielding.rng import stream
    >>> example = place_stream(stream(1, "demo"))
    >>> len(example.trace.client_ids), len(example.trace.classes), example.places.shape
    (120, 10, (63, 120))
    """
    places = _absences(_walks(rng), rng)
    mixes = _mixes(rng)
    rates = SAMPLES_A_DAY * rng.lognormal(0.0, 0.3, N_CLIENTS)
    day, client = np.nonzero(places != ABSENT)
    counts = rng.poisson(rates[client])
    labels = rng.multinomial(np.maximum(counts, 1), mixes[day, places[day, client]])
    row, y = np.nonzero(labels)
    trace = Trace(
        client_ids=tuple(f"client-{at:03d}" for at in range(N_CLIENTS)),
        client=client[row].astype(np.int32),
        time=FIRST_DAY + DAY * day[row].astype(np.float64),
        y=y.astype(np.int32),
        classes=tuple(f"label {at}" for at in range(N_LABELS)),
        count=labels[row, y].astype(np.int64),
    )
    return PlaceStream(trace=trace, places=places, plan=PLAN)


def _walks(rng: np.random.Generator) -> Places:
    """Return where each client is on each day, as if it were never absent."""
    places = np.empty((N_DAYS, N_CLIENTS), dtype=np.int8)
    places[0] = np.arange(N_CLIENTS) % OPENED_PLACE
    for day in range(1, N_DAYS):
        today = places[day - 1].copy()
        movers = np.flatnonzero(rng.random(N_CLIENTS) < MOVES_A_DAY)
        if day == MASS_DAY:
            movers = rng.choice(N_CLIENTS, 2 * N_CLIENTS // 5, replace=False)
        if day == CLOSING_DAY:
            movers = np.flatnonzero(today == CLOSED_PLACE)
        today[movers] = _elsewhere(today[movers], _open_places(day), rng)
        if day in MOVES_TOGETHER:
            today[rng.choice(np.flatnonzero(today == 0), MOVES_TOGETHER[day], replace=False)] = 1
        if day == OPENING_DAY:
            today[rng.choice(N_CLIENTS, N_CLIENTS // 3, replace=False)] = OPENED_PLACE
        places[day] = today
    return places


def _open_places(day: int) -> Today:
    return np.array([place for place in range(N_PLACES) if _is_open(place, day)], dtype=np.int8)


def _is_open(place: int, day: int) -> bool:
    return day >= OPENING_DAY if place == OPENED_PLACE else place != CLOSED_PLACE or day < CLOSING_DAY


def _elsewhere(today: Today, open_places: Today, rng: np.random.Generator) -> Today:
    """Return, for each client, an open place other than the one it is in."""
    drawn = rng.random((today.size, open_places.size))
    drawn[today[:, np.newaxis] == open_places] = -1.0
    return np.asarray(open_places[drawn.argmax(axis=1)])


def _absences(places: Places, rng: np.random.Generator) -> Places:
    """Return the places with the days blanked on which clients have no data."""
    present = places.copy()
    chosen = rng.choice(N_CLIENTS, len(JOIN_DAYS) + N_SILENT, replace=False)
    for client, joins in zip(chosen, JOIN_DAYS, strict=False):
        present[:joins, client] = ABSENT
    silent = chosen[len(JOIN_DAYS) :]
    present[SILENT_DAYS, silent] = ABSENT
    # Half of them come back to another place than the one they left.
    moved = silent[: N_SILENT // 2]
    present[SILENT_DAYS.stop : MASS_DAY, moved] = (places[SILENT_DAYS.start - 1, moved] + 1) % OPENED_PLACE
    return present


def _mixes(rng: np.random.Generator) -> Matrix:
    """Return the label mix of each place on each day, shape ``(n_days, n_places, n_labels)``."""
    drawn: list[Vector] = []
    while len(drawn) < N_PLACES + 1:
        mix = rng.dirichlet(np.full(N_LABELS, CONCENTRATION))
        if all(np.abs(mix - other).sum() >= NEAREST_MIXES for other in drawn):
            drawn.append(mix)
    mixes = np.tile(np.array(drawn[:N_PLACES]), (N_DAYS, 1, 1))
    mixes[MASS_DAY:, CHANGED_PLACE] = drawn[-1]
    return mixes
