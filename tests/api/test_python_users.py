"""What Python users do: bring data, models and methods along, look at results, go on later."""

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fielding
from fielding import Own, Pool, Result, Trace, compare, load, run
from fielding.comparing.compare import ComparisonResult
from fielding.errors import InputError, OptionError
from fielding.methods.global_model import GlobalModel
from tests.comparing.forked import forking
from tests.simulation.run_cases import image_pool, small_pool, table

pandas = pytest.importorskip("pandas", reason="pandas is not installed")


def walks(n_clients: int = 6, n_days: int = 8) -> Any:
    """Return a DataFrame of clients whose label mix turns from day to day."""
    rng = np.random.default_rng(0)
    rows = []
    for client in range(n_clients):
        for day in range(n_days):
            for _ in range(12):
                label = int(rng.random() < (0.2 if (client + day) % 2 else 0.8))
                rows.append(
                    (f"phone {client}", f"2026-01-{day + 1:02}", ["sit", "walk"][label], *rng.normal(label, 1, 3))
                )
    return pandas.DataFrame(rows, columns=["phone", "when", "what", "x", "y", "z"])


NATURAL: dict[str, Any] = {
    "rounds": 10,
    "trace": {"interval": "1d", "gap": 2, "window": 4},
    "training": {"participants": 3, "local_steps": 2},
    "evaluation": {"every": 2},
}


@pytest.fixture(scope="module")
def trace() -> Trace:
    return Trace.from_dataframe(walks(), client="phone", time="when", label="what")


@pytest.fixture(scope="module")
def result(trace: Trace) -> Result:
    return run(NATURAL, own=trace)


def test_a_frame_becomes_a_run_and_a_run_becomes_frames(result: Result) -> None:
    rounds, clients, summary = result.frame(), result.frame("clients"), result.frame("summary")

    assert list(rounds["round"]) == list(range(10))
    assert summary["final_accuracy"].item() == pytest.approx((result.summary or {})["final_accuracy"])
    last = clients[clients["round"] == 9]
    assert set(last["client"]) == {f"phone {at}" for at in range(6)}
    assert last["accuracy"].mean() == pytest.approx(rounds["accuracy"].iloc[-1])
    assert {"reported", "moved", "n_clusters"} <= set(result.frame("events").columns)
    with pytest.raises(OptionError, match="unknown frame 'cleints'; did you mean 'clients'"):
        result.frame("cleints")


def test_a_trace_knows_a_config_that_runs_over_all_of_it(trace: Trace) -> None:
    config = trace.config()
    result = run({**config, "method": {"name": "global"}}, own=trace)

    assert len(result.rounds) == config["rounds"]
    assert "final_next_accuracy" in (result.summary or {})


def test_a_result_says_in_a_line_what_matters(result: Result, trace: Trace, tmp_path: Path) -> None:
    assert re.fullmatch(r"<fielding\.Result: fielding, 10 rounds, accuracy 0\.\d+.*, \d+ clusters>", repr(result))
    stopped = run(NATURAL, tmp_path / "cut", own=trace, watch=lambda row: int(str(row["round"])) < 2)
    assert repr(stopped).endswith(f"3 rounds, stopped before its end; {tmp_path / 'cut'}>")


def test_a_notebook_shows_a_sentence_and_a_chart_without_a_script(result: Result) -> None:
    shown = result._repr_html_()

    assert "ccuracy" in shown.partition("<svg")[0]
    assert shown.count("<polyline") > 1
    assert "<script" not in shown


def test_results_plot_and_report_without_a_folder_of_their_own(result: Result, tmp_path: Path) -> None:
    figure = result.plot()
    assert len(figure.data[0].x) > 1
    with pytest.raises(OptionError, match="unknown chart 'acuracy'"):
        result.plot("acuracy")
    page = result.report(tmp_path / "page.html")
    assert "so far" not in page.read_text().split("<body")[1].split("<script")[0]


def test_a_folder_without_a_name_goes_with_its_result(trace: Trace) -> None:
    gone = run({**NATURAL, "rounds": 1}, own=trace)
    folder = gone.folder
    assert (folder / "rounds.jsonl").exists()
    del gone
    assert not folder.exists()


def test_results_are_loaded_from_their_folders(trace: Trace, tmp_path: Path) -> None:
    done = run(NATURAL, tmp_path / "run", own=trace)
    again = load(tmp_path / "run")

    assert isinstance(again, Result)
    assert again.summary == done.summary
    assert again.rounds == done.rounds
    for name, array in done.model_of("phone 0").items():
        np.testing.assert_array_equal(again.model_of("phone 0")[name], array)
    with pytest.raises(InputError, match="is not the folder of a run"):
        load(tmp_path)


class Halved(GlobalModel):
    """One model for all clients, under another name."""


def test_methods_are_compared_as_names_and_classes(trace: Trace, tmp_path: Path) -> None:
    class Inside(GlobalModel):
        """A class that no other process can import."""

    compared = compare(NATURAL, ["global", Halved, Inside], seeds=1, own=trace, out=tmp_path / "out", jobs=2)

    assert compared.failures == {}
    assert [one.name for one in compared.plan.variants] == [
        "global",
        "tests.api.test_python_users:Halved",
        "Inside",
    ]
    finals = compared.frame("summary").groupby("method")["final_accuracy"].mean()
    assert finals.nunique() == 1
    assert repr(compared).startswith("<fielding.Comparison on 1 seed: global 0.")
    assert set(compared.frame("rounds")["seed"]) == {1}
    again = load(tmp_path / "out")
    assert isinstance(again, ComparisonResult)
    assert again.summary == compared.summary
    assert set(again.runs()) == {(name, 1) for name in finals.index}


def test_values_are_varied_by_key(tmp_path: Path) -> None:
    config = table(rounds=2)
    taus = {"coordinator.tau": [0.25, "inf"]}
    with forking():
        compared = compare(config, "fielding", vary=taus, seeds=2, own=small_pool(), jobs=2)

    assert [one.name for one in compared.plan.variants] == ["fielding tau=0.25", "fielding tau=inf"]
    assert repr(compared).startswith("<fielding.Comparison on 2 seeds: fielding tau=0.25 0.")
    assert set(compared.frame("rounds")["seed"]) == {1, 2}
    assert compared.plot() is not None
    for wrong, words in (("coordinator.tua", "tua"), ("seed", "cannot be varied")):
        with pytest.raises(OptionError, match=words):
            compare(config, vary={wrong: [1, 2]}, seeds=1, own=small_pool(), out=tmp_path / "none")
    with pytest.raises(OptionError, match="give a list of values"):
        compare(config, vary={"rounds": 3}, seeds=1, own=small_pool())  # type: ignore[dict-item]
    assert not (tmp_path / "none").exists()


def test_old_names_of_arguments_work_and_say_so(tmp_path: Path) -> None:
    with forking(), pytest.warns(DeprecationWarning, match="variants=.* is called methods now"):
        compared = compare(table(rounds=1), variants=["global"], seeds=1, own=small_pool(), out=tmp_path / "a")
    assert compared.failures == {}


def test_functions_in_a_table_are_those_of_a_file() -> None:
    def counts(_x: Any, y: Any, n_classes: int) -> Any:
        return np.bincount(y, minlength=n_classes).astype(float)

    config = {**table(rounds=2), "coordinator": {"representation": counts}, "method": {"name": Halved}}
    result = run(config, own=small_pool())

    manifest = json.loads((result.folder / "manifest.json").read_text())
    assert manifest["config"]["method"]["name"] == "tests.api.test_python_users:Halved"
    assert manifest["config"]["coordinator"]["representation"] == "own:counts"


def test_what_a_program_brought_along_is_missed_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[method]\nname = "own:Mine"\n')
    done = subprocess.run(
        [sys.executable, "-c", "from fielding.cli import main; main()", "run", "config.toml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert "method.name is 'own:Mine', which a Python program brought along; go on from that program" in done.stderr


@pytest.mark.parametrize("kind", ["class", "function", "instance", "no arguments"])
def test_models_are_classes_functions_or_modules(kind: str) -> None:
    torch = pytest.importorskip("torch")

    class Net(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, n_classes: int = 3) -> None:
            super().__init__()
            self.first, self.last = torch.nn.LazyLinear(4), torch.nn.LazyLinear(n_classes)

        def forward(self, x: Any) -> Any:
            return self.last(torch.relu(self.first(x.flatten(1))))

    pool = small_pool()
    n_classes = len(pool.classes)
    instance = Net(n_classes)
    instance(torch.zeros(1, *pool.shape))
    model: Any = {"class": Net, "function": lambda n_classes: Net(n_classes), "instance": instance,
             "no arguments": lambda: Net(n_classes)}[kind]  # fmt: skip
    result = run(table(rounds=2), own=Own(samples=pool, model=model))

    module = result.model(0)
    assert not module.training
    with torch.no_grad():
        assert module(torch.zeros(2, *pool.shape)).shape == (2, n_classes)
    np.testing.assert_array_equal(module.first.weight.detach().numpy(), result.model_of(0)["first.weight"])


def test_models_without_torch_are_arrays_and_dense_ones_of_torch_modules() -> None:
    assert set(run(table(rounds=1), own=small_pool()).model(0)) == {"0.weight", "0.bias", "2.weight", "2.bias"}
    torch = pytest.importorskip("torch")
    pool = small_pool()
    module = run({**table(rounds=1), "training": {"trainer": "torch"}}, own=pool).model(0)
    assert module(torch.zeros(2, int(np.prod(pool.shape)))).shape == (2, len(pool.classes))


def visits() -> Any:
    """Return what four people do, by a pulse with gaps, the weather, and a speed in other units."""
    rng = np.random.default_rng(1)
    does = rng.integers(0, 3, 1600)
    pulse = np.array([65.0, 95.0, 140.0])[does] + 8 * rng.normal(size=1600)
    return pandas.DataFrame(
        {
            "who": np.array(["ann", "bob", "cem", "dea"])[np.arange(1600) % 4],
            "when": pandas.to_datetime("2026-01-01") + pandas.to_timedelta(np.arange(1600) // 4 * 3, unit="h"),
            "what": np.array(["sit", "walk", "run"])[does],
            "pulse": np.where(rng.random(1600) < 0.05, np.nan, pulse),
            "weather": pandas.Series(rng.choice(["rain", "sun"], 1600)).where(rng.random(1600) < 0.9),
            "metres": 1000.0 * does + 300 * rng.normal(size=1600),
        }
    )


@pytest.mark.parametrize("trainer", ["numpy", "torch"])
def test_a_result_predicts_rows_of_a_frame_in_their_own_units(tmp_path: Path, trainer: str) -> None:
    if trainer == "torch":
        pytest.importorskip("torch")
    frame = visits()
    trace = Trace.from_dataframe(frame, client="who", time="when", label="what")
    config = {**trace.config(), "rounds": 20, "training": {"participants": 4, "trainer": trainer}}
    config["trace"]["standardize"] = True
    result = run(config, tmp_path / "run", own=trace, page=False)

    told = result.predict("ann", frame)
    loaded = load(tmp_path / "run")
    assert isinstance(loaded, Result)
    likely = loaded.predict("ann", frame[["weather", "metres", "pulse"]], proba=True)

    assert (told == frame["what"]).mean() > 0.9
    assert np.array(result.classes)[likely.argmax(axis=1)].tolist() == told.tolist()
    np.testing.assert_allclose(likely.sum(axis=1), 1.0)
    np.testing.assert_array_equal(result.predict("ann", trace.x), told)
    fewer = frame[:3].assign(weather="hail", metres=[0.0, None, 2000.0])  # a category and a gap that training never saw
    assert set(result.predict("bob", fewer)) <= {"sit", "walk", "run"}


def test_a_result_in_memory_predicts_samples_of_arrays() -> None:
    pool = small_pool()
    result = run(table(rounds=3), own=pool)

    likely = result.predict(0, pool.x[:20], proba=True)

    hidden = np.maximum(pool.features(np.arange(20)).reshape(20, -1) @ result.model(0)["0.weight"].T
                        + result.model(0)["0.bias"], 0.0)  # fmt: skip
    scores = hidden @ result.model(0)["2.weight"].T + result.model(0)["2.bias"]
    assert result.classes == pool.classes
    np.testing.assert_array_equal(likely.argmax(axis=1), scores.argmax(axis=1))


def test_a_convolution_predicts_images_as_they_are() -> None:
    torch = pytest.importorskip("torch")
    pool = image_pool()
    result = run({**table(rounds=1), "model": {"name": "cnn"}, "training": {"trainer": "torch"}}, own=pool)

    likely = result.predict(0, pool.x[:5], proba=True)

    with torch.no_grad():
        scores = result.model(0)(torch.from_numpy(pool.features(np.arange(5)))[:, None])
    np.testing.assert_allclose(likely, torch.softmax(scores, 1).numpy(), rtol=1e-4)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (np.zeros((2, 3)), r"rows have shape \(2, 3\)"),
        (np.array([["a"]]), "rows have shape"),
        (pandas.DataFrame({"a": [1]}), "were no table; give an array"),
    ],
)
def test_rows_that_do_not_fit_are_told(rows: Any, words: str) -> None:
    result = run(table(rounds=1), own=small_pool())

    with pytest.raises(InputError, match=words):
        result.predict(0, rows)
    with pytest.raises(InputError, match="there is no client"):
        result.predict("nobody", small_pool().x[:2])


def test_a_trace_prints_as_a_line_and_says_whether_it_drifts(trace: Trace) -> None:
    assert repr(trace) == (
        "<fielding.Trace: 6 clients, 2 classes, 576 samples of shape (3,), 2026-01-01 to 2026-01-08>"
    )
    assert repr(small_pool()) == "<fielding.Pool: 240 samples of shape (4,), 4 classes>"

    told = trace.info("1d")

    assert repr(told).splitlines() == [
        f"does it drift beyond sampling noise? {told.drift}",
        f"in which way? {told.kinds}",
        f"does grouping look worthwhile? {told.grouping}",
        f"what to use: {told.advice}",
    ]
    assert trace.info().drift


def test_datasets_of_torch_and_hugging_face_train() -> None:
    torch = pytest.importorskip("torch")
    datasets = pytest.importorskip("datasets")
    pool = small_pool()
    x, y = pool.features(np.arange(len(pool))), pool.y.astype(np.int64)
    by_torch = Pool.from_dataset(torch.utils.data.TensorDataset(torch.from_numpy(x), torch.from_numpy(y)))
    by_columns = Pool.from_dataset(datasets.Dataset.from_dict({"x": x.tolist(), "label": y.tolist()}))
    plain = Pool.from_arrays(x, y)
    finals = [(run(table(rounds=2), own=one).summary or {})["final_accuracy"] for one in (by_torch, by_columns, plain)]

    assert len(set(finals)) == 1


def test_samples_that_are_none_are_told() -> None:
    with pytest.raises(InputError, match=r"own is 3; give a Trace, a Pool, or Own\(samples=..., model=..., ...\)"):
        run(table(rounds=1), own=3)  # type: ignore[arg-type]


SIGNATURES = {
    "compare": "config methods vary seeds own out reference drop jobs progress following page on variants n_jobs",
    "load": "folder",
    "run": "config out own start watch progress page on",
}


def test_public_names_and_signatures_stay() -> None:
    assert sorted(fielding.__all__) == [
        "AnyChange", "CenterShift", "Chi2", "ClientReport", "Clusterer", "Coordinator", "Decision",
        "FieldingError", "Fleet", "Monitor", "Own", "Pairwise", "Periodic", "Policy", "Pool", "ReportBatch", "Result",
        "Start", "Threshold", "Trace", "__version__", "compare", "load", "load_coordinator", "run", "save_coordinator",
    ]  # fmt: skip
    for name, words in SIGNATURES.items():
        assert " ".join(inspect.signature(getattr(fielding, name)).parameters) == words
    assert [name for name in dir(Result) if not name.startswith("_")] == [
        "checkpoint", "classes", "cluster_of", "column", "folder", "frame", "layout", "model", "model_of", "notes",
        "plot", "predict", "report", "rounds", "scratch", "summary", "why",
    ]  # fmt: skip
