from pathlib import Path

import numpy as np
import pytest

from experiments.representations import concept, costs
from experiments.representations.tasks import Table
from experiments.representations.viewing import representation_called
from experiments.tables import merged
from fielding._typing import Json
from fielding.comparing.sweep import Finished, sweep
from fielding.config.reader import config_from, config_table
from fielding.training.factory import ModelRequest

PAPER, SHARED = concept.SCENES
TINY = costs.Setting(
    title="tiny", request=ModelRequest(name="mlp", input_shape=(6,), n_classes=10, hidden=5), n_windows=3, n_repeats=1
)


def finished(name: str, accuracy: float) -> Finished:
    summary: dict[str, Json] = {
        "final_accuracy": accuracy,
        "final_accuracy_corrected": accuracy + 0.01,
        "final_ari": 0.5,
        "n_clusters_last": 3,
        "reclusterings": 2,
        "bytes_up": 2e6,
    }
    return Finished(name=name, summary=summary)


class TestConcept:
    def test_all_runs_see_the_same_data_and_have_folders_of_their_own(self) -> None:
        runs = concept.runs([1, 2])

        assert len(runs) == 2 * sum(len(concept.rows_on(scene)) for scene in concept.SCENES)
        assert {config.trace.held_out for config in runs.values()} == {200}
        assert all(config.trace.window == config.trace.gap for config in runs.values())
        assert {config.serving.correction for config in runs.values()} == {"prior"}

    def test_true_groups_are_only_run_where_there_are_groups(self) -> None:
        assert concept.ORACLE not in concept.rows_on(PAPER)
        assert concept.ORACLE in concept.rows_on(SHARED)

    def test_labels_are_reported_as_in_the_paper_and_the_rest_by_tests_that_suit_them(self) -> None:
        detectors = {
            config.coordinator.representation: config.coordinator.detector
            for config in concept.runs([1]).values()
            if config.method.name == "fielding"
        }

        assert detectors.pop("label") == "any-change"
        assert set(detectors.values()) == {None}

    def test_final_figures_stand_beside_the_global_model_and_failures_say_why(self) -> None:
        done = {
            (name := concept.run_name(PAPER, row, seed)): finished(name, 0.5 + 0.1 * (row != "global") + seed / 500)
            for row in concept.rows_on(PAPER)
            for seed in (1, 2)
        }
        broken = concept.run_name(PAPER, "fielding, auto", 2)
        done[broken] = Finished(name=broken, summary=None, error="no data")

        lines = {line[0]: line[1:] for line in concept.final_table(PAPER, [1, 2], done)}

        assert lines["global"][:3] == ["50.3 ± 1.3", "+0.0 ± 0.0", "51.3 ± 1.3"]
        assert lines["fielding, label"][:2] == ["60.3 ± 1.3", "+10.0 ± 0.0"]
        assert lines["fielding, auto"][0] == "failed: no data"

    def test_accuracy_is_shown_before_and_soon_after_every_event(self) -> None:
        assert concept.shown_rounds(60, 20) == [20, 25, 40, 45, 60]

    def test_the_course_comes_from_the_runs_and_is_empty_where_there_is_none(self, tmp_path: Path) -> None:
        name = concept.run_name(PAPER, "fielding, soft-confusion", 11)
        small: Table = {
            "rounds": 6,
            "trace": {"name": "digits", "clients": 8, "samples": 20, "gap": 3, "window": 3, "held_out": 20},
            "model": {"hidden": 8},
            "training": {"participants": 4, "local_steps": 2},
            "evaluation": {"every": 3},
        }
        config = config_from(merged(config_table(concept.runs([11])[name]), small))
        done = sweep({name: config}, tmp_path)

        lines = {line[0]: line[1:] for line in concept.course_table(PAPER, [11], tmp_path, shown=[3, 5, 6])}

        assert done[name].error is None
        assert lines["after round"] == ["3", "5", "6"]
        assert lines["global"] == ["-", "-", "-"]
        assert lines["fielding, soft-confusion"][1] == "-"
        assert concept.accuracies(tmp_path / name).keys() == {1, 3, 6}


class TestCosts:
    def test_both_passes_see_the_same_last_layer_of_every_client(self) -> None:
        windows = costs.windows_of(TINY, 4)
        by_backward = costs.described(representation_called("gradient", seed=1), windows.backward())
        in_closed_form = costs.described(representation_called("head-gradient", seed=1), windows.forward())

        assert by_backward.shape == (3, 61)  # weights of 10 classes on 5 features, 10 biases, and a 1
        assert by_backward == pytest.approx(in_closed_form, abs=1e-5)
        assert not np.allclose(by_backward[0], by_backward[1])

    def test_every_representation_has_bytes_and_seconds(self) -> None:
        found = costs.measured(costs.windows_of(TINY, 4), costs.DESCRIBED, n_repeats=1)

        assert list(found) == list(costs.DESCRIBED)
        assert found["label"]["bytes_up"] == 40
        assert found["gradient"]["bytes_up"] == found["head-gradient"]["bytes_up"] == 4 * 61
        assert found["gradient, full, not projected"]["bytes_up"] == 4 * (6 * 5 + 5 + 5 * 10 + 10 + 1)
        assert [one["pass_s"] for one in found.values() if one["effort"] == "none"] == [0.0] * 3
        assert len(costs.table(found)) == 1 + len(costs.DESCRIBED)

    def test_simulated_seconds_follow_the_rule_of_the_ledger(self) -> None:
        # The median device: 33 ms a sample, three times as long with the way back; 8,200 kbit of 128 bytes a second.
        assert costs.simulated_seconds("none", 8200 * 32, n_samples=100) == pytest.approx(1.0)
        assert costs.simulated_seconds("forward", 0, n_samples=100) == pytest.approx(3.3)
        assert costs.simulated_seconds("backward", 0, n_samples=100) == pytest.approx(9.9)

    def test_the_verdict_names_those_that_do_not_cost_less_than_half(self) -> None:
        def one(effort: str, pass_s: float, after_s: float) -> Table:
            return {"effort": effort, "pass_s": pass_s, "after_s": after_s}

        found = {"gradient": one("backward", 0.9, 0.1), "loss": one("forward", 0.3, 0.1)}

        assert costs.verdict(found).startswith(
            "All forward-only representations cost less than half of the gradient (at"
        )
        found["confusion"] = one("forward", 0.3, 0.2)
        assert costs.verdict(found).startswith(
            "Not below half of the gradient: confusion (0.50). The pass alone costs 0.33"
        )
