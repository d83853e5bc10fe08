"""Runs in MLflow, read back through its client from a sqlite store."""

import importlib.util
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fielding.errors import InputError, OptionError
from fielding.simulation.experiment import Start, run
from fielding.tracking.mlflow import (
    LONGEST_VALUE,
    Mlflow,
    database_file,
    make_database,
    params_of,
    quiet_mlflow,
    without_password,
)
from fielding.tracking.tracked import tracked
from tests.simulation.run_cases import N_ROUNDS, table
from tests.tracking.tracked_cases import row_of, run_folder

for package in ("mlflow", "sqlalchemy", "alembic"):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed: it is in the extra 'mlflow'", allow_module_level=True)


@pytest.fixture(scope="module")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return a store with all its tables, which take a second to make."""
    path = tmp_path_factory.mktemp("store") / "empty.db"
    with quiet_mlflow():
        make_database(f"sqlite:///{path}")
    return path.read_bytes()


@pytest.fixture
def uri(tmp_path: Path, empty_store: bytes, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the address of an empty store; nothing of the environment counts."""
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "ml.db").write_bytes(empty_store)
    return f"sqlite:///{tmp_path / 'ml.db'}"


class Store:
    """What is in a store."""

    def __init__(self, uri: str) -> None:
        with quiet_mlflow():
            from mlflow import MlflowClient

            self.client = MlflowClient(tracking_uri=uri)

    def runs(self, experiment: str = "fielding") -> list[Any]:
        """Return the runs of an experiment, oldest first."""
        found = self.client.get_experiment_by_name(experiment)
        assert found is not None
        return list(self.client.search_runs([found.experiment_id], order_by=["start_time ASC"]))

    def history(self, run_id: str, name: str) -> list[tuple[int, float]]:
        """Return a metric as pairs of step and value, by step."""
        return sorted((metric.step, metric.value) for metric in self.client.get_metric_history(run_id, name))


def show(folder: Path, tracker: Mlflow, *, of: int = 4) -> None:
    """Show all rounds that a hand-made run has so far."""
    n_rounds = len((folder / "rounds.jsonl").read_text().splitlines())
    run_folder(folder, n_rounds, is_complete=n_rounds == of)
    with tracked(folder, [tracker]) as watch:
        watch(row_of(n_rounds - 1))


def test_every_round_is_a_step_of_every_metric(tmp_path: Path, uri: str) -> None:
    with tracked(tmp_path / "small", [Mlflow(uri)]) as watch:
        result = run(table(), tmp_path / "small", watch=watch, page=False)

    store = Store(uri)
    (shown,) = store.runs()
    run_id = shown.info.run_id
    assert shown.info.run_name == "small"
    assert shown.info.status == "FINISHED"
    assert store.history(run_id, "accuracy") == list(zip(*result.column("accuracy"), strict=True))
    assert [step for step, _ in store.history(run_id, "n_clusters")] == list(range(N_ROUNDS))
    assert shown.data.metrics["summary/final_accuracy"] == (result.summary or {})["final_accuracy"]


def test_the_config_is_its_params_and_method_and_seed_are_tags(tmp_path: Path, uri: str) -> None:
    show(run_folder(tmp_path / "run", 4), Mlflow(uri, experiment="mine", run_name="first"))

    (shown,) = Store(uri).runs("mine")
    assert shown.data.params == {
        "seed": "7",
        "rounds": "4",
        "method.name": "fielding",
        "trace.name": "digits",
        "trace.share": "0.5",
    }
    assert (shown.data.tags["method"], shown.data.tags["seed"]) == ("fielding", "7")
    assert shown.info.run_name == "first"


def test_a_stopped_and_resumed_run_stays_one_run(tmp_path: Path, uri: str) -> None:
    with tracked(tmp_path / "run", [Mlflow(uri)], watch=lambda row: row["round"] != 3) as watch:
        run(table(), tmp_path / "run", watch=watch, page=False)
    assert [one.info.status for one in Store(uri).runs()] == ["KILLED"]

    with tracked(tmp_path / "run", [Mlflow(uri)]) as watch:
        run(table(), tmp_path / "run", start=Start(resume=True), watch=watch, page=False)

    store = Store(uri)
    (shown,) = store.runs()
    assert shown.info.status == "FINISHED"
    assert [step for step, _ in store.history(shown.info.run_id, "time_s")] == list(range(N_ROUNDS))


def test_telling_a_complete_run_again_adds_nothing(tmp_path: Path, uri: str) -> None:
    show(run_folder(tmp_path / "run", 4), Mlflow(uri))
    show(tmp_path / "run", Mlflow(uri))

    store = Store(uri)
    (shown,) = store.runs()
    assert [step for step, _ in store.history(shown.info.run_id, "time_s")] == [0, 1, 2, 3]
    assert store.history(shown.info.run_id, "summary/n_rounds") == [(3, 4.0)]


def test_a_run_that_failed_is_shown_as_failed(tmp_path: Path, uri: str) -> None:
    def fail() -> None:
        with tracked(run_folder(tmp_path / "run", 1), [Mlflow(uri)]) as watch:
            watch(row_of(0))
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        fail()

    assert [one.info.status for one in Store(uri).runs()] == ["FAILED"]


def test_a_run_that_was_deleted_there_is_made_anew(tmp_path: Path, uri: str) -> None:
    show(run_folder(tmp_path / "run", 3), Mlflow(uri))
    store = Store(uri)
    store.client.delete_run(store.runs()[0].info.run_id)

    show(run_folder(tmp_path / "run", 4), Mlflow(uri))

    (shown,) = store.runs()
    assert [step for step, _ in store.history(shown.info.run_id, "time_s")] == [0, 1, 2, 3]


def test_a_run_that_this_store_does_not_know_is_made_anew(tmp_path: Path, uri: str, empty_store: bytes) -> None:
    show(run_folder(tmp_path / "run", 3), Mlflow(uri))
    other = tmp_path / "other.db"
    other.write_bytes(empty_store)
    memory = (tmp_path / "run" / "tracking.json").read_text()
    (tmp_path / "run" / "tracking.json").write_text(memory.replace("ml.db", "other.db"))

    show(run_folder(tmp_path / "run", 4), Mlflow(f"sqlite:///{other}"))

    assert len(Store(f"sqlite:///{other}").runs()) == 1


def test_more_rounds_than_fit_into_one_batch_all_arrive(tmp_path: Path, uri: str) -> None:
    n_rounds = 700  # two or three figures each, and MLflow takes 1000 at once

    with tracked(run_folder(tmp_path / "run", n_rounds, is_complete=True), [Mlflow(uri)]):
        pass

    store = Store(uri)
    steps = [step for step, _ in store.history(store.runs()[0].info.run_id, "time_s")]
    assert steps == list(range(n_rounds))


def test_a_server_that_is_away_is_a_note_and_no_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens
        away = f"http://me:secret@127.0.0.1:{taken.getsockname()[1]}"
        notes: list[str] = []
        with tracked(tmp_path / "run", [Mlflow(away)], note=notes.append) as watch:
            result = run(table(), tmp_path / "run", watch=watch, page=False)

    assert len(result.rounds) == N_ROUNDS
    assert [note.split(" (")[0] for note in notes] == ["mlflow could not be told of the run"] * 2
    assert "secret" not in "".join(notes)


def test_the_environment_names_store_and_experiment(tmp_path: Path, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "ours")

    show(run_folder(tmp_path / "run", 4), Mlflow())

    assert len(Store(uri).runs("ours")) == 1


MAKE_STORE = """
import sys
from fielding.tracking.mlflow import make_database, quiet_mlflow
with quiet_mlflow():
    make_database(sys.argv[1])
"""


@pytest.mark.slow
def test_processes_that_begin_together_make_one_whole_store(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path / 'new.db'}"
    makers = [
        subprocess.Popen([sys.executable, "-c", MAKE_STORE, uri], stderr=subprocess.PIPE, text=True) for _ in range(2)
    ]
    said = [maker.communicate()[1] for maker in makers]

    assert [maker.returncode for maker in makers] == [0, 0], said
    assert said == ["", ""]
    assert [path.name for path in tmp_path.iterdir()] == ["new.db"]
    assert [one.name for one in Store(uri).client.search_experiments()] == ["Default"]


def test_long_values_are_cut() -> None:
    (value,) = params_of({"classes": list(range(1000))}).values()

    assert len(value) == LONGEST_VALUE
    assert value.endswith("...")


@pytest.mark.parametrize("folder", ["mlruns", "./x.db"])
def test_a_target_that_is_no_address_is_refused(folder: str) -> None:
    with pytest.raises(OptionError, match="mlflow wants a database or a server"):
        Mlflow(folder)


def test_a_kind_of_store_that_mlflow_does_not_have_is_refused() -> None:
    with pytest.raises(OptionError, match="mlflow knows no store 'nonsense://x'; name a database or a server"):
        Mlflow("nonsense://x")


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("sqlite:///ml.db", "sqlite:///ml.db; look at it with: mlflow ui --backend-store-uri sqlite:///ml.db"),
        ("http://me:secret@host:5000", "http://host:5000"),
    ],
)
def test_it_tells_where_it_writes_without_the_password(target: str, words: str, tmp_path: Path) -> None:
    assert Mlflow(target).place(tmp_path).startswith(words)


def test_a_tracker_that_was_not_begun_says_so(uri: str) -> None:
    with pytest.raises(InputError, match="call begin first"):
        Mlflow(uri).add(0, {"accuracy": 1.0})


@pytest.mark.parametrize("package", ["mlflow", "sqlalchemy"])
def test_without_a_package_the_extra_is_named(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)

    with pytest.raises(OptionError, match=rf"^{package} is not installed.*pip install 'fielding\[mlflow\]'"):
        Mlflow("sqlite:///ml.db")


def test_only_files_of_sqlite_are_made() -> None:
    assert database_file("sqlite:///:memory:") is None
    assert database_file("postgresql://host/ml") is None
    assert database_file("sqlite:////srv/ml.db") == Path("/srv/ml.db")


def test_addresses_lose_names_and_passwords() -> None:
    assert without_password("postgresql://a:b@host/x and http://c@host") == "postgresql://host/x and http://host"
