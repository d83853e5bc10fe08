from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fielding import Coordinator, Policy, ReportBatch
from fielding._typing import Json
from fielding.engine.replay import replay
from fielding.errors import CheckpointError, InputError
from fielding.records.manifest import first_difference
from fielding.records.replay_folder import LOGS, ReplayFolder

MANIFEST: dict[str, Json] = {"source": "a file", "seed": 1}


def growing_steps(n_steps: int) -> list[tuple[int, ReportBatch]]:
    """Two new clients a step, so that later states are wider than earlier ones."""
    rng = np.random.default_rng(1)
    steps = []
    for step in range(n_steps):
        ids = [f"c{at:02d}" for at in range(4 + 2 * step)]
        steps.append((step, ReportBatch(client_ids=ids, representations=rng.dirichlet([0.4] * 4, size=len(ids)))))
    return steps


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[ReplayFolder]:
    opened = ReplayFolder(tmp_path / "out", MANIFEST)
    yield opened
    opened.close()


def reopened(folder: ReplayFolder, manifest: dict[str, Json] = MANIFEST) -> ReplayFolder:
    folder.close()
    return ReplayFolder(folder.path, manifest)


def test_only_one_process_writes_at_a_time(folder: ReplayFolder) -> None:
    with pytest.raises(InputError, match="another process is writing into"):
        ReplayFolder(folder.path, MANIFEST)

    reopened(folder).close()


def test_what_a_crash_left_beyond_the_checkpoint_is_cut_off(folder: ReplayFolder) -> None:
    steps = growing_steps(8)
    folder.begin()
    replay(steps[:3], Coordinator(Policy(seed=1)), folder)
    committed = {name: (folder.path / name).read_bytes() for name in LOGS}
    for name in LOGS:  # two more steps and half a line, never committed
        with (folder.path / name).open("ab") as file:
            file.write(b'{"step": 3, "changed": [["c99", 7]]}\n{"st')
    (folder.path / ".membership.npz.123.tmp").write_bytes(b"half")

    again = reopened(folder)
    coordinator, last = again.resume()

    assert last == 2
    assert {name: (again.path / name).read_bytes() for name in LOGS} == committed
    assert not list(again.path.glob(".*.tmp"))
    assert coordinator is not None
    assert replay(steps, coordinator, again, after=last)
    again.write_memberships(coordinator)
    again.close()


def test_a_resumed_replay_has_the_logs_of_one_that_never_stopped(tmp_path: Path) -> None:
    steps = growing_steps(8)
    whole, cut = ReplayFolder(tmp_path / "whole", MANIFEST), ReplayFolder(tmp_path / "cut", MANIFEST)
    for one in (whole, cut):
        one.begin()
    finished = Coordinator(Policy(seed=1))
    assert replay(steps, finished, whole)
    whole.write_memberships(finished)

    countdown = iter([True, True, True, False])
    assert not replay(steps, Coordinator(Policy(seed=1)), cut, watch=lambda _row: next(countdown))
    again = reopened(cut)
    coordinator, last = again.resume()
    assert coordinator is not None
    assert replay(steps, coordinator, again, after=last)
    again.write_memberships(coordinator)

    for name in (*LOGS, "membership.npz", "coordinator.ckpt"):
        assert (again.path / name).read_bytes() == (whole.path / name).read_bytes()
    again.close()
    whole.close()


def test_the_table_of_memberships_follows_every_change(folder: ReplayFolder) -> None:
    folder.begin()
    coordinator = Coordinator(Policy(seed=1))
    expected = []

    def note(_row: object) -> bool:
        ids = coordinator.cluster_ids()
        expected.append([*ids.tolist(), *[-1] * (12 - ids.size)])
        return True

    replay(growing_steps(5), coordinator, folder, watch=note)
    folder.write_memberships(coordinator)

    with np.load(folder.path / "membership.npz", allow_pickle=False) as stored:
        assert stored["cluster"].reshape(5, 12).tolist() == expected
        assert stored["step"].tolist() == np.repeat(np.arange(5), 12).tolist()
        assert stored["client"][:12].tolist() == list(coordinator.registry.client_ids)


def test_before_the_first_commit_there_is_nothing_to_go_on_from(folder: ReplayFolder) -> None:
    folder.begin()
    again = reopened(folder)

    assert again.resume() == (None, None)
    again.close()


def test_other_data_are_refused_but_another_name_is_not(folder: ReplayFolder) -> None:
    folder.begin()
    folder = reopened(folder, {"source": "renamed", "seed": 1})
    assert folder.resume() == (None, None)
    folder = reopened(folder, {"source": "a file", "seed": 2})

    with pytest.raises(InputError, match="seed was 1, now it is 2"):
        folder.resume()
    folder.close()


def test_a_log_that_is_shorter_than_its_checkpoint_is_refused(folder: ReplayFolder) -> None:
    folder.begin()
    replay(growing_steps(2), Coordinator(), folder)
    (folder.path / LOGS[0]).write_bytes(b"")
    folder = reopened(folder)

    with pytest.raises(CheckpointError, match="shorter than its checkpoint says"):
        folder.resume()
    folder.close()


def test_a_difference_is_named_by_its_path() -> None:
    assert first_difference({"a": {"b": 1}}, {"a": {"b": 1}}, "x") == ""
    assert first_difference({"a": {"b": 1}}, {"a": {"b": 2}}, "x") == "x.a.b was 1, now it is 2"
