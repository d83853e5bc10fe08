"""`fielding data list` and `fielding data fetch`: the known data sets, and how they come here."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fielding.cli.console import Advance, counting, progress_bar, say, say_json, say_table
from fielding.cli.options import JsonOutput, Quiet
from fielding.reporting.words import plain
from fielding.traces.catalog import CATALOG, FOLDER_VARIABLE, Entry, data_folder

if TYPE_CHECKING:
    from fielding.traces.fetching import OnBytes

DataFolder = Annotated[
    Path | None,
    typer.Option("--data", help=f"Folder of data sets; without it {FOLDER_VARIABLE}, or ~/.cache/fielding/data."),
]
TargetFolder = Annotated[
    Path | None,
    typer.Option("--to", help=f"Folder to write into; without it {FOLDER_VARIABLE}, or ~/.cache/fielding/data."),
]


def list_data(data: DataFolder = None, as_json: JsonOutput = False) -> None:
    """List the known data sets: which are here, how large they are, and how to get the others."""
    folder = data_folder(data)
    if as_json:
        say_json({"folder": str(folder), "sets": [_record(entry, folder) for entry in CATALOG.values()]})
        return
    heads = ("name", "kind", "here", "samples", "clients", "classes")
    say_table(f"data sets, looked for in {folder}", [heads, *(_row(entry, folder) for entry in CATALOG.values())])
    width = max(map(len, CATALOG))
    for entry in CATALOG.values():
        way = "" if entry.missing(folder) is None else f"; {entry.how_to_get}"
        say(f"{entry.name:<{width}}  {entry.summary}{way}")


def _record(entry: Entry, folder: Path) -> dict[str, object]:
    """Return everything that is known about a data set."""
    defaults = entry.defaults
    return {
        "name": entry.name,
        "kind": entry.kind,
        "here": entry.missing(folder) is None,
        "samples": entry.n_samples,
        "clients": entry.n_clients,
        "classes": entry.n_classes,
        "summary": entry.summary,
        "licence": entry.licence,
        "files": list(entry.files),
        "how_to_get": entry.how_to_get,
        "fetchable": entry.fetchable,
        "interval": None if defaults is None else defaults.interval,
        "align": None if defaults is None else defaults.align,
        "last": None if defaults is None else defaults.narrowing.last,
        "most_active": None if defaults is None else defaults.narrowing.clients,
    }


def _row(entry: Entry, folder: Path) -> tuple[str, ...]:
    here = "yes" if entry.missing(folder) is None else "no"
    sizes = (entry.n_samples, entry.n_clients, entry.n_classes)
    return (entry.name, entry.kind, here, *("-" if one is None else f"{one:,}" for one in sizes))


def fetch(
    name: Annotated[str, typer.Argument(help="A data set that can be downloaded freely; see `fielding data list`.")],
    to: TargetFolder = None,
    as_json: JsonOutput = False,
    quiet: Quiet = False,
) -> None:
    """Download a data set, check its checksum, and write it in the form that Fielding reads.

    A data set that is there already is left alone. If anything goes wrong, nothing is left behind.
    """
    from fielding.traces.fetching import fetch as fetch_data  # brings TLS, which no other command needs

    with progress_bar(f"fetching {name}", None, quiet=quiet) as advance:
        path, is_new = fetch_data(name, data_folder(to), on_bytes=_told_per_file(advance))
    written: dict[str, int | str] = {"file": str(path), "bytes": path.stat().st_size, "fetched": is_new}
    if as_json:
        say_json(written)
    elif not quiet:
        say(plain(written) if is_new else f"{path} is there already; delete it to fetch it again")


def _told_per_file(advance: Advance) -> "OnBytes":
    """Return a callback that adds up the bytes of several files."""
    counters: dict[str, Advance] = {}

    def told(name: str, n_bytes: int, total: int | None) -> None:  # noqa: ARG001 - files come one after the other
        counters.setdefault(name, counting(advance))(n_bytes)

    return told
