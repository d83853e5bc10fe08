"""Whole runs with representations on a shared model: wherever they are stopped, they end alike."""

import random
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from fielding._typing import Json
from fielding.config.keys import Config
from fielding.config.reader import config_from
from fielding.errors import OptionError
from fielding.records.model_file import write_model
from fielding.records.run_folder import EVENTS
from fielding.simulation.assembly import Own
from fielding.simulation.config_check import check_effects
from fielding.simulation.experiment import Result, Start, run
from fielding.training.factory import ModelRequest, trainer_for
from tests.rotation import some_of
from tests.simulation.run_cases import clusters_by_id, left_behind, shuffled, small_trace, stopped_after, table

N_ROUNDS = 6
TRACE: dict[str, Json] = {"scenario": "mixed", "share": 0.3, "samples": 40, "gap": 2, "window": 4}
"""Labels, looks and meanings drift in rounds 2 and 4."""
CASES: dict[str, dict[str, Json]] = {
    "auto": {"representation": "auto", "shared_model": "pool"},
    "embedding by ks": {"representation": "embedding", "detector": "ks", "alpha": 0.2},
    "last layer by mmd": {"representation": "gradient", "detector": "mmd", "alpha": 0.2},
    "all layers": {"representation": "gradient", "layer": "full", "least": 5, "alpha": 0.2},
    "head by class": {"representation": "head-gradient", "detector": "class-shift", "alpha": 0.2},
    "confusion": {"representation": "confusion", "detector": "confusion", "alpha": 0.2},
    "class means": {"representation": "class-means", "detector": "any-change"},
    "loss": {"representation": "loss", "detector": "threshold", "eps": 0.1},
    "roots by errors": {"representation": "label-sqrt", "detector": "error-rate", "alpha": 0.9},
    "two by predictions": {"representation": "soft-confusion+class-means", "detector": "bbsd", "alpha": 0.2},
    "labels by adwin": {"representation": "label", "detector": "adwin", "delta": 1.0},
}
QUIET = ("labels by adwin",)
"""Those that find nothing in so short a run."""


def config_of(coordinator: Mapping[str, Json], **sections: Json) -> Config:
    """Return a short run on digits; the coordinator's options are taken as they are."""
    keys = {name: value for name, value in coordinator.items() if name in ("representation", "detector")}
    keys |= {name: value for name, value in coordinator.items() if name.startswith("shared")}
    base: dict[str, Json] = {
        "coordinator": {"detector": None, **keys},
        "trace": TRACE,
        "evaluation": {"every": 3},
        **sections,
    }
    config = config_from(table(rounds=N_ROUNDS, **base))
    options = {name: value for name, value in coordinator.items() if name not in keys}
    return replace(config, coordinator=replace(config.coordinator, options=options))


def finished(config: Config, folder: Path, *stops: int, workers: int = 1) -> Result:
    """Run to the end, stopped after some rounds."""
    for stop in stops:
        stopped = run(config, folder, start=Start(resume=True), watch=stopped_after(stop), page=False)
        assert len(stopped.rounds) == stop
    return run(replace(config, workers=workers), folder, start=Start(resume=True), page=False)


def n_reports(result: Result) -> list[int]:
    return [int(str(row["n_reports"])) for row in result.rounds]


@pytest.mark.parametrize("name", some_of(CASES, 3, always=["auto"]))
def test_a_run_stopped_anywhere_and_resumed_with_other_workers_ends_alike(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "adwin" in name and find_spec("river") is None:
        pytest.skip("river is not installed: pip install 'fielding[drift]'")
    monkeypatch.setattr("fielding.runtime.workers.SMALL_MODEL", 0)  # small models, too, on several threads
    config = config_of(CASES[name])
    stop = random.Random(name).randint(1, N_ROUNDS - 1)

    whole = finished(config, tmp_path / "whole")
    finished(config, tmp_path / "cut", stop, workers=2)

    assert left_behind(tmp_path / "cut") == left_behind(tmp_path / "whole"), f"stopped after {stop} rounds"
    reports = n_reports(whole)
    assert reports[0] == 12
    assert bool(sum(reports[1:])) is (name not in QUIET)
    assert not any(reports[1::2]), "nothing arrives in odd rounds"


def test_auto_says_what_it_saw_and_corrects_what_it_serves(tmp_path: Path) -> None:
    result = finished(config_of(CASES["auto"]), tmp_path / "run")

    events = (tmp_path / "run" / EVENTS).read_text()
    assert '"covariate"' in events or '"concept"' in events or '"mixed"' in events
    assert result.summary is not None
    assert isinstance(result.summary["final_accuracy_corrected"], float)
    assert "label_mix" in result.layout.names
    assert "label_mix" not in result.model_of(0)


# ---- the clients' own mean as the shared model ------------------------------------------------------------------


GLOBAL: dict[str, Json] = {"representation": "auto", "shared_model": "global", "shared_rounds": 3}


def test_clients_share_one_model_until_the_shared_one_is_frozen_and_then_report(tmp_path: Path) -> None:
    result = finished(config_of(GLOBAL, serving={"experts": "none"}), tmp_path / "run")

    reports = n_reports(result)
    assert reports[:4] == [0, 0, 0, 12]
    early, late = result.rounds[:3], result.rounds[3:]
    assert {row["n_clusters"] for row in early} <= {0, 1}
    assert all(int(str(row["n_participants"])) == 8 for row in early)
    assert all(int(str(row["n_clusters"])) > 1 for row in late)
    # Everybody receives the model without its mix, and the sums of all, 10 by 10, in the round in which it reports.
    layout = result.layout
    shared = [int(str(row["bytes_down"])) - 4 * layout.size * int(str(row["n_asked"])) for row in result.rounds[:4]]
    assert shared == [0, 0, 0, 4 * 12 * (layout.parameter_size + 100)]


def test_with_training_the_first_reports_too_act_a_round_after_they_were_sent(tmp_path: Path) -> None:
    late = config_of(GLOBAL)
    late = replace(late, coordinator=replace(late.coordinator, reports="with-training"))
    whole = finished(late, tmp_path / "whole")

    finished(late, tmp_path / "often", *range(1, N_ROUNDS))

    assert n_reports(whole)[:5] == [0, 0, 0, 0, 12]
    assert left_behind(tmp_path / "often") == left_behind(tmp_path / "whole")


@pytest.mark.parametrize("representation", ["auto", "embedding"])
def test_runs_stopped_before_and_after_the_model_is_frozen_end_alike(tmp_path: Path, representation: str) -> None:
    config = config_of({**GLOBAL, "representation": representation})
    finished(config, tmp_path / "whole")

    for stop in (2, 3, 4):  # the model is frozen at the end of the third round
        finished(config, tmp_path / str(stop), stop)
        assert left_behind(tmp_path / str(stop)) == left_behind(tmp_path / "whole")
    finished(config, tmp_path / "often", *range(1, N_ROUNDS))
    assert left_behind(tmp_path / "often") == left_behind(tmp_path / "whole")


def test_nobody_is_there_at_first_and_reports_when_it_comes(tmp_path: Path) -> None:
    lines = ["client,start_s,stop_s,finish_s", *(f"{client},{0.5 * client},1e9,1e9" for client in range(12))]
    (tmp_path / "availability.csv").write_text("\n".join(lines) + "\n")
    config = config_of({"representation": "auto"}, clock={"availability": str(tmp_path / "availability.csv")})

    whole = finished(config, tmp_path / "whole")
    finished(config, tmp_path / "cut", *range(1, N_ROUNDS))

    assert left_behind(tmp_path / "cut") == left_behind(tmp_path / "whole")
    assert n_reports(whole)[0] < 12
    assert any(n_reports(whole)[1::2]), "who comes later reports then"


@pytest.mark.parametrize("shared", [{}, {"shared_model": "global", "shared_rounds": 2}], ids=["pool", "global"])
def test_of_a_natural_trace_the_order_of_clients_and_rows_changes_nothing(
    tmp_path: Path, shared: dict[str, Json]
) -> None:
    trace: dict[str, Json] = {"samples": 1, "interval": "1d", "gap": 2, "window": 4}
    config = table(rounds=N_ROUNDS, evaluation={"every": 3})
    config |= {"trace": trace, "coordinator": {"representation": "auto", **shared}}

    results = []
    for name, samples in (("whole", small_trace()), ("mixed", shuffled(small_trace(), 1))):
        own = Own(samples=samples)
        results.append(run(config, tmp_path / name, own=own, page=False))
        assert sum(n_reports(results[-1])) >= 8, "all report"

    assert left_behind(tmp_path / "whole") == left_behind(tmp_path / "mixed")
    assert clusters_by_id(results[0]) == clusters_by_id(results[1])


# ---- a model of the user's own ----------------------------------------------------------------------------------


def test_a_model_file_is_what_clients_see_with(tmp_path: Path) -> None:
    trainer = trainer_for(ModelRequest(name="mlp", hidden=8, input_shape=(8, 8), n_classes=10, trainer="numpy"))
    path = tmp_path / "model.safetensors"
    write_model(trainer.initial_model(5), trainer.layout, path)
    config = config_of({"representation": "auto", "shared_model": str(path)})

    finished(config, tmp_path / "whole")
    finished(config, tmp_path / "cut", 3)

    assert left_behind(tmp_path / "cut") == left_behind(tmp_path / "whole")


def test_a_model_of_another_shape_is_refused_in_one_line(tmp_path: Path) -> None:
    trainer = trainer_for(ModelRequest(name="mlp", hidden=9, input_shape=(8, 8), n_classes=10, trainer="numpy"))
    path = tmp_path / "model.safetensors"
    write_model(trainer.initial_model(5), trainer.layout, path)

    with pytest.raises(OptionError, match=r"^coordinator\.shared_model: .*model\.safetensors") as caught:
        finished(config_of({"representation": "auto", "shared_model": str(path)}), tmp_path / "run")
    assert "\n" not in str(caught.value)


# ---- the same samples for everybody -----------------------------------------------------------------------------


def test_held_out_samples_are_the_same_ones_for_every_method() -> None:
    from fielding.simulation.assembly import assemble

    found = []
    for method, representation in (("fielding", "auto"), ("fielding", "label"), ("global", "label"), ("ifca", "label")):
        config = config_of({"representation": representation}, method={"name": method}, trace={**TRACE, "held_out": 5})
        check_effects(config)
        simulation = assemble(config, Own(), n_workers=1)
        found.append(simulation.dealt.schedule)
        simulation.clients.close()

    assert all(np.array_equal(one.sample, found[0].sample) for one in found)
    assert all(np.array_equal(one.client, found[0].client) for one in found)
