"""`fielding show`: what a checkpoint holds."""

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from fielding._typing import Json
from fielding.cli.console import say, say_json, say_table
from fielding.cli.options import JsonOutput
from fielding.coordinator.coordinator import Coordinator
from fielding.coordinator.policy import policy_record
from fielding.records.checkpoint import load_coordinator


def show(
    checkpoint: Annotated[Path, typer.Argument(help="A checkpoint, such as DIR/coordinator.ckpt of a replay.")],
    as_json: JsonOutput = False,
) -> None:
    """Tell what a coordinator's checkpoint holds: clients, clusters, rules."""
    record = coordinator_record(load_coordinator(checkpoint))
    if as_json:
        say_json(record)
        return
    for name in ("n_clients", "n_active", "n_features", "n_events", "policy"):
        say(f"{name:<11} {record[name]}")
    clusters = record["clusters"]
    if isinstance(clusters, list):
        heads = ["cluster", "active clients", "all clients", "state"]
        rows = [[str(value) for value in one.values()] for one in clusters if isinstance(one, dict)]
        say_table("", [heads, *rows])


def coordinator_record(coordinator: Coordinator) -> dict[str, Json]:
    """Return what people want to know of a coordinator, as plain values."""
    registry = coordinator.registry
    everyone = Counter(coordinator.cluster_ids().tolist())
    active = Counter(coordinator.cluster_ids()[registry.active_rows()].tolist())
    ids = coordinator.clusters.ids if coordinator.clusters else ()
    return {
        "n_clients": len(registry),
        "n_active": int(registry.active_rows().size),
        "n_features": registry.label_widths[-1] if registry.label_widths else 0,
        "n_events": coordinator.n_events,
        "policy": policy_record(coordinator.policy),
        "memory": asdict(coordinator.memory),
        "clusters": [
            {
                "id": cluster,
                "active": active[cluster],
                "all": everyone[cluster],
                "state": "live" if active[cluster] else "dormant",
            }
            for cluster in ids
        ],
    }
