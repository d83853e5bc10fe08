from pathlib import Path

import pytest

from fielding.comparing.sweep import Finished, Following, sweep, sweep_in_processes, unfinished
from fielding.config.keys import Config
from fielding.config.reader import config_from
from fielding.errors import InputError
from fielding.records.run_folder import ROUNDS


def config_of(seed: int, **method: str) -> Config:
    return config_from(
        {
            "rounds": 3,
            "seed": seed,
            "trace": {"clients": 8, "gap": 2, "window": 4},
            "training": {"participants": 4},
            "method": {"name": "global", **method},
        }
    )


def test_a_sweep_gives_a_summary_of_every_run_in_order(tmp_path: Path) -> None:
    done: list[Finished] = []

    found = sweep({"b": config_of(2), "a": config_of(1)}, tmp_path, on_done=done.append)

    assert list(found) == ["b", "a"]
    assert [one.name for one in done] == ["b", "a"]
    assert all(one.summary is not None and one.summary["n_rounds"] == 3 for one in found.values())


def test_what_is_whole_is_not_run_again(tmp_path: Path) -> None:
    sweep({"a": config_of(1)}, tmp_path)
    before = (tmp_path / "a" / ROUNDS).stat().st_mtime_ns

    found = sweep({"a": config_of(1), "b": config_of(2)}, tmp_path)

    assert (tmp_path / "a" / ROUNDS).stat().st_mtime_ns == before
    assert found["a"].summary is not None
    assert found["b"].summary is not None


def test_a_run_whose_log_lost_rounds_is_not_taken_for_a_whole_one(tmp_path: Path) -> None:
    sweep({"a": config_of(1)}, tmp_path)
    lines = (tmp_path / "a" / ROUNDS).read_bytes().splitlines(keepends=True)
    (tmp_path / "a" / ROUNDS).write_bytes(b"".join(lines[:-1]))

    found = sweep({"a": config_of(1)}, tmp_path)

    assert found["a"].summary is None
    assert "rounds.jsonl is shorter than its checkpoint says" in str(found["a"].error)


def test_a_run_of_another_config_is_not_taken_for_this_one(tmp_path: Path) -> None:
    sweep({"a": config_of(1)}, tmp_path)

    found = sweep({"a": config_of(2)}, tmp_path)

    assert found["a"].summary is None
    assert "holds another run (seed" in str(found["a"].error)


def test_two_processes_give_what_one_gives(tmp_path: Path) -> None:
    configs = {str(seed): config_of(seed) for seed in (1, 2, 3)}

    sweep(configs, tmp_path / "one")
    sweep(configs, tmp_path / "two", n_jobs=2)

    for name in configs:
        rounds = [(tmp_path / folder / name / ROUNDS).read_bytes() for folder in ("one", "two")]
        assert rounds[0] == rounds[1]


def test_a_run_that_fails_is_named_and_does_not_stop_the_others(tmp_path: Path) -> None:
    bad = config_from({"rounds": 3, "trace": {"file": str(tmp_path / "missing.npz")}})

    found = sweep({"bad": bad, "good": config_of(1)}, tmp_path)

    assert found["bad"].summary is None
    assert "missing.npz" in str(found["bad"].error)
    assert found["good"].summary is not None


def test_a_bug_in_a_run_does_not_stop_the_others(tmp_path: Path) -> None:
    found = sweep({"bad": config_of(1, name="tests.simulation.breaking:Buggy"), "good": config_of(1)}, tmp_path)

    assert str(found["bad"].error).startswith("ZeroDivisionError: integer division or modulo by zero (breaking.py, ")
    assert "self._n_rounds //= 0" in str(found["bad"].traceback)
    assert found["good"].summary is not None


def test_what_is_whole_is_told_first_and_begins_no_process(tmp_path: Path) -> None:
    sweep({"a": config_of(1)}, tmp_path)
    told: list[str] = []

    found = sweep_in_processes(
        {"a": config_of(1)},
        tmp_path,
        n_jobs=2,
        following=Following(on_step=lambda step: told.append(step.phase), on_done=lambda one: told.append(one.name)),
    )

    assert told == ["a"]
    assert list(found) == ["a"]


def test_no_run_at_a_time_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least 1"):
        sweep({}, tmp_path, n_jobs=0)
    with pytest.raises(InputError, match="at least 1"):
        sweep_in_processes({}, tmp_path, n_jobs=0)


def test_what_has_no_summary_is_still_to_be_done(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "summary.json").write_text('{"n_rounds": 0}')
    (tmp_path / "b").mkdir()

    assert unfinished(["a", "b", "c"], tmp_path) == ["b", "c"]
