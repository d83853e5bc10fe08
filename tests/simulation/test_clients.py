from dataclasses import replace

import numpy as np
import pytest
from fielding.simulation.accounts import IDLE_S
from fielding.simulation.availability import IntervalAvailability, Intervals

from fielding.errors import InputError
from fielding.simulation.clients import SimulatedClients
from tests.simulation.small import N_CLASSES, one_group, small_clients, small_windows

MODEL_BYTES = 4 * 15
"""Softmax of 4 features and 3 classes: 12 weights and 3 biases."""


def begun(clients: SimulatedClients) -> SimulatedClients:
    clients.begin(0)
    return clients


def test_at_the_start_everyone_reports_all_of_its_window_and_later_only_after_arrivals() -> None:
    clients = small_clients()

    first = clients.begin(0)
    quiet, later = clients.begin(1), clients.begin(2)

    assert first.client_ids == [0, 1, 2, 3, 4, 5]
    ranges = clients.windows.training(0)
    for at in range(6):
        labels = clients.windows.schedule.y[ranges.of(np.array([at]))[0]]
        assert np.allclose(first.representations[at], np.bincount(labels, minlength=N_CLASSES) / labels.size)
    assert list(quiet.client_ids) == []
    assert len(later.client_ids) > 0


def test_rounds_come_one_after_the_other() -> None:
    with pytest.raises(InputError, match="round 1 cannot follow round -1"):
        small_clients().begin(1)


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


def test_halving_the_bandwidth_doubles_the_time_of_reports() -> None:
    times = []
    for kbps in (1000.0, 500.0):
        clients = small_clients(kbps=kbps)
        clients.begin(0)
        clients.charge_reports()
        times.append(clients.now_s)

    assert times[1] == pytest.approx(2 * times[0])
    assert clients.ledger.client_bytes_up("report").tolist() == [4 * N_CLASSES] * 6


def test_probes_are_charged_as_probes() -> None:
    clients = begun(small_clients())

    losses = clients.losses(np.array([1, 2]), np.stack([clients.trainer.initial_model(seed) for seed in (1, 2, 3)]))

    assert losses.shape == (2, 3)
    assert clients.ledger.client_bytes_down("probe").tolist() == [0, 3 * MODEL_BYTES, 3 * MODEL_BYTES, 0, 0, 0]
    assert clients.ledger.client_bytes_down("model").tolist() == [0] * 6


def test_who_holds_the_models_does_not_download_them_again() -> None:
    clients = begun(small_clients())
    models = np.stack([clients.trainer.initial_model(seed) for seed in (1, 2)])
    who = np.array([1, 2, 2])

    losses = clients.losses(who, models, held=np.array([True, False, False]))

    assert losses.tolist() == clients.losses(who, models).tolist()
    down = clients.ledger.client_bytes_down("probe")
    assert down.tolist() == [0, 2 * MODEL_BYTES, (2 + 2) * MODEL_BYTES, 0, 0, 0]
    assert clients.ledger.client_bytes_up("probe").tolist() == [0, 2 * 2 * 4, 2 * 2 * 2 * 4, 0, 0, 0]


def test_clients_say_how_many_samples_they_have_of_some_intervals() -> None:
    clients = begun(small_clients())
    blocks = [np.array([0, 1]), np.array([1]), np.empty(0, dtype=np.int64)]

    sizes = clients.block_sizes(np.array([4, 1, 2]), blocks)

    schedule, is_test = clients.windows.schedule, clients.windows.pool.is_test()
    is_used = ~is_test[schedule.sample]
    assert sizes[0] == np.count_nonzero(is_used & (schedule.client == 4) & (schedule.interval <= 1))
    assert sizes[1] == np.count_nonzero(is_used & (schedule.client == 1) & (schedule.interval == 1))
    assert sizes[2] == 0
    assert clients.ledger.client_bytes_up("probe").tolist() == [0, 4, 0, 0, 4, 0]
    assert clients.ledger.client_bytes_down("probe").sum() == 0


def test_losses_are_those_of_a_loop_over_clients_and_models() -> None:
    clients = begun(small_clients())
    models = np.stack([clients.trainer.initial_model(seed) for seed in (1, 2)])

    losses = clients.losses(np.array([4, 0]), models)

    for at, client in enumerate((4, 0)):
        x, y = clients.windows.gather(clients.windows.training(0).of(np.array([client]))[0])
        for column, model in enumerate(models):
            assert losses[at, column] == pytest.approx(clients.trainer.scores(model, x, y)[0].mean(), rel=1e-5)


def test_evaluation_is_that_of_a_naive_loop_over_clients() -> None:
    clients = begun(small_clients())
    models = np.stack([clients.trainer.initial_model(seed) for seed in (1, 2, 3)])
    row = np.array([2, 0, 0, 1, 2, 0])

    scores = clients.scores(models, row)

    assert scores.clients.tolist() == list(range(6))
    for client in range(6):
        x, y = clients.windows.gather(clients.windows.testing(0).of(np.array([client]))[0])
        loss, right = clients.trainer.scores(models[row[client]], x, y)
        assert scores.n_test[client] == y.size
        assert scores.correct[client] == right.sum()
        assert scores.loss[client] == pytest.approx(loss.mean(), rel=1e-5)


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


def test_whoever_is_offline_is_not_asked_and_reports_when_it_is_back() -> None:
    everyone = np.arange(6)
    # Client 3 comes after a second and stays; the others are always there.
    starts = np.where(everyone == 3, 1.0, 0.0)
    availability = IntervalAvailability(6, Intervals(clients=everyone, start_s=starts, stop_s=np.full(6, 1e6)))
    clients = small_clients(availability=availability)

    first = clients.begin(0)
    assert 3 not in first.client_ids
    assert clients.askable().tolist() == [True, True, True, False, True, True]
    clients.train(one_group(clients, [5], wanted=1))
    second = clients.begin(1)

    assert list(second.client_ids) == [3]
    assert clients.askable().all()


def test_a_client_without_samples_is_never_asked_nor_tested() -> None:
    windows = small_windows(n_clients=3)
    emptied = small_windows(n_clients=3)
    keep = emptied.schedule.client != 1
    schedule = type(emptied.schedule)(
        client_ids=(0, 1, 2),
        n_intervals=4,
        **{name: getattr(emptied.schedule, name)[keep] for name in ("client", "interval", "sample", "y", "look")},
    )
    clients = begun(small_clients(type(windows)(windows.pool, schedule, windows.plan)))

    assert clients.askable().tolist() == [True, False, True]
    assert clients.scores(
        clients.trainer.initial_model(1)[np.newaxis], np.zeros(3, dtype=np.int64)
    ).clients.tolist() == [0, 2]


def test_clients_come_back_to_a_round_as_if_they_had_never_left() -> None:
    straight, again = small_clients(), small_clients()
    times = [0.0]
    for at in range(4):
        sent = straight.begin(at)
        straight.charge_reports()
        straight.train(one_group(straight, [0, 1], wanted=2))
        times.append(straight.now_s)

    ledger = type(straight.ledger).restored(straight.ledger.arrays())
    returned = again.return_to(3, times, ledger=ledger, arrays=straight.snapshot())

    assert list(returned.client_ids) == list(sent.client_ids)
    assert again.now_s == straight.now_s
    assert again.ledger.totals() == straight.ledger.totals()
    following, expected = again.begin(4), straight.begin(4)
    assert list(following.client_ids) == list(expected.client_ids)
    assert (following.representations == expected.representations).all()


def test_whoever_cannot_be_reached_answers_no_probe_and_pays_nothing() -> None:
    everyone = np.arange(6)
    starts = np.where(everyone == 3, 1e5, 0.0)
    availability = IntervalAvailability(6, Intervals(clients=everyone, start_s=starts, stop_s=np.full(6, 1e6)))
    clients = begun(small_clients(availability=availability))
    before = clients.now_s

    losses = clients.losses(np.array([2, 3]), clients.trainer.initial_model(1)[np.newaxis])

    assert np.isfinite(losses[0]).all()
    assert np.isnan(losses[1]).all()
    assert clients.ledger.client_bytes_down("probe").tolist() == [0, 0, MODEL_BYTES, 0, 0, 0]
    assert clients.ledger.client_bytes_up("probe").tolist() == [0, 0, 4, 0, 0, 0]
    assert clients.now_s > before


def test_a_client_with_test_samples_only_is_not_tested() -> None:
    windows = small_windows(n_clients=3)
    schedule = windows.schedule
    keep = (schedule.client != 1) | windows.pool.is_test()[schedule.sample]
    columns = {name: getattr(schedule, name)[keep] for name in ("client", "interval", "sample", "y", "look")}
    fewer = type(schedule)(client_ids=(0, 1, 2), n_intervals=4, **columns)
    clients = begun(small_clients(type(windows)(windows.pool, fewer, windows.plan)))

    scores = clients.scores(clients.trainer.initial_model(1)[np.newaxis], np.zeros(3, dtype=np.int64))

    assert clients.windows.testing(0).sizes[1] > 0
    assert scores.clients.tolist() == [0, 2]


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


def with_gaps() -> SimulatedClients:
    """Return three clients, of which client 1 has samples in the first interval alone."""
    windows = small_windows(n_clients=3)
    schedule = windows.schedule
    keep = (schedule.client != 1) | (schedule.interval == 0)
    columns = {name: getattr(schedule, name)[keep] for name in ("client", "interval", "sample", "y", "look")}
    fewer = type(schedule)(client_ids=(0, 1, 2), n_intervals=4, **columns)
    return begun(small_clients(type(windows)(windows.pool, fewer, windows.plan)))


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
    assert clients.now_s == IDLE_S


@pytest.mark.parametrize("measure", ["losses", "accuracies"])
def test_who_is_asked_about_models_on_several_blocks_downloads_them_once_and_answers_one_after_the_other(
    measure: str,
) -> None:
    clients, apart = begun(small_clients()), begun(small_clients())
    models = np.stack([clients.trainer.initial_model(seed) for seed in (1, 2)])
    who, blocks = np.array([2, 0, 2, 2]), [np.array([0]), np.array([1]), np.array([1]), np.array([0, 1])]

    together = getattr(clients, measure)(who, models, blocks=blocks)

    for at in range(4):
        alone = getattr(apart, measure)(who[at : at + 1], models, blocks=blocks[at : at + 1])
        assert together[at] == pytest.approx(alone[0])
    assert clients.ledger.client_bytes_down("probe").tolist() == [2 * MODEL_BYTES, 0, 2 * MODEL_BYTES, 0, 0, 0]
    assert clients.ledger.client_bytes_up("probe").tolist() == [8, 0, 24, 0, 0, 0], "two numbers for each answer"
    seconds = clients.ledger.client_seconds()
    n_passes = sum(clients.windows.training_blocks(who[at : at + 1], blocks[at : at + 1]).sizes[0] for at in (0, 2, 3))
    transfer = (2 * MODEL_BYTES + 24) * 8 / 1024 / 1000
    assert seconds[2] == pytest.approx(2 * n_passes * 30 / 1000 + transfer)
    assert clients.now_s == pytest.approx(seconds.max())
