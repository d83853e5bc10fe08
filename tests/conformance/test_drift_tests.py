"""What every drift test must be able to do, whatever it decides."""

import pickle
from dataclasses import fields

import numpy as np
import pytest

from fielding.client.drift import DRIFT_TESTS, DriftTest, Evidence, drift_test_named
from fielding.rng import stream

every_test = pytest.mark.parametrize("drift_test", [drift_test_named(name) for name in DRIFT_TESTS], ids=DRIFT_TESTS)


def random_evidence(n_clients: int, n_labels: int, *, seed: int = 0) -> Evidence:
    """Return clients of which some drifted, some are empty, some have old reports."""
    rng = stream(seed, "evidence", n_clients, n_labels)
    mixes = rng.dirichlet(np.full(n_labels, 0.5), size=n_clients)
    reported = rng.multinomial(rng.integers(0, 40, size=n_clients), mixes)
    drifts = rng.random(n_clients) < 0.5
    fresh = rng.multinomial(rng.integers(0, 40, size=n_clients), np.where(drifts[:, None], mixes[::-1], mixes))
    return Evidence(
        reported=reported,
        current=reported // 2 + fresh,
        fresh=fresh,
        before=reported * rng.integers(1, 4, size=(n_clients, 1)),
        age=rng.integers(0, 30, size=n_clients),
        arrived=np.minimum(rng.integers(0, 3, size=n_clients), fresh.sum(axis=1)),
        is_mixed=rng.random(n_clients) < 0.3,
    )


def copied(evidence: Evidence) -> Evidence:
    return Evidence(**{field.name: getattr(evidence, field.name).copy() for field in fields(evidence)})


@every_test
def test_it_answers_yes_or_no_for_every_client(drift_test: DriftTest) -> None:
    answers = drift_test.drifted(random_evidence(50, 5))

    assert answers.shape == (50,)
    assert answers.dtype == np.bool_


@every_test
def test_it_does_not_edit_what_it_is_given(drift_test: DriftTest) -> None:
    evidence = random_evidence(50, 5)
    before = copied(evidence)

    drift_test.drifted(evidence)

    for field in fields(evidence):
        assert (getattr(evidence, field.name) == getattr(before, field.name)).all()


@every_test
def test_its_answer_is_not_a_window_into_the_evidence(drift_test: DriftTest) -> None:
    evidence = random_evidence(20, 5)

    answers = drift_test.drifted(evidence)

    assert not any(np.shares_memory(answers, getattr(evidence, field.name)) for field in fields(evidence))


@every_test
def test_it_judges_a_client_alone_as_among_others(drift_test: DriftTest) -> None:
    evidence = random_evidence(60, 5)

    alone = [bool(drift_test.drifted(evidence.rows(slice(at, at + 1)))[0]) for at in range(60)]

    assert drift_test.drifted(evidence).tolist() == alone


@every_test
def test_the_order_of_clients_does_not_matter(drift_test: DriftTest) -> None:
    evidence = random_evidence(200, 5)
    order = stream(1, "order").permutation(200)

    assert (drift_test.drifted(evidence.rows(order)) == drift_test.drifted(evidence)[order]).all()


@every_test
def test_the_order_of_labels_does_not_matter(drift_test: DriftTest) -> None:
    evidence = random_evidence(200, 5)
    mirrored = Evidence(
        reported=evidence.reported[:, ::-1],
        current=evidence.current[:, ::-1],
        fresh=evidence.fresh[:, ::-1],
        before=evidence.before[:, ::-1],
        age=evidence.age,
        arrived=evidence.arrived,
        is_mixed=evidence.is_mixed,
    )

    assert (drift_test.drifted(mirrored) == drift_test.drifted(evidence)).all()


@every_test
def test_labels_without_samples_do_not_matter(drift_test: DriftTest) -> None:
    evidence = random_evidence(200, 5)
    wider = Evidence(
        reported=np.pad(evidence.reported, ((0, 0), (0, 3))),
        current=np.pad(evidence.current, ((0, 0), (0, 3))),
        fresh=np.pad(evidence.fresh, ((0, 0), (0, 3))),
        before=np.pad(evidence.before, ((0, 0), (0, 3))),
        age=evidence.age,
        arrived=evidence.arrived,
        is_mixed=evidence.is_mixed,
    )

    assert (drift_test.drifted(wider) == drift_test.drifted(evidence)).all()


@every_test
def test_more_clients_than_a_chunk_are_judged_as_few(drift_test: DriftTest) -> None:
    evidence = random_evidence(100, 3)
    often = Evidence(**{field.name: np.concatenate([getattr(evidence, field.name)] * 90) for field in fields(evidence)})

    assert (drift_test.drifted(often) == np.tile(drift_test.drifted(evidence), 90)).all()


@every_test
def test_clients_without_samples_then_or_now_are_no_business_of_it(drift_test: DriftTest) -> None:
    full, empty = np.array([[30, 0]]), np.array([[0, 0]])
    for reported, current in ((full, empty), (empty, full), (empty, empty)):
        evidence = Evidence(
            reported=reported,
            current=current,
            fresh=current,
            before=reported,
            age=np.array([99]),
            arrived=np.array([30]),
            is_mixed=np.array([False]),
        )

        assert drift_test.drifted(evidence).tolist() == [False]


@every_test
def test_no_clients_give_no_answers(drift_test: DriftTest) -> None:
    assert drift_test.drifted(random_evidence(0, 4)).shape == (0,)


@every_test
@pytest.mark.parametrize("arrived", [0, 1])
def test_one_sample_and_one_label_are_enough_to_be_judged(drift_test: DriftTest, arrived: int) -> None:
    one = np.array([[1]])
    evidence = Evidence(
        reported=one,
        current=one,
        fresh=one * arrived,
        before=one,
        age=np.array([0]),
        arrived=np.array([arrived]),
        is_mixed=np.array([False]),
    )

    assert drift_test.drifted(evidence).shape == (1,)
    assert drift_test.drifted(random_evidence(40, 1)).shape == (40,)


@every_test
def test_one_label_never_drifts_unless_the_clock_says_so(drift_test: DriftTest) -> None:
    evidence = random_evidence(40, 1)

    assert drift_test.is_timed or not drift_test.drifted(evidence).any()


@every_test
def test_waiting_alone_changes_the_answer_only_of_a_timed_test(drift_test: DriftTest) -> None:
    evidence = random_evidence(100, 5)
    later = Evidence(
        reported=evidence.reported,
        current=evidence.reported,
        fresh=np.zeros_like(evidence.fresh),
        before=evidence.before,
        age=evidence.age + 1000,
        arrived=np.zeros_like(evidence.arrived),
        is_mixed=evidence.is_mixed,
    )

    assert drift_test.drifted(later).any() == drift_test.is_timed


@every_test
def test_it_survives_a_pickle_and_equals_its_copy(drift_test: DriftTest) -> None:
    copy = pickle.loads(pickle.dumps(drift_test))

    assert copy == drift_test
    assert (copy.drifted(random_evidence(50, 5)) == drift_test.drifted(random_evidence(50, 5))).all()


@every_test
def test_it_says_what_it_means(drift_test: DriftTest) -> None:
    assert type(drift_test).__doc__


def test_the_evidence_here_is_of_every_kind() -> None:
    evidence = random_evidence(200, 5)

    for name in ("any-change", "chi2", "threshold", "periodic"):
        assert 0.05 < drift_test_named(name).drifted(evidence).mean() < 1.0
    assert 0.0 < evidence.comparable().mean() < 1.0
