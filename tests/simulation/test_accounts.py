"""What is charged adds up by client and by round, and only answers are waited for."""

import numpy as np
import pytest
from fielding.simulation.accounts import Accounts
from fielding.simulation.availability import AlwaysAvailable
from fielding.simulation.devices import Devices
from fielding.simulation.settings import Hardware

from fielding.federation.ledger import Costs, Ledger


def accounts_of(n_clients: int = 3) -> Accounts:
    """Return accounts of clients that need 1, 2, 3 s for 10 samples and a second for 1,024 bits."""
    devices = Devices(ms_per_sample=100.0 * np.arange(1.0, n_clients + 1.0), kbps=np.ones(n_clients))
    accounts = Accounts(n_clients, Hardware(devices=devices, availability=AlwaysAvailable()))
    accounts.begin()
    return accounts


def test_charges_add_up_in_the_ledger_and_in_the_round_and_no_time_passes() -> None:
    accounts = accounts_of()
    for _ in range(2):
        spent = accounts.charge("report", np.array([0, 2]), Costs(up_bytes=128, forward_samples=10))

    assert spent.tolist() == pytest.approx([2.0, 4.0])
    assert accounts.round_costs == pytest.approx({"bytes_down": 0, "bytes_up": 512, "client_seconds": 12.0})
    assert accounts.ledger.client_bytes_up("report").tolist() == [256, 0, 256]
    assert accounts.now_s == 0.0


def test_a_new_round_has_cost_nothing_but_the_ledger_goes_on() -> None:
    accounts = accounts_of()
    accounts.charge("model", np.array([1]), Costs(down_bytes=125))
    accounts.begin()

    assert set(accounts.round_costs.values()) == {0}
    assert accounts.ledger.client_bytes_down("model").tolist() == [0, 125, 0]


def test_answers_are_waited_for_and_a_client_gives_its_own_one_after_the_other() -> None:
    accounts = accounts_of()
    accounts.answer(np.array([0, 0, 1]), Costs(forward_samples=10))

    assert accounts.now_s == pytest.approx(2.0)
    assert accounts.ledger.client_seconds("probe").tolist() == pytest.approx([2.0, 2.0, 0.0])


def test_one_comes_back_to_a_time_with_or_without_what_was_charged_by_then() -> None:
    accounts, before = accounts_of(), Ledger(3)
    accounts.charge("model", np.array([1]), Costs(down_bytes=125))
    accounts.return_to(7.0)

    assert accounts.now_s == 7.0
    assert accounts.ledger.client_bytes_down("model").sum() == 125
    accounts.return_to(8.0, before)
    assert accounts.ledger is before
