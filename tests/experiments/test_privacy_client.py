import pytest

from experiments import privacy_client
from experiments.privacy_client import group_by_step, main
from fielding.engine import plugins


def test_modes_are_compared_in_one_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(privacy_client, "MODES", (("global", 0.0), ("client", 500.0)))
    monkeypatch.setattr(plugins, "LEAST_CLIENTS", 30)

    main(["runs", "--data", "digits", "--clients", "30", "--seeds", "1", "--rounds", "7"])

    one_model, private = capsys.readouterr().out.splitlines()[-2:]
    assert one_model.startswith("| global")
    assert private.startswith("| client | 500 |")


def test_noise_costs_groups_where_clients_are_few() -> None:
    assert group_by_step(300, 1.0, 0) > 0.9
    assert group_by_step(300, 30.0, 0) < 0.5
