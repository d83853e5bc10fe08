"""The history of the Zephyr project: which part of it a commit touches, by the words of its subject line."""

from pathlib import Path

from fielding.traces.catalog.entry import Entry, Narrowing, NaturalDefaults, Opening, narrowing_of
from fielding.traces.importers import Columns, import_trace
from fielding.traces.trace import Trace

FILE = "zephyr_commits.csv.gz"


def load(folder: Path, opening: Opening) -> Trace:
    """Return a trace with hashed subject lines as features."""
    columns = Columns(text="text", n_text_features=opening.n_text_features)
    return import_trace(folder / FILE, columns, narrow=narrowing_of(opening).apply)


ENTRY = Entry(
    name="zephyr",
    summary="commits by author: subject line (hashed words) and the part of the project it touches",
    kind="natural",
    n_samples=191_993,
    n_clients=4445,
    n_classes=62,
    licence="history of zephyrproject-rtos/zephyr, Apache-2.0; authors are hashed",
    how_to_get="make it from `git log` of the Zephyr repository: a CSV with client,time,label,text (see docs/data.md)",
    files=(FILE,),
    load=load,
    # Over the whole history most authors are not there most of the time.
    defaults=NaturalDefaults(interval="1d", narrowing=Narrowing(last="1050d", clients=302)),
)
