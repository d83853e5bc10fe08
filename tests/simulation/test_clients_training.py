"""Who of those that a plan asks answers in time, why the others are missing, and what everybody pays."""

from dataclasses import replace

import numpy as np
import pytest

from fielding._typing import Counts
from fielding.federation.clients import TrainingPlan, Updates
from fielding.simulation.clients import SimulatedClients
from fielding.simulation.costs import IDLE_S
from fielding.simulation.hardware import IntervalAvailability, Intervals
from tests.runtime.plans import counts
from tests.simulation.small import one_group, small_clients, small_windows

MODEL_BYTES = 4 * 15
"""Softmax of 4 features and 3 classes: 12 weights and 3 biases."""
AT_ONCE = 1e9
"""A bandwidth at which transfers take no time."""


def begun(clients: SimulatedClients) -> SimulatedClients:
    clients.begin(0)
    return clients


def with_gaps(*, kbps: float = 1000.0) -> SimulatedClients:
    """Return three clients, of which client 1 has samples in the first interval alone."""
    windows = small_windows(n_clients=3)
    schedule = windows.schedule
    keep = (schedule.client != 1) | (schedule.interval == 0)
    columns = {name: getattr(schedule, name)[keep] for name in ("client", "interval", "sample", "y", "look")}
    fewer = type(schedule)(client_ids=(0, 1, 2), n_intervals=4, **columns)
    return begun(small_clients(type(windows)(windows.pool, fewer, windows.plan), kbps=kbps))


def leaving(*stop_s: float) -> IntervalAvailability:
    """Return when clients can be reached: until some second, and not again for a long time."""
    everyone, longest = np.arange(len(stop_s)), np.full(len(stop_s), 1e6)
    stays = Intervals(clients=everyone, start_s=np.zeros(len(stop_s)), stop_s=np.array(stop_s), finish_s=longest)
    return IntervalAvailability(len(stop_s), stays)


def steps(clients: SimulatedClients, who: list[int], n_steps: int | Counts, *, wanted: int) -> TrainingPlan:
    """Return a plan of jobs that take client c 0.15 * (c + 1) seconds a step: 5 samples of 3 passes."""
    return replace(one_group(clients, who, wanted=wanted), n_steps=n_steps)


def reasons(plan: TrainingPlan, updates: Updates) -> list[str]:
    """Return why each job is missing, nothing for one that is not; every client has one job that is missing at most."""
    why = ["?"] * plan.clients.size
    for job in updates.jobs.tolist():
        why[job] = ""
    for reason, clients in updates.missing.items():
        for client in clients:
            open_jobs = [at for at in range(len(why)) if why[at] == "?" and plan.clients[at] == client]
            why[open_jobs[0]] = reason
    return why


def test_the_wanted_fastest_are_kept_and_the_round_lasts_as_long_as_the_slowest_of_them() -> None:
    clients = begun(small_clients(overcommit=1.5))

    updates = clients.train(one_group(clients, [1, 3, 5], wanted=2))

    assert updates.clients.tolist() == [1, 3]
    assert updates.missing["straggler"] == [5]
    transfer = 2 * MODEL_BYTES * 8 / 1024 / 1000
    assert updates.duration_s == pytest.approx(3 * 15 * 40 / 1000 + transfer)
    assert clients.now_s == updates.duration_s


def test_everyone_who_was_asked_pays_and_the_round_costs_what_the_ledger_says() -> None:
    clients = begun(small_clients())

    clients.train(one_group(clients, [0, 4], wanted=1))

    assert clients.ledger.client_bytes_down("model").tolist() == [MODEL_BYTES, 0, 0, 0, MODEL_BYTES, 0]
    totals = clients.ledger.totals()
    for name in ("bytes_down", "bytes_up", "client_seconds"):
        column = totals[name]
        assert isinstance(column, dict)
        assert clients.round_costs[name] == pytest.approx(column["all"])


def test_a_model_that_is_not_finite_never_comes_back() -> None:
    clients = begun(small_clients())
    plan = one_group(clients, [0, 1, 2], wanted=3)
    broken = plan.models.copy()
    broken[0, 0] = np.nan
    two_starts = type(plan)(
        models=np.concatenate([plan.models, broken]),
        clients=plan.clients,
        groups=plan.groups,
        start=np.array([0, 1, 0]),
        wanted=plan.wanted,
    )

    updates = clients.train(two_starts)

    assert updates.clients.tolist() == [0, 2]
    assert updates.missing["failed"] == [1]
    assert np.isfinite(updates.models).all()


def test_who_is_asked_for_its_loss_before_training_pays_for_a_pass_over_its_window() -> None:
    clients = begun(small_clients())
    plan = replace(one_group(clients, [1, 4], wanted=2), with_start_loss=True)
    plain = begun(small_clients())
    plain.train(one_group(plain, [1, 4], wanted=2))

    updates = clients.train(plan)

    assert updates.start_loss is not None
    for at, client in enumerate((1, 4)):
        x, y = clients.windows.gather(clients.windows.training(0).of(np.array([client]))[0])
        assert updates.start_loss[at] == pytest.approx(clients.trainer.scores(plan.models[0], x, y)[0].mean(), rel=1e-5)
    assert clients.ledger.client_bytes_up()[1] == plain.ledger.client_bytes_up()[1] + 4
    passes = clients.windows.training(0).sizes[1] * 20 / 1000
    more = clients.ledger.client_seconds()[1] - plain.ledger.client_seconds()[1]
    assert more == pytest.approx(passes, abs=1e-3)


def test_a_job_without_samples_is_refused_costs_nothing_and_is_named() -> None:
    clients = with_gaps()
    plan = replace(one_group(clients, [0, 1, 1, 2], wanted=4), blocks=[np.array([at]) for at in (1, 1, 0, 1)])

    updates = clients.train(plan)

    assert updates.jobs.tolist() == [0, 2, 3]
    assert updates.missing == {"straggler": [], "offline": [], "refused": [1], "failed": []}
    assert clients.ledger.client_bytes_down("model").tolist() == [MODEL_BYTES] * 3, "client 1 pays for one of its jobs"
    assert updates.seconds[1] == 0.0
    assert updates.seconds[2] == pytest.approx(clients.ledger.client_seconds()[1])


def test_a_round_of_refusals_alone_costs_nothing_and_waits() -> None:
    clients = with_gaps()

    updates = clients.train(replace(one_group(clients, [1], wanted=1), blocks=[np.array([1])]))

    assert updates.missing["refused"] == [1]
    assert updates.clients.size == 0
    assert not any(clients.round_costs.values())
    assert not clients.ledger.client_seconds().any()
    assert (updates.duration_s, clients.now_s) == (0.0, IDLE_S)


def test_jobs_of_one_client_follow_each_other() -> None:
    clients = begun(small_clients(kbps=AT_ONCE))
    plan = steps(clients, [2, 2, 0, 2], counts([1, 1, 4, 1]), wanted=3)

    updates = clients.train(plan)

    assert updates.seconds == pytest.approx([0.45, 0.9, 0.6, 1.35])
    assert reasons(plan, updates) == ["", "", "", "straggler"]
    assert updates.late.tolist() == [3]
    assert updates.duration_s == clients.now_s == pytest.approx(0.9)


def test_who_is_gone_when_its_job_is_done_is_offline_and_does_not_upload() -> None:
    # Client 0 leaves after half a second, client 1 stays.
    hours = Intervals(
        clients=counts([0, 1]), start_s=np.zeros(2), stop_s=np.array([0.5, 1e6]), finish_s=np.full(2, 1e6)
    )
    clients = begun(small_clients(availability=IntervalAvailability(6, hours), kbps=AT_ONCE))
    plan = steps(clients, [0, 1, 0], 1, wanted=3)

    early, late = clients.train(plan), clients.train(plan)

    assert reasons(plan, early) == ["", "", ""]
    assert reasons(plan, late) == ["", "", "offline"], "the second of its jobs would be done after 0.6 s"
    assert late.late.size == 0
    assert clients.ledger.client_bytes_down("model")[:2].tolist() == [4 * MODEL_BYTES, 2 * MODEL_BYTES]
    assert clients.ledger.client_bytes_up("model")[:2].tolist() == [3 * MODEL_BYTES, 2 * MODEL_BYTES]


def test_computing_takes_the_passes_and_three_for_each_sample_trained_on() -> None:
    clients = begun(small_clients())
    plan = replace(one_group(clients, [0, 3], wanted=2), with_start_loss=True)

    updates = clients.train(plan)

    n_passes = clients.windows.training(0).sizes[[0, 3]] + 3 * 15
    assert updates.compute_seconds == pytest.approx(n_passes * np.array([0.01, 0.04]))
    assert (updates.seconds > updates.compute_seconds).all(), "which is no transfer"


def test_a_job_without_samples_takes_nobodys_place_and_holds_up_no_other_of_its_client() -> None:
    clients = with_gaps(kbps=AT_ONCE)
    plan = steps(clients, [1, 2, 0], 1, wanted=1)
    same = replace(
        steps(clients, [1, 1], 1, wanted=1),
        groups=counts([0, 1]),
        wanted=counts([1, 1]),
        blocks=[counts([1]), counts([0])],
    )

    first = clients.train(replace(plan, blocks=[counts([1])] * 3))
    second = clients.train(replace(same, blocks=[counts([1]), counts([0])]))

    assert reasons(plan, first) == ["refused", "straggler", ""]
    assert first.duration_s == pytest.approx(0.15)
    assert reasons(same, second) == ["refused", ""]
    assert second.seconds == pytest.approx([0.0, 0.3])


def test_all_that_keeps_a_model_away_is_told_apart() -> None:
    clients = begun(small_clients(availability=leaving(1e6, 1e6, 1e6, 1e6, 0.01, 1e6)))
    plan = one_group(clients, [0, 1, 2, 3, 4, 5], wanted=3)
    broken = np.full_like(plan.models, np.inf)
    plan = replace(
        plan,
        models=np.concatenate([plan.models, broken]),
        start=counts([0, 1, 0, 0, 0, 0]),
        blocks=[counts([0])] * 2 + [counts([])] + [counts([0])] * 3,
    )

    updates = clients.train(plan)

    assert updates.missing == {"straggler": [5], "offline": [4], "refused": [2], "failed": [1]}
    assert (updates.clients.tolist(), updates.jobs.tolist()) == ([0, 3], [0, 3])
    assert updates.late.tolist() == [5]


def test_if_nobody_answers_there_is_nothing_but_names_and_the_round_has_waited() -> None:
    clients = begun(small_clients(small_windows(3), availability=leaving(0.01, 0.01, 0.01), kbps=AT_ONCE))

    updates = clients.train(steps(clients, [0, 1, 2], 1, wanted=2))

    assert updates.models.shape == (0, 15)
    assert updates.missing == {"straggler": [], "offline": [0, 1, 2], "refused": [], "failed": []}
    assert clients.now_s == pytest.approx(0.3), "the median of what they would have taken"
