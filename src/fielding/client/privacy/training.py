"""The rule of private training: what all that a client trains tells of a sample, or of a client, at most."""

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated

import numpy as np
from msgspec import Meta

from fielding._typing import Counts, Mask

if TYPE_CHECKING:
    from fielding.client.privacy.geometric import RandomWords
    from fielding.client.privacy.rule import PrivacyRule

TRAINING, MODELS = "training", "models"
"""What a ledger calls the trainings of a client, and the models that a server makes of clients' updates."""

FOREVER = 2**30  # rounds: more than any run has


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateTraining:
    """Noise on what is trained, and how often there may be some.

    Parameters
    ----------
    epsilon, delta
        What all trainings within any ``window`` rounds tell at most.
    clip
        Length that what one sample, or one client, adds is cut down to.
    noise
        Noise multiplier: the standard deviation of noise on each number of the sum, in clips.
    rate
        Probability with which each sample is drawn for a step, or each client for a round.
    n_times
        Noised sums that may be made in ``window`` rounds: trainings of a client with so many steps each, or rounds.
    n_steps
        Noised sums that one of them makes.
    """

    epsilon: Annotated[float, Meta(gt=0)]
    delta: Annotated[float, Meta(gt=0, lt=1)]
    clip: Annotated[float, Meta(gt=0)]
    noise: Annotated[float, Meta(gt=0)]
    rate: Annotated[float, Meta(gt=0, le=1)]
    n_times: Annotated[int, Meta(ge=1, lt=2**31)]
    window: Annotated[int, Meta(ge=1, lt=2**31)]
    n_steps: Annotated[int, Meta(ge=1, lt=2**31)] = 1

    def epsilon_after(self, n_times: int) -> float:
        """Return what so many trainings tell of a sample, or so many rounds of a client, at ``delta``."""
        if not n_times:
            return 0.0
        from fielding.client.privacy.accountant import divergences, epsilon_of_divergences  # most devices need none

        return epsilon_of_divergences(divergences(self.rate, self.noise, n_times * self.n_steps), self.delta)

    def rule(self, what: str = TRAINING) -> "PrivacyRule":
        """Return it as a ledger keeps it: each training takes an equal part of what may be spent.

        The noise is made for so many of them; what fewer tell says :meth:`epsilon_after`.
        """
        from fielding.client.privacy.rule import PrivacyRule

        return PrivacyRule(
            epsilon=Fraction(repr(self.epsilon)),
            reports=self.n_times,
            window=self.window,
            what=what,
            delta=Fraction(repr(self.delta)),
            noise_multiplier=self.noise,
            rate=self.rate,
            n_steps=self.n_steps,
            max_norm=self.clip,
        )


def draw_samples(n_samples: int, rate: float, *, n_steps: int, words: "RandomWords") -> Mask:
    """Return which samples take part in each step, each independently of all others, shape ``(n_steps, n_samples)``."""
    bound = min(round(rate * 2.0**64), 2**64 - 1)
    return np.asarray(words(n_steps * n_samples) <= np.uint64(bound)).reshape(n_steps, n_samples)


def pack_draws(drawn: list[Mask], entries: list[Counts]) -> tuple[Counts, Mask]:
    """Return the samples of each step of each client, and which places hold one.

    ``drawn``: as :func:`draw_samples` gives them, by client; ``entries``: the samples of each, one at least. Both have
    the shape ``(n_clients, n_steps, n_places)``; places without a sample repeat one.

    Examples
    --------
    >>> draws, is_drawn = pack_draws([np.array([[True, False, True], [False, True, False]])], [np.array([7, 8, 9])])
    >>> draws.tolist(), is_drawn.tolist()
    ([[[7, 9], [8, 7]]], [[[True, True], [True, False]]])
    """
    width = max(1, *(int(one.sum(axis=1).max(initial=0)) for one in drawn))
    shape = (len(drawn), drawn[0].shape[0], width)
    draws, is_drawn = np.empty(shape, dtype=np.int64), np.zeros(shape, dtype=np.bool_)
    for client, (mask, own) in enumerate(zip(drawn, entries, strict=True)):
        draws[client] = own[0]
        step, sample = np.nonzero(mask)
        place = np.arange(step.size) - np.searchsorted(step, step)
        draws[client, step, place], is_drawn[client, step, place] = own[sample], True
    return draws, is_drawn
