"""Dirichlet label shift: clients change from one label mix to another, at once, bit by bit, or to and fro."""

from dataclasses import dataclass

import numpy as np

from fielding._typing import Membership, Vector
from fielding.config.options import check_whole
from fielding.rng import client_keys
from fielding.traces.pool import Pool
from fielding.traces.scenarios.dealing import (
    Positions,
    View,
    by_client,
    concept_mixes,
    deal_view,
    drifters,
    first_states,
    other_states,
    slot_units,
    units,
    wander,
)
from fielding.traces.scenarios.scenario import MOST_CONCEPTS, DealRequest, check_alpha, check_choice, check_share
from fielding.traces.schedule import Schedule

KINDS = ("sudden", "gradual", "recurring")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dirichlet:
    """Concepts are label mixes; a client sees its first concept, mixed with the one it has drifted to.

    Parameters
    ----------
    kind
        ``"sudden"``: a client that drifts sees its new concept at once. ``"gradual"``: an event every ``duration``
        intervals, and the change takes until the next. ``"recurring"``: an event every ``period`` intervals; at the
        first, third, fifth some clients change to a second concept, always the same for a client, and at the next
        they are back.
    concepts
        How many label mixes there are.
    alpha
        The parameter of the Dirichlet distribution that they come from.
    share
        The chance of a client to drift at an event; with ``"recurring"``, at every other one.
    intensity
        How far: the share of samples that come from the concept it has drifted to; the rest stay with its first.
    duration
        Intervals that a gradual change takes.
    period
        Intervals until a recurring concept is back.

    Examples
    --------
    >>> pool = Pool(x=np.eye(4), y=np.arange(4, dtype=np.int32) % 2, classes=("cat", "dog"))
    >>> request = DealRequest(n_clients=1, n_intervals=7, n_first=2)
    >>> Dirichlet(kind="recurring", share=1.0).deal(pool, request, seed=1).concepts.ravel().tolist()
    [3, 3, 2, 2, 3, 3, 2]
    """

    kind: str = "sudden"
    concepts: int = 4
    alpha: float = 0.5
    share: float = 0.3
    intensity: float = 1.0
    duration: int = 3
    period: int = 2

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, KINDS)
        check_whole("concepts", self.concepts, low=1, high=MOST_CONCEPTS)
        check_alpha(self.alpha)
        check_share("share", self.share)
        check_share("intensity", self.intensity)
        check_whole("duration", self.duration, low=1)
        check_whole("period", self.period, low=1)

    def deal(self, pool: Pool, request: DealRequest, *, seed: int) -> Schedule:
        """Return who sees which sample when; the concept tells both the first mix and the present one."""
        if self.kind == "recurring":
            first = first_states(request, self.concepts, seed=seed)
            second = other_states(
                first, self.concepts, units(seed, "second state", client_keys(range(request.n_clients)))
            )
            states = np.tile(first.astype(np.int32), (request.n_intervals, 1))
            for event in range(request.n_first, request.n_intervals, 2 * self.period):
                is_out = drifters(request, seed, share=self.share, event=event)
                states[event : event + self.period] = np.where(is_out, second, first)
        else:
            every = self.duration if self.kind == "gradual" else 1
            states = wander(request, self.concepts, share=self.share, seed=seed, every=every)
        progress = gradual_progress(request, self.duration if self.kind == "gradual" else 1)
        # The concept that each client comes from, which is its own unless a change is under way.
        before = states.copy()
        for interval in range(1, states.shape[0]):
            is_same_change = progress[interval] > progress[interval - 1]
            before[interval] = before[interval - 1] if is_same_change else states[interval - 1]
        mix_of: Positions = by_client(states)
        if self.kind == "gradual":
            is_new = slot_units(request, seed, "progress") < progress[:, np.newaxis]
            mix_of = np.where(is_new, mix_of, by_client(before))
        if self.intensity < 1.0:
            is_far = slot_units(request, seed, "intensity") < self.intensity
            mix_of = np.where(is_far, mix_of, states[0][:, np.newaxis, np.newaxis])
        nearest = np.where(progress[:, np.newaxis] >= 0.5, states, before)
        view = View(
            concepts=mixed_concepts(nearest, self.concepts, intensity=self.intensity),
            mixes=concept_mixes(pool, self.concepts, alpha=self.alpha, seed=seed),
            mix_of=mix_of,
        )
        return deal_view(pool, request, view, seed=seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurring:
    """Some clients change to a second label mix, are back after a while, and so on: ``dirichlet`` of that kind.

    The options ``concepts``, ``alpha``, ``share``, ``intensity`` and ``period`` are as in :class:`Dirichlet`.
    """

    concepts: int = 4
    alpha: float = 0.5
    share: float = 0.3
    intensity: float = 1.0
    period: int = 2

    def __post_init__(self) -> None:
        self._as_dirichlet()

    def deal(self, pool: Pool, request: DealRequest, *, seed: int) -> Schedule:
        """Return who sees which sample when."""
        return self._as_dirichlet().deal(pool, request, seed=seed)

    def _as_dirichlet(self) -> Dirichlet:
        return Dirichlet(
            kind="recurring",
            concepts=self.concepts,
            alpha=self.alpha,
            share=self.share,
            intensity=self.intensity,
            period=self.period,
        )


def gradual_progress(request: DealRequest, duration: int) -> Vector:
    """Return how far the change of the last event has come in each interval, above 0 to 1, shape ``(n_intervals,)``."""
    since = np.arange(request.n_intervals) - request.n_first
    return np.where(since < 0, 1.0, (since % duration + 1) / duration)


def mixed_concepts(states: Membership, n_states: int, *, intensity: float) -> Membership:
    """Return one number per distinct mix of a client's first state and its present one.

    ``intensity``: the share of the present state in the mix: with 1 it alone counts, with 0 the first alone.

    Examples
    --------
    >>> states = np.array([[0, 1], [1, 1], [0, 0]], dtype=np.int32)
    >>> mixed_concepts(states, 2, intensity=0.5).tolist()
    [[0, 1], [2, 1], [0, 3]]
    """
    first = np.broadcast_to(states[0], states.shape)
    if intensity == 1.0:
        return states.astype(np.int32)
    if intensity == 0.0:
        return first.astype(np.int32)
    pair = n_states + first * (n_states - 1) + (states - first - 1) % n_states
    return np.where(states == first, first, pair).astype(np.int32)
