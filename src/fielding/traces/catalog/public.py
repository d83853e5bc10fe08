"""Data sets whose files can be fetched or made: Fashion-MNIST, CIFAR-100, ExtraSensory, the history of Zephyr."""

from pathlib import Path

from fielding.traces.catalog.entry import Entry, Narrowing, NaturalDefaults, Opening, narrowing_of
from fielding.traces.importers import Columns, import_pool, import_trace
from fielding.traces.pool import Pool
from fielding.traces.trace import Trace


def load_fashion_mnist(folder: Path, opening: Opening) -> Pool:  # noqa: ARG001
    """Return the images, training and test set together: Fielding makes its own split."""
    return import_pool(folder / "fashion_mnist.npz")


def load_cifar100(folder: Path, opening: Opening) -> Pool:  # noqa: ARG001
    """Return the images, shrunk to 16 x 16 pixels, training and test set together: Fielding makes its own split."""
    return import_pool(folder / "cifar100_16px.npz")


def load_extrasensory(folder: Path, opening: Opening) -> Trace:
    """Return a trace with 225 standardized features a minute."""
    return import_trace(folder / "extrasensory.npz", narrow=narrowing_of(opening).apply)


def load_zephyr(folder: Path, opening: Opening) -> Trace:
    """Return a trace with hashed subject lines as features."""
    columns = Columns(text="text", n_text_features=opening.n_text_features)
    return import_trace(folder / "zephyr_commits.csv.gz", columns, narrow=narrowing_of(opening).apply)


FASHION_MNIST = Entry(
    name="fashion_mnist",
    summary="articles of clothing, 28 x 28 gray",
    kind="pool",
    n_samples=70_000,
    n_classes=10,
    licence="Zalando Research; MIT",
    how_to_get="get it with `fielding data fetch fashion_mnist`",
    files=("fashion_mnist.npz",),
    load=load_fashion_mnist,
    fetchable=True,
)

CIFAR100 = Entry(
    name="cifar100",
    summary="things and animals, 16 x 16 color (2 x 2 means of CIFAR-100)",
    kind="pool",
    n_samples=60_000,
    n_classes=100,
    licence="Krizhevsky 2009; no licence stated, cite the report",
    how_to_get="get it with `fielding data fetch cifar100`",
    files=("cifar100_16px.npz",),
    load=load_cifar100,
    fetchable=True,
)

EXTRASENSORY = Entry(
    name="extrasensory",
    summary="what people do, by the sensors of phone and watch, a sample a minute",
    kind="natural",
    n_samples=103_279,
    n_clients=30,
    n_classes=6,
    licence="ExtraSensory (UC San Diego), research use; 30 of its 60 people",
    how_to_get="get it with `fielding data fetch extrasensory`",
    files=("extrasensory.npz",),
    load=load_extrasensory,
    # People were recorded in different weeks: on the calendar at most 4 of 30 overlap.
    defaults=NaturalDefaults(interval="6h", align="client", block="1h"),
    fetchable=True,
)

ZEPHYR = Entry(
    name="zephyr",
    summary="commits by author: subject line (hashed words) and the part of the project it touches",
    kind="natural",
    n_samples=191_993,
    n_clients=4445,
    n_classes=62,
    licence="history of zephyrproject-rtos/zephyr, Apache-2.0; authors are hashed",
    how_to_get="make it from `git log` of the Zephyr repository: a CSV with client,time,label,text (see docs/data.md)",
    files=("zephyr_commits.csv.gz",),
    load=load_zephyr,
    # Over the whole history most authors are not there most of the time.
    defaults=NaturalDefaults(interval="1d", block="3h", narrowing=Narrowing(last="1050d", clients=302)),
)
