import numpy as np
import pytest

from fielding._typing import Floats
from fielding.errors import InputError
from fielding.federation.pace import mix_memory


def test_averages_of_weights_mix_and_all_else_comes_from_the_largest_share() -> None:
    rows = {
        "mean": np.array([[0.0, 2.0], [4.0, 4.0]], dtype=np.float32),
        "time": np.array([[3.0], [7.0]]),
    }

    mixed = mix_memory(rows, np.array([[0.25, 0.75], [1.0, 0.0], [0.5, 0.5]]))

    assert mixed["mean"].tolist() == [[3.0, 3.5], [0.0, 2.0], [2.0, 3.0]]
    assert mixed["time"].tolist() == [[7.0], [3.0], [3.0]]
    assert mixed["mean"].dtype == np.float32
    assert mixed["time"].dtype == np.float64


def test_under_the_identity_every_state_stays_bit_for_bit() -> None:
    rng = np.random.default_rng(0)
    rows: dict[str, Floats] = {"mean": rng.random((3, 5)).astype(np.float32), "left": rng.random((3, 7))}

    mixed = mix_memory(rows, np.eye(3))

    assert all((mixed[name] == rows[name]).all() for name in rows)


def test_a_mixing_of_another_number_of_clusters_is_refused() -> None:
    with pytest.raises(InputError):
        mix_memory({"mean": np.zeros((2, 5), dtype=np.float32)}, np.ones((1, 3)))
