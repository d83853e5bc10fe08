"""Simulated clients of whom some join between rounds, and runs with them."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from fielding._typing import ClientId, Codes, Counts, Json, Mask, Membership, Models
from fielding.client.report import ReportBatch
from fielding.config.reader import config_from
from fielding.engine.plugins import parts_of
from fielding.engine.round import Driver, Federation
from fielding.engine.runner import Rules, Runner, Watch
from fielding.federation.clients import TrainingPlan, Updates
from fielding.federation.evaluation import ClientScores
from fielding.federation.ledger import Ledger
from fielding.methods import Method, MethodSetting, kind_named, method_named
from fielding.records.run_folder import RunFolder
from fielding.simulation.assembly import Own, Simulation, assemble
from fielding.simulation.clients import SimulatedClients
from fielding.simulation.experiment import federation_of
from fielding.traces.trace import Trace
from tests.simulation.run_cases import Table, table

START = -1
"""The round in which clients join that are there from the start."""
FIRST_DAYS = {6: 2, 7: 3}
"""When the first samples of late clients come, in days; all others have some at once."""
N_CLIENTS = 8
JOINS = (START,) * 6 + (2, 3)
"""Client 6 joins with its first samples; client 7 a round before it has any."""


class GrowingClients:
    """Simulated clients that are unknown before they join; they have no samples either, so nobody misses them.

    Parameters
    ----------
    clients
        Do the work.
    joins
        The round in which each joins, rising.

    Attributes
    ----------
    inner
        The simulated clients.
    trained
        Who answered in each round.
    served
        The models and the row of each client, as they were handed out last.
    """

    def __init__(self, clients: SimulatedClients, joins: Sequence[int]) -> None:
        self.inner, self._joins = clients, np.array(joins)
        self._n_known = self._known_in(START)
        self.trained: dict[int, list[int]] = {}
        self.served: tuple[Models, Counts] | None = None

    def __getattr__(self, name: str) -> Any:
        """Return what the clients have."""
        return getattr(self.inner, name)

    def _known_in(self, round_index: int) -> int:
        return int((self._joins <= round_index).sum())

    @property
    def client_ids(self) -> tuple[ClientId, ...]:
        return self.inner.client_ids[: self._n_known]

    @property
    def ledger(self) -> Ledger:
        arrays = self.inner.ledger.arrays()
        assert not any(array[self._n_known :].any() for array in arrays.values())
        return Ledger.restored({name: array[: self._n_known] for name, array in arrays.items()})

    def begin(self, round_index: int) -> ReportBatch:
        self._n_known = self._known_in(round_index)
        reports = self.inner.begin(round_index)
        assert set(reports.client_ids) <= set(self.client_ids)
        return reports

    def return_to(
        self,
        round_index: int,
        times: Sequence[float],
        *,
        ledger: Ledger,
        arrays: Mapping[str, npt.NDArray[np.generic]],
    ) -> ReportBatch:
        self._n_known = self._known_in(round_index)
        assert ledger.n_clients == self._n_known
        ledger.grow(self._joins.size)
        return self.inner.return_to(round_index, times, ledger=ledger, arrays=arrays)

    def fresh(self) -> Mask:
        return self.inner.fresh()[: self._n_known]

    def askable(self) -> Mask:
        return self.inner.askable()[: self._n_known]

    def train(self, plan: TrainingPlan) -> Updates:
        assert (plan.clients < self._n_known).all()
        updates = self.inner.train(plan)
        self.trained.setdefault(self.inner.round_index, []).extend(updates.clients.tolist())
        return updates

    def serve(self, models: Models, row: Counts) -> None:
        self.served = models, row
        self.inner.serve(models, self._for_all(row))

    def scores(self, models: Models, row: Counts) -> dict[str, ClientScores]:
        found = self.inner.scores(models, self._for_all(row))
        return {name: self._of_known(scores) for name, scores in found.items()}

    def concepts(self) -> Codes | None:
        concepts = self.inner.concepts()
        return None if concepts is None else concepts[: self._n_known]

    def heterogeneity(self, membership: Membership) -> float | None:
        return self.inner.heterogeneity(self._for_all(membership, filler=-1).astype(np.int32))

    def _for_all(self, column: npt.NDArray[Any], *, filler: int = 0) -> npt.NDArray[Any]:
        assert column.shape == (self._n_known,)
        return np.pad(column, (0, self._joins.size - self._n_known), constant_values=filler)

    def _of_known(self, scores: ClientScores) -> ClientScores:
        assert (scores.clients < self._n_known).all()
        return scores


def late_trace(seed: int = 0) -> Trace:
    """Return a trace of two kinds of clients, the last two of whom have no samples at first; one changes its kind."""
    rng = np.random.default_rng(seed)
    n_days, a_day = 8, 10
    client, day = (np.repeat(column.ravel(), a_day) for column in np.indices((N_CLIENTS, n_days)))
    time = 86400.0 * (day + rng.random(day.size))
    kind = (client % 2) ^ ((client == 1) & (day >= n_days // 2))
    y = 2 * kind + (rng.random(day.size) < 0.3)
    x = (rng.standard_normal((day.size, 4)) + 2.0 * np.eye(4)[y]).astype(np.float32)
    first = np.array([FIRST_DAYS.get(at, 0) for at in range(N_CLIENTS)])
    rows = np.flatnonzero(day >= first[client])
    rows = rows[np.argsort(time[rows])]
    return Trace(
        client_ids=tuple(f"client-{at}" for at in range(N_CLIENTS)),
        client=client[rows].astype(np.int32),
        time=time[rows],
        y=y[rows].astype(np.int32),
        classes=tuple("abcd"),
        x=x[rows],
    )


def late_config(**sections: Json) -> Table:
    """Return a run of a dozen rounds with such a trace: a day is an interval, two rounds long."""
    inner = sections.pop("coordinator", {})
    assert isinstance(inner, dict)
    coordinator: Json = {"participants_per_cluster": 2, "tau": 0.1, **inner}
    config = table(training={"participants": 5}, coordinator=coordinator, **sections)
    return config | {"trace": {"samples": 1, "interval": "1d", "gap": 2, "window": 4}}


class GrowingRun:
    """A run into a folder whose clients join when they are told to; as often as it is made, it goes on.

    Parameters
    ----------
    path
        The folder.
    config
        What runs.
    joins
        The round in which each client joins.
    """

    def __init__(self, path: Path, config: Table, joins: Sequence[int] = JOINS) -> None:
        self.path, self._joins = path, joins
        self._simulation = assemble(config_from(config), Own(samples=late_trace()), n_workers=1)
        self.clients = GrowingClients(self._simulation.clients, joins)
        known = self.clients.client_ids
        parts = parts_of(self._simulation.config, len(known), self._simulation.policy)
        self._simulation = replace(self._simulation, parts=parts)
        self.method = method_for(self._simulation, known)
        self.federation: Federation = federation_of(self._simulation, self.method, cast(Driver, self.clients))

    def run(self, watch: Watch = lambda _row: True) -> dict[str, Json] | None:
        """Begin, or go on after the last checkpoint; return the summary if it came to the end."""
        rules = Rules(gap=2, checkpoint_every=1)
        with closing(RunFolder(self.path, {"seed": 1})) as folder:
            layout = self._simulation.trainer.layout
            runner = Runner(self.federation, folder, layout=layout, method_name="some", rules=rules)
            if folder.is_begun():
                found = folder.resume()
                assert found is not None
                runner.restore(found)
            else:
                folder.begin("")
            summary = runner.run(watch)
            if summary is not None:
                folder.write_summary(summary)
        self._simulation.clients.close()
        return summary


def method_for(simulation: Simulation, client_ids: Sequence[ClientId]) -> Method:
    """Return the method of a simulation, made for some of its clients."""
    initial, layout = simulation.trainer.initial_model(simulation.config.seed), simulation.trainer.layout
    setting = MethodSetting(
        initial=initial,
        client_ids=client_ids,
        policy=simulation.policy,
        parts=simulation.parts,
        n_parameters=layout.parameter_size,
        n_head=layout.shapes[-1][0],
        draw_model=simulation.trainer.initial_model,
        truth=lambda _round: np.zeros(len(client_ids), dtype=np.int32),
    )
    section = simulation.config.method
    return method_named(kind_named(section.name), setting, section.options)
