"""Runs whose training is private: budget, what is refused, and what goes on after a stop."""

from pathlib import Path

import numpy as np
import pytest

from fielding._typing import Json
from fielding.client.privacy.ledger import LEDGER, read_ledger
from fielding.config.reader import config_from
from fielding.engine.plugins import local_rule, private_training_of
from fielding.errors import OptionError
from fielding.simulation.assembly import Own
from fielding.simulation.config_check import check_config
from fielding.simulation.experiment import Result, Start, run
from tests.simulation.run_cases import Table, left_behind, small_pool, table

SAMPLE: dict[str, Json] = {"training": "sample", "training_epsilon": 4.0, "trainings_per_window": 2}
CLIENT: dict[str, Json] = {"training": "client", "training_epsilon": 4.0, "sampling_rate": 0.5}


def private(section: dict[str, Json] = SAMPLE, method: str = "global") -> Table:
    return {**table(privacy=section, method={"name": method}), "coordinator": {}}


def go(config: Table, folder: Path, **options: object) -> Result:
    return run(config, folder, own=Own(samples=small_pool()), page=False, **options)  # type: ignore[arg-type]


def test_clients_train_as_often_as_the_budget_allows_in_any_window(tmp_path: Path) -> None:
    result = go(private(), tmp_path)

    ledger = read_ledger(tmp_path / LEDGER).of("training")
    window = int(str(ledger.rules[-1]["window"]))
    rounds: dict[object, list[int]] = {}
    for one in ledger.spendings:
        rounds.setdefault(one.client, []).append(one.round_index)
    for each in rounds.values():
        assert max(sum(0 <= later - first < window for later in each) for first in each) <= 2
    assert sum(len(each) for each in rounds.values()) == sum(int(str(row["n_participants"])) for row in result.rounds)
    assert max(map(len, rounds.values())) > 2


@pytest.mark.parametrize("section", [SAMPLE, CLIENT], ids=["sample", "client"])
def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been(section: dict[str, Json], tmp_path: Path) -> None:
    go(private(section), tmp_path / "whole")
    go(private(section), tmp_path / "stopped", watch=lambda row: row["round"] < 3)
    go(private(section), tmp_path / "stopped", start=Start(resume=True))

    assert left_behind(tmp_path / "whole") == left_behind(tmp_path / "stopped")
    assert read_ledger(tmp_path / "whole" / LEDGER) == read_ledger(tmp_path / "stopped" / LEDGER)


def test_losses_are_not_told(tmp_path: Path) -> None:
    result = go(private(), tmp_path)

    assert {row["train_loss"] for row in result.rounds if row["n_participants"]} == {0.0}


def test_noise_follows_from_epsilon_and_from_how_often_there_may_be_training() -> None:
    noises = {}
    for epsilon in (8.0, 2.0):
        for n_times in (2, 4):
            section = {**SAMPLE, "training_epsilon": epsilon, "trainings_per_window": n_times}
            rule = local_rule(config_from(private(section))).private
            assert rule is not None
            assert 0.98 * epsilon < rule.epsilon_after(n_times) <= epsilon
            noises[epsilon, n_times] = rule.noise
    assert noises[8.0, 2] < noises[8.0, 4] < noises[2.0, 4]


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"selection": {"name": "oort"}}, "selection.name is 'oort'"),
        ({"serving": {"experts": "auto"}}, "serving.experts is 'auto'"),
        ({"serving": {"correction": "prior"}}, "serving.correction is 'prior'"),
        ({"training": {"weighted": True}}, "training.weighted is True"),
        ({"aggregation": {"name": "median"}}, "aggregation 'median' looks at single updates"),
        ({"aggregation": {"name": "q-fedavg"}}, "aggregation 'q-fedavg' looks at single updates"),
        ({"aggregation": {"shared_body": True}}, "aggregation.shared_body is True"),
        ({"pace": {"name": "adaptive"}}, "pace.name is 'adaptive'"),
        ({"method": {"name": "ifca"}}, "clients of method 'ifca' tell more"),
        ({"method": {"name": "fielding"}}, "but reports are exact"),
    ],
)
def test_what_would_tell_what_noise_hides_is_refused_by_name(sections: dict[str, Json], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        private_training_of(config_from({**private(CLIENT), **sections}))


def test_keys_of_private_training_without_it_are_refused() -> None:
    with pytest.raises(OptionError, match=r"privacy.max_norm is 2.0, but it has no effect"):
        check_config(config_from(private({"max_norm": 2.0})))


def test_clusters_and_private_models_go_together(tmp_path: Path) -> None:
    section = {**CLIENT, "mode": "record", "epsilon": 8.0, "training_epsilon": 900.0}

    result = go(private(section, method="fielding"), tmp_path)

    found = read_ledger(tmp_path / LEDGER)
    assert set(found.kinds()) == {"report", "models"}
    assert [one.round_index for one in found.of("models").spendings] == list(range(len(result.rounds)))
    assert np.isfinite(float(str(result.rounds[-1]["accuracy"])))
