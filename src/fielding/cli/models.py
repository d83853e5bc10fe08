"""`fielding models`: versions of the models that a deployment serves: export, pin, roll back."""

import shutil
from pathlib import Path
from typing import Annotated

import typer

from fielding._typing import Json
from fielding.atomic import replaced_file
from fielding.cli.console import say, say_json, say_table
from fielding.cli.options import JsonOutput
from fielding.errors import InputError
from fielding.records.model_file import SUFFIX
from fielding.records.run_checkpoint import load_run
from fielding.records.run_folder import newest_checkpoint
from fielding.records.versions import FOR_ALL, ModelVersions, Version, pinned_version


def models(
    run: Annotated[Path, typer.Argument(help="The folder of a run on Flower.")],
    version: Annotated[str | None, typer.Option("--version", help="With --export: which, as r41-c2.")] = None,
    export: Annotated[Path | None, typer.Option("--export", help="Write a version as .safetensors.")] = None,
    pin: Annotated[
        str | None, typer.Option("--pin", metavar="VERSION", help="Deliver this version, to its cluster by default.")
    ] = None,
    unpin: Annotated[bool, typer.Option("--unpin", help="Deliver the newest again.")] = False,
    roll_back: Annotated[
        bool, typer.Option("--roll-back", help="Pin to the version before the one that is delivered now.")
    ] = False,
    cluster: Annotated[str | None, typer.Option("--cluster", help="Which one is pinned: its id, or all.")] = None,
    client: Annotated[str | None, typer.Option("--client", help="Which one is pinned.")] = None,
    as_json: JsonOutput = False,
) -> None:
    """List the versions of a run's models per cluster; export one; pin a cluster or a client to one, or roll back.

    A run that goes on obeys a pin with what it delivers next; training goes on with the newest models.
    """
    versions = ModelVersions(run)
    releases = versions.releases()
    if not releases:
        raise InputError(f"{run} holds no versions of models; give the folder of a run on Flower")
    if sum((pin is not None, unpin, roll_back, export is not None)) > 1:
        raise InputError("--pin, --unpin, --roll-back and --export are several things; do one at a time")
    if cluster is not None and client is not None:
        raise InputError("both --cluster and --client are given; name one")
    if export is not None:
        _export(versions, version, export)
        return
    if pin is not None or unpin or roll_back:
        found = None if pin is None else versions.find(pin)
        if client is None and cluster is None:
            if found is None:
                raise InputError("name whose model it is, with --cluster or --client")
            cluster = "all" if found.cluster == FOR_ALL else str(found.cluster)
        target = _target(run, releases, cluster, client)
        chosen = pin if not roll_back else _before(versions, releases, run, target)
        versions.pin(target, chosen)
        whose = f"{target[0]} {'all' if target == ('cluster', str(FOR_ALL)) else target[1]}"
        say(f"{whose}: {'the newest version' if chosen is None else f'version {chosen}'}, with the next deliveries")
        return
    _list(versions, releases, as_json=as_json)


def _export(versions: ModelVersions, version: str | None, export: Path) -> None:
    if version is None:
        raise InputError("--export writes one version; name it with --version")
    if export.suffix != SUFFIX:
        raise InputError(f"{export.name} is no name for a model; end it with {SUFFIX}")
    found = versions.find(version)
    with versions.path(found.name).open("rb") as source, replaced_file(export) as file:
        shutil.copyfileobj(source, file)
    say(f"wrote {export}: version {found.name}")


def _target(run: Path, releases: list[list[Version]], cluster: str | None, client: str | None) -> tuple[str, str]:
    """Return what is pinned, or raise if there is no such cluster or client."""
    if client is not None:
        known = {str(one) for one in load_run(newest_checkpoint(run)).client_ids}
        if client not in known:
            raise InputError(f"there is no client {client!r}; there are {len(known)} others")
        return ("client", client)
    wanted = str(FOR_ALL) if cluster == "all" else str(cluster)
    ids = {str(one.cluster) for release in releases for one in release}
    if wanted not in ids:
        raise InputError(f"there is no cluster {cluster!r}; there are {', '.join(sorted(ids))}")
    return ("cluster", wanted)


def _before(versions: ModelVersions, releases: list[list[Version]], run: Path, target: tuple[str, str]) -> str:
    """Return the newest version that is there and older than the one that is delivered now."""
    kind, which = target
    cluster: int | None = int(which) if kind == "cluster" else None
    if kind == "client":
        end = load_run(newest_checkpoint(run))
        cluster = end.cluster_of(next(one for one in end.client_ids if str(one) == which))
        cluster = FOR_ALL if cluster is None else cluster
    pinned = pinned_version(versions.pins(), which if kind == "client" else None, cluster)
    there = [
        one for release in releases for one in release if one.cluster == cluster and versions.path(one.name).exists()
    ]
    now = versions.find(pinned).round_index if pinned else (there[-1].round_index if there else -1)
    older = [one for one in there if one.round_index < now]
    if not older:
        raise InputError(f"there is no older version for {kind} {which}; pin one of those that `fielding models` lists")
    return older[-1].name


def _list(versions: ModelVersions, releases: list[list[Version]], *, as_json: bool) -> None:
    pins = versions.pins()
    pinned_by: dict[str, list[str]] = {}
    for (kind, which), name in pins.items():
        pinned_by.setdefault(name, []).append(f"{kind} {which}")
    records: list[dict[str, Json]] = [
        {
            "version": one.name,
            "cluster": one.cluster,
            "round": one.round_index,
            "members": one.n_members,
            "at": one.at,
            "scores": dict(one.scores),
            "is_there": versions.path(one.name).exists(),
            "pinned_by": list(pinned_by.get(one.name, [])),
        }
        for release in releases
        for one in release
    ]
    if as_json:
        say_json({"versions": records, "pins": versions.pin_lines()})
        return
    shown = [one for one in records if one["is_there"]]
    names = list(dict.fromkeys(name for one in shown for name in _scores(one) if name != "n_tested"))
    head = ["version", "members", *names, "date", "pinned"]
    rows = [
        [
            str(one["version"]),
            str(one["members"]),
            *(_number(_scores(one).get(name)) for name in names),
            str(one["at"]),
            ", ".join(pinned_by.get(str(one["version"]), [])),
        ]
        for one in shown
    ]
    say_table("", [head, *rows])
    if len(shown) < len(records):
        say(f"and {len(records) - len(shown)} older ones, whose models are gone (--json tells them)")


def _scores(record: dict[str, Json]) -> dict[str, Json]:
    scores = record["scores"]
    return scores if isinstance(scores, dict) else {}


def _number(value: Json) -> str:
    return f"{value:.4f}" if isinstance(value, float) else ("" if value is None else str(value))
