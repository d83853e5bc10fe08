"""Runs with `privacy.mode = "client"`: what they write, that they repeat, and what they refuse."""

from pathlib import Path

import pytest

from fielding._typing import Json
from fielding.cli.privacy import privacy
from fielding.client.privacy.ledger import LEDGER, read_ledger
from fielding.engine import plugins
from fielding.errors import OptionError
from fielding.records.run_folder import REPORTS
from fielding.reporting.numbers.budget import describe_sums
from fielding.simulation.assembly import Own
from fielding.simulation.experiment import Result, Start, run
from tests.simulation.run_cases import left_behind, small_pool, table

PRIVATE: dict[str, Json] = {"mode": "client", "epsilon": 200}
CROWD: dict[str, dict[str, Json]] = {"trace": {"clients": 40}, "training": {"participants": 16}}


@pytest.fixture(autouse=True)
def few_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "LEAST_CLIENTS", 40)


def private(**sections: Json) -> dict[str, Json]:
    """Return a small run of which only sums are heard."""
    given: dict[str, Json] = {"privacy": PRIVATE, **CROWD}
    for name, values in sections.items():
        given[name] = {**CROWD[name], **values} if name in CROWD and isinstance(values, dict) else values
    found = table(**given)
    coordinator = found["coordinator"]
    assert isinstance(coordinator, dict)
    return {**found, "coordinator": {name: value for name, value in coordinator.items() if name != "detector"}}


def go(config: dict[str, Json], folder: Path, **options: object) -> Result:
    return run(config, folder, own=Own(samples=small_pool()), page=False, **options)  # type: ignore[arg-type]


def test_no_client_reports_anything_and_all_sums_stand_in_the_ledger(tmp_path: Path) -> None:
    result = go(private(), tmp_path)

    found = read_ledger(tmp_path / LEDGER)
    assert [one.round_index for one in found.spendings] == [0, 1, 2, 3, 4, 5, 6, 9]
    assert {one.client for one in found.spendings} == {"all clients"}
    told = describe_sums(found)
    assert (told["planned"], told["n_releases"]) == (8, 8)
    assert 198.0 < float(str(told["epsilon_spent"])) <= 200.0
    assert list((tmp_path / REPORTS).iterdir()) == []
    assert sum(int(str(row["n_reports"])) for row in result.rounds) == 0
    assert [row["n_clusters"] for row in result.rounds][:6] == [0, 0, 0, 0, 0, result.rounds[-1]["n_clusters"]]
    assert int(str(result.rounds[-1]["n_clusters"])) >= 2


def test_a_run_repeats_itself_and_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    go(private(), tmp_path / "whole")
    go(private(), tmp_path / "stopped", watch=lambda row: row["round"] < 4)
    with (tmp_path / "stopped" / LEDGER).open("ab") as file:
        file.write(b'{"round": 5, "cl')  # killed while it wrote
    go(private(), tmp_path / "stopped", start=Start(resume=True))

    assert left_behind(tmp_path / "whole") == left_behind(tmp_path / "stopped")
    whole, stopped = (read_ledger(tmp_path / name / LEDGER) for name in ("whole", "stopped"))
    assert whole.spendings == stopped.spendings


def test_ids_by_chance_change_who_is_where_and_nothing_else_that_is_spent(tmp_path: Path) -> None:
    clear = go(private(), tmp_path / "clear")
    chance = go(private(privacy={**PRIVATE, "id_epsilon": 0.1}), tmp_path / "chance")

    moved = [sum(int(str(row["n_moved"])) for row in one.rounds) for one in (clear, chance)]
    assert moved[1] > moved[0]
    spent = [read_ledger(tmp_path / name / LEDGER).spendings for name in ("clear", "chance")]
    assert spent[0] == spent[1]


def test_a_fixed_number_of_clusters_needs_no_silhouettes(tmp_path: Path) -> None:
    result = go(private(coordinator={"k_choice": "finest", "k_max": 2}), tmp_path)

    assert len(read_ledger(tmp_path / LEDGER).spendings) == 7
    assert result.rounds[4]["n_clusters"] == 2


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"privacy": {"mode": "client"}}, "privacy.epsilon is not given"),
        ({"privacy": {**PRIVATE, "reports_per_window": 2}}, "reports_per_window is 2, but it has no effect"),
        ({"privacy": {"mode": "record", "epsilon": 1, "delta": 1e-6}}, "delta is 1e-06, but it has no effect"),
        ({"privacy": {"id_epsilon": 1}}, "id_epsilon is 1.0, but it has no effect"),
        ({"privacy": {**PRIVATE, "epsilon": 1e-7}}, "privacy: epsilon 1e-07 .* leaves next to nothing"),
        ({"coordinator": {"representation": "gradient"}}, "privacy.mode: .* label shares alone, not of 'gradient'"),
        ({"coordinator": {"detector": "chi2"}}, "detector is 'chi2', but it has no effect: clients report nothing"),
        ({"method": {"name": "moves"}}, "privacy.mode: only noised sums are heard"),
        ({"method": {"name": "ifca"}}, "privacy.mode: only noised sums are heard"),
        ({"method": {"reuse": 2}}, "privacy.mode: only noised sums are heard"),
        ({"selection": {"name": "nearest"}}, "privacy.mode: selection 'nearest' needs reports"),
        ({"serving": {"correction": "prior"}}, "serving.correction is 'prior': with it, models tell the exact label"),
        ({"trace": {"clients": 39}}, "there are 39 clients: .* below about 40; take mode"),
    ],
)
def test_what_has_no_proof_or_no_effect_is_refused(tmp_path: Path, sections: dict[str, Json], message: str) -> None:
    config = private()
    for name, values in sections.items():
        inner = config.get(name)
        assert isinstance(values, dict)
        config[name] = {**(inner if isinstance(inner, dict) and name != "privacy" else {}), **values}

    with pytest.raises(OptionError, match=message):
        go(config, tmp_path / "run")


def test_one_model_for_all_needs_no_sums(tmp_path: Path) -> None:
    go(private(method={"name": "global"}), tmp_path / "run")

    assert not (tmp_path / "run" / LEDGER).exists()


def test_fewer_than_a_thousand_clients_are_refused_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()

    with pytest.raises(OptionError, match=r"there are 40 clients: .* below about 1000; take mode .record."):
        go(private(), tmp_path / "run")


def test_the_command_tells_what_was_spent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    go(private(privacy={**PRIVATE, "id_epsilon": 2}), tmp_path)

    privacy(tmp_path)
    said = capsys.readouterr().out
    assert "epsilon per client  200 in all, but for a probability of 1e-05" in said
    assert "by 8 of 8 sums" in said
    assert "cluster asked for   2 each time, up to 3 times in a run, beside that" in said
    privacy(tmp_path, as_json=True)
    assert '"planned": 8' in capsys.readouterr().out


def test_the_command_plans_with_a_config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = """
    rounds = 30
    [trace]
    name = "digits"
    clients = 40
    gap = 10
    window = 20
    [privacy]
    mode = "client"
    epsilon = 100
    """
    path = tmp_path / "config.toml"
    path.write_text(text, encoding="utf-8")

    privacy(Path("plan"), path)

    said = capsys.readouterr().out
    assert "40 clients, 10 labels, 8 noised sums in a run" in said
    assert "200" in said.splitlines()[-1]
