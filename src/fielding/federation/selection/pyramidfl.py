"""Oort, and what its participants do: PyramidFL (Li et al., MobiCom 2022; METHODS.md 10)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from fielding._typing import Counts, Vector
from fielding.errors import OptionError, echo
from fielding.federation.selection.oort import Oort, write_longest
from fielding.federation.selection.selector import Candidates, Feedback, SelectionMemory, check_between

MOST_EXTRA = 10.0  # however fast a client is, it does no more than this many times its steps in addition


@dataclass(frozen=True, slots=True, kw_only=True)
class PyramidFL:
    """Chooses like Oort; participants that would wait do more local steps, and less useful ones send less.

    Parameters
    ----------
    beta
        Share of the steps that fit into the waiting time that are done.
    upload_least, upload_most
        Share of its update that the least and the most useful participant sends.
    oort
        How participants are chosen; in a config its options stand beside the others.
    """

    beta: float = 0.5
    upload_least: float = 0.4
    upload_most: float = 0.9
    oort: Oort = field(default=Oort())
    needs_distances: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for name in ("beta", "upload_least", "upload_most"):
            check_between(name, getattr(self, name), 0.0, 1.0)
        if self.upload_least > self.upload_most:
            raise OptionError(
                f"upload_least is {echo(self.upload_least)}, more than upload_most; give at most {self.upload_most:g}"
            )

    @property
    def client_memory(self) -> Mapping[str, float]:
        """What Oort remembers, the computing time, and how many times its steps a client was last asked to do."""
        return {**self.oort.client_memory, "compute_seconds": np.nan, "steps_factor": 1.0}

    @property
    def cluster_memory(self) -> Mapping[str, float]:
        """What Oort remembers."""
        return self.oort.cluster_memory

    @property
    def needs_reports(self) -> bool:
        """As Oort."""
        return self.oort.needs_reports

    def select(self, candidates: Candidates, n_wanted: int) -> Counts:
        """Choose like Oort."""
        return self.oort.select(candidates, n_wanted)

    def note_reports(self, clients: Counts, n_samples: Counts | None, memory: SelectionMemory) -> None:
        """Take note like Oort."""
        self.oort.note_reports(clients, n_samples, memory)

    def learn(self, feedback: Feedback, memory: SelectionMemory) -> None:
        """Learn like Oort, and remember times as they would have been with the usual number of steps."""
        known, answered, late = memory.clients, feedback.clients, feedback.stragglers
        factor = known["steps_factor"]
        # Of stragglers only the whole time is known; their computing time is the one they had before.
        before = np.nan_to_num(known["compute_seconds"][late])
        # A client does its jobs one after the other: what computing took, and what it took too long, adds up.
        computed = np.bincount(answered, weights=feedback.compute_seconds, minlength=factor.size)[answered]
        usual = computed / factor[answered]
        answer_seconds = feedback.seconds - (computed - usual)
        late_seconds = np.maximum(0.0, feedback.straggler_seconds - before * (factor[late] - 1.0))
        self.oort.learn(feedback, memory)
        is_late = ~np.isin(late, answered)
        write_longest(known["seconds"], answered, answer_seconds)
        write_longest(known["seconds"], late[is_late], late_seconds[is_late])
        write_longest(known["compute_seconds"], answered, usual)
        factor[answered] = factor[late] = 1.0

    def steps(self, clients: Counts, n_steps: int, n_kept: int | None, memory: SelectionMemory) -> Counts:
        """Return the local steps of each participant, rounded down, and remember how many times more they are.

        The factor is ``1 + min(10, beta * floor((T - t) / (t_compute / n_steps)) / n_steps)``, where T is the time of
        the slowest participant; of the ``n_kept`` fastest, if not all are waited for. A client whose times are not
        known does the usual number.
        """
        known = memory.clients
        seconds, compute = known["seconds"][clients], known["compute_seconds"][clients]
        # When the last answer that is waited for comes, by the clients whose times are known.
        timed, n_waited = np.sort(seconds[np.isfinite(seconds)]), clients.size if n_kept is None else n_kept
        rank = int(np.ceil(timed.size * min(n_waited, clients.size) / max(1, clients.size)))
        last = float(timed[max(rank, 1) - 1]) if timed.size else -np.inf
        with np.errstate(divide="ignore", invalid="ignore"):
            fitting = np.floor((last - seconds) / (compute / n_steps))
        extra = np.where(last > seconds, np.minimum(MOST_EXTRA, self.beta * fitting / n_steps), 0.0)
        steps = np.floor(n_steps * (1.0 + np.nan_to_num(extra)) + 1e-9).astype(np.int64)
        known["steps_factor"][clients] = steps / n_steps
        return steps

    def upload_shares(self, clients: Counts, memory: SelectionMemory) -> Vector:
        """Return shares that rise evenly with the rank by utility (ties alike); the most for clients never tried."""
        utility = memory.clients["utility"][clients]
        is_tried = memory.clients["times"][clients] > 0
        ranked = np.sort(utility[is_tried])
        rank = np.searchsorted(ranked, utility) / max(1, ranked.size - 1)
        if ranked.size < 2:
            return np.full(clients.size, self.upload_most)
        shares = self.upload_least + (self.upload_most - self.upload_least) * rank
        return np.where(is_tried, shares, self.upload_most)
