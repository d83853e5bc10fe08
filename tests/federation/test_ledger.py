import json
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding.errors import CheckpointError, InputError, OptionError
from fielding.federation.ledger import CATEGORIES, Ledger

N_CLIENTS = 4

# Quarters add up without rounding, so that sums can be compared exactly.
TASKS = st.tuples(
    st.sampled_from(CATEGORIES),
    st.integers(0, N_CLIENTS - 1),
    st.integers(0, 10**12),
    st.integers(0, 10**12),
    st.integers(0, 10**6).map(lambda quarters: quarters / 4),
)
CHARGES = st.lists(TASKS, max_size=30)


def charged(tasks: list[tuple[str, int, int, int, float]], *, together: bool) -> Ledger:
    """Return a ledger after these tasks, charged one by one or in one call per category."""
    ledger = Ledger(N_CLIENTS)
    batches = [[task] for task in tasks]
    if together:
        batches = [[task for task in tasks if task[0] == category] for category in CATEGORIES]
    for batch in batches:
        if batch:
            _, clients, down, up, seconds = map(np.array, zip(*batch, strict=True))
            ledger.charge(batch[0][0], clients, down_bytes=down, up_bytes=up, seconds=seconds)
    return ledger


@given(CHARGES, st.randoms(use_true_random=False), st.booleans())
def test_sums_are_what_was_charged_whatever_the_order(
    tasks: list[tuple[str, int, int, int, float]], order: Random, together: bool
) -> None:
    shuffled = list(tasks)
    order.shuffle(shuffled)
    ledger = charged(shuffled, together=together)

    for key, quantity in (
        ("bytes_down", [task[2] for task in tasks]),
        ("bytes_up", [task[3] for task in tasks]),
        ("client_seconds", [task[4] for task in tasks]),
    ):
        expected = {
            name: sum(amount for task, amount in zip(tasks, quantity, strict=True) if task[0] == name)
            for name in CATEGORIES
        }
        assert ledger.totals()[key] == {"all": sum(expected.values()), **expected}
    for client in range(N_CLIENTS):
        own = [task for task in tasks if task[1] == client]
        assert ledger.client_bytes_down()[client] == sum(task[2] for task in own)
        assert ledger.client_bytes_up("model")[client] == sum(task[3] for task in own if task[0] == "model")
        assert ledger.client_seconds()[client] == sum(task[4] for task in own)


@given(CHARGES, CHARGES)
def test_a_restored_ledger_goes_on_like_the_one_that_was_saved(
    before: list[tuple[str, int, int, int, float]], after: list[tuple[str, int, int, int, float]]
) -> None:
    straight, saved = charged(before, together=True), charged(before, together=True)

    resumed = Ledger.restored(saved.arrays())
    for category, client, down, up, seconds in after:
        for ledger in (straight, resumed):
            ledger.charge(category, [client], down_bytes=down, up_bytes=up, seconds=seconds)

    assert resumed.totals() == straight.totals()
    assert {name: array.tobytes() for name, array in resumed.arrays().items()} == {
        name: array.tobytes() for name, array in straight.arrays().items()
    }


def test_a_client_with_two_tasks_pays_twice() -> None:
    ledger = Ledger(2)
    ledger.charge("probe", [1, 1], down_bytes=10, up_bytes=[1, 2], seconds=0.5)

    assert ledger.client_bytes_down().tolist() == [0, 20]
    assert ledger.client_bytes_up("probe").tolist() == [0, 3]
    assert ledger.client_seconds("probe").tolist() == [0.0, 1.0]
    assert ledger.client_seconds("model").tolist() == [0.0, 0.0]


def test_the_sum_of_seconds_does_not_depend_on_the_order_of_clients() -> None:
    seconds = np.array([1e16, 1.0, -0.0, 1.0]) / 1e3
    ledgers = [Ledger(4), Ledger(4)]
    ledgers[0].charge("model", [0, 1, 2, 3], seconds=seconds)
    ledgers[1].charge("model", [3, 2, 1, 0], seconds=seconds)

    assert seconds.sum() != seconds[::-1].sum()
    assert ledgers[0].totals() == ledgers[1].totals()


def test_totals_can_be_written_as_json() -> None:
    ledger = Ledger(1)
    ledger.charge("report", [0], up_bytes=np.array([400]), seconds=0.25)

    assert json.loads(json.dumps(ledger.totals())) == {
        "bytes_down": {"all": 0, "model": 0, "report": 0, "probe": 0},
        "bytes_up": {"all": 400, "model": 0, "report": 400, "probe": 0},
        "client_seconds": {"all": 0.25, "model": 0.0, "report": 0.25, "probe": 0.0},
    }


def test_nobody_and_nothing_can_be_charged() -> None:
    ledger = Ledger(0)
    ledger.charge("model", [], down_bytes=5, up_bytes=[], seconds=[])

    assert ledger.totals()["bytes_down"] == {"all": 0, "model": 0, "report": 0, "probe": 0}


@pytest.mark.parametrize(
    ("charge", "message"),
    [
        ({"clients": [2]}, "clients of a charge hold 2; give whole numbers from 0 to 1"),
        ({"down_bytes": -1}, r"down_bytes are -1; give whole numbers from 0 to 2\*\*53"),
        ({"up_bytes": 1.5}, r"up_bytes are 1.5; give whole numbers"),
        ({"up_bytes": [1, 2, 3]}, r"up_bytes have shape \(3,\) but there are 2 tasks"),
        ({"seconds": [1.0, np.nan]}, r"seconds are \[1.0, nan\]; give numbers from 0"),
        ({"seconds": np.inf}, "seconds are inf"),
        ({"seconds": "9"}, "seconds are '9'"),
    ],
)
def test_an_impossible_charge_is_refused_and_changes_nothing(charge: dict, message: str) -> None:
    ledger = Ledger(2)

    with pytest.raises(InputError, match=message):
        ledger.charge("model", **({"clients": [0, 1], "down_bytes": 7} | charge))
    assert ledger.client_bytes_down().tolist() == [0, 0]


def test_an_unknown_category_is_refused_with_the_known_ones() -> None:
    with pytest.raises(OptionError, match="unknown category of costs 'models'; did you mean 'model'"):
        Ledger(1).charge("models", [0])
    with pytest.raises(OptionError, match="unknown category of costs 'evaluation'"):
        Ledger(1).client_seconds("evaluation")
    with pytest.raises(OptionError, match="n_clients is -1"):
        Ledger(-1)


def test_what_a_ledger_gives_out_is_a_copy() -> None:
    ledger = Ledger(1)
    ledger.arrays()["model.seconds"][0] = 9.0
    ledger.client_seconds("model")[0] = 9.0

    assert ledger.client_seconds().tolist() == [0.0]


def test_arrays_have_the_types_of_checkpoints() -> None:
    assert {name: array.dtype.str for name, array in Ledger(2).arrays().items() if name.startswith("report")} == {
        "report.down_bytes": "<i8",
        "report.up_bytes": "<i8",
        "report.seconds": "<f8",
    }


def test_arrays_that_are_no_ledger_are_refused() -> None:
    arrays = Ledger(2).arrays()

    with pytest.raises(CheckpointError, match=r"lacks 'probe\.seconds'"):
        Ledger.restored({name: array for name, array in arrays.items() if name != "probe.seconds"})
    with pytest.raises(CheckpointError, match=r"has an unknown 'zebra'"):
        Ledger.restored(arrays | {"zebra": np.zeros(2)})
    with pytest.raises(CheckpointError, match=r"model\.up_bytes in the ledger of the checkpoint is float64"):
        Ledger.restored(arrays | {"model.up_bytes": np.zeros(2)})
    with pytest.raises(CheckpointError, match=r"of shape \(3,\); float64 of shape \(2,\) is wanted"):
        Ledger.restored(arrays | {"probe.seconds": np.zeros(3)})


@given(CHARGES, CHARGES, st.integers(0, 5))
def test_a_grown_ledger_is_one_that_had_room_from_the_start(
    before: list[tuple[str, int, int, int, float]], after: list[tuple[str, int, int, int, float]], n_new: int
) -> None:
    grown, whole = charged(before, together=True), Ledger(N_CLIENTS + n_new)
    for category, client, down, up, seconds in before:
        whole.charge(category, [client], down_bytes=down, up_bytes=up, seconds=seconds)

    grown.grow(N_CLIENTS + n_new)
    for category, client, down, up, seconds in after:
        for ledger in (grown, whole):
            ledger.charge(category, [client + n_new], down_bytes=down, up_bytes=up, seconds=seconds)

    assert {name: array.tobytes() for name, array in grown.arrays().items()} == {
        name: array.tobytes() for name, array in whole.arrays().items()
    }
    assert grown.totals() == whole.totals()


@pytest.mark.parametrize("n_clients", [3, -1, 4.5, True, "9"])
def test_a_ledger_never_forgets_a_client(n_clients: object) -> None:
    ledger = Ledger(4)

    with pytest.raises(OptionError, match=f"n_clients is {n_clients!r}; give a whole number of at least 4"):
        ledger.grow(n_clients)  # type: ignore[arg-type]
    assert ledger.n_clients == 4
