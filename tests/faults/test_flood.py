"""Whoever floods the server gets no more of it than others, and costs it little memory (QUALITY.md R13)."""

import pytest

from fielding.coordinator.coordinator import MOST_REPORTS

pytest.importorskip("flwr", reason="the flower extra is not installed")

from tests.faults.flood import N_CLIENTS, flood


def test_a_flood_of_one_client_and_of_unknown_ones_is_refused_and_all_others_are_heard() -> None:
    found = flood(3000, 5000)

    coordinator = found["coordinator"]
    assert coordinator["loud"] == MOST_REPORTS - 1  # and one for itself
    assert coordinator["unknown"] == 0
    assert coordinator["n_heard"] == N_CLIENTS
    assert coordinator["grown_bytes"] < 20e6
    assert found["exchange"] == {"n_settled": 1, "n_late": 0, "n_forged": 3000}
    assert found["roster"]["n_clients"] == 2
    assert found["roster"]["grown_bytes"] < 20e6
