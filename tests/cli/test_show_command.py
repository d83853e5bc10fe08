import json
from pathlib import Path

import numpy as np

from fielding import Coordinator, Policy, ReportBatch, save_coordinator
from tests.cli.invoke import assert_one_line_error, fielding


def test_show_tells_what_a_checkpoint_holds(tmp_path: Path) -> None:
    coordinator = Coordinator(Policy(seed=1))
    shares = np.array([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9], [0.2, 0.8]])
    coordinator.update(ReportBatch(client_ids=list("abcd"), representations=shares))
    save_coordinator(coordinator, tmp_path / "c.ckpt")

    record = json.loads(fielding("show", tmp_path / "c.ckpt", "--json").stdout)
    text = fielding("show", tmp_path / "c.ckpt").stdout

    assert (record["n_clients"], record["n_features"], record["n_events"]) == (4, 2, 1)
    assert [cluster["active"] for cluster in record["clusters"]] == [2, 2]
    assert "n_clients   4\n" in text
    assert "policy\n  kind       histogram\n" in text
    assert "  trigger    name center-shift, options tau 0.3333" in text
    assert "live" in text
    assert "none yet" not in text


def test_show_tells_the_cluster_of_a_client_and_who_has_none(tmp_path: Path) -> None:
    coordinator = Coordinator(Policy(seed=1))
    shares = np.array([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9], [0.0, 0.0]])
    coordinator.update(ReportBatch(client_ids=list("abcd"), representations=shares))
    save_coordinator(coordinator, tmp_path / "c.ckpt")

    text = fielding("show", tmp_path / "c.ckpt", "--client", "c").stdout
    record = json.loads(fielding("show", tmp_path / "c.ckpt", "--client", "d", "--json").stdout)

    assert f"client c: cluster {coordinator.cluster_of('c')}\n" in text
    assert "none yet               -            1      -" in text
    assert record["client"] == {"id": "d", "cluster": None}
    assert record["n_without_cluster"] == 1
    assert_one_line_error(fielding("show", tmp_path / "c.ckpt", "--client", "x"), "client 'x' is not known")


def test_show_refuses_what_is_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "c.ckpt").write_bytes(b"not a checkpoint at all")

    assert_one_line_error(fielding("show", tmp_path / "c.ckpt"), "is not a Fielding checkpoint", code=1)
    assert_one_line_error(fielding("show", tmp_path / "none"), f"there is no {tmp_path / 'none'}", code=2)
