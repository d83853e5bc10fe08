"""A run of four clients whose inside can be checked with pencil and paper, and the same run in bad shape."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from fielding._typing import ClientId, Json
from fielding.reporting.charts.client_map import draw_client_map
from fielding.reporting.charts.clusters import draw_cluster_cards
from fielding.reporting.charts.decisions import draw_decisions, draw_traffic
from fielding.reporting.charts.river import draw_river
from fielding.reporting.charts.truth import draw_truth
from fielding.reporting.numbers.run_record import RunRecord, read_run
from fielding.reporting.page import Section

SECTIONS: dict[str, Callable[[RunRecord, str | None], Section]] = {
    "river": draw_river,
    "client_map": draw_client_map,
    "cluster_cards": draw_cluster_cards,
    "decisions": draw_decisions,
    "traffic": draw_traffic,
    "truth": draw_truth,
}
PEOPLE = ("ann", "bob", "cid", "dan")
HOSTILE = ("<img src=x onerror=alert(1)>", "%{x}", "</script><script>alert(2)</script>", "a&b")
LABELS = ("cat", "dog", "owl")
MIXES: dict[int, list[list[float] | None]] = {
    0: [[0.8, 0.2, 0.0], [0.6, 0.4, 0.0], [0.0, 0.1, 0.9], [0.0, 0.3, 0.7]],
    4: [None, [0.0, 0.2, 0.8], None, None],
    8: [None, None, [0.0, 1.0, 0.0], [0.2, 0.8, 0.0]],
}
"""What the four report in which round."""


def inside_run(
    folder: Path,
    ids: Sequence[ClientId] = PEOPLE,
    *,
    labels: Sequence[str] = LABELS,
    coordinator: Mapping[str, Json] | None = None,
) -> RunRecord:
    """Write a run of ten rounds: two clusters, in round 4 the second client moves, in round 8 two go to a new one."""
    ann, bob, cid, dan = ids
    config: dict[str, Json] = {
        "seed": 1, "rounds": 10, "trace": {"gap": 4, "window": 4}, "method": {"name": "fielding"},
        "coordinator": dict(coordinator or {"kind": "histogram", "representation": "label"}),
    }  # fmt: skip
    folder.mkdir(parents=True)
    manifest = {"fielding": "0", "seed": 1, "config": config, "classes": list(labels)}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    places = [(0, {ann: 0, bob: 0, cid: 1, dan: 1}), (4, {bob: 1}), (8, {cid: 2, dan: 2})]
    concepts = [(0, {ann: 0, bob: 0, cid: 1, dan: 1}), (4, {bob: 1})]
    write_log(folder, "memberships", [changed(at, now) for at, now in places])
    write_log(folder, "concepts", [changed(at, now) for at, now in concepts])
    moved: dict[int, list[Json]] = {4: [bob], 8: [cid, dan]}
    n_reports = {0: 4, 4: 1, 8: 2}
    rounds: list[Mapping[str, Json]] = [
        {"round": at, "time_s": 60.0 * at, "n_reports": n_reports.get(at, 0), "n_moved": len(moved.get(at, [])),
         "n_clusters": 2} for at in range(10)
    ]  # fmt: skip
    write_log(folder, "rounds", rounds)
    write_log(folder, "events", _events(list(ids), moved))
    tests: list[Mapping[str, Json]] = [
        {"round": 0, "client": list(ids), "cluster": [0, 0, 1, 1], "n_test": [4] * 4, "correct": [1, 2, 3, 4]},
        {"round": 9, "client": list(ids), "cluster": [0, 1, 2, 2], "n_test": [4, 4, 4, 0], "correct": [4, 3, 1, 0]},
    ]
    write_log(folder, "clients", tests)
    _write_reports(folder, ids)
    (folder / "summary.json").write_text("{}")
    return read_run(folder)


def write_log(folder: Path, name: str, lines: Sequence[Mapping[str, Json]]) -> None:
    """Write a log."""
    (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def changed(at: int, now: Mapping[ClientId, int]) -> dict[str, Json]:
    """Return a line of ``memberships.jsonl`` or ``concepts.jsonl``."""
    return {"round": at, "changed": [[client, place] for client, place in now.items()]}


def _events(ids: list[Json], moved: Mapping[int, list[Json]]) -> list[Mapping[str, Json]]:
    blank: dict[str, Json] = {"theta": 1.0, "started": False, "fired": False, "silhouettes": {}, "silenced": []}
    return [
        {**blank, "round": 0, "shift": None, "threshold": None, "started": True, "n_clusters": 2,
         "silhouettes": {"2": 0.5, "3": 0.25}, "reported": ids, "joined": ids, "moved": []},
        {**blank, "round": 4, "shift": 0.125, "threshold": 0.5, "n_clusters": 2, "reported": moved[4],
         "moved": moved[4], "joined": [], "kinds": {"label": 1}},
        {**blank, "round": 8, "shift": 0.75, "threshold": 0.5, "fired": True, "n_clusters": 3, "reported": moved[8],
         "moved": moved[8], "joined": [], "silhouettes": {"2": 0.25, "3": 0.5}},
    ]  # fmt: skip


def _write_reports(folder: Path, ids: Sequence[ClientId]) -> None:
    (folder / "reports").mkdir()
    for at, mixes in MIXES.items():
        said = [(client, mix) for client, mix in zip(ids, mixes, strict=True) if mix is not None]
        np.savez(
            folder / "reports" / f"{at:08d}.npz",
            step=np.full(len(said), at),
            client=np.array([client for client, _ in said]),
            representation=np.array([mix for _, mix in said], dtype=np.float32),
        )
