import numpy as np
import pytest

from fielding.errors import CheckpointError
from fielding.federation.roll_call import RollCall, roll_call_with
from fielding.rng import stream

N_CLIENTS = 60


def begun(*, pause: int = 4) -> RollCall:
    """Return a roll call of clients that have told of 48 samples each."""
    roll_call = RollCall(alpha=0.005, pause=pause)
    hear(roll_call, list(range(N_CLIENTS)), 0)
    return roll_call


def hear(
    roll_call: RollCall, clients: list[int], round_index: int, *, n_samples: int = 48, shift: float = 0.05
) -> list[int]:
    """Let clients report two labels, whose shares move by ``shift`` to and fro from round to round."""
    first = 0.5 + shift * (-1) ** round_index
    roll_call.hear(
        np.array(clients, dtype=np.int64),
        np.tile([first, 1.0 - first] if n_samples else [0.0, 0.0], (len(clients), 1)),
        np.full(len(clients), n_samples),
        round_index=round_index,
    )
    return np.flatnonzero(roll_call.is_asked).tolist()


def test_more_than_chance_asks_all_others() -> None:
    # Of 60 at 0.005 each, 4 have a chance of 0.0003, 3 of 0.003.
    assert hear(begun(), [1, 2, 3], 1) == []
    assert hear(begun(), [1, 2, 3, 4], 1) == [0, *range(5, N_CLIENTS)]


def test_nobody_is_asked_where_the_shifts_are_so_large_that_each_client_sees_its_own() -> None:
    assert hear(begun(), list(range(20)), 1, shift=0.1) != []
    assert hear(begun(), list(range(20)), 1, shift=0.4) == []


@pytest.mark.parametrize("n_samples", [0, 96])
def test_clients_that_go_silent_or_whose_windows_fill_up_have_not_drifted(n_samples: int) -> None:
    assert hear(begun(), list(range(30)), 1, n_samples=n_samples) == []


def test_clients_are_asked_until_they_answer_and_answers_are_no_drift() -> None:
    roll_call = begun(pause=1)
    hear(roll_call, [1, 2, 3, 4], 1)

    assert hear(roll_call, list(range(5, 50)), 2) == [0, *range(50, N_CLIENTS)]
    assert hear(roll_call, [], 3) == [0, *range(50, N_CLIENTS)]


def test_it_pauses() -> None:
    roll_call = begun(pause=4)
    hear(roll_call, [1, 2, 3, 4], 1)
    assert hear(roll_call, list(range(N_CLIENTS)), 2) == []

    assert hear(roll_call, [1, 2, 3, 4], 4) == []
    assert len(hear(roll_call, [1, 2, 3, 4], 5)) == N_CLIENTS - 4


def test_reports_by_chance_rarely_ask() -> None:
    rng, roll_call, n_calls = stream(1, "roll-call"), begun(pause=1), 0
    for now in range(1, 5001):
        hear(roll_call, np.flatnonzero(rng.random(N_CLIENTS) < 0.005).tolist(), now)
        n_calls += bool(roll_call.is_asked.any())
        roll_call.is_asked[:] = False

    assert n_calls <= 10  # 1.7 are expected


def test_false_alarms_beyond_the_level_do_not_ask_however_many_clients_there_are() -> None:
    rng, roll_call = stream(2, "roll-call"), RollCall(alpha=0.003, pause=1)
    hear(roll_call, list(range(10_000)), 0)
    n_calls = 0
    for now in range(1, 201):
        hear(roll_call, np.flatnonzero(rng.random(10_000) < 0.008).tolist(), now)
        n_calls += bool(roll_call.is_asked.any())
        roll_call.is_asked[:] = False

    assert n_calls <= 6  # 1.2 are expected
    assert hear(roll_call, list(range(130)), 300) != []


def test_reports_of_a_longer_and_of_a_shorter_class_list_are_heard() -> None:
    roll_call = begun()
    roll_call.hear(np.arange(2), np.full((2, 3), 1 / 3), np.full(2, 48), round_index=1)

    assert hear(roll_call, [1, 2, 3, 4, 5], 2) == [0, *range(6, N_CLIENTS)]


def test_it_goes_on_from_a_checkpoint() -> None:
    roll_call, other = begun(), RollCall(alpha=0.005, pause=4)
    hear(roll_call, [1, 2, 3, 4], 1)
    hear(roll_call, [0], 2)
    other.restore(roll_call.arrays())

    assert {name: array.tolist() for name, array in other.arrays().items()} == {
        name: array.tolist() for name, array in roll_call.arrays().items()
    }
    other.restore({})  # of an older version: nothing to take over
    with pytest.raises(CheckpointError, match="begin anew"):
        other.restore({**roll_call.arrays(), "roll_call.is_asked": np.zeros(1, dtype=np.bool_)})


def test_a_test_without_a_level_has_none() -> None:
    assert roll_call_with(None, span=100) is None
    assert roll_call_with(0.01, span=1) is not None
