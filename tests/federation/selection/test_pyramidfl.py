import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding.errors import OptionError
from fielding.federation.selection import Feedback, Selection
from fielding.federation.selection.oort import Oort
from fielding.federation.selection.pyramidfl import PyramidFL
from tests.federation.selection.rounds import Federation, feedback_of


def trained(seconds: list[float], compute: list[float], *, n_clients: int = 8, **options: float) -> Selection:
    """Return a selection that knows the times of the first clients."""
    selection = Selection(PyramidFL(**options), n_clients)  # type: ignore[arg-type]
    selection.feedback(timed(list(range(len(seconds))), seconds, compute))
    return selection


def timed(clients: list[int], seconds: list[float], compute: list[float]) -> Feedback:
    plain = feedback_of(clients, seconds=seconds)
    return Feedback(
        round_index=0,
        n_train_samples=plain.n_train_samples,
        clients=plain.clients,
        clusters=plain.clusters,
        n_samples=plain.n_samples,
        loss=plain.loss,
        square_loss=plain.square_loss,
        seconds=plain.seconds,
        compute_seconds=np.array(compute),
    )


def transcribed_steps(seconds: list[float], compute: list[float], *, n_steps: int, beta: float) -> list[int]:
    """Write the factor of METHODS.md 10 down client by client."""
    slowest = max(seconds)
    steps = []
    for whole, computing in zip(seconds, compute, strict=True):
        fitting = math.floor((slowest - whole) / (computing / n_steps))
        steps.append(math.floor(n_steps * (1 + min(10, beta * fitting / n_steps)) + 1e-9))
    return steps


times = st.lists(st.tuples(st.floats(0.1, 100.0), st.floats(0.01, 1.0)), min_size=1, max_size=8)


@given(times, st.integers(1, 30), st.sampled_from([0.0, 0.3, 0.5, 1.0]))
def test_steps_are_their_formula(known: list[tuple[float, float]], n_steps: int, beta: float) -> None:
    seconds, compute = [whole for whole, _ in known], [whole * share for whole, share in known]
    selection = trained(seconds, compute, beta=beta)

    steps = selection.steps(np.arange(len(known)), n_steps=n_steps)

    assert steps is not None
    assert steps.tolist() == transcribed_steps(seconds, compute, n_steps=n_steps, beta=beta)


def test_fast_clients_do_more_and_nobody_more_than_eleven_times_as_much() -> None:
    selection = trained([1.0, 4.0, 10.0], [1.0, 4.0, 5.0], beta=1.0)

    steps = selection.steps(np.array([0, 1, 2, 5]), n_steps=10)

    # Client 0 has nine seconds left, 0.1 a step: 90 more. Client 1: 6 s, 0.4 a step: 15 more. 5 is not known.
    assert steps is not None
    assert steps.tolist() == [100, 25, 10, 10]
    quick = trained([0.001, 10.0], [0.001, 5.0], beta=1.0).steps(np.arange(2), n_steps=10)
    assert quick is not None
    assert quick.tolist() == [110, 10]


def test_who_is_not_waited_for_does_not_set_the_time() -> None:
    selection = trained([1.0, 2.0, 3.0, 100.0], [1.0, 2.0, 3.0, 50.0], beta=1.0)

    steps = selection.steps(np.arange(4), n_steps=2, n_kept=3)

    # Three seconds: client 0 has two left, 0.5 a step; client 1 one left, 1 a step.
    assert steps is not None
    assert steps.tolist() == [6, 3, 2, 2]


def test_computing_that_takes_no_time_fills_the_whole_factor() -> None:
    steps = trained([1.0, 2.0], [0.0, 0.0]).steps(np.arange(2), n_steps=3)

    assert steps is not None
    assert steps.tolist() == [33, 3]


def test_times_are_remembered_as_of_the_usual_steps() -> None:
    selection = trained([2.0, 10.0], [1.0, 5.0], beta=1.0)
    steps = selection.steps(np.arange(2), n_steps=4)
    assert steps is not None
    factor = steps[0] / 4

    # The same device, which computed longer because it was asked to.
    selection.feedback(timed([0, 1], [1.0 + factor, 10.0], [factor, 5.0]))

    assert factor == 9.0
    assert selection.arrays()["client/seconds"][:2].tolist() == pytest.approx([2.0, 10.0])
    assert selection.arrays()["client/compute_seconds"][:2].tolist() == pytest.approx([1.0, 5.0])
    again = selection.steps(np.arange(2), n_steps=4)
    assert again is not None
    assert again.tolist() == steps.tolist()


def test_times_of_a_round_without_more_steps_are_taken_as_they_are() -> None:
    selection = trained([2.0, 10.0], [1.0, 5.0], beta=1.0)
    selection.steps(np.arange(2), n_steps=4)
    selection.feedback(timed([0, 1], [10.0, 10.0], [9.0, 5.0]))

    selection.feedback(timed([0, 1], [3.0, 10.0], [2.0, 5.0]))

    assert selection.arrays()["client/seconds"][:2].tolist() == [3.0, 10.0]


def test_a_straggler_that_did_more_steps_is_not_taken_for_slow() -> None:
    selection = trained([2.0, 10.0], [1.0, 5.0], beta=1.0)
    selection.steps(np.arange(2), n_steps=4)

    selection.feedback(feedback_of([1], seconds=[10.0], late={0: 10.0, 6: 30.0}))

    assert selection.arrays()["client/seconds"][[0, 6]].tolist() == [2.0, 30.0]


def test_less_useful_clients_send_less_and_equals_alike() -> None:
    selection = Selection(PyramidFL(upload_least=0.2, upload_most=0.8), 8)
    selection.feedback(feedback_of([0, 1, 2, 3], loss=[5.0, 1.0, 3.0, 3.0]))

    shares = selection.upload_shares(np.array([0, 1, 2, 3, 7]))

    # Ranks from the least: client 1, then 2 and 3 alike, then 0. Client 7 was never tried.
    assert shares is not None
    assert shares.tolist() == pytest.approx([0.8, 0.2, 0.4, 0.4, 0.8])


@pytest.mark.parametrize("clients", [[], [0], [5], [5, 6]])
def test_without_two_known_clients_everyone_sends_the_most(clients: list[int]) -> None:
    selection = Selection(PyramidFL(), 8)
    selection.feedback(feedback_of([0]))

    shares = selection.upload_shares(np.array(clients, dtype=np.int64))

    assert shares is not None
    assert shares.tolist() == [0.9] * len(clients)


def test_it_chooses_like_oort_when_nobody_is_asked_for_more() -> None:
    rng = np.random.default_rng(3)
    federation = Federation(rng.uniform(0.5, 2.0, 60), rng.uniform(1.0, 9.0, 60), n_clusters=2, n_wanted=4)

    both = [
        federation.play(Selection(selector, 60), range(30), overcommit=1) for selector in (Oort(), PyramidFL(beta=0.0))
    ]

    assert [chosen[:5] for chosen in both[1]] == both[0]


@pytest.mark.parametrize(
    "options", [{"beta": 1.5}, {"upload_least": -0.1}, {"upload_most": 1.1}, {"upload_least": 0.95}]
)
def test_options_out_of_range_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(OptionError, match=next(iter(options))):
        PyramidFL(**options)  # type: ignore[arg-type]


def test_jobs_of_one_client_add_up_and_its_extra_steps_fit_into_the_time_that_it_waits() -> None:
    # Client 0 does four jobs of 10 s one after the other, client 1 one of 100 s; transfers take no time.
    clients, finish, compute = [0, 0, 0, 0, 1], [10.0, 20.0, 30.0, 40.0, 100.0], [10.0] * 4 + [100.0]
    selection = Selection(PyramidFL(beta=1.0), 2)
    selection.feedback(timed(clients, finish, compute))
    known = selection.arrays()
    assert known["client/seconds"].tolist() == [40.0, 100.0]
    assert known["client/compute_seconds"].tolist() == [40.0, 100.0]

    steps = selection.steps(np.array([0, 1]), n_steps=10)

    # 60 s are left, and a step of all four jobs takes 4 s: 15 more.
    assert steps is not None
    assert steps.tolist() == [25, 10]
    again = [10.0 * 2.5 * at for at in range(1, 5)]
    assert max(again) <= 100.0
    selection.feedback(timed(clients, [*again, 100.0], [25.0] * 4 + [100.0]))
    assert selection.arrays()["client/seconds"].tolist() == pytest.approx([40.0, 100.0])
    assert selection.arrays()["client/compute_seconds"].tolist() == pytest.approx([40.0, 100.0])
