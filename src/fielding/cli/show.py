"""`fielding show`: what a checkpoint holds, a model taken out of it, and what happened to a client and why."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from fielding._typing import ClientId, Json, Models
from fielding.cli.console import say, say_json, say_table
from fielding.cli.options import JsonOutput
from fielding.coordinator.coordinator import Coordinator
from fielding.coordinator.policy import policy_record
from fielding.errors import InputError
from fielding.records.changes import FLOWER, Change, changes_in
from fielding.records.checkpoint import load_coordinator
from fielding.records.container import read_contents
from fielding.records.model_file import write_model
from fielding.records.run_checkpoint import KIND, RunCheckpoint, load_run
from fielding.records.run_folder import CHECKPOINTS, MANIFEST, ROUNDS, newest_checkpoint, read_manifest
from fielding.reporting.client_reasons import explain_client
from fielding.reporting.formatting import as_time, plain
from fielding.reporting.numbers.run_record import LogReader, parse_round
from fielding.reporting.numbers.run_summary import evaluations, failing_words

_SCORES = {"round": "round", "window": "accuracy", "newest": "newest_accuracy", "next": "next_accuracy"}
"""What is told of the last evaluation, with names of ``rounds.jsonl``."""


def show(
    checkpoint: Annotated[Path, typer.Argument(help="A checkpoint, or the folder of a run: then its newest one.")],
    export: Annotated[
        Path | None, typer.Option("--export", help="Write the model of a cluster as .safetensors, by state-dict names.")
    ] = None,
    cluster: Annotated[int | None, typer.Option("--cluster", help="With --export: whose model, by cluster id.")] = None,
    client: Annotated[
        str | None,
        typer.Option("--client", help="Tell what happened to a client; with --export: the model that serves it."),
    ] = None,
    round_index: Annotated[
        int | None, typer.Option("--round", help="With --client: tell what happened to it in this round, and why.")
    ] = None,
    as_json: JsonOutput = False,
) -> None:
    """Tell what a checkpoint holds: clients, clusters, rules, models; and take a model out of it.

    With --client and the folder of a run, tell when the client reported, when and why it changed its cluster, and how
    it was served; with --round, all that was decided about it in that round and by which numbers.
    """
    if not checkpoint.exists():
        raise InputError(f"there is no {checkpoint}; give a checkpoint, or the folder of a run")
    if round_index is not None:
        if client is None or not checkpoint.is_dir():
            raise InputError("--round tells what happened to a client; give the folder of a run, and --client")
        if export is not None or cluster is not None:
            raise InputError("--round tells what happened to a client and exports nothing; leave --export out")
        reason = explain_client(checkpoint, client, round_index)
        say_json(dict(reason.record)) if as_json else say(reason.text)
        return
    history = None
    if client is not None and export is None and cluster is None and (checkpoint / MANIFEST).exists():
        history = explain_client(checkpoint, client)
        if not as_json:
            say(history.text)
            return
    path = newest_checkpoint(checkpoint) if checkpoint.is_dir() else checkpoint
    contents = read_contents(path)
    if contents.kind == KIND:
        home = path.parent.parent if path.parent.name == CHECKPOINTS else path.parent
        rounds, run = LogReader().lines(home / ROUNDS, parse_round).rows, load_run(path)
        more = {} if history is None else dict(history.record)
        changes = [one for one in changes_in(read_manifest(home)) if one.round_index <= run.round_index]
        _show_run(run, home, rounds, changes, export, cluster, client, more, as_json=as_json)
        return
    if export is not None or cluster is not None:
        raise InputError(f"{path} is a checkpoint of a {contents.kind}, which holds no models to export")
    _show_coordinator(load_coordinator(path), client, as_json=as_json)


def _show_coordinator(coordinator: Coordinator, client: str | None, *, as_json: bool) -> None:
    record = describe_coordinator(coordinator)
    if client is not None:
        known = _known(client, coordinator.registry.client_ids)
        record["client"] = {"id": known, "cluster": coordinator.cluster_of(known)}
    if as_json:
        say_json(record)
        return
    _say_lines({name: record[name] for name in ("n_clients", "n_active", "n_features", "n_events")})
    say("policy")
    _say_lines(policy_record(coordinator.policy), indent="  ")
    n_outside = str(record["n_without_cluster"])
    _say_clusters(record, [["cluster", "active clients", "all clients", "state"], ["none yet", "-", n_outside, "-"]])


def _show_run(
    run: RunCheckpoint,
    home: Path,
    rounds: Sequence[Mapping[str, Json]],
    changes: Sequence[Change],
    export: Path | None,
    cluster: int | None,
    client: str | None,
    history: Mapping[str, Json],
    *,
    as_json: bool,
) -> None:
    if export is None and cluster is not None:
        raise InputError("--cluster says which model to export; name a file with --export")
    record = describe_run(run)
    tested = [row for row in evaluations(rounds) if int(str(row["round"])) <= run.round_index]
    if tested:
        record["scores"] = {name: tested[-1].get(figure) for name, figure in _SCORES.items()}
    done = [row for row in rounds if int(str(row["round"])) <= run.round_index]
    is_deployed = read_manifest(home).get("engine") == FLOWER
    record["time_is"] = "measured" if is_deployed else "simulated"
    if done:
        record |= {name: done[-1][name] for name in ("n_failing", "failing") if name in done[-1]}
    if changes:
        record["changes"] = [one.record() for one in changes]
    if client is not None:
        known = _known(client, run.client_ids)
        record["client"] = {"id": known, "cluster": run.cluster_of(known), **history}
    if export is not None:
        model, whose = _choose_model(run, cluster, client)
        write_model(model, run.layout, export, read_manifest(home))
        record["exported"] = {"file": str(export), "model": whose}
    if as_json:
        say_json(record)
        return
    record["time"] = f"{as_time(run.time_s)} ({record['time_is']})"
    shown = ("method", "round", "time", "n_clients", "model", "scores")
    _say_lines({name: record[name] for name in shown if name in record})
    for change in changes:
        say(str(change))
    n_failing, told = failing_words(done)
    if n_failing:
        say(f"{n_failing} devices fail: {told}")
    _say_clusters(record, [["cluster", "clients"], ["none yet", str(record["n_without_cluster"])]])
    if export is not None:
        say(f"wrote {export}: the model of {whose}")


def _known(client: str, known: Sequence[ClientId]) -> ClientId:
    """Return the client whose id is written so; what was written if there is none."""
    return next((one for one in known if str(one) == client), client)


def _choose_model(run: RunCheckpoint, cluster: int | None, client: str | None) -> tuple[Models, str]:
    """Return the model that was asked for, and in words whose it is."""
    if cluster is not None and client is not None:
        raise InputError("both --cluster and --client are given; name one")
    if client is not None:
        cluster = run.cluster_of(_known(client, run.client_ids))
        if cluster is None:
            return run.mean_model(), "all clusters, by their numbers of clients: the client has none yet"
    if cluster is None:
        if len(run.cluster_ids) > 1:
            known = ", ".join(map(str, run.cluster_ids))
            raise InputError(f"there are {len(run.cluster_ids)} clusters ({known}); choose with --cluster or --client")
        cluster = run.cluster_ids[0]
    return run.model_of_cluster(cluster), f"cluster {cluster}"


def _say_lines(record: Mapping[str, Json], *, indent: str = "") -> None:
    width = max(map(len, record))
    for name, value in record.items():
        say(f"{indent}{name:<{width}}  {plain(value)}")


def _say_clusters(record: Mapping[str, Json], frame: list[list[str]]) -> None:
    """Print the table of clusters, then what was asked about a client; the frame holds heads and the last row."""
    clusters, client = record["clusters"], record.get("client")
    if isinstance(clusters, list):
        rows = [[str(value) for value in one.values()] for one in clusters if isinstance(one, dict)]
        say_table("", [frame[0], *rows, *(frame[1:] if record["n_without_cluster"] else [])])
    if isinstance(client, dict):
        cluster = client["cluster"]
        say(f"client {client['id']}: {'in no cluster yet' if cluster is None else f'cluster {cluster}'}")


def describe_run(run: RunCheckpoint) -> dict[str, Json]:
    """Return what people want to know of a run, as plain values."""
    sizes = Counter(run.membership.tolist())
    layout = run.layout
    return {
        "method": run.method,
        "round": run.round_index,
        "time_s": run.time_s,
        "n_clients": len(run.client_ids),
        "model": {"numbers": layout.size, "tensors": dict(zip(layout.names, map(list, layout.shapes), strict=True))},
        "clusters": [{"id": one, "clients": sizes[row]} for row, one in enumerate(run.cluster_ids)],
        "n_without_cluster": sizes[-1],
    }


def describe_coordinator(coordinator: Coordinator) -> dict[str, Json]:
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
        "n_without_cluster": everyone[-1],
    }
