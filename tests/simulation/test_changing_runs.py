"""Runs that go on with other settings: more rounds give the bytes of a run that had them from the start."""

import json
from pathlib import Path

import pytest

from fielding._typing import Json
from fielding.errors import InputError
from fielding.methods import METHODS
from fielding.records.changes import METHOD_OPTIONS
from fielding.records.run_folder import MANIFEST, ROUNDS
from fielding.simulation.assembly import Own
from fielding.simulation.experiment import Start, run
from tests.rotation import some_of
from tests.simulation.run_cases import (
    N_ROUNDS,
    Table,
    crash_and_resume,
    left_behind,
    small_pool,
    small_trace,
    stopped_after,
    table,
)
from tests.simulation.test_repeatability import natural_table

RESUME = Start(resume=True)


def logs_of(folder: Path) -> dict[str, bytes]:
    """Return all that a run left but its manifest, which tells of the changes."""
    return {name: content for name, content in left_behind(folder).items() if name != MANIFEST}


def extended_alike(config: Table, folder: Path, own: Own, n_first: int = 8) -> None:
    """Run a config to its end, and after a shorter run that has its end first: the logs are the same."""
    run(config, folder / "whole", own=own, page=False)
    shorter = run({**config, "rounds": n_first}, folder / "cut", own=own, page=False)
    assert shorter.summary is not None

    longer = run(config, folder / "cut", own=own, start=RESUME, page=False)

    assert f"from round {n_first}: rounds {n_first} -> {config['rounds']}" in longer.notes
    assert logs_of(folder / "cut") == logs_of(folder / "whole")


@pytest.mark.parametrize("name", some_of(sorted(METHODS), 5, always=["fielding"]))
def test_a_longer_run_is_what_it_would_have_been(tmp_path: Path, name: str) -> None:
    extended_alike(table(method={"name": name}), tmp_path, Own(samples=small_pool()))


@pytest.mark.parametrize(
    "sections",
    some_of(
        [
            {"training": {"moon": 1.0}},
            {"serving": {"experts": "auto"}},
            {"selection": {"name": "oort"}},
            {"coordinator": {"reports": "with-training"}},
            {"trace": {"held_out": 4}},
            {"trace": {"scenario": "dirichlet"}},
            {"trace": {"scenario": "mixed"}},
            {"trace": {"scenario": "new-label", "at": 3}},
        ],
        3,
    ),
    ids=str,
)
def test_so_it_is_with_what_clients_remember_and_however_data_drift(tmp_path: Path, sections: dict[str, Json]) -> None:
    extended_alike(table(**sections), tmp_path, Own(samples=small_pool()))


def test_so_it_is_on_a_natural_trace(tmp_path: Path) -> None:
    extended_alike(natural_table(), tmp_path, Own(samples=small_trace()))


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"trace": {"scenario": "new-label"}}, "the scenario deals what was before by the number of rounds"),
        ({"trace": {"at_first": 2}}, "the scenario deals what was before by the number of rounds"),
        ({"trace": {"scenario": "concept-swap"}}, "the scenario deals what was before by the number of rounds"),
        ({"training": {"rehearsal": True}}, "what clients rehearse is known by its place in the data"),
    ],
    ids=str,
)
def test_a_past_that_would_be_another_is_refused(tmp_path: Path, sections: dict[str, Json], words: str) -> None:
    config, own = table(**sections), Own(samples=small_pool())
    run(config, tmp_path, own=own, page=False)
    before = left_behind(tmp_path)

    with pytest.raises(InputError, match=words):
        run({**config, "rounds": 3 * N_ROUNDS}, tmp_path, own=own, start=RESUME, page=False)

    assert left_behind(tmp_path) == before


def test_what_comes_later_may_be_another(tmp_path: Path) -> None:
    """New labels come halfway, which is later in a longer run; nobody has seen them yet."""
    config, own = table(rounds=24, trace={"scenario": "new-label"}), Own(samples=small_pool())
    run({**config, "rounds": 48}, tmp_path / "whole", own=own, page=False)
    run(config, tmp_path / "cut", own=own, watch=stopped_after(4), page=False)

    run({**config, "rounds": 48}, tmp_path / "cut", own=own, start=RESUME, page=False)

    assert logs_of(tmp_path / "cut") == logs_of(tmp_path / "whole")


CHANGED: list[dict[str, Json]] = [
    {"training": {"learning_rate": 0.02, "participants": 4, "local_steps": 3, "prox": 0.0, "weighted": True}},
    {"training": {"participants": 12}, "coordinator": {"k_max": 3, "tau": "learned", "inherit": "majority"}},
    {"coordinator": {"trigger": "pairwise", "delta_step": 0.2}},
    {"aggregation": {"name": "fedadam"}},
    {"aggregation": {"name": "median"}},
    {"pace": {"name": "adaptive"}},
    {"selection": {"name": "oort"}},
    {"selection": {"name": "pyramidfl"}},
    {"serving": {"fine_tune": 2}},
    {"evaluation": {"every": 3}},
    {"method": {"reuse": 2}},
    {"clock": {"overcommit": 2.0}},
]


@pytest.mark.parametrize("sections", some_of(CHANGED, 4), ids=str)
def test_a_change_counts_from_its_round_on_and_survives_crashes(tmp_path: Path, sections: dict[str, Json]) -> None:
    own, first, changed = Own(samples=small_pool()), table(), table(**sections)
    for name in ("whole", "cut"):
        run(first, tmp_path / name, own=own, watch=stopped_after(6), page=False)
    begun = (tmp_path / "whole" / ROUNDS).read_bytes()

    run(changed, tmp_path / "whole", own=own, start=RESUME, page=False)
    crash_and_resume(changed, tmp_path / "cut", [7, 9, 11], own)

    assert left_behind(tmp_path / "cut") == left_behind(tmp_path / "whole")
    assert (tmp_path / "whole" / ROUNDS).read_bytes().startswith(begun)
    changes = json.loads((tmp_path / "whole" / MANIFEST).read_text())["changes"]
    assert {one["key"].partition(".")[0] for one in changes} == set(sections)
    assert {one["round"] for one in changes} == {6}
    run(first, tmp_path / "same", own=own, page=False)
    if "reuse" not in str(sections):  # nothing disappears in so few rounds
        assert logs_of(tmp_path / "same") != logs_of(tmp_path / "whole"), "the change changed nothing"


OTHER_OPTIONS: dict[str, dict[str, Json]] = {
    "fielding": {"reuse": 2},
    "clustered-sgd": {"k": 2, "delta": 0.3},
    "flash": {"eta": 0.02, "beta1": 0.8, "beta2": 0.9, "tau": 0.01, "speedup": 5.0},
    "feddrift": {"delta": 0.05, "delta_merge": 0.02, "isolation": 2, "step_rounds": 2, "max_models": 5},
    "feddrift-eager": {"delta": 0.05, "step_rounds": 2, "max_models": 5},
    "auxo": {
        "base_reward": 4.0,
        "epsilon": 0.1,
        "epsilon_decay": 0.9,
        "neighbors": 3,
        "min_results": 2,
        "stop_after": 400,
    },
    "fedac": {"mu": 0.2, "pca_every": 3, "tune_every": 4},
    "flexcfl": {"eta_g": 0.1, "pretrain_steps": 5},
    "cfl": {
        "eps1": 1.0,
        "eps2": 0.1,
        "eps1_share": 0.2,
        "eps2_share": 0.5,
        "gamma_max": 0.2,
        "start_after": 2,
        "max_age": 5,
    },
}


@pytest.mark.parametrize("name", some_of([name for name, options in METHOD_OPTIONS.items() if options], 2))
def test_options_of_methods_that_may_change_do(tmp_path: Path, name: str) -> None:
    own, first = Own(samples=small_pool()), table(method={"name": name})
    changed = table(method={"name": name, **OTHER_OPTIONS[name]})
    for folder in ("whole", "cut"):
        run(first, tmp_path / folder, own=own, watch=stopped_after(6), page=False)

    run(changed, tmp_path / "whole", own=own, start=RESUME, page=False)
    crash_and_resume(changed, tmp_path / "cut", [7, 10], own)

    assert set(OTHER_OPTIONS[name]) == set(METHOD_OPTIONS[name])
    assert left_behind(tmp_path / "cut") == left_behind(tmp_path / "whole")


def test_changes_can_be_forbidden(tmp_path: Path) -> None:
    own = Own(samples=small_pool())
    run(table(rounds=2), tmp_path, own=own, page=False)

    with pytest.raises(InputError, match=r"holds another run \(rounds was 2, now it is 3\)"):
        run(table(rounds=3), tmp_path, own=own, start=Start(resume=True, may_change=False), page=False)
