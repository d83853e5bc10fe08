"""ExtraSensory: what people do, as the sensors of their phones and watches feel it."""

from pathlib import Path

from fielding.traces.catalog.entry import Entry, NaturalDefaults, Opening, narrowing_of
from fielding.traces.importers import import_trace
from fielding.traces.trace import Trace

FILE = "extrasensory.npz"


def load(folder: Path, opening: Opening) -> Trace:
    """Return a trace with 225 standardized features a minute."""
    return import_trace(folder / FILE, narrow=narrowing_of(opening).apply)


ENTRY = Entry(
    name="extrasensory",
    summary="what people do, by the sensors of phone and watch, a sample a minute",
    kind="natural",
    n_samples=103_279,
    n_clients=30,
    n_classes=6,
    licence="ExtraSensory (UC San Diego), research use; 30 of its 60 people",
    how_to_get="get it with `fielding data fetch extrasensory`",
    files=(FILE,),
    load=load,
    # People were recorded in different weeks: on the calendar at most 4 of 30 overlap.
    defaults=NaturalDefaults(interval="6h", align="client"),
    fetchable=True,
)
