"""CIFAR-100, its images shrunk to 16 x 16 pixels."""

from pathlib import Path

from fielding.traces.catalog.entry import Entry, Opening
from fielding.traces.importers import import_pool
from fielding.traces.pool import Pool

FILE = "cifar100_16px.npz"


def load(folder: Path, opening: Opening) -> Pool:  # noqa: ARG001
    """Return the images, training and test set together: Fielding makes its own split."""
    return import_pool(folder / FILE)


ENTRY = Entry(
    name="cifar100",
    summary="things and animals, 16 x 16 color (2 x 2 means of CIFAR-100)",
    kind="pool",
    n_samples=60_000,
    n_classes=100,
    licence="Krizhevsky 2009; no licence stated, cite the report",
    how_to_get="get it with `fielding data fetch cifar100`",
    files=(FILE,),
    load=load,
    fetchable=True,
)
