"""Runs that are hard to resume: nobody is there at first, liars change their mind, clients fall silent and return."""

import json
from pathlib import Path

import pytest

from fielding._typing import Json
from fielding.simulation.assembly import Own
from fielding.simulation.experiment import Result, Start, run
from tests.simulation.run_cases import N_ROUNDS, Table, left_behind, small_pool, stop_and_resume, stopped_after, table

N_CLIENTS = 12


def all_late(path: Path, start_s: float) -> Path:
    """Write that nobody can be reached before a moment, and everybody from then on."""
    lines = ["client,start_s,stop_s,finish_s", *(f"{client},{start_s},1e9,1e9" for client in range(N_CLIENTS))]
    path.write_text("\n".join(lines) + "\n")
    return path


def resumed_alike(config: Table, folder: Path) -> Result:
    """Return the run, which is the same stopped after every round and resumed."""
    own = Own(samples=small_pool())
    whole = run(config, folder / "whole", own=own, page=False)
    stop_and_resume(config, folder / "cut", list(range(1, N_ROUNDS)), own)
    assert left_behind(folder / "cut") == left_behind(folder / "whole")
    return whole


def late_config(folder: Path, start_s: float, **sections: Json) -> Table:
    return table(
        coordinator={"reports": "with-training"},
        clock={"availability": str(all_late(folder / "availability.csv", start_s))},
        **sections,
    )


@pytest.mark.parametrize(
    ("start_s", "n_idle"), [(30.0, 1), (90.0, 2)], ids=["from the second round", "from the third round"]
)
def test_reports_with_training_survive_a_start_at_which_nobody_is_there(
    tmp_path: Path, start_s: float, n_idle: int
) -> None:
    whole = resumed_alike(late_config(tmp_path, start_s), tmp_path)

    n_reports = n_reports_of(whole)
    assert n_reports[: n_idle + 2] == [0] * n_idle + [N_CLIENTS, 0], "the first are heard at once, others a round later"
    assert sum(n_reports[n_idle + 1 :]) > 0
    assert [row["n_participants"] == 0 for row in whole.rounds] == [at < n_idle for at in range(N_ROUNDS)]


@pytest.mark.parametrize("name", ["selected", "static", "flexcfl"])
def test_methods_that_hear_otherwise_survive_it_too(tmp_path: Path, name: str) -> None:
    whole = resumed_alike(late_config(tmp_path, 30.0, method={"name": name}), tmp_path)

    assert whole.rounds[0]["n_participants"] == 0
    assert any(row["n_participants"] for row in whole.rounds)


@pytest.mark.parametrize("spoil", ["sign-flip", "nan"])
def test_liars_that_change_their_mind_and_spoil_models_go_on_alike(tmp_path: Path, spoil: str) -> None:
    # Honest clients report once.
    common: dict[str, Json] = {"coordinator": {"detector": "never"}, "selection": {"name": "oort"}}

    whole = resumed_alike(table(trace={"liars": 0.25, "lie": "flip-flop", "spoil": spoil}, **common), tmp_path)

    honest = run(table(**common), own=Own(samples=small_pool()), page=False)
    assert n_reports_of(whole) == [N_CLIENTS, 0, 0, 3, 0, 0, 3, 0, 0, 3, 0, 0]
    assert sum(n_reports_of(honest)) == N_CLIENTS
    assert bool(named_as_failed(whole)) == (spoil == "nan")
    assert whole.checkpoint.models.tobytes() != honest.checkpoint.models.tobytes()


def test_a_run_that_an_older_version_began_goes_on(tmp_path: Path) -> None:
    own, folder = Own(samples=small_pool()), tmp_path / "run"
    run(table(), folder, own=own, watch=stopped_after(5), page=False)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest.pop("classes") == ["a", "b", "c", "d"]
    assert manifest.pop("input_shape") == list(small_pool().shape)
    told = {"samples": True, "model": False, "represent": False}
    (folder / "manifest.json").write_text(json.dumps({**manifest, "own": told}))

    resumed = run(table(), folder, own=own, start=Start(resume=True), page=False)

    assert len(resumed.rounds) == N_ROUNDS
    assert resumed.summary is not None


def n_reports_of(result: Result) -> list[int]:
    return [int(str(row["n_reports"])) for row in result.rounds]


def named_as_failed(result: Result) -> set[str]:
    named = [row.get("failed", []) for row in result.rounds]
    return {str(client) for clients in named if isinstance(clients, list) for client in clients}
