"""Rehearsal (CDA-FedAvg): when clients are alarmed, what they remember, and what it costs to look."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from fielding._typing import Codes, Counts, Features, Models
from fielding.client.rehearsal import LEAST_LOOK, PER_LABEL
from fielding.errors import CheckpointError
from fielding.rng import client_key
from fielding.runtime.memory import Rehearsal
from fielding.simulation.clients import SimulatedClients
from fielding.traces.sliding import SlidingWindows
from tests.runtime.keeping import (
    RULE,
    Averaging,
    averaging,
    concept_windows,
    keeping_clients,
    resumes_at_every_round,
)
from tests.runtime.plans import RecordingTrainer, plan_of

NEXT, CONFIDENCE = "rehearsal.next", "rehearsal.confidence"
OWNER, ROW = "rehearsal.memory_client", "rehearsal.memory_row"
"""Names in a checkpoint."""
REHEARSAL = replace(RULE, rehearsal=True, n_steps=10, batch_size=10)
CHANGE = 6
"""The interval in which everybody goes over to labels that nobody has seen."""
CONCEPTS = [0] * CHANGE + [1] * 6
ONE_MODEL = np.zeros((1, 1), dtype=np.float32)
EVERYONE = list(range(6))


def alarmed(clients: SimulatedClients) -> list[int]:
    """Return who remembers something, which takes an alarm."""
    return [int(client) for client in np.unique(clients.snapshot()[OWNER]).tolist()]


def memory_of(clients: SimulatedClients, client: int) -> Counts:
    arrays = clients.snapshot()
    return arrays[ROW][arrays[OWNER] == client].astype(np.int64)


def after_rounds(federation: Averaging, n_rounds: int) -> Averaging:
    for _ in range(n_rounds):
        federation.round(list(range(federation.clients.windows.n_clients)))
    return federation


def accuracy_on(federation: Averaging, concept: int) -> float:
    """Return how often the model is right on the test samples of a concept."""
    pool, trainer = federation.clients.windows.pool, federation.clients.trainer
    rows = np.flatnonzero(pool.is_test() & (pool.y // 2 == concept))
    return float(trainer.scores(federation.model, pool.features(rows), pool.y[rows])[1].mean())


class Looking:
    """A rehearsal whose model knows labels 0 and 1, and takes 2 and 3 for something else."""

    def __init__(self, windows: SlidingWindows, ids: list[int] | None = None) -> None:
        self.windows = windows
        keys = np.array([client_key(one) for one in ids or range(windows.n_clients)], dtype=np.uint64)
        self.rehearsal = Rehearsal(windows, seed=9, keys=keys)
        self.read: list[int] = []

    def look(self, clients: list[int], round_index: int) -> None:
        self.look_with(self.losses, clients, round_index)

    def look_with(self, losses: Callable[[Models, Counts], Models], clients: list[int], round_index: int) -> None:
        start, training = np.zeros(len(clients), dtype=np.int64), self.windows.training(round_index)
        self.rehearsal.look(np.array(clients), start, ONE_MODEL, losses=losses, training=training)

    def losses(self, _model: Models, rows: Counts) -> Models:
        self.read += rows.tolist()
        return np.where(self.windows.schedule.y[rows] < 2, 0.1, 3.0).astype(np.float32)


def test_clients_whose_data_stay_as_they_are_hardly_ever_alarm() -> None:
    windows = concept_windows([0] * 14, n_clients=80, samples=20, spread=1.2)

    federation = after_rounds(averaging(keeping_clients(windows, REHEARSAL)), 13)

    n_looks = 80 * 14
    assert federation.clients.snapshot()[NEXT].tolist() == [14] * 80
    assert len(alarmed(federation.clients)) <= 0.005 * n_looks


def test_everybody_alarms_when_unknown_labels_come_and_remembers_what_was_before() -> None:
    windows = concept_windows(CONCEPTS, samples=80)
    federation = averaging(keeping_clients(windows, REHEARSAL))

    after_rounds(federation, CHANGE - 1)  # the first round shows two intervals
    assert not alarmed(federation.clients)
    after_rounds(federation, 1)

    assert alarmed(federation.clients) == EVERYONE
    schedule, is_test = windows.schedule, windows.pool.is_test()
    for client in range(6):
        rows = memory_of(federation.clients, client)
        assert set(schedule.client[rows]) == {client}
        assert not is_test[schedule.sample[rows]].any()
        assert set(schedule.interval[rows]) == {CHANGE - 1}
        assert np.bincount(schedule.y[rows]).tolist() == [PER_LABEL, PER_LABEL]


def test_from_then_on_old_samples_are_in_the_batches_of_their_owners() -> None:
    windows = concept_windows(CONCEPTS)
    clients = keeping_clients(windows, REHEARSAL, record=True)
    federation = after_rounds(averaging(clients), CHANGE + 3)

    assert isinstance(clients.trainer, RecordingTrainer)
    draws = clients.trainer.asked[-1].draws
    first_visible = windows.visible(federation.next_round - 1)[0]
    assert first_visible > CHANGE
    for client in range(6):
        rows = np.unique(draws[client])
        assert set(windows.schedule.client[rows]) == {client}
        old = rows[windows.schedule.interval[rows] < first_visible]
        assert set(old.tolist()) <= set(memory_of(clients, client).tolist())
        assert set(windows.schedule.y[old].tolist()) == {0, 1}
    updates = federation.round(EVERYONE)
    window = windows.training(federation.next_round - 1).sizes
    assert updates.n_samples.tolist() == [int(window[at]) + memory_of(clients, at).size for at in range(6)]


def test_old_knowledge_fades_less_with_rehearsal_where_concepts_come_back() -> None:
    windows = concept_windows(CONCEPTS)
    plain, rehearsing = (
        after_rounds(averaging(keeping_clients(windows, replace(REHEARSAL, rehearsal=on))), len(CONCEPTS) - 1)
        for on in (False, True)
    )

    assert accuracy_on(plain, 1) > 0.9
    assert accuracy_on(rehearsing, 1) > 0.9
    assert accuracy_on(rehearsing, 0) > accuracy_on(plain, 0) + 0.3


@pytest.mark.parametrize("round_index", [3, 4, 7])
def test_a_sample_in_window_and_memory_counts_once(round_index: int) -> None:
    looking = Looking(concept_windows(CONCEPTS, n_visible=4))
    for at in range(round_index + 1):
        looking.look([0], at)
    window = looking.windows.training(round_index)

    extended = looking.rehearsal.extend(np.array([1, 0]), window.some(np.array([1, 0])))

    own, memory = window.of(np.array([0]))[0], looking.rehearsal.memory(0)
    assert memory.size > 0
    assert extended.of(np.array([1]))[0].tolist() == np.union1d(own, memory).tolist()
    assert extended.of(np.array([0]))[0].tolist() == window.of(np.array([1]))[0].tolist()


def test_a_client_looks_at_every_training_sample_once_and_only_when_it_takes_part() -> None:
    looking = Looking(concept_windows([0] * 8))
    schedule = looking.windows.schedule

    for at, clients in enumerate([[0, 1], [1], [], [0, 1], [1, 0]]):
        looking.look(clients, at)

    read = np.array(looking.read)
    assert np.unique(read).size == read.size
    assert set(schedule.client[read]) == {0, 1}
    assert not looking.windows.pool.is_test()[schedule.sample[read]].any()
    # Client 0 was away in rounds 1 and 2; by round 3 the intervals 3 and 4 are left of what came.
    assert np.unique(schedule.interval[read[schedule.client[read] == 0]]).tolist() == [0, 1, 3, 4, 5]
    assert np.unique(schedule.interval[read[schedule.client[read] == 1]]).tolist() == [0, 1, 2, 3, 4, 5]


def test_a_few_samples_wait_until_there_are_more() -> None:
    looking = Looking(concept_windows([0] * 6, samples=8, n_visible=3))
    sizes = looking.windows.training(0).sizes
    assert sizes[0] > LEAST_LOOK

    looking.look([0], 0)

    n_waiting = int(sizes[0]) - len(looking.read)
    assert 0 < n_waiting < LEAST_LOOK
    looking.look([0], 0)
    assert len(looking.read) == sizes[0] - n_waiting
    looking.look([0], 2)
    assert len(looking.read) > sizes[0] - n_waiting
    assert len(set(looking.read)) == len(looking.read)


def test_the_memory_is_a_fair_sample_of_all_that_ever_went_there() -> None:
    windows = concept_windows(([0] * 3 + [1] * 3) * 4, n_clients=40, samples=100)
    looking = Looking(windows)
    for at in range(23):
        looking.look(list(range(40)), at)

    schedule, old, new = windows.schedule, 0, 0
    for client in range(40):
        rows = looking.rehearsal.memory(client)
        assert np.bincount(schedule.y[rows])[:2].tolist() == [PER_LABEL, PER_LABEL]
        known = schedule.interval[rows][schedule.y[rows] < 2]
        old, new = old + int((known < 6).sum()), new + int((known >= 12).sum())
    # Every return of the first concept is remembered alike, not only the first or the last.
    assert 0.5 < old / new < 2.0


def test_what_is_remembered_does_not_depend_on_who_else_is_there() -> None:
    windows = concept_windows(CONCEPTS, n_clients=3, samples=80)
    schedule = windows.schedule
    only = schedule.client == 2
    columns = {name: getattr(schedule, name)[only] for name in ("interval", "sample", "y", "look")}
    alone = replace(schedule, client_ids=(2,), client=np.zeros(int(only.sum()), dtype=np.int32), **columns)
    together, apart = Looking(windows), Looking(SlidingWindows(windows.pool, alone, windows.plan), [2])

    for at in range(CHANGE + 1):
        together.look([0, 1, 2], at)
        apart.look([0], at)

    offset = int(np.flatnonzero(only)[0])
    assert apart.rehearsal.memory(0).size == 2 * PER_LABEL
    assert (together.rehearsal.memory(2) - offset).tolist() == apart.rehearsal.memory(0).tolist()


def test_looks_are_charged_as_forward_passes_to_all_who_were_asked() -> None:
    windows = concept_windows([0] * 3)
    plain, rehearsing = (keeping_clients(windows, replace(REHEARSAL, rehearsal=on)) for on in (False, True))
    model = plain.trainer.initial_model(1)[np.newaxis]
    for clients in (plain, rehearsing):
        clients.begin(0)
        clients.train(replace(plan_of([0, 4], models=model), wanted=np.array([1])))

    more = rehearsing.ledger.client_seconds() - plain.ledger.client_seconds()

    sizes = windows.training(0).sizes
    assert more == pytest.approx([sizes[0] * 0.010, 0.0, 0.0, 0.0, sizes[4] * 0.050, 0.0])
    assert rehearsing.ledger.totals()["bytes_up"] == plain.ledger.totals()["bytes_up"]
    # Client 4 was too late and leaves no trace, so it looks again; client 0 has seen it all.
    before = rehearsing.ledger.client_seconds(), plain.ledger.client_seconds()
    for clients in (plain, rehearsing):
        clients.train(plan_of([0, 4], models=model))
    more = rehearsing.ledger.client_seconds() - before[0] - (plain.ledger.client_seconds() - before[1])
    assert more == pytest.approx([0.0, 0.0, 0.0, 0.0, sizes[4] * 0.050, 0.0])


def test_whoever_puts_its_window_through_the_model_anyway_looks_for_free() -> None:
    windows = concept_windows([0] * 3)
    plain, rehearsing = (keeping_clients(windows, replace(REHEARSAL, rehearsal=on)) for on in (False, True))
    plan = replace(plan_of([0, 4], models=plain.trainer.initial_model(1)[np.newaxis]), with_start_loss=True)
    for clients in (plain, rehearsing):
        clients.begin(0)
        clients.train(plan)

    assert rehearsing.ledger.client_seconds().tolist() == plain.ledger.client_seconds().tolist()
    assert rehearsing.snapshot()[NEXT].tolist() == [2, 0, 0, 0, 2, 0]


def test_a_client_with_several_jobs_looks_once_and_pays_once() -> None:
    windows = concept_windows([0] * 3)
    clients = keeping_clients(windows, REHEARSAL)
    sizes = windows.training(0).sizes
    rehearsal = Looking(windows).rehearsal

    assert rehearsal.passes(np.array([2, 1, 2]), windows.training(0)).tolist() == [sizes[2], sizes[1], 0]
    clients.begin(0)
    clients.train(plan_of([2, 1, 2], models=clients.trainer.initial_model(1)[np.newaxis]))
    assert clients.snapshot()[NEXT].tolist() == [0, 2, 2, 0, 0, 0]


@pytest.mark.parametrize("change", [{"is_probe": True}, {"blocks": [np.array([CHANGE]), np.array([CHANGE])]}])
def test_probes_and_methods_that_name_their_samples_are_left_alone(change: dict[str, object]) -> None:
    windows = concept_windows(CONCEPTS)
    clients = after_rounds(averaging(keeping_clients(windows, REHEARSAL)), CHANGE + 1).clients
    assert all(memory_of(clients, client).size for client in (0, 1))
    clients.begin(CHANGE + 1)
    before = {name: array.tobytes() for name, array in clients.snapshot().items()}
    plan = plan_of([0, 1], models=clients.trainer.initial_model(1)[np.newaxis])
    spared = replace(plan, **change)  # type: ignore[arg-type]
    samples = clients.runtime.samples(plan.clients, spared.blocks)

    updates = clients.train(spared)

    assert updates.n_samples.tolist() == samples.sizes.tolist(), "what they remember is not among them"
    assert {name: array.tobytes() for name, array in clients.snapshot().items()} == before
    assert clients.runtime.passes(spared, samples.sizes).tolist() == [0, 0]
    assert (clients.runtime.passes(plan, samples.sizes) > 0).all(), "there is something to look at"


def test_only_samples_of_those_who_are_asked_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    windows, read = concept_windows(CONCEPTS), set[int]()
    gather = windows.gather

    def watched(rows: Counts) -> tuple[Features, Codes]:
        read.update(windows.schedule.client[rows].tolist())
        return gather(rows)

    monkeypatch.setattr(windows, "gather", watched)
    federation = averaging(keeping_clients(windows, REHEARSAL))
    for who in ([0, 1], [0], [0, 1], [1], [0, 1], [0, 1], [0], [1]):
        read.clear()
        federation.round(who)
        assert read == set(who)
    assert alarmed(federation.clients)


def test_without_an_alarm_training_is_what_it_was() -> None:
    windows = concept_windows([0] * 6)
    plain, rehearsing = (
        after_rounds(averaging(keeping_clients(windows, replace(REHEARSAL, rehearsal=on))), 4) for on in (False, True)
    )

    assert not alarmed(rehearsing.clients)
    assert plain.model.tobytes() == rehearsing.model.tobytes()
    assert not any(name.startswith("rehearsal") for name in plain.clients.snapshot())


def test_a_run_with_rehearsal_goes_on_bit_for_bit_after_any_round() -> None:
    windows = concept_windows(CONCEPTS)
    participants = [EVERYONE, [0, 1], [2, 3, 4], EVERYONE, [0, 5], EVERYONE, [0, 1, 2], [], EVERYONE, [4], EVERYONE]

    for rule in (REHEARSAL, replace(REHEARSAL, moon=1.0)):
        assert resumes_at_every_round(lambda one=rule: keeping_clients(windows, one), participants)  # type: ignore[misc]


def test_a_model_that_says_nothing_is_taken_for_one_that_is_not_confident() -> None:
    looking = Looking(concept_windows([0] * 4))

    looking.look([0], 0)
    looking.look_with(lambda _model, rows: np.full(rows.size, np.nan, dtype=np.float32), [0], 1)

    assert looking.rehearsal.memory(0).size > 0
    assert np.isfinite(looking.rehearsal.arrays()[CONFIDENCE]).all()


def test_a_checkpoint_without_rehearsal_or_of_other_clients_is_refused() -> None:
    rehearsal = Looking(concept_windows([0] * 3)).rehearsal

    with pytest.raises(CheckpointError, match=r"lacks 'rehearsal\.confidence'"):
        rehearsal.restore({})
    with pytest.raises(CheckpointError, match=r"rehearsal\.next of the checkpoint has shape \(2,\); \(6,\) is wanted"):
        rehearsal.restore({**rehearsal.arrays(), NEXT: np.zeros(2)})
