"""Stages 3 and 4 with a representation on a shared model: who has to report, and what was said last."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Mask
from fielding.client.drift.sample_tests import Comparison, Judge
from fielding.client.fleet import FleetReports
from fielding.client.windows_seen import LastReports, WindowsSeen

NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """When windows are looked at.

    Parameters
    ----------
    round_index
        The round.
    first, stop
        The first interval that windows show, and the first that has not come yet; or other numbers that rise with time.
    """

    round_index: int
    first: int
    stop: int


class TallyWatch:
    """Remembers what clients reported last, and says who of those whose windows changed has to report again.

    A report is due when data first come, when they are gone, when the judge finds drift, and when the last one was
    lost. A client that drifted reports once more when the last samples from before have left its window, if the judge
    is slow: until then it describes a mixture, which a test on samples would not find unlike what comes after.

    Parameters
    ----------
    n_clients
        How many clients there are; a device is one.
    judge
        What counts as drift.
    has_turnover
        Whether windows show more than one arrival, so that what is from before a drift leaves later.
    """

    def __init__(self, n_clients: int, judge: Judge, *, has_turnover: bool) -> None:
        self.judge, self.last = judge, LastReports(n_clients)
        self._has_turnover = has_turnover
        self._owes = np.zeros(n_clients, dtype=np.bool_)
        self._kinds = np.zeros(n_clients, dtype=np.int8)
        self._turned_over = np.full(n_clients, NEVER, dtype=np.int64)

    def hold(self, clients: Counts) -> None:
        """Let clients report again when they are looked at next: their last report was lost."""
        self._owes[clients] = True

    def owing(self) -> Mask:
        """Return who has to report whatever its window shows, shape ``(n_clients,)``."""
        return self._owes.copy()

    def turned_over(self, first: int) -> Mask:
        """Return who has to report when windows begin to show no interval before ``first``."""
        has_turned_over = self._turned_over <= first
        self._kinds[has_turned_over & ~self._owes] = 0
        self._owes |= has_turned_over
        return self._owes.copy()

    def reports(self, now: WindowsSeen, sighting: Sighting) -> FleetReports:
        """Return the reports that are due of clients whose windows are given; drift is judged against them from now."""
        has, was_active, owes = now.sizes > 0, self.last.is_active[now.clients], self._owes[now.clients]
        # A client that could not report then still says what it saw.
        kinds = np.where(owes, self._kinds[now.clients], 0).astype(np.int8)
        must = owes | (has != was_active)
        drifted = np.zeros(has.size, dtype=np.bool_)
        doubted = np.flatnonzero(has & was_active & ~must)
        if doubted.size:
            drifted[doubted], kinds[doubted] = self.judge.judged(self._comparison(now, doubted, sighting))
        due = np.flatnonzero(must | drifted)
        self.last.keep(now, due, round_index=sighting.round_index, until=sighting.stop)
        who = now.clients[due]
        self._owes[who], self._kinds[who] = False, kinds[due]
        self._turned_over[who[(self._turned_over[who] <= sighting.first) | (now.sizes[due] == 0)]] = NEVER
        if self._has_turnover and self.judge.is_slow:
            self._turned_over[now.clients[drifted]] = sighting.stop - 1
        return FleetReports(clients=who, representations=now.vectors[due], n_samples=now.sizes[due], kinds=kinds[due])

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return what is known beside the last reports, for :meth:`restore`."""
        return {"watch.owes": self._owes, "watch.kinds": self._kinds, "watch.turned_over": self._turned_over}

    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Take over what :meth:`arrays` gave."""
        self._owes = arrays["watch.owes"].astype(np.bool_)
        self._kinds = arrays["watch.kinds"].astype(np.int8)
        self._turned_over = arrays["watch.turned_over"].astype(np.int64)

    def _comparison(self, now: WindowsSeen, doubted: Counts, sighting: Sighting) -> Comparison:
        """Return what some of the clients, by position, know of themselves now and at their last report."""
        who, since = now.clients[doubted], self.last.until[now.clients]
        newest = np.full(now.clients.size, sighting.stop - 1)
        return Comparison(
            now=now.vectors[doubted],
            before=self.last.vectors[who],
            age=sighting.round_index - self.last.rounds[who],
            n_now=now.sizes[doubted],
            n_fresh=now.n_since(since)[doubted],
            n_before=self.last.sizes(who),
            reference=lambda some: self.last.batch(who[some]),
            fresh=lambda some: now.batch(doubted[some], first=since),
            newest=lambda some: now.batch(doubted[some], first=newest),
            earlier=lambda some: now.batch(doubted[some], first=since, stop=newest),
        )
