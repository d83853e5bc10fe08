"""A run that is submitted again with other settings goes on with them: clusters, models, records and costs stay."""

import hashlib
import random
import shutil
from pathlib import Path

import pytest

from fielding._typing import Json
from fielding.config.keys import Config
from fielding.errors import InputError, OptionError
from fielding.records.run_checkpoint import load_run
from fielding.records.run_folder import EVENTS, ROUNDS, newest_checkpoint, read_manifest
from fielding.simulation.experiment import Start, run
from tests.rotation import seed, some_of
from tests.simulation.run_cases import N_ROUNDS, Table, stopped_after, table

pytest.importorskip("flwr", reason="the flower extra is not installed")

from fielding.flower.server.deployment import run_deployment
from fielding.flower.server.server_app import deployment_from
from tests.flower.device_wire import Deployed, deployed_config, lines
from tests.flower.photographs import Camera, watching
from tests.flower.same_runs import assert_same_runs
from tests.flower.scripted_app.scripted.server_app import first_model
from tests.flower.scripted_runs import ScriptedWire, client_records, deployed, run_config

N_FIRST = 6
CHANGED: dict[str, Table] = {
    "rate": {"training": {"learning_rate": 0.02, "local_steps": 3, "prox": 0.0}},
    "participants": {"training": {"participants": 12}, "coordinator": {"k_max": 3}},
    "trigger": {"coordinator": {"trigger": "pairwise", "delta_step": 0.2, "inherit": "majority"}},
    "momentum": {"aggregation": {"name": "fedadam"}},
    "median": {"aggregation": {"name": "median"}},
    "pace": {"pace": {"name": "adaptive"}},
    "evaluation": {"evaluation": {"every": 3}, "serving": {"fine_tune": 2}},
    "more rounds": {"rounds": N_ROUNDS + 3},
}
KEYS = {number: f"-----BEGIN {number}".encode() for number in range(4)}
SCRIPT: dict[str, Json] = {"script": "0:AABB 2:CABB"}


def begun(config: Config, folder: Path) -> Path:
    """Run the first rounds of a config on devices, and return the run folder."""
    first = Deployed(config, folder)
    assert first.run(watch=stopped_after(N_FIRST)) is None
    return first.out


@pytest.fixture(scope="module")
def first_rounds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the first rounds of a small run, on devices and simulated."""
    folder, config = tmp_path_factory.mktemp("first") / "rounds", deployed_config(table())
    begun(config, folder)
    run(config, folder / "simulated", watch=stopped_after(N_FIRST), page=False)
    return folder


@pytest.fixture
def of_first_rounds(first_rounds: Path, tmp_path: Path) -> Path:
    """Return a copy of them."""
    return Path(shutil.copytree(first_rounds, tmp_path / "copy"))


def changes_of(out: Path) -> list[str]:
    changes = read_manifest(out).get("changes", [])
    assert isinstance(changes, list)
    return [f"{one['round']} {one['key']} {one['new']}" for one in changes if isinstance(one, dict)]


@pytest.mark.parametrize("name", some_of(CHANGED, 4))
def test_a_deployment_that_changes_does_as_the_simulator(of_first_rounds: Path, name: str) -> None:
    changed, deployed = deployed_config(table(**CHANGED[name])), Deployed(deployed_config(table()), of_first_rounds)
    out, simulated = deployed.out, of_first_rounds / "simulated"
    before = (out / ROUNDS).read_bytes()

    assert Deployed(changed, of_first_rounds).run() is not None

    run(changed, simulated, start=Start(resume=True), page=False)
    assert_same_runs(out, simulated)
    assert (out / ROUNDS).read_bytes().startswith(before)
    assert changes_of(out) == changes_of(simulated)
    assert changes_of(out) != []


def test_devices_take_another_drift_test_with_the_next_order(tmp_path: Path) -> None:
    never = table(coordinator={"detector": "never"})
    out = begun(deployed_config(never), tmp_path)

    assert Deployed(deployed_config(table(coordinator={"detector": "always"})), tmp_path).run() is not None

    n_reports = [row["n_reports"] for row in lines(out, ROUNDS)]
    assert n_reports[0] == 12
    assert not any(n_reports[1:N_FIRST])
    assert any(n_reports[N_FIRST + 1 :])


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"seed": 2}, "seed was 1, now it is 2: all random choices"),
        ({"trace": {"window": 9}}, "trace.window was 6, now it is 9: it decides"),
        ({"model": {"hidden": 9}}, "model.hidden was 8, now it is 9: the models that there are"),
        ({"method": {"name": "global"}}, "method.name was 'fielding', now it is 'global': another method"),
        ({"rounds": N_FIRST - 1}, f"rounds was 12, now it is {N_FIRST - 1}: {N_FIRST} are done"),
    ],
    ids=str,
)
def test_what_may_not_change_is_refused_and_nothing_is_touched(
    of_first_rounds: Path, sections: dict[str, Json], words: str
) -> None:
    out = Deployed(deployed_config(table()), of_first_rounds).out
    before = {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}

    with pytest.raises(InputError, match=words):
        Deployed(deployed_config(table(**sections)), of_first_rounds).run()

    assert {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()} == before


def test_the_run_config_and_the_apps_own_settings_may_change(tmp_path: Path) -> None:
    config = run_config(rounds=3)
    assert deployed(ScriptedWire(tmp_path, KEYS, config, SCRIPT), config, tmp_path / "out") is not None
    again = run_config(rounds=5, start_wait=20.0, min_nodes=2, memory_rounds=7, own__epochs=2)

    assert deployed(ScriptedWire(tmp_path, KEYS, again, SCRIPT), again, tmp_path / "out") is not None

    assert changes_of(tmp_path / "out") == [
        "3 rounds 5",
        "3 min-nodes 2",
        "3 start-wait 20.0",
        "3 memory-rounds 7",
        "3 own.epochs 2",
    ]
    longer, _ = deployment_from({**again, "deadline": 90}, first_model=first_model)
    wire = ScriptedWire(tmp_path, KEYS, again, SCRIPT)
    assert run_deployment(longer, wire.wire_of, tmp_path / "out") is not None
    assert changes_of(tmp_path / "out")[-1] == "5 deadline 90.0"


@pytest.mark.parametrize(("n_early", "n_late"), [(6, 4), pytest.param(25, 40, marks=pytest.mark.slow)])
def test_a_server_killed_while_it_changes_goes_on_to_the_same_end(tmp_path: Path, n_early: int, n_late: int) -> None:
    first, again = run_config(rounds=3), run_config(rounds=5, training__participants=2, evaluation__every=2)
    base = tmp_path / "base"
    base.mkdir()
    assert deployed(ScriptedWire(base, KEYS, first, SCRIPT), first, base / "out") is not None

    def change(disk: Path) -> None:
        assert deployed(ScriptedWire(disk, KEYS, again, SCRIPT), again, disk / "out") is not None

    def photographed(name: str, wanted: set[int]) -> Camera:
        disk = tmp_path / name
        shutil.copytree(base, disk)
        camera = Camera(disk, tmp_path / f"{name}-album", wanted)
        with watching(camera):
            change(disk)
        return camera

    n_steps = len(photographed("whole", set()).steps)
    whole = tmp_path / "whole" / "out"
    draw = random.Random(seed())
    early, late = draw.sample(range(min(n_steps, 25)), n_early), draw.sample(range(n_steps), n_late)
    for disk in photographed("seen", {*early, *late}).photographs.values():
        change(disk)
        assert_same_runs(disk / "out", whole)
        assert client_records(disk / "out") == client_records(whole)
        assert read_manifest(disk / "out") == read_manifest(whole)
        assert (disk / "out" / "config.toml").read_bytes() == (whole / "config.toml").read_bytes()


def test_a_run_begins_with_the_models_of_a_former_one(tmp_path: Path) -> None:
    config = run_config(rounds=2)
    assert deployed(ScriptedWire(tmp_path / "a", KEYS, config, SCRIPT), config, tmp_path / "former") is not None
    mean = load_run(newest_checkpoint(tmp_path / "former")).mean_model()
    begins = run_config(rounds=2, init_from=str(tmp_path / "former"))
    out = tmp_path / "out"

    assert deployed(ScriptedWire(tmp_path / "b", KEYS, begins, SCRIPT), begins, out) is not None
    digest = read_manifest(out)["initial_blake2b"]
    assert digest == hashlib.blake2b(mean.tobytes(), digest_size=16).hexdigest()

    shutil.rmtree(tmp_path / "former")  # the run has its own copy
    longer = run_config(rounds=3)
    assert deployed(ScriptedWire(tmp_path / "b", KEYS, longer, SCRIPT), longer, out) is not None
    assert read_manifest(out)["initial_blake2b"] == digest
    assert changes_of(out) == ["2 rounds 3"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("nowhere", "init-from of the run config: .*nowhere"),
        (3, "init-from of the run config is 3; name a run's folder"),
    ],
)
def test_a_former_run_that_is_none_is_refused(tmp_path: Path, given: Json, words: str) -> None:
    config = run_config(rounds=2, init_from=given)

    with pytest.raises(OptionError, match=words):
        deployed(ScriptedWire(tmp_path, KEYS, config, SCRIPT), config, tmp_path / "out")

    assert read_manifest(tmp_path / "out") == {}


def test_a_run_begins_with_the_clusters_of_a_former_one(tmp_path: Path) -> None:
    config = run_config(rounds=4)
    assert deployed(ScriptedWire(tmp_path / "a", KEYS, config, SCRIPT), config, tmp_path / "former") is not None
    former = load_run(newest_checkpoint(tmp_path / "former"))
    begins = run_config(rounds=2, init_from=str(tmp_path / "former"), init_clusters=True)
    out, later = tmp_path / "out", {"script": "0:CABB"}  # as the former run ended

    assert deployed(ScriptedWire(tmp_path / "b", KEYS, begins, later), begins, out) is not None
    first = lines(out, EVENTS)[0]
    assert (first["cluster_ids"], first["moved"]) == (list(former.cluster_ids), [])
    found = load_run(newest_checkpoint(out))
    assert len(former.cluster_ids) > 1
    assert found.client_ids == former.client_ids
    assert found.membership.tolist() == former.membership.tolist()

    shutil.rmtree(tmp_path / "former")  # the run has its own copy, also if nothing was committed
    shutil.rmtree(out / "checkpoints")
    assert deployed(ScriptedWire(tmp_path / "b", KEYS, begins, later), begins, out) is not None
    again = load_run(newest_checkpoint(out))
    assert again.membership.tolist() == former.membership.tolist()
    assert again.cluster_ids == former.cluster_ids


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"init_from": ""}, "init-from names no former run"),
        ({"method__name": "global"}, "the method there is fielding, here global"),
        ({"coordinator__metric": "js"}, "windows are not described there and here alike"),
    ],
    ids=str,
)
def test_clusters_that_a_run_cannot_go_on_with_are_refused(
    tmp_path: Path, settings: dict[str, Json], words: str
) -> None:
    config = run_config(rounds=2)
    assert deployed(ScriptedWire(tmp_path / "a", KEYS, config, SCRIPT), config, tmp_path / "former") is not None
    begins = run_config(**{"rounds": 2, "init_from": str(tmp_path / "former"), "init_clusters": True, **settings})

    with pytest.raises(OptionError, match=f"init-clusters of the run config is true, but {words}"):
        deployed(ScriptedWire(tmp_path / "b", KEYS, begins, SCRIPT), begins, tmp_path / "out")
