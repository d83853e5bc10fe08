"""What a driver offers beside the door: somebody who lets rounds begin, time pass and costs add up."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from fielding._typing import Codes, Counts, Membership, Models
from fielding.client.report import ReportBatch
from fielding.federation.clients import Clients
from fielding.federation.cluster_models import Arrays
from fielding.federation.evaluation import ClientScores
from fielding.federation.ledger import Ledger


class Driver(Clients, Protocol):
    """What a driver adds to the door: rounds begin, time passes, and costs add up."""

    @property
    def ledger(self) -> Ledger:
        """What was charged so far."""
        ...

    @property
    def round_costs(self) -> Mapping[str, float]:
        """What this round cost so far: ``bytes_down``, ``bytes_up``, ``client_seconds``."""
        ...

    @property
    def worked_s(self) -> float:
        """Wall-clock seconds that local steps took in this round."""
        ...

    @property
    def now_s(self) -> float:
        """Simulated seconds since the start."""
        ...

    def begin(self, round_index: int) -> ReportBatch:
        """Let data arrive, and return what clients have to tell.

        Clients may join here, and nowhere else: ``client_ids`` is then longer, new ones at its end, and from now on all
        arrays by client, the ledger too, have the new length. Nobody is ever taken away: who left is not askable.
        """
        ...

    @property
    def awaits_model(self) -> bool:
        """Whether clients wait for a shared model, by which they describe their data from the next round on."""
        ...

    def share(self, model: Models) -> None:
        """Freeze a model and send it to everybody."""
        ...

    def serve(self, models: Models, row: Counts) -> None:
        """Let clients know the models that serve them: of these, the row of each."""
        ...

    def collect(self, clients: Counts) -> ReportBatch:
        """Return what participants of a round send with their models; nothing unless the method hears only those."""
        ...

    def charge_reports(self) -> None:
        """Charge the reports that came last to whoever sent them."""
        ...

    def snapshot(self) -> Arrays:
        """Return what the driver has to find again to come back to this round, beside clock and ledger."""
        ...

    def return_to(
        self,
        round_index: int,
        times: Sequence[float],
        *,
        ledger: Ledger,
        arrays: Mapping[str, npt.NDArray[np.generic]],
    ) -> ReportBatch:
        """Come back to the end of a round that was done before, and return the reports sent in it before training.

        ``times`` holds the simulated time at the start of each round up to it, and at its end; ``arrays`` is what
        :meth:`snapshot` gave. Clients that had joined by then are back afterwards, all in the same order; a driver that
        does not know them by itself keeps their ids in its snapshot.
        """
        ...

    def heterogeneity(self, membership: Membership) -> float | None:
        """Return how different the data of clients of the same cluster are; a measurement of ours."""
        ...

    def concepts(self) -> Codes | None:
        """Return the true concept of each client now, for scoring, or None if nobody knows."""
        ...

    def other_scores(self, models: Models, row: Counts) -> Mapping[str, ClientScores]:
        """Measure each client's model on other samples than those of its window, where that tells more; by name.

        ``"newest"``: on what came last; ``"prequential"``: on what comes next.
        """
        ...
