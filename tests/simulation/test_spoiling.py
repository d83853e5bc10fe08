"""Uploads of attackers: what is made of an update."""

import numpy as np
import pytest
from fielding.simulation.spoiling import SPOILS, Spoiling, check_spoil, spoiled

from fielding.errors import OptionError
from fielding.simulation.assembly import Own
from fielding.simulation.experiment import run
from tests.simulation.run_cases import small_pool, table

TRAINED = np.array([[3.0, 1.0], [0.0, 0.0]], dtype=np.float32)
START = np.array([[2.0, 1.5], [0.0, 1.0]], dtype=np.float32)


def test_a_flipped_update_leads_as_far_the_other_way() -> None:
    assert spoiled(TRAINED, START, kind="sign-flip").tolist() == [[1.0, 2.0], [0.0, 2.0]]


def test_a_scaled_update_leads_ten_times_as_far() -> None:
    assert spoiled(TRAINED, START, kind="scale").tolist() == [[12.0, -3.5], [0.0, -9.0]]


def test_one_number_of_each_model_is_none() -> None:
    assert np.isnan(spoiled(TRAINED, START, kind="nan")).tolist() == [[True, False], [True, False]]


@pytest.mark.parametrize("kind", SPOILS)
def test_what_was_trained_stays_as_it_was_and_models_stay_float32(kind: str) -> None:
    trained, start = TRAINED.copy(), START.copy()
    made = spoiled(trained, start, kind=kind)

    assert made.dtype == np.float32
    assert made.shape == TRAINED.shape
    assert (trained == TRAINED).all()
    assert (start == START).all()


def test_honest_uploads_are_the_models_themselves() -> None:
    assert spoiled(TRAINED, START, kind="none") is TRAINED


def test_an_update_that_grows_beyond_all_numbers_is_infinite_and_no_warning() -> None:
    large = np.full((1, 1), 3e38, dtype=np.float32)

    assert np.isinf(spoiled(large, np.zeros_like(large), kind="scale")).all()


def test_nobody_to_spoil_is_nobody_spoiled() -> None:
    nobody = np.zeros((0, 2), dtype=np.float32)

    assert [spoiled(nobody, nobody, kind=kind).shape for kind in SPOILS] == [(0, 2)] * 4


def test_an_unknown_way_to_spoil_is_refused_with_the_nearest() -> None:
    with pytest.raises(OptionError, match="did you mean 'scale'"):
        check_spoil("scaled")


def test_only_attackers_spoil_and_each_from_the_model_that_it_started_with() -> None:
    offered = np.array([[0.0], [100.0]], dtype=np.float32)
    trained = np.array([[1.0], [2.0], [103.0]], dtype=np.float32)
    spoiling = Spoiling(attackers=np.array([True, False, False, True]), kind="sign-flip")

    uploads = spoiling.applied(trained, np.array([0, 1, 3]), offered=offered, start=np.array([0, 0, 1]))

    assert uploads.tolist() == [[-1.0], [2.0], [97.0]]
    assert trained.tolist() == [[1.0], [2.0], [103.0]]


@pytest.mark.parametrize(("kind", "client"), [("none", 0), ("scale", 1)])
def test_where_nobody_spoils_uploads_are_what_was_trained(kind: str, client: int) -> None:
    spoiling = Spoiling(attackers=np.array([True, False]), kind=kind)
    trained = TRAINED[:1]

    assert spoiling.applied(trained, np.array([client]), offered=START, start=np.array([0])) is trained


def slots_lost(selection: str, seed: int) -> list[int]:
    """Return how many participants of each round of a run sent no model; 6 of 30 clients never do."""
    config = table(
        seed=seed,
        rounds=40,
        trace={"clients": 30, "liars": 0.2, "spoil": "nan"},
        training={"participants": 6, "local_steps": 1},
        method={"name": "global"},
        selection={"name": selection},
        evaluation={"every": 40},
        checkpoint={"every": 40},
    )
    rows = run(config, own=Own(samples=small_pool()), page=False).rounds
    return [int(str(row["n_failed"])) for row in rows]


def test_oort_loses_no_more_slots_to_clients_that_never_send_a_model_than_chance_does() -> None:
    seeds = range(3)
    oort, uniform = (
        np.mean([slots_lost(selection, seed)[-20:] for seed in seeds]) for selection in ("oort", "uniform")
    )

    assert uniform == pytest.approx(6 * 0.2, abs=0.4)
    assert oort <= uniform
