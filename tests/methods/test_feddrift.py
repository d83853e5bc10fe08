from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from fielding._typing import Counts, Mask, Matrix, Models
from fielding.client.report import NO_REPORTS
from fielding.errors import OptionError
from fielding.methods.feddrift import EMPTY, FORGOTTEN, UNOWNED, feddrift_reports_from
from tests.methods.drifting import (
    AT_ONCE,
    CALM,
    GAP,
    METHODS,
    N_CLIENTS,
    RECURRING,
    STAGGERED,
    check_blocks,
    drift_of,
    total,
)
from tests.methods.plane import (
    BATCH_SIZE,
    MODEL_BYTES,
    N_STEPS,
    Absent,
    Away,
    agreement,
    plane_clients,
    plane_windows,
    run_rounds,
    seconds_for,
)

# ---- home ground ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", METHODS)
def test_without_drift_no_model_is_opened(name: str) -> None:
    clients = plane_clients(plane_windows(CALM))
    method = drift_of(clients, name)
    run_rounds(clients, method, range(40))

    assert method.cluster_ids() == (0,)
    assert (method.state.blocks.owner == 0).all()


def test_staggered_drift_opens_models_that_merge_again() -> None:
    clients = plane_clients(plane_windows(STAGGERED))
    method = drift_of(clients)
    n_models = []
    for at in range(40):
        run_rounds(clients, method, [at])
        n_models.append(len(method.cluster_ids()))
        check_blocks(method)

    assert n_models[3 * GAP - 1] == 1
    assert n_models[3 * GAP] == 3, "two clients drifted, each alone"
    assert n_models[4 * GAP] == 2, "theirs agree and merge; the next two find that model"
    assert n_models[-1] == 2
    assert agreement(clients, method) == 1.0
    assert (method.state.blocks.owner == np.where(STAGGERED == 0, 0, method.cluster_ids()[1])).all()


def test_eager_opens_one_model_for_all_that_drift_together() -> None:
    clients = plane_clients(plane_windows(AT_ONCE))
    method = drift_of(clients, "feddrift-eager")
    n_models = []
    for at in range(40):
        run_rounds(clients, method, [at])
        n_models.append(len(method.cluster_ids()))
        check_blocks(method)

    assert n_models == [1] * (3 * GAP) + [2] * (40 - 3 * GAP)
    assert agreement(clients, method) == 1.0
    scores = clients.scores(method.models, method.membership().astype(np.int64))["window"]
    assert scores.correct.sum() / scores.n_test.sum() > 0.9


def test_eager_finds_staggered_drift() -> None:
    clients = plane_clients(plane_windows(STAGGERED))
    method = drift_of(clients, "feddrift-eager")
    run_rounds(clients, method, range(40))

    assert len(method.cluster_ids()) == 2
    assert agreement(clients, method) == 1.0


@pytest.mark.parametrize("name", METHODS)
def test_data_that_come_within_a_step_wait_for_its_end_and_are_tested_together(name: str) -> None:
    clients = plane_clients(plane_windows(AT_ONCE))
    method = drift_of(clients, name, step_rounds=2 * GAP)
    opened = []
    for at in range(40):
        run_rounds(clients, method, [at])
        opened.append(len(method.cluster_ids()))
        newest = method.state.blocks.owner[at // GAP]
        assert (newest == UNOWNED).all() == (at % (2 * GAP) >= GAP), "every second interval waits"

    first = 1 + next(at for at, n_models in enumerate(opened) if n_models > 1)
    assert first - 1 == 4 * GAP, "data drift in interval 3, in the middle of a step"
    assert agreement(clients, method) == 1.0
    assert (method.state.blocks.owner[:7] != UNOWNED).all()


@pytest.mark.parametrize("name", METHODS)
def test_a_concept_that_comes_back_finds_its_old_model(name: str) -> None:
    clients = plane_clients(plane_windows(RECURRING))
    method = drift_of(clients, name)
    run_rounds(clients, method, range(5 * GAP))
    opened = method.cluster_ids()
    assert agreement(clients, method) == 1.0
    run_rounds(clients, method, range(5 * GAP, 40))

    assert method.cluster_ids() == opened
    assert (method.membership() == 0).all()


def test_three_concepts_are_told_apart() -> None:
    clients = plane_clients(plane_windows(np.where(STAGGERED, np.arange(N_CLIENTS) % 3, 0)))
    method = drift_of(clients)
    run_rounds(clients, method, range(40))

    assert len(method.cluster_ids()) == 3
    assert agreement(clients, method) == 1.0


def test_a_model_for_each_client_merges_into_one_per_concept() -> None:
    clients = plane_clients(plane_windows(np.array([[0, 1, 0, 1, 2, 2]] * 6)))
    method = drift_of(clients, start="each")
    run_rounds(clients, method, range(GAP))
    assert len(method.cluster_ids()) == N_CLIENTS
    run_rounds(clients, method, range(GAP, 30))

    assert method.cluster_ids() == (0, 1, 4)
    assert method.membership().tolist() == [0, 1, 0, 1, 2, 2]
    check_blocks(method)


def test_a_new_model_begins_as_a_copy_of_the_best() -> None:
    clients = plane_clients(plane_windows(AT_ONCE))
    method = drift_of(clients)
    run_rounds(clients, method, range(3 * GAP))
    clients.begin(3 * GAP)
    method.adapt(NO_REPORTS, clients)

    assert method.models.shape == (4, MODEL_BYTES // 4)
    assert (method.models == method.models[0]).all()
    assert method.membership().tolist() == [1, 2, 3, 0, 0, 0]
    # What counts next time is what was measured before training, of drifted clients, too.
    assert (method.state.score[:3] < 0.3).all()
    assert (method.state.score[3:] > 0.8).all()


def test_answers_count_by_their_amount_of_data() -> None:
    clients = plane_clients(plane_windows(CALM))
    method = drift_of(clients)
    (done,) = run_rounds(clients, method, [0])

    sizes = done.updates.n_samples.astype(np.float64)
    assert np.unique(sizes).size > 1
    wanted = np.average(done.updates.models.astype(np.float64), axis=0, weights=sizes)
    assert np.allclose(method.models[0], wanted, rtol=1e-6)
    assert not np.allclose(method.models[0], done.updates.models.mean(axis=0), rtol=1e-6)


# ---- costs ---------------------------------------------------------------------------------------------------------


def test_costs_without_drift_are_one_model_down_and_up_per_client_and_round() -> None:
    clients = plane_clients(plane_windows(CALM))
    method = drift_of(clients)
    run_rounds(clients, method, range(20))

    # N K |w| down per round; the tests at three arrivals use the models of their round, and send an accuracy.
    assert total(clients, "bytes_down", "all") == 20 * N_CLIENTS * MODEL_BYTES
    assert total(clients, "bytes_up", "model") == 20 * N_CLIENTS * MODEL_BYTES
    assert total(clients, "bytes_up", "probe") == 3 * N_CLIENTS * 4


@pytest.mark.parametrize("train_all", [False, True])
def test_costs_under_drift_are_those_of_the_table(train_all: bool) -> None:
    clients = plane_clients(plane_windows(AT_ONCE))
    method = drift_of(clients, "feddrift-eager", train_all=train_all)
    run_rounds(clients, method, range(30))

    # One model in 15 rounds, two in 15; three clients own data of both once they drifted, three of the first alone.
    tests_of_one, tests_of_two = 3, 2
    n_jobs = 15 * N_CLIENTS + 15 * (2 * N_CLIENTS if train_all else 3 * 1 + 3 * 2)
    # The round of the drift sends the one model that both begin as.
    down = (16 * 1 + 14 * 2) * N_CLIENTS * MODEL_BYTES
    up_of_tests = (tests_of_one * 1 + tests_of_two * 2) * N_CLIENTS * 4
    assert total(clients, "bytes_down", "all") == down
    assert total(clients, "bytes_up", "model") == n_jobs * MODEL_BYTES
    assert total(clients, "bytes_up", "probe") == up_of_tests
    newest = [clients.windows.training(GAP * step).sizes.sum() for step in range(6)]
    n_forward = int(sum(newest[1:4]) * 1 + sum(newest[4:6]) * 2)
    seconds = seconds_for(
        fwd=n_forward, train=n_jobs * N_STEPS * BATCH_SIZE, n_bytes=down + n_jobs * MODEL_BYTES + up_of_tests
    )
    assert total(clients, "client_seconds", "all") == pytest.approx(seconds)


def test_merging_is_paid_by_whoever_holds_data_of_the_models(monkeypatch: pytest.MonkeyPatch) -> None:
    clients = plane_clients(plane_windows(AT_ONCE))
    method = drift_of(clients)
    run_rounds(clients, method, range(4 * GAP))
    assert len(method.cluster_ids()) == 4
    down, up = total(clients, "bytes_down", "probe"), total(clients, "bytes_up", "probe")
    owners: list[npt.NDArray[np.int32]] = []
    real = clients.accuracies

    def accuracies(
        who: Counts, models: Models, *, blocks: Sequence[Counts] | None = None, held: Mask | None = None
    ) -> Matrix:
        owners.append(method.state.blocks.owner.copy())
        return real(who, models, blocks=blocks, held=held)

    monkeypatch.setattr(clients, "accuracies", accuracies)
    (done,) = run_rounds(clients, method, [4 * GAP])

    # The test sends 6 clients 4 models; with these, each answers for every owner of its data, and counts them.
    n_holders = sum(np.unique(owners[1][:, client]).size for client in range(N_CLIENTS))
    assert len(owners) == 2
    assert n_holders >= 6 + 3
    assert total(clients, "bytes_down", "probe") - down == 6 * 4 * MODEL_BYTES
    assert total(clients, "bytes_up", "probe") - up == ((6 + n_holders) * 4 + n_holders) * 4
    # Of the models that they were sent for the test, one is new: the average of three.
    assert len(method.cluster_ids()) == 2
    assert done.plan.downloads is not None
    assert done.plan.downloads.sum() == 6 * 1


def test_train_all_learns_the_same_as_training_what_is_needed() -> None:
    needed, everything = plane_clients(plane_windows(AT_ONCE)), plane_clients(plane_windows(AT_ONCE))
    first, second = drift_of(needed), drift_of(everything, train_all=True)
    run_rounds(needed, first, range(30))
    run_rounds(everything, second, range(30))

    assert first.models.tobytes() == second.models.tobytes()


# ---- data come and go ----------------------------------------------------------------------------------------------


def test_a_client_without_new_data_is_not_tested_and_keeps_its_model() -> None:
    concepts = CALM.copy()
    concepts[3, 1] = -1
    clients = plane_clients(plane_windows(concepts, n_visible=2))
    method = drift_of(clients)
    run_rounds(clients, method, range(40))

    assert method.cluster_ids() == (0,)
    assert method.state.blocks.owner[:, 1].tolist() == [0, 0, 0, EMPTY, 0, 0, 0, 0, 0][: len(method.state.blocks.owner)]
    # Who was not tested was not sent the models before training.
    assert total(clients, "bytes_down", "all") == 40 * N_CLIENTS * MODEL_BYTES


@pytest.mark.parametrize("memory", ["all", "window"])
def test_a_client_that_had_data_once_trains_as_long_as_they_are_in_the_window(memory: str) -> None:
    concepts = CALM.copy()
    concepts[:, 1] = [-1, 0, -1, -1, -1, -1, -1, -1]
    clients = plane_clients(plane_windows(concepts, n_visible=3))
    method = drift_of(clients, memory=memory)
    trained = [1 in done.plan.clients.tolist() for done in run_rounds(clients, method, range(4 * GAP))]

    # The first window shows the intervals 0 to 2; the second is gone when the fifth has come.
    assert trained == [True] * (2 * GAP) + [False] * (2 * GAP)


def test_a_new_client_takes_the_best_model_that_there_is() -> None:
    concepts = AT_ONCE.copy()
    concepts[:, 5] = [-1, -1, -1, -1, -1, 1, 1, 1]
    clients = plane_clients(plane_windows(concepts))
    method = drift_of(clients)
    run_rounds(clients, method, range(40))

    assert method.membership()[5] == method.membership()[0] != method.membership()[4]
    assert len(method.cluster_ids()) == 2


def test_a_client_that_was_away_is_tested_when_it_is_back() -> None:
    clients = plane_clients(plane_windows(CALM), availability=Away([2], until_s=10.0))
    method = drift_of(clients)
    for at in range(40):
        (done,) = run_rounds(clients, method, [at])
        if 2 in done.plan.clients.tolist():
            break
    assert at > GAP

    assert clients.now_s > 10.0
    assert method.cluster_ids() == (0,)
    assert np.isfinite(method.state.score).all()
    run_rounds(clients, method, range(at + 1, 40))
    assert method.state.blocks.owner[-1, 2] == 0


def test_a_round_without_answers_changes_nothing() -> None:
    clients = plane_clients(plane_windows(STAGGERED), availability=Away(range(N_CLIENTS), until_s=1e9))
    method = drift_of(clients)
    before = method.models.copy()
    run_rounds(clients, method, range(12))

    assert method.models.tobytes() == before.tobytes()
    assert (method.membership() == 0).all()


def test_memory_is_everything_or_the_window() -> None:
    sizes = {}
    for memory in ("all", "window"):
        clients = plane_clients(plane_windows(CALM, n_visible=2))
        method = drift_of(clients, memory=memory)
        done = run_rounds(clients, method, range(20))[-1]
        assert done.plan.blocks is not None
        sizes[memory] = [block.tolist() for block in done.plan.blocks]

    assert sizes["all"] == [[0, 1, 2, 3, 4]] * N_CLIENTS
    assert sizes["window"] == [[3, 4]] * N_CLIENTS


def test_sparse_data_never_stop_a_run() -> None:
    rng = np.random.default_rng(3)
    concepts = np.where(rng.random((12, 8)) < 0.6, -1, rng.integers(0, 3, (12, 8)))
    concepts[:2, 0] = 0
    for memory in ("all", "window"):
        for options in ({"participation": "all", "train_all": True}, {"participation": "sampled"}):
            script = {at: rng.integers(0, 8, 3).tolist()[:1] for at in range(1, 24)}
            clients = plane_clients(plane_windows(concepts, gap=2, n_visible=3), script=script)
            method = drift_of(clients, memory=memory, max_models=4, **options)
            for at in range(24):
                (done,) = run_rounds(clients, method, [at], every=3)
                assert np.isin(method.membership(), range(len(method.cluster_ids()))).all()
                assert (done.updates.n_samples > 0).all()
                assert len(method.cluster_ids()) <= 4


# ---- room for models -----------------------------------------------------------------------------------------------


def test_without_room_clients_stay_with_the_best_model() -> None:
    clients = plane_clients(plane_windows(AT_ONCE))
    method = drift_of(clients, max_models=2)
    run_rounds(clients, method, range(3 * GAP + 1))

    assert method.cluster_ids() == (0, 1)
    assert method.membership().tolist() == [1, 0, 0, 0, 0, 0]
    run_rounds(clients, method, range(3 * GAP + 1, 40))
    assert agreement(clients, method) == 1.0, "the others find the new model when their next data come"


def test_the_model_that_was_unused_for_longest_makes_room() -> None:
    everybody = np.array([[0] * 6] * 3 + [[1] * 6] * 3 + [[2] * 6] * 3)
    clients = plane_clients(plane_windows(everybody))
    method = drift_of(clients, "feddrift-eager", max_models=2)
    run_rounds(clients, method, range(6 * GAP))
    assert method.cluster_ids() == (0, 1)
    run_rounds(clients, method, range(6 * GAP, 45))

    assert method.cluster_ids() == (1, 2)
    owner = method.state.blocks.owner
    assert (owner[:3] == FORGOTTEN).all(), "what the model of the first concept owned is forgotten with it"
    assert (owner[3:6] == 1).all()
    assert (owner[6:] == 2).all()


def test_a_new_model_is_its_clients_alone_while_it_is_isolated() -> None:
    concepts = np.array([[int(i >= 3), int(i >= 4), 0, 0] for i in range(8)])
    clients = plane_clients(plane_windows(concepts))
    method = drift_of(clients, isolation=2)
    run_rounds(clients, method, range(5 * GAP))
    assert method.cluster_ids() == (0, 1, 2), "the second to drift must not use the model of the first"
    assert method.membership().tolist() == [1, 2, 0, 0]
    run_rounds(clients, method, range(5 * GAP, 40))

    assert method.cluster_ids() == (0, 1)
    assert agreement(clients, method) == 1.0


@pytest.mark.parametrize(
    "options",
    [
        {"delta": -0.1},
        {"delta_merge": 2.0},
        {"isolation": 0},
        {"max_models": 0},
        {"max_models": 5, "start": "each"},
        {"start": "none"},
        {"memory": "short"},
        {"participation": "some"},
        {"train_all": 1},
    ],
)
def test_options_out_of_range_are_named(options: dict[str, Any]) -> None:
    clients = plane_clients(plane_windows(CALM))
    with pytest.raises(OptionError, match=next(iter(options))):
        drift_of(clients, **options)


# ---- feddrift sampled -----------------------------------------------------------------------------------------


def test_sampled_asks_only_participants_and_who_reports_and_everybody_once() -> None:
    script = {at * GAP: [0, 1, 2] for at in (3, 4)}
    clients = plane_clients(plane_windows(AT_ONCE), script=script)
    method = drift_of(clients, participation="sampled", participants=3, memory="all")
    done = run_rounds(clients, method, range(3 * GAP))

    assert all(one.updates.clients.size == 3 for one in done)
    assert total(clients, "bytes_down", "model") == 3 * GAP * 3 * MODEL_BYTES
    # At the first arrival everybody is tested, so that there is something to compare with when it drifts.
    assert total(clients, "bytes_down", "probe") == N_CLIENTS * MODEL_BYTES
    assert np.isfinite(method.state.score).all()
    assert method.cluster_ids() == (0,)
    run_rounds(clients, method, [3 * GAP])
    assert total(clients, "bytes_down", "probe") == (N_CLIENTS + 3) * MODEL_BYTES
    assert len(method.cluster_ids()) == 4
    run_rounds(clients, method, range(3 * GAP + 1, 40))
    assert len(method.cluster_ids()) == 2
    assert agreement(clients, method) == 1.0
    check_blocks(method)


def test_sampled_compares_with_the_score_of_the_last_test() -> None:
    clients = plane_clients(plane_windows(AT_ONCE), script={3 * GAP: [0, 1, 2]})
    method = drift_of(clients, participation="sampled", participants=6)
    run_rounds(clients, method, range(3 * GAP))
    method.state.score[:3] = [0.9, 0.0, np.nan]
    run_rounds(clients, method, [3 * GAP])

    # All three are served badly now; the second was before, and nothing is known of the third.
    assert method.membership().tolist() == [1, 0, 0, 0, 0, 0]
    assert (method.state.score[:3] < 0.3).all()


def test_sampled_participants_are_drawn_from_all_clients() -> None:
    concepts = np.array([[int(interval >= 2 and client == 0) for client in range(N_CLIENTS)] for interval in range(8)])
    clients = plane_clients(plane_windows(concepts), script={GAP: [0], 2 * GAP: [0]})
    method = drift_of(clients, participation="sampled", participants=2)
    run_rounds(clients, method, range(2 * GAP))
    n_alone = 0
    for at in range(2 * GAP, 7 * GAP):
        (done,) = run_rounds(clients, method, [at])
        expected = np.sort(np.argsort(clients.draws("select", np.arange(N_CLIENTS)))[:2])
        assert sorted(set(done.plan.clients.tolist())) == expected.tolist()
        assert done.plan.start.tolist() == sorted(method.membership()[expected].tolist())
        n_alone += 0 in expected

    assert method.membership().tolist() == [1, 0, 0, 0, 0, 0]
    assert 0 < n_alone < 5 * GAP, "a model with one client is not trained in every round"


def test_sampled_gives_blocks_that_came_while_a_client_was_away_to_its_model() -> None:
    absent = Absent()
    clients = plane_clients(plane_windows(CALM, n_visible=2), script={}, availability=absent)
    method = drift_of(clients, participation="sampled", participants=N_CLIENTS)
    run_rounds(clients, method, range(1))
    absent.who = [2]
    run_rounds(clients, method, range(1, GAP + 2))
    assert method.state.blocks.owner[:, 2].tolist() == [0, 0, UNOWNED]
    absent.who = []
    (done,) = run_rounds(clients, method, [GAP + 2])

    assert method.state.blocks.owner[:, 2].tolist() == [0, 0, 0]
    assert done.plan.blocks is not None
    assert done.plan.blocks[done.plan.clients.tolist().index(2)].tolist() == [1, 2]


def test_sampled_merging_asks_at_most_five_of_a_cluster() -> None:
    concepts = np.array([[int(interval >= 2 and client < 2) for client in range(12)] for interval in range(4)])
    clients = plane_clients(plane_windows(concepts), script={GAP: [0, 1], 2 * GAP: [0, 1]})
    method = drift_of(clients, participation="sampled", participants=12)
    run_rounds(clients, method, range(3 * GAP))
    assert len(method.cluster_ids()) == 3
    before = total(clients, "bytes_down", "probe")
    run_rounds(clients, method, [3 * GAP])

    assert len(method.cluster_ids()) == 2
    assert total(clients, "bytes_down", "probe") - before == (5 + 1 + 1) * 3 * MODEL_BYTES


def test_many_clients_are_sampled_by_default() -> None:
    assert feddrift_reports_from({}, 200) == "nobody"
    assert feddrift_reports_from({}, 201) == "flags"
    assert feddrift_reports_from({"participation": "all"}, 201) == "nobody"
    assert feddrift_reports_from({"participation": "sampled"}, 2) == "flags"
