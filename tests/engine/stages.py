"""Clients and a method that do nothing but note what is asked of them, in which order."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from fielding._typing import ClientId, Codes, Counts, Json, Mask, Matrix, Membership, Models, Vector
from fielding.client.report import NO_REPORTS, ReportBatch
from fielding.engine.round import Federation
from fielding.federation.clients import Clients, TrainingPlan, Updates
from fielding.federation.evaluation import ClientScores
from fielding.federation.ledger import Ledger
from fielding.rng import Hashes, hashed

ROUND_S = 10.0
"""Simulated seconds that a round takes."""
Arrays = dict[str, npt.NDArray[np.generic]]
NOBODY = np.empty(0, dtype=np.int64)


class NotingClients:
    """One client that reports in every round; the reports of round r come from client ``"r"``."""

    def __init__(self, notes: list[str], accuracy: Mapping[int, float] | None = None) -> None:
        self.notes, self._accuracy = notes, accuracy or {}
        self.ledger, self.now_s, self.worked_s = Ledger(1), 0.0, 0.0
        self.round_costs: dict[str, float] = {}
        self.round_notes: dict[str, Json] = {}
        self.cluster_figures: dict[int, dict[str, float]] = {}
        self._round = -1

    @property
    def client_ids(self) -> tuple[ClientId, ...]:
        return ("only",)

    def begin(self, round_index: int) -> ReportBatch:
        self._round = round_index
        self.notes.append(f"begin {round_index}")
        return ReportBatch(client_ids=[str(round_index)], representations=np.array([[1.0, 0.0]], dtype=np.float32))

    @property
    def done_s(self) -> Vector | None:
        return None

    def wait_for_all(self) -> None:
        """Wait for nobody: there is one cluster."""

    def charge_reports(self) -> None:
        self.notes.append(f"charge {self._round}")

    def collect(self, clients: Counts) -> ReportBatch:  # noqa: ARG002
        return NO_REPORTS

    def snapshot(self) -> Arrays:
        return {}

    @property
    def awaits_model(self) -> bool:
        return False

    def share(self, model: Models) -> None:  # noqa: ARG002
        self.notes.append("share")

    def serve(self, models: Models, row: Counts) -> None:
        """Hear of the models; nothing to note."""

    def heterogeneity(self, membership: Membership) -> float | None:  # noqa: ARG002
        return None

    def return_to(
        self,
        round_index: int,
        times: Sequence[float],
        *,
        ledger: Ledger,
        arrays: Mapping[str, npt.NDArray[np.generic]],  # noqa: ARG002
    ) -> ReportBatch:
        self.ledger, self.now_s = ledger, times[round_index + 1]
        return self.begin(round_index)

    def concepts(self) -> Codes | None:
        return None

    @property
    def round_index(self) -> int:
        return self._round

    @property
    def interval(self) -> int:
        return self._round

    def fresh(self) -> Mask:
        return np.ones(1, dtype=np.bool_)

    def draws(self, purpose: str, clients: Counts) -> Hashes:
        return hashed(0, purpose, clients.astype(np.uint64))

    def askable(self) -> Mask:
        return np.ones(1, dtype=np.bool_)

    def invitations(self, wanted: int, available: int) -> int:
        return min(wanted, available)

    def train(self, plan: TrainingPlan) -> Updates:  # noqa: ARG002
        self.notes.append("train")
        self.now_s += ROUND_S
        return Updates(
            clients=NOBODY,
            groups=NOBODY,
            start=NOBODY,
            models=np.empty((0, 2), dtype=np.float32),
            n_samples=NOBODY,
            loss=np.empty(0),
            square_loss=np.empty(0),
            n_parameters=2,
            learning_rate=0.1,
        )

    def losses(
        self,
        clients: Counts,
        models: Models,
        *,
        blocks: Sequence[Counts] | None = None,  # noqa: ARG002
        held: Mask | None = None,  # noqa: ARG002
        corrected: bool = False,  # noqa: ARG002
    ) -> Matrix:
        return np.zeros((clients.size, models.shape[0]))

    def accuracies(
        self,
        clients: Counts,
        models: Models,
        *,
        blocks: Sequence[Counts] | None = None,  # noqa: ARG002
        held: Mask | None = None,  # noqa: ARG002
    ) -> Matrix:
        return np.zeros((clients.size, models.shape[0]))

    def block_sizes(self, clients: Counts, blocks: Sequence[Counts]) -> Counts:  # noqa: ARG002
        return np.zeros(clients.size, dtype=np.int64)

    def scores(self, models: Models, row: Counts) -> dict[str, ClientScores]:  # noqa: ARG002
        self.notes.append("test")
        right = round(100 * self._accuracy.get(self._round, 0.0))
        one = ClientScores(
            clients=np.array([0]), n_test=np.array([100]), correct=np.array([right]), loss=np.array([1.0])
        )
        return {"window": one}


class NotingMethod:
    """One model for everyone, which counts the rounds it learned in."""

    def __init__(self, notes: list[str]) -> None:
        self.notes = notes
        self.models: Models = np.zeros((1, 2), dtype=np.float32)

    def adapt(self, reports: ReportBatch, clients: Clients) -> None:  # noqa: ARG002
        self.notes.append(f"adapt {','.join(map(str, reports.client_ids)) or 'nothing'}")

    def plan(self, clients: Clients) -> TrainingPlan:  # noqa: ARG002
        self.notes.append("plan")
        return TrainingPlan(models=self.models, clients=NOBODY, groups=NOBODY, start=NOBODY, wanted=NOBODY)

    def learn(self, updates: Updates) -> None:  # noqa: ARG002
        self.notes.append("learn")
        self.models = self.models + np.float32(1.0)

    def membership(self) -> Membership:
        return np.zeros(1, dtype=np.int32)

    def cluster_ids(self) -> tuple[int, ...]:
        return (0,)

    def heterogeneity(self) -> float | None:
        return None

    def snapshot(self) -> tuple[dict[str, Json], Arrays]:
        return {}, {}

    def restore(self, values: Mapping[str, Json], arrays: Arrays) -> None:  # noqa: ARG002
        self.models = np.asarray(arrays["models"], dtype=np.float32)


def noting_federation(
    notes: list[str],
    *,
    accuracy: Mapping[int, float] | None = None,
    evaluate_every: int = 5,
    n_rounds: int = 12,
    stop_at_time_s: float | None = None,
    is_delayed: bool = False,
) -> Federation:
    """Return a federation whose parts write into ``notes``; clients are served with this accuracy by round, else 0."""
    return Federation(
        clients=NotingClients(notes, accuracy),
        method=NotingMethod(notes),
        evaluate_every=evaluate_every,
        n_rounds=n_rounds,
        stop_at_time_s=stop_at_time_s,
        is_delayed=is_delayed,
    )
