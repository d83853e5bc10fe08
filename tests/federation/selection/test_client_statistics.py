from dataclasses import replace

import numpy as np
import pytest

from fielding.federation.selection import Feedback
from fielding.federation.selection.oort import Oort, learn_clients
from fielding.federation.selection.selector import SelectionMemory
from tests.federation.selection.rounds import N_TRAIN_SAMPLES, feedback_of


def fresh_memory(n_clients: int = 6) -> SelectionMemory:
    oort = Oort()
    memory = SelectionMemory(n_clients, clients=oort.client_memory, clusters=oort.cluster_memory)
    memory.grow(3)
    return memory


def test_an_answer_is_written_down() -> None:
    memory = fresh_memory()

    learn_clients(feedback_of([2, 4], loss=[0.5, 2.0], seconds=[3.0, 7.0], round_index=9), memory)

    known = memory.clients
    assert known["utility"].tolist() == [0.0, 0.0, 0.5 * N_TRAIN_SAMPLES, 0.0, 2.0 * N_TRAIN_SAMPLES, 0.0]
    assert known["seconds"][[2, 4]].tolist() == [3.0, 7.0]
    assert np.isnan(known["seconds"][[0, 1, 3, 5]]).all()
    assert known["last_round"].tolist() == [0.0, 0.0, 10.0, 0.0, 10.0, 0.0]
    assert known["times"].tolist() == [0.0, 0.0, 1.0, 0.0, 1.0, 0.0]
    assert known["n_samples"][2] == 1000


def test_stragglers_count_as_tried_and_get_the_average_of_their_cluster() -> None:
    memory = fresh_memory()

    learn_clients(feedback_of([0, 1], loss=[1.0, 3.0], late={5: 99.0}), memory)

    assert memory.clients["utility"][5] == 2.0 * N_TRAIN_SAMPLES
    assert memory.clients["times"][5] == 1.0
    assert memory.clients["last_round"][5] == 1.0
    assert memory.clients["seconds"][5] == 99.0


def two_clusters(answers: list[int], clusters: list[int], loss: list[float], late_cluster: int) -> Feedback:
    plain = feedback_of(answers, loss=loss)
    return Feedback(
        round_index=0,
        n_train_samples=N_TRAIN_SAMPLES,
        clients=plain.clients,
        clusters=np.array(clusters, dtype=np.int64),
        n_samples=plain.n_samples,
        loss=plain.loss,
        square_loss=plain.square_loss,
        seconds=plain.seconds,
        compute_seconds=plain.compute_seconds,
        stragglers=np.array([5]),
        straggler_clusters=np.array([late_cluster]),
        straggler_seconds=np.array([99.0]),
    )


def test_a_straggler_of_a_cluster_without_answers_gets_the_average_of_all() -> None:
    own, foreign = fresh_memory(), fresh_memory()

    learn_clients(two_clusters([0, 1], [0, 1], [1.0, 3.0], late_cluster=1), own)
    learn_clients(two_clusters([0, 1], [0, 1], [1.0, 3.0], late_cluster=2), foreign)

    assert own.clients["utility"][5] == 3.0 * N_TRAIN_SAMPLES
    assert foreign.clients["utility"][5] == 2.0 * N_TRAIN_SAMPLES


def test_if_nobody_answered_a_straggler_keeps_its_utility() -> None:
    memory = fresh_memory()
    memory.clients["utility"][5] = 8.0

    exploited = learn_clients(two_clusters([], [], [], late_cluster=1), memory)

    assert memory.clients["utility"][5] == 8.0
    assert memory.clients["times"][5] == 1.0
    assert exploited.tolist() == [0.0]


def test_several_answers_count_by_their_mean_and_the_longest_time_and_once() -> None:
    memory = fresh_memory()
    doubled = feedback_of([3, 3, 4], loss=[1.0, 2.0, 4.0], seconds=[5.0, 2.0, 1.0])

    learn_clients(doubled, memory)

    assert memory.clients["utility"][3] == 1.5 * N_TRAIN_SAMPLES
    assert memory.clients["seconds"][3] == 5.0
    assert memory.clients["times"][3] == 1.0


def test_exploited_is_who_had_been_tried_before() -> None:
    memory = fresh_memory()

    first = learn_clients(feedback_of([0, 1], loss=[1.0, 1.0]), memory)
    second = learn_clients(feedback_of([1, 2], loss=[2.0, 9.0], round_index=1), memory)

    assert first.tolist() == [0.0]
    assert second.tolist() == [2.0 * N_TRAIN_SAMPLES]


def test_who_answered_in_one_cluster_and_was_late_in_another_answered() -> None:
    memory = fresh_memory()

    learn_clients(two_clusters([5, 1], [0, 1], [1.0, 3.0], late_cluster=1), memory)

    assert memory.clients["utility"][5] == 1.0 * N_TRAIN_SAMPLES
    assert memory.clients["times"][5] == 1.0


def test_clients_with_few_samples_are_worth_no_more_than_they_have() -> None:
    memory = fresh_memory()
    plain = feedback_of([0], loss=[2.0])

    learn_clients(
        Feedback(
            round_index=0,
            n_train_samples=N_TRAIN_SAMPLES,
            clients=plain.clients,
            clusters=plain.clusters,
            n_samples=np.array([7]),
            loss=plain.loss,
            square_loss=plain.square_loss,
            seconds=plain.seconds,
            compute_seconds=plain.compute_seconds,
        ),
        memory,
    )

    assert memory.clients["utility"][0] == pytest.approx(14.0)


def failing(answers: list[int], failed: list[int], *, late: dict[int, float] | None = None) -> Feedback:
    return replace(feedback_of(answers, late=late, round_index=4), failed=np.array(failed, dtype=np.int64))


def test_who_sent_no_model_was_tried_and_is_worth_nothing() -> None:
    memory = fresh_memory()
    learn_clients(feedback_of([0, 3], loss=[1.0, 2.0]), memory)

    learn_clients(failing([0], [3, 5]), memory)

    assert memory.clients["utility"].tolist() == [N_TRAIN_SAMPLES, 0.0, 0.0, 0.0, 0.0, 0.0]
    assert memory.clients["times"].tolist() == [2.0, 0.0, 0.0, 2.0, 0.0, 1.0]
    assert memory.clients["last_round"].tolist() == [5.0, 0.0, 0.0, 5.0, 0.0, 5.0]


def test_several_failures_of_a_client_count_once_and_none_if_another_of_its_jobs_came_back() -> None:
    memory = fresh_memory()

    learn_clients(failing([0], [0, 5, 5, 2], late={2: 9.0}), memory)

    assert memory.clients["times"].tolist() == [1.0, 0.0, 1.0, 0.0, 0.0, 1.0]
    assert memory.clients["utility"].tolist() == [N_TRAIN_SAMPLES, 0.0, N_TRAIN_SAMPLES, 0.0, 0.0, 0.0]


def test_if_all_fail_they_were_tried_all_the_same() -> None:
    memory = fresh_memory()

    exploited = learn_clients(failing([], [1, 2]), memory)

    assert memory.clients["times"].tolist() == [0.0, 1.0, 1.0, 0.0, 0.0, 0.0]
    assert exploited.size == 0
