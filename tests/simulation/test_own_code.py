"""Training, tests and features by the user's own code in the simulator, as on Flower."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fielding import Own, Start, compare, run
from fielding.errors import InputError, OptionError
from fielding.metrics import f1
from fielding.runtime import Embedded, Fitted, Job, Samples, Scored, Tensors
from fielding.training.batches import draw_positions
from fielding.training.factory import ModelRequest, trainer_for
from fielding.training.head import score_samples
from fielding.training.trainer import LocalWork, Sgd
from tests.rotation import some_of
from tests.simulation.run_cases import left_behind, small_pool, stop_and_resume, table

TRAINER = trainer_for(ModelRequest(name="softmax", input_shape=(4,), n_classes=4))
FIRST = TRAINER.layout.tensors(TRAINER.initial_model(3))
KEYS = np.arange(100, dtype=np.uint64)


def train(model: Tensors, samples: Samples, job: Job) -> Fitted:
    """Do what a plain loop does: steps on batches that seed, round and client choose."""
    x, y = np.asarray(samples.x), np.asarray(samples.y).astype(np.int32)
    client = job.node.partition
    assert client is not None
    draws = draw_positions(
        np.array([y.size]),
        keys=KEYS[[client]],
        moment=(job.seed, job.round_index),
        shape=(job.n_steps, job.batch_size),
    )
    sgd = Sgd(learning_rate=job.learning_rate, momentum=job.momentum, weight_decay=job.weight_decay, prox=job.prox)
    work = LocalWork(
        models=TRAINER.layout.flat(dict(model))[np.newaxis],
        start=np.zeros(1, dtype=np.int64),
        draws=draws,
        gather=lambda rows: (x[rows], y[rows]),
        sgd=sgd,
    )
    done = TRAINER.train(work)
    return Fitted(TRAINER.layout.tensors(done.models[0]), y.size, float(done.loss[0]), float(done.square_loss[0]))


def evaluate(model: Tensors, samples: Samples) -> Scored:
    losses, right = score_samples(embed(model, samples).scores, np.asarray(samples.y))  # type: ignore[arg-type]
    return Scored(len(samples), int(right.sum()), float(losses.mean()))


def embed(model: Tensors, samples: Samples) -> Embedded:
    return Embedded(*TRAINER.features(TRAINER.layout.flat(dict(model)), np.asarray(samples.x)))


def own(**parts: Any) -> Own:
    given: dict[str, Any] = {"model": FIRST, "train": train, "evaluate": evaluate, "embed": embed, **parts}
    return Own(samples=small_pool(), **given)


def test_models_learn_by_ones_own_loop_and_are_served_by_name(tmp_path: Path) -> None:
    result = run(table(), tmp_path, own=own(), page=False)

    assert result.column("accuracy")[1][-1] > result.column("accuracy")[1][0]
    assert {name: array.shape for name, array in result.model_of(0).items()} == {"weight": (4, 4), "bias": (4,)}
    assert set(result.model(0)) == {"weight", "bias"}
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert manifest["config"]["own"]["train"] == "tests.simulation.test_own_code:train"
    assert manifest["trainer"]["name"] == "own"
    assert not (tmp_path / "own").exists(), "no code kept a file"


@pytest.mark.parametrize(
    "sections",
    some_of(
        [
            {},
            {"serving": {"correction": "prior"}},
            {"training": {"rehearsal": True}},
            {"method": {"name": "feddrift"}},
            {"coordinator": {"representation": "embedding", "detector": "ks", "shared_model": "global"}},
        ],
        2,
    ),
    ids=["labels", "correction", "rehearsal", "feddrift", "embedding"],
)
def test_a_loop_like_fieldings_gives_what_fieldings_gives(sections: dict[str, Any], tmp_path: Path) -> None:
    config = table(model={"name": "softmax"}, **sections)
    if "coordinator" not in sections:
        config["coordinator"] = {"detector": "any-change"}
    plain = run(config, tmp_path / "plain", own=small_pool(), page=False)
    first = TRAINER.layout.tensors(TRAINER.initial_model(1))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("tests.simulation.test_own_code.KEYS", keys_of(plain.checkpoint.client_ids))
        mine = run(config, tmp_path / "own", own=own(model=first), page=False)

    assert mine.checkpoint.membership.tolist() == plain.checkpoint.membership.tolist()
    np.testing.assert_allclose(mine.checkpoint.models, plain.checkpoint.models, rtol=0, atol=1e-5)
    for name in ("accuracy", "test_loss", "next_accuracy", "train_loss"):
        np.testing.assert_allclose(mine.column(name)[1], plain.column(name)[1], rtol=1e-5, err_msg=name)


def keys_of(client_ids: Any) -> Any:
    from fielding.rng import client_key

    return np.array([client_key(one) for one in client_ids], dtype=np.uint64)


def test_runs_are_equal_whatever_the_workers_and_stops(tmp_path: Path) -> None:
    config = table(serving={"correction": "prior"}, coordinator={"detector": "chi2"})
    run({**config, "workers": 1}, tmp_path / "one", own=own(), page=False)
    run({**config, "workers": 3}, tmp_path / "three", own=own(), page=False)
    stop_and_resume(config, tmp_path / "stopped", [1, 5, 9], own())

    whole = left_behind(tmp_path / "one")
    assert left_behind(tmp_path / "three") == whole
    assert left_behind(tmp_path / "stopped") == whole


def test_code_finds_its_settings_and_keeps_files_of_its_own(tmp_path: Path) -> None:
    seen: list[tuple[Any, ...]] = []

    def note(model: Tensors, samples: Samples, job: Job) -> Fitted:
        assert not np.asarray(samples.is_test).any()
        assert np.asarray(samples.rounds).max() <= job.round_index
        seen.append((job.node.partition, job.round_index, job.node.config["own.epochs"], job.learning_rate))
        with (job.node.folder / "rounds.txt").open("a") as file:
            file.write(f"{job.round_index}\n")
        return Fitted(model, len(samples), 0.5)

    config = table(rounds=2, own={"epochs": 3}, method={"name": "global"})
    run(config, tmp_path, own=own(train=note), page=False)

    assert {(at, epochs, rate) for _, at, epochs, rate in seen} == {(0, 3, 0.1), (1, 3, 0.1)}
    for client, at, *_ in seen:
        assert str(at) in (tmp_path / "own" / f"client-{client}" / "rounds.txt").read_text().split()


def test_torch_modules_begin_as_the_seed_draws_them_and_keep_their_counters() -> None:
    torch = pytest.importorskip("torch")

    class Net(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, input_shape: tuple[int, ...], n_classes: int) -> None:
            super().__init__()
            self.norm, self.last = torch.nn.BatchNorm1d(*input_shape), torch.nn.Linear(*input_shape, n_classes)

        def forward(self, x: Any) -> Any:
            return self.last(self.norm(x))

    def fit(model: Tensors, samples: Samples, job: Job) -> Fitted:
        torch.manual_seed(job.seed + 1000 * job.round_index + (job.node.partition or 0))
        net = Net((4,), 4)
        net.load_state_dict({name: torch.from_numpy(one) for name, one in model.items()})
        optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
        x, y = torch.from_numpy(np.asarray(samples.x)), torch.from_numpy(np.asarray(samples.y))
        for _ in range(3):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(net(x), y, label_smoothing=0.1)
            loss.backward()
            optimizer.step()
        return Fitted(net, len(samples), loss.detach())

    def judge(model: Tensors, samples: Samples) -> Scored:
        net = Net((4,), 4)
        net.load_state_dict({name: torch.from_numpy(one) for name, one in model.items()})
        with torch.no_grad():
            scores = net.eval()(torch.from_numpy(np.asarray(samples.x)))
        y = torch.from_numpy(np.asarray(samples.y))
        return Scored(len(samples), (scores.argmax(1) == y).sum(), torch.nn.functional.cross_entropy(scores, y))

    config = table(rounds=4)
    first, second, other = (
        run({**config, "seed": seed}, own=Own(samples=small_pool(), model=Net, train=fit, evaluate=judge))
        for seed in (1, 1, 2)
    )

    assert "norm.num_batches_tracked" in first.model_of(0)
    np.testing.assert_array_equal(first.checkpoint.models, second.checkpoint.models)
    assert not np.allclose(first.checkpoint.models, other.checkpoint.models)
    assert max(first.column("accuracy")[1]) > 0.6


@pytest.mark.parametrize(
    ("sections", "parts", "message"),
    [
        ({}, {"evaluate": None}, "own has train alone; give train and evaluate"),
        ({}, {"train": None, "evaluate": None}, "own has embed without train"),
        ({"training": {"moon": 1.0}}, {}, "training.moon contrasts models with earlier ones"),
        ({"training": {"balanced": True}}, {}, "training.balanced changes Fielding's own training"),
        ({"serving": {"fine_tune": 2}}, {}, "serving.fine_tune changes Fielding's own training"),
        ({"serving": {"correction": "prior"}}, {"embed": None}, "there is train without embed; give embed"),
        ({"training": {"rehearsal": True}}, {"embed": None}, "there is train without embed"),
        ({"coordinator": {"representation": "embedding", "detector": "ks"}}, {"embed": None}, "train without embed"),
        ({"coordinator": {"representation": "label", "detector": "error-rate"}}, {"embed": None}, "without embed"),
        ({"coordinator": {"representation": "gradient", "detector": "ks", "layer": "full"}}, {}, "take head-gradient"),
        (
            {"coordinator": {"representation": "embedding", "detector": "ks", "shared_model": "pool"}},
            {},
            'coordinator.shared_model is "pool", which Fielding trains',
        ),
        ({"method": {"name": "ifca"}}, {}, "only one first model is at hand"),
        ({}, {"model": {"weight": [np.nan]}}, "holds NaN or infinity; begin with numbers"),
        ({}, {"model": {}}, "gave {} for a model; give arrays by name"),
    ],
)
def test_what_code_of_ones_own_cannot_do_is_told_before_anything_is_written(
    sections: dict[str, Any], parts: dict[str, Any], message: str, tmp_path: Path
) -> None:
    config = table(**sections)
    with pytest.raises(InputError, match=message) as told:
        run(config, tmp_path / "run", own=own(**parts), page=False)
    assert "\n" not in str(told.value)
    assert not (tmp_path / "run").exists()


def test_settings_without_code_are_told() -> None:
    with pytest.raises(OptionError, match=r"own\.epochs is 3, but it has no effect: there is no own\.train"):
        run(table(own={"epochs": 3}), own=small_pool())


def test_auto_serves_models_of_ones_own_as_they_are() -> None:
    config = table(rounds=6, coordinator={"representation": "auto", "detector": "by-kind", "shared_rounds": 1})
    result = run(config, own=own())

    assert any("experts cannot look into code of one's own" in note for note in result.notes)
    assert "corrected_accuracy" in result.rounds[-1]
    assert "served_accuracy" not in result.rounds[-1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda fitted: replace(fitted, model={"weight": np.zeros((4, 4))}), "tensor 'bias' is missing or unknown"),
        (lambda fitted: replace(fitted, loss=float("nan")), "train gave loss = nan"),
        (lambda _: None, "train gave None; return Fitted"),
    ],
)
def test_what_training_gives_wrongly_is_told(change: Callable[[Fitted], Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        run(table(rounds=1), own=own(train=lambda *given: change(train(*given))))


def test_clients_whose_models_are_not_finite_failed() -> None:
    def burst(model: Tensors, samples: Samples, job: Job) -> Fitted:
        fitted = train(model, samples, job)
        assert job.node.partition is not None
        return fitted if job.node.partition % 2 else replace(fitted, model={n: a * np.nan for n, a in model.items()})

    result = run(table(rounds=2, method={"name": "global"}), own=own(train=burst))

    assert any(row["n_failed"] for row in result.rounds)
    assert np.isfinite(result.checkpoint.models).all()


def test_a_comparison_takes_code_of_ones_own(tmp_path: Path) -> None:
    compared = compare(
        table(rounds=2), ["global", "fielding"], seeds=1, own=own(train=lambda *given: train(*given)), out=tmp_path
    )

    assert compared.failures == {}
    assert all("own" in json.loads(path.read_text())["config"] for path in tmp_path.glob("*/*/manifest.json"))


def test_a_run_goes_on_with_the_same_code_alone(tmp_path: Path) -> None:
    run(table(rounds=3), tmp_path, own=own(), watch=lambda row: row["round"] != 0, page=False)

    with pytest.raises(InputError, match=r"own\.train was"):
        run(table(rounds=3), tmp_path, own=own(train=lambda *given: train(*given)), start=Start(resume=True))


# ---- metrics ---------------------------------------------------------------------------------------------------------


def share_right(scores: Any, labels: Any) -> float:
    return float((scores.argmax(axis=1) == labels).mean())


def only_first(_scores: Any, labels: Any) -> float:
    return 1.0 if (labels == labels[0]).all() else float("nan")


METRICS = {"right": share_right, "f1": f1, "same": only_first, "size": lambda scores, _labels: scores.shape[0]}


@pytest.mark.parametrize("kind", ["numpy", "own", "torch", "corrected"])
def test_metrics_are_means_over_clients_beside_accuracy(kind: str, tmp_path: Path) -> None:
    config = table(serving={"correction": "prior"} if kind == "corrected" else {})
    mine = own(metrics=METRICS) if kind == "own" else Own(samples=small_pool(), metrics=METRICS)
    if kind == "torch":
        pytest.importorskip("torch")
        config["training"] = {"trainer": "torch"}
    result = run(config, tmp_path, own=mine, page=False)

    for where in ("", "newest_", "next_"):
        wanted, found = result.column(f"{where}accuracy"), result.column(f"{where}metric/right")
        assert found[0] == wanted[0]
        assert found[1] == pytest.approx(wanted[1])
    assert result.summary is not None
    assert result.summary["final_metric/right"] == pytest.approx(result.summary["final_accuracy"])
    assert result.summary["final_next_metric/right"] == pytest.approx(result.summary["final_next_accuracy"])
    assert 0.0 < float(str(result.summary["final_metric/f1"])) < 1.0
    clients = json.loads((tmp_path / "clients.jsonl").read_text().splitlines()[-1])
    assert result.column("metric/size")[1][-1] == pytest.approx(np.mean([n for n in clients["n_test"] if n]))


def test_metrics_are_also_taken_of_what_clients_are_served(tmp_path: Path) -> None:
    config = table(serving={"correction": "prior", "experts": "auto"})
    result = run(config, tmp_path, own=Own(samples=small_pool(), metrics=METRICS), page=False)

    for where in ("", "newest_", "next_"):
        wanted, found = result.column(f"served_{where}accuracy"), result.column(f"served_{where}metric/right")
        assert found[0] == wanted[0]
        assert found[1] == pytest.approx(wanted[1])
        assert result.column(f"served_{where}metric/size")[1] == pytest.approx(result.column(f"{where}metric/size")[1])
    assert not any("corrected_metric" in name for row in result.rounds for name in row)
    assert result.summary is not None
    for where in ("", "newest_", "next_"):
        accuracy = result.summary[f"final_{where}accuracy_served"]
        assert result.summary[f"final_{where}metric/right_served"] == pytest.approx(accuracy)


def test_metrics_see_what_clients_are_served_as_shares() -> None:
    result = run(
        table(rounds=2, serving={"experts": "auto"}),
        own=Own(samples=small_pool(), metrics={"whole": lambda scores, _labels: np.exp(scores).sum(axis=1).mean()}),
    )

    assert result.column("served_metric/whole")[1] == pytest.approx([1.0, 1.0])


def test_clients_without_a_value_count_for_nothing() -> None:
    result = run(table(), own=Own(samples=small_pool(), metrics={"same": only_first, "none": lambda *_: np.nan}))

    assert {row.get("metric/same") for row in result.rounds} <= {1.0, None}
    assert {row.get("metric/none") for row in result.rounds} == {None}


def test_runs_without_metrics_are_as_they_were_and_those_with_go_on(tmp_path: Path) -> None:
    mine = Own(samples=small_pool(), metrics=METRICS)
    run(table(), tmp_path / "whole", own=mine, page=False)
    stop_and_resume(table(), tmp_path / "stopped", [2, 5], mine)
    plain = run(table(), own=small_pool())

    assert left_behind(tmp_path / "whole") == left_behind(tmp_path / "stopped")
    assert not any("metric" in name for row in plain.rounds for name in row)


def test_a_file_and_a_comparison_name_metrics(tmp_path: Path) -> None:
    config = table(rounds=2, evaluation={"every": 1, "metrics": {"auc": "fielding.metrics:auc"}})
    compared = compare(config, ["global", "local"], seeds=1, own=small_pool(), out=tmp_path)

    assert len(list(tmp_path.glob("*/summary.json"))) == 2
    assert compared.failures == {}
    finals = [json.loads(path.read_text())["final_metric/auc"] for path in tmp_path.glob("*/summary.json")]
    assert all(0.0 <= one <= 1.0 for one in finals)
    assert compared.summary is not None
    told: Any = compared.summary["methods"]
    assert {told[name]["final_metric/auc"]["mean"] for name in ("global", "local")} == set(finals)
    assert {f"{told['local']['final_metric/auc']['mean']:.3f}", "auc", "auc (next)"} <= {
        cell.strip() for cell in (tmp_path / "table.md").read_text().split("|")
    }
    assert "metric/auc" in compared.frame("rounds")
    assert [len(one.x) for one in compared.plot("AUC").data] == [2, 2]


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ({"f1": lambda *_: "high"}, "metric f1 gave 'high'; return a number"),
        ({"f 1": f1}, r"evaluation.metrics has the name 'f 1'; give up to 40 letters"),
        ({f"m{at}": f1 for at in range(21)}, "evaluation.metrics are 21; give at most 20"),
    ],
)
def test_metrics_that_cannot_be_are_told(metrics: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        run(table(rounds=1), own=Own(samples=small_pool(), metrics=metrics))


def test_metrics_need_scores(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"train without embed.*evaluation\.metrics"):
        run(table(rounds=1), tmp_path / "run", own=own(embed=None, metrics={"f1": f1}))
    assert not (tmp_path / "run").exists()
