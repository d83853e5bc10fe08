"""Fashion-MNIST: gray images of clothes."""

from pathlib import Path

from fielding.traces.catalog.entry import Entry, Opening
from fielding.traces.importers import import_pool
from fielding.traces.pool import Pool

FILE = "fashion_mnist.npz"


def load(folder: Path, opening: Opening) -> Pool:  # noqa: ARG001
    """Return the images, training and test set together: Fielding makes its own split."""
    return import_pool(folder / FILE)


ENTRY = Entry(
    name="fashion_mnist",
    summary="articles of clothing, 28 x 28 gray",
    kind="pool",
    n_samples=70_000,
    n_classes=10,
    licence="Zalando Research; MIT",
    how_to_get="get it with `fielding data fetch fashion_mnist`",
    files=(FILE,),
    load=load,
    fetchable=True,
)
