import numpy as np
import pytest

from fielding.errors import InputError
from fielding.simulation.clients import SimulatedClients
from fielding.simulation.hardware import IntervalAvailability, Intervals
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

    scores = clients.scores(models, row)["window"]

    assert scores.clients.tolist() == list(range(6))
    for client in range(6):
        x, y = clients.windows.gather(clients.windows.testing(0).of(np.array([client]))[0])
        loss, right = clients.trainer.scores(models[row[client]], x, y)
        assert scores.n_test[client] == y.size
        assert scores.correct[client] == right.sum()
        assert scores.loss[client] == pytest.approx(loss.mean(), rel=1e-5)


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
    assert clients.scores(clients.trainer.initial_model(1)[np.newaxis], np.zeros(3, dtype=np.int64))[
        "window"
    ].clients.tolist() == [0, 2]


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

    scores = clients.scores(clients.trainer.initial_model(1)[np.newaxis], np.zeros(3, dtype=np.int64))["window"]

    assert clients.windows.testing(0).sizes[1] > 0
    assert scores.clients.tolist() == [0, 2]


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
