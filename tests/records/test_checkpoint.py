import hashlib
import struct
from pathlib import Path

import numpy as np
import pytest

from fielding.client.report import ClientReport, ReportBatch
from fielding.coordinator import Clusterer, Coordinator, Pairwise, Policy
from fielding.errors import CheckpointError, OptionError, OutputError
from fielding.records.checkpoint import load_checkpoint, load_coordinator, save_coordinator


def drifting_batches(n_steps: int, *, text_ids: bool = True) -> list[ReportBatch]:
    rng = np.random.default_rng(3)
    concepts = rng.dirichlet(np.full(6, 0.3), size=4)
    batches = []
    for step in range(n_steps):
        who = np.arange(40) if step == 0 else np.flatnonzero(rng.random(45) < 0.3)
        rows = rng.multinomial(20, concepts[(who + step) % 4]) / 20.0
        rows[rng.random(who.size) < 0.1] = 0.0
        ids = [f"zone-{one:02d}" for one in who] if text_ids else who.tolist()
        batches.append(ReportBatch(client_ids=ids, representations=rows))
    return batches


@pytest.mark.parametrize("stop", [0, 1, 5, 11])
@pytest.mark.parametrize("text_ids", [True, False])
def test_a_restored_coordinator_decides_exactly_as_one_that_never_stopped(
    tmp_path: Path, stop: int, text_ids: bool
) -> None:
    policy = Policy(seed=2, trigger=Pairwise(), clusterer=Clusterer(k_max=5))
    steady, stopped = Coordinator(policy), Coordinator(policy)
    batches = drifting_batches(12, text_ids=text_ids)
    for batch in batches[:stop]:
        steady.update(batch)
        stopped.update(batch)

    save_coordinator(stopped, tmp_path / "c.ckpt")
    resumed = load_coordinator(tmp_path / "c.ckpt")

    for batch in batches[stop:]:
        expected, got = steady.update(batch), resumed.update(batch)
        assert (expected.shift, expected.theta, expected.reclustered) == (got.shift, got.theta, got.reclustered)
        assert list(expected.moved) == list(got.moved)
        assert expected.silhouettes == got.silhouettes
        assert expected.mixing.tolist() == got.mixing.tolist()
        assert steady.cluster_ids().tolist() == resumed.cluster_ids().tolist()


def test_reports_that_wait_and_the_progress_are_kept(tmp_path: Path) -> None:
    coordinator = Coordinator()
    coordinator.update(drifting_batches(1)[0])
    coordinator.grow_labels(7)
    coordinator.receive(ClientReport(client_id="späť-☃", representation=np.eye(7)[2]))

    save_coordinator(coordinator, tmp_path / "c.ckpt", {"n_steps": 4})
    resumed, progress = load_checkpoint(tmp_path / "c.ckpt")

    assert progress == {"n_steps": 4}
    assert resumed.inbox["späť-☃"].tolist() == np.eye(7)[2].tolist()
    assert resumed.registry.label_widths == (6, 7)
    assert list(resumed.decide().joined) == ["späť-☃"]


def test_equal_coordinators_give_equal_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        coordinator = Coordinator(Policy(seed=1))
        for batch in drifting_batches(4):
            coordinator.update(batch)
        save_coordinator(coordinator, tmp_path / name)

    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    coordinator = Coordinator()
    for batch in drifting_batches(3):
        coordinator.update(batch)
    save_coordinator(coordinator, tmp_path / "c.ckpt")
    return tmp_path / "c.ckpt"


def test_every_truncation_is_detected(checkpoint: Path) -> None:
    whole = checkpoint.read_bytes()
    for length in [*range(0, len(whole), 512), len(whole) - 1]:
        checkpoint.write_bytes(whole[:length])
        with pytest.raises(CheckpointError):
            load_coordinator(checkpoint)


def test_every_flipped_bit_is_detected(checkpoint: Path) -> None:
    whole = checkpoint.read_bytes()
    rng = np.random.default_rng(0)
    for at in [*range(24), *rng.integers(len(whole), size=400).tolist()]:
        flipped = bytearray(whole)
        flipped[at] ^= 1 << int(rng.integers(8))
        checkpoint.write_bytes(flipped)
        with pytest.raises(CheckpointError):
            load_coordinator(checkpoint)


def test_appended_bytes_and_zeroed_tails_are_detected(checkpoint: Path) -> None:
    whole = checkpoint.read_bytes()
    for damaged in (whole + b"\0", whole[:-100] + bytes(100), bytes(len(whole)), b""):
        checkpoint.write_bytes(damaged)
        with pytest.raises(CheckpointError):
            load_coordinator(checkpoint)


def test_a_newer_version_and_another_kind_of_file_say_what_they_are(checkpoint: Path) -> None:
    whole = checkpoint.read_bytes()
    newer = whole[:8] + struct.pack("<I", 99) + whole[12:-32]
    checkpoint.write_bytes(newer + hashlib.blake2b(newer, digest_size=32).digest())
    with pytest.raises(CheckpointError, match="format version 99, this Fielding reads version 1"):
        load_coordinator(checkpoint)
    checkpoint.write_bytes(b"PK\x03\x04 this is a zip")
    with pytest.raises(CheckpointError, match="is not a Fielding checkpoint"):
        load_coordinator(checkpoint)
    with pytest.raises(CheckpointError, match="No such file"):
        load_coordinator(checkpoint.with_name("none"))


def test_a_failed_write_keeps_the_old_checkpoint(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = checkpoint.read_bytes()

    def full_disk(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(OutputError, match="No space left on device; what was there before is kept"):
        save_coordinator(Coordinator(), checkpoint)

    assert checkpoint.read_bytes() == before
    assert [path.name for path in checkpoint.parent.iterdir()] == [checkpoint.name]


def test_rules_without_a_name_cannot_be_written_down(tmp_path: Path) -> None:
    class Custom:
        def partitions(self, *_arguments: object, **_named: object) -> dict[int, np.ndarray]:
            return {}

    with pytest.raises(OptionError, match="registered name"):
        save_coordinator(Coordinator(Policy(clusterer=Clusterer(partitioner=Custom()))), tmp_path / "c")
