"""Runs with `privacy.mode = "record"`: what they write, that they repeat, and what they refuse."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from fielding._typing import Json
from fielding.client.privacy.ledger import LEDGER, read_ledger
from fielding.config.reader import config_from
from fielding.engine.plugins import report_budget_of
from fielding.errors import OptionError
from fielding.records.report_file import read_reports
from fielding.records.run_folder import REPORTS
from fielding.simulation.assembly import Own
from fielding.simulation.experiment import Start, run
from tests.simulation.run_cases import left_behind, small_pool, table

PRIVATE: dict[str, Json] = {"mode": "record", "epsilon": 4, "reports_per_window": 2}


def private(**sections: Json) -> dict[str, Json]:
    """Return a small run with private reports."""
    found = table(privacy=PRIVATE, **sections)
    coordinator = found["coordinator"]
    assert isinstance(coordinator, dict)
    return {**found, "coordinator": {name: value for name, value in coordinator.items() if name != "detector"}}


def go(config: dict[str, Json], folder: Path, **options: object) -> None:
    run(config, folder, own=Own(samples=small_pool()), page=False, **options)  # type: ignore[arg-type]


def test_a_private_run_spends_what_the_rule_allows_and_reports_noised_counts(tmp_path: Path) -> None:
    go(private(), tmp_path)

    found = read_ledger(tmp_path / LEDGER)
    assert found.rules == ({"epsilon": "4", "reports": 2, "window": 6},)
    for client in range(12):
        rounds = [one.round_index for one in found.spendings if one.client == client]
        assert rounds[0] == 0
        assert (np.diff(rounds) >= 3).all()
        assert max(sum(at <= one < at + 6 for one in rounds) for at in range(12)) <= 2
    assert {one.epsilon for one in found.spendings} == {Fraction(2)}
    sent = [
        (step, int(client))
        for path in sorted((tmp_path / REPORTS).iterdir())
        for step, batch in read_reports(path, "vector")
        for client in batch.client_ids
    ]
    assert sorted(sent) == sorted((one.round_index, one.client) for one in found.spendings)
    first = next(iter(read_reports(tmp_path / REPORTS / "00000000.npz", "vector")))[1].representations
    assert first.min() < 0.0  # nothing is brought back to what shares could be
    assert (np.abs(first.sum(axis=1) - 1.0) > 0.01).any()


def test_a_private_run_repeats_itself_and_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    go(private(), tmp_path / "whole")
    go(private(), tmp_path / "stopped", watch=lambda row: row["round"] < 5)
    with (tmp_path / "stopped" / LEDGER).open("ab") as file:
        file.write(b'{"round": 6, "cl')  # killed while it wrote
    go(private(), tmp_path / "stopped", start=Start(resume=True))

    assert left_behind(tmp_path / "whole") == left_behind(tmp_path / "stopped")
    whole, stopped = (read_ledger(tmp_path / name / LEDGER) for name in ("whole", "stopped"))
    assert whole.spendings == stopped.spendings


def test_mode_none_is_a_run_without_privacy(tmp_path: Path) -> None:
    go(table(), tmp_path / "before")
    go(table(privacy={"mode": "none"}), tmp_path / "none")

    before, none = (left_behind(tmp_path / name) for name in ("before", "none"))
    del before["manifest.json"], none["manifest.json"]  # which has the config
    assert before == none
    assert not (tmp_path / "none" / LEDGER).exists()
    assert "privacy" not in (tmp_path / "before" / "config.toml").read_text()


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"privacy": {"mode": "record"}}, "privacy.epsilon is not given"),
        ({"privacy": {"epsilon": 1}}, "privacy.epsilon is 1.0, but it has no effect: reports are exact, privacy.mode"),
        ({"privacy": {**PRIVATE, "reports_per_window": 7}}, "privacy: 7 reports are wanted in a window of 6 rounds"),
        (
            {"coordinator": {"representation": "gradient"}},
            "privacy.mode: representation 'gradient' is made of sums",
        ),
        (
            {"coordinator": {"detector": "chi2"}},
            "coordinator.detector is 'chi2', but it has no effect: private reports",
        ),
        ({"coordinator": {"metric": "js"}}, "coordinator.metric is 'js', but it has no effect"),
        ({"coordinator": {"trigger": "pairwise"}}, "privacy.mode: trigger 'pairwise'"),
        ({"method": {"name": "static"}}, "privacy.mode: clients of method 'static'"),
        ({"method": {"name": "selected"}}, "privacy.mode: clients of method 'selected'"),
        ({"privacy": {**PRIVATE, "epsilon": 1e-12}}, "privacy: epsilon is .* with few digits"),
        ({"privacy": {**PRIVATE, "epsilon": 1e-9}}, "privacy: epsilon is 1e-09, which leaves next to nothing"),
        ({"serving": {"correction": "prior"}}, "serving.correction is 'prior': with it, models tell the exact label"),
    ],
)
def test_what_has_no_proof_or_no_effect_is_refused(tmp_path: Path, sections: dict[str, Json], message: str) -> None:
    config = private()
    for name, values in sections.items():
        given, inner = values, config.get(name)
        assert isinstance(given, dict)
        config[name] = {**(inner if isinstance(inner, dict) and name != "privacy" else {}), **given}

    with pytest.raises(OptionError, match=message):
        go(config, tmp_path / "run")


def test_whom_a_budget_has_asked_tells_nothing_of_data() -> None:
    common = private() | {"reports": {"budget": 2}}
    budgets = [report_budget_of(config_from(common | one)) for one in ({}, {"privacy": {"mode": "none"}})]
    asked = []
    for budget in budgets:
        assert budget is not None
        budget.grow(8)
        budget.note_losses(np.array([7]), np.array([9.0]))
        budget.note_reports(np.array([7]))
        draws, everyone = np.arange(8, dtype=np.uint64), np.ones(8, dtype=np.bool_)
        asked.append([budget.choose(everyone, draws, at).tolist() for at in range(4)])

    assert asked == [[[0, 1], [2, 3], [4, 5], [6, 7]], [[0, 7], [1, 2], [3, 7], [4, 5]]]


@pytest.mark.parametrize("sections", [{"preset": "paper"}, {"method": {"name": "global"}}, {"reports": {"budget": 2}}])
def test_presets_methods_without_reports_and_budgets_go_with_privacy(tmp_path: Path, sections: dict[str, Json]) -> None:
    config = private(rounds=8) | sections

    go(config, tmp_path / "run")

    assert (tmp_path / "run" / LEDGER).exists() is ("method" not in sections)


def test_clients_that_lie_can_report_privately_too(tmp_path: Path) -> None:
    go(private(rounds=4, trace={"liars": 0.3}), tmp_path / "run")


def test_confusion_of_a_shared_model_can_be_reported_privately(tmp_path: Path) -> None:
    config = private(rounds=6, trace={"held_out": 5}, coordinator={"representation": "soft-confusion"})

    go(config, tmp_path / "run")

    assert len(read_ledger(tmp_path / "run" / LEDGER).spendings) >= 12
