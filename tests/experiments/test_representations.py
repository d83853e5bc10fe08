from pathlib import Path

import numpy as np
import pytest

from experiments.representations import finding, stages
from experiments.representations.tasks import Table, collected
from experiments.representations.viewing import View, representation_called, trained_models, vectors_of, view_of
from fielding.client.representation.representation import Seen
from fielding.config.keys import Config
from fielding.config.reader import config_from
from fielding.reporting.numbers.paired import estimate
from fielding.simulation.assembly import Own, Simulation, assemble, shared_model_of
from fielding.simulation.experiment import run
from fielding.traces.sources import deal_samples, hold_out

SMALL: Table = {
    "seed": 11,
    "rounds": 3,
    "trace": {"scenario": "places", "clients": 12, "samples": 20, "gap": 2, "window": 4, "held_out": 20},
    "model": {"hidden": 8},
    "method": {"name": "global"},
    "training": {"participants": 4, "local_steps": 3},
    "coordinator": {"shared_model": "pool"},
}


def small_config() -> Config:
    return config_from(SMALL)


def small_simulation() -> Simulation:
    return assemble(small_config(), Own(), n_workers=1)


def seen_labels(labels: list[int], sizes: list[int]) -> Seen:
    scores = np.zeros((len(labels), 2), dtype=np.float32)
    return Seen(labels=np.array(labels), features=scores, scores=scores, sizes=np.array(sizes))


class TestTasks:
    def test_what_is_kept_is_not_computed_again_unless_something_else_is_asked_for(self, tmp_path: Path) -> None:
        asked: list[Table] = []

        def work(task: Table) -> Table:
            asked.append(task)
            return {"twice": 2 * int(str(task["value"]))}

        assert collected(work, {"a": {"value": 1}, "b": {"value": 2}}, tmp_path)["b"] == {"twice": 4}
        assert collected(work, {"a": {"value": 1}, "b": {"value": 3}}, tmp_path) == {
            "a": {"twice": 2},
            "b": {"twice": 6},
        }
        assert [task["value"] for task in asked] == [1, 2, 3]

    def test_a_file_that_was_cut_short_is_computed_again(self, tmp_path: Path) -> None:
        (tmp_path / "a.json").write_text('{"task": {"value": 1}, "fou')

        assert collected(dict, {"a": {"value": 1}}, tmp_path) == {"a": {"value": 1}}

    def test_several_processes_give_the_same_in_the_same_order(self, tmp_path: Path) -> None:
        tasks: dict[str, Table] = {name: {"name": name} for name in "cab"}

        found = collected(dict, tasks, tmp_path, n_jobs=2)

        assert list(found.items()) == list(tasks.items())


class TestViewing:
    def test_a_view_has_the_windows_of_all_clients_with_samples(self) -> None:
        simulation = small_simulation()
        windows = simulation.clients.windows
        view = view_of(windows, simulation.trainer, simulation.trainer.initial_model(1))

        assert view.clients.tolist() == np.flatnonzero(windows.training(0).sizes).tolist()
        labels = vectors_of(view, representation_called("label", seed=1))
        assert labels == pytest.approx(windows.histograms(windows.training(0), view.clients))

    def test_gradients_of_a_view_are_computed_once_and_agree_with_the_closed_form(self) -> None:
        simulation = small_simulation()
        view = view_of(simulation.clients.windows, simulation.trainer, simulation.trainer.initial_model(1))
        by_backward, in_closed_form = (
            vectors_of(view, representation_called(name, seed=1)) for name in ("gradient", "head-gradient")
        )

        assert view.seen.gradients() is view.seen.gradients()
        assert by_backward == pytest.approx(in_closed_form, abs=1e-4)
        assert vectors_of(view, representation_called("gradient, full", seed=1)).shape[1] == 257

    def test_projections_are_drawn_by_the_seed_alone_and_options_are_kept(self) -> None:
        assert representation_called("gradient, full", seed=3) == representation_called("gradient, full", seed=3)
        assert representation_called("class-means", seed=3) != representation_called("class-means", seed=4)
        assert "layer='full', normalize=False" in repr(representation_called("gradient, full, with its length", seed=1))

    def test_models_at_stages_are_those_that_runs_of_so_many_rounds_end_with(self) -> None:
        models = trained_models(small_simulation(), [1, 3])

        assert models[3].tolist() == run(SMALL).checkpoint.mean_model().tolist()
        assert sorted(models) == [1, 3]
        assert (models[1] != models[3]).any()


class TestFinding:
    def test_label_shares_find_groups_that_differ_in_labels(self) -> None:
        # Clients 0 to 2 have mostly the first label, 3 to 5 the second; nobody else has samples.
        labels = [0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1, 1, 0, 1, 1, 1]
        view = View(clients=np.array([1, 2, 3, 5, 6, 7]), seen=seen_labels(labels, [3] * 6))
        truth = np.array([9, 0, 0, 0, 9, 1, 1, 1], dtype=np.int32)

        found = finding.indices(view, truth, "label", seed=1)

        assert found == {"silhouette": 1.0, "k": 2.0, "given": 1.0}

    def test_unrelated_groups_score_about_nothing(self) -> None:
        view = View(clients=np.arange(4), seen=seen_labels([0, 0, 1, 1, 0, 0, 1, 0], [2] * 4))

        assert finding.indices(view, np.array([0, 0, 1, 1], dtype=np.int32), "label", seed=1)["given"] < 0.5

    @pytest.mark.parametrize("source", ["pool", "global"])
    def test_a_task_scores_every_representation(self, source: str) -> None:
        task = finding.tasks([11])[f"places-3-{source}-11"]
        task["trace"] = {"name": "digits", "scenario": "places", "clients": 12, "samples": 20, "held_out": 20}

        found = finding.work(task)

        assert list(found) == list(finding.REPRESENTED)
        assert all(-1.0 <= one[rule] <= 1.0 for one in found.values() for rule in finding.RULES)  # type: ignore[call-overload, index, operator]

    def test_the_shared_model_is_the_one_that_a_run_trains(self) -> None:
        config, simulation = small_config(), small_simulation()
        _, held = hold_out(deal_samples(config.trace, rounds=config.rounds, seed=config.seed), 20, seed=config.seed)

        ours = finding.shared_model(config, simulation)

        assert ours.tolist() == shared_model_of(config, simulation.trainer, simulation.dealt.pool, held).tolist()

    def test_every_scenario_source_and_seed_has_a_task_and_a_cell(self) -> None:
        tasks = finding.tasks([1, 2])
        row: Table = {"silhouette": 0.25, "given": 0.5, "k": 3.0}
        found: dict[str, Table] = {name: {"label": {**row}} for name in tasks}

        shown = finding.tables(found, [1, 2])

        assert len(tasks) == 2 * len(finding.SCENES) * len(finding.SOURCES)
        assert [lines[1] for lines in shown.values()] == [
            ["label", *["0.25 ± 0.00"] * 5],
            ["label", *["0.50 ± 0.00"] * 5],
        ] * 2


class TestStages:
    def test_unlikeness_is_the_mean_over_clients_that_are_not_alone(self) -> None:
        labels = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [1.0, 0.0]])
        embeddings = np.array([[0.0], [3.0], [1.0], [7.0]])
        found = stages.unlikeness(labels, embeddings, np.array([0, 0, 0, 1], dtype=np.int32))

        # Pairs of the first three: L1 2, 1 and 1; squared distances 9, 1 and 4.
        assert found["labels"] == pytest.approx(4 / 3)
        assert found["embeddings"] == pytest.approx(14 / 3)
        assert (found["k"], found["largest"], found["alone"]) == (2, 0.75, 1)

    def test_a_change_is_better_or_worse_only_if_its_interval_says_so(self) -> None:
        changes = ([-5.0, -5.5], [-5.0, 5.5], [5.0, 5.5], [-5.0])

        assert [stages.verdict(estimate(values)) for values in changes] == ["better", "level", "worse", "level"]

    def test_changes_are_against_no_clustering_of_the_same_seed_and_stage(self) -> None:
        def figures(unclustered: float, clustered: float) -> Table:
            rows = {"unclustered": unclustered, "label; given": clustered}
            return {"10": {name: {"labels": value} for name, value in rows.items()}}

        found = {"zephyr-1": figures(2.0, 1.8), "zephyr-2": figures(1.0, 0.9)}

        assert stages.change(found, "zephyr", [1, 2], (10, "label; given", "labels")).mean == pytest.approx(-10.0)

    def test_the_papers_finding_shows_at_stages_where_gradients_make_no_better_clusters(self) -> None:
        def figures(clustered: float) -> Table:
            rows = {"unclustered": 2.0, "gradient, full; given": clustered}
            return {name: {"labels": value} for name, value in rows.items()}

        late: dict[str, Table] = {"zephyr-1": {"9": figures(1.5)}, "zephyr-2": {"9": figures(1.51)}}
        whole = {name: {"1": figures(2.02), **found} for name, found in late.items()}

        assert stages.paper_finding(late, "zephyr", [1, 2], [9]).startswith("zephyr: the paper's finding does not show")
        assert stages.paper_finding(whole, "zephyr", [1, 2], [1, 9]).endswith("no better than none after round 1.")

    def test_a_task_measures_every_way_at_every_stage(self, monkeypatch: pytest.MonkeyPatch) -> None:
        ground: Table = {name: SMALL[name] for name in ("trace", "model", "training")}
        monkeypatch.setattr(stages, "GROUNDS", {"small": ground})
        tasks = stages.tasks([11], [1, 3])
        found = {name: stages.work(task) for name, task in tasks.items()}

        shown = stages.tables(found, [11], [1, 3])

        assert [[line[0] for line in lines] for lines in shown.values()] == [["after round", "1", "3"]] * 4
        assert all(len(line) == 2 + len(stages.WAYS) for lines in shown.values() for line in lines)
        # Four places with labels of their own: clusters by labels are less unlike than everybody.
        assert stages.change(found, "small", [11], (1, "label; silhouette", "labels")).mean < 0.0
