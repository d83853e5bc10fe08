"""Open Images with FedScale's clients: the top 100 classes, and the labels of a client arriving in ten buckets.

Layout (read from FedScale's public loaders, not from its archive): ``client_data_mapping/train.csv`` whose first
three columns are client, image and name of the label (``client_id, sample_path, label_name, label_id``), and the
images in ``train/<sample_path>``. As in the paper: the 100 classes with most samples, clients that have at least 10
of them, and every client's labels dealt at random into 10 buckets, one after the other. Which of FedScale's splits
the paper used it does not say; the training split is read here, and the number of clients may differ from 5,078.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from fielding._typing import Counts, Vector
from fielding.errors import FileFormatError
from fielding.rng import client_keys, hashed
from fielding.traces.catalog.entry import (
    N_INTERVALS,
    Entry,
    NaturalDefaults,
    Opening,
    decoding_of,
    narrowing_of,
    ranks_within,
)
from fielding.traces.csv_table import NameColumn, fill_columns, open_table, parse_ids, sort_classes, sort_ids
from fielding.traces.images import attach_images, images_below
from fielding.traces.trace import Trace

FOLDER = "open_images"
SIZE = 64
N_CLASSES = 100
LEAST_CLASSES = 10  # classes that a client must have samples of
_MAPPING = "client_data_mapping/train.csv"


def load_open_images(folder: Path, opening: Opening) -> Trace:
    """Return the images of the clients that qualify; the time of a sample is its bucket, 0 to 9."""
    root = folder / FOLDER
    trace, names = read_mapping(root / _MAPPING)
    trace = replace(trace, time=bucket_times(trace, opening.seed))
    images = images_below((root / "train").resolve(), names)
    return attach_images(trace, images, decoding=decoding_of(opening, size=SIZE), narrow=narrowing_of(opening).apply)


def read_mapping(
    path: Path, *, n_classes: int = N_CLASSES, least_classes: int = LEAST_CLASSES
) -> tuple[Trace, list[str]]:
    """Return the samples of the top classes and of the clients with enough of them, all at time 0, and their images."""
    table = open_table(path)
    if len(table.header) < 4:
        raise FileFormatError(f"{path} has {len(table.header)} columns; wanted are client, image, label name, label id")
    client, image, label = NameColumn(), NameColumn(), NameColumn()
    fill_columns(table, list(enumerate((client, image, label))), None)
    sizes = np.bincount(label.codes())
    names = label.names()
    top = sorted(range(len(names)), key=lambda code: (-int(sizes[code]), names[code]))[:n_classes]
    keep = np.isin(label.codes(), top)
    pairs = np.unique(np.stack([client.codes()[keep], label.codes()[keep]]), axis=1)
    keep &= (np.bincount(pairs[0], minlength=len(client.names())) >= least_classes)[client.codes()]
    if not keep.any():
        raise FileFormatError(f"{path}: no client has samples of {least_classes} of the top {n_classes} classes")
    ids, codes = sort_ids(parse_ids(client.names()), client.codes())
    places = {code: at for at, code in enumerate(top)}
    classes, y = sort_classes(
        [names[code] for code in top], np.array([places.get(one, 0) for one in range(len(names))])
    )
    trace = Trace(
        client_ids=tuple(ids),
        client=codes,
        time=np.zeros(codes.size),
        y=y[label.codes()].astype(np.int32),
        classes=classes,
    )
    files = image.names()
    return trace.rows(keep), [files[code] for code in image.codes()[keep].tolist()]


def bucket_times(trace: Trace, seed: int, n_buckets: int = N_INTERVALS) -> Vector:
    """Return the bucket of each row: every client deals its labels at random into buckets of equal numbers of labels.

    A client's dealing depends on the seed, its id and its labels alone; one with fewer labels leaves buckets empty.
    """
    pair = trace.client.astype(np.int64) * len(trace.classes) + trace.y
    pairs, row_pair = np.unique(pair, return_inverse=True)
    owner, label = np.divmod(pairs, len(trace.classes))
    owner_keys, label_keys = client_keys(trace.client_ids), client_keys(trace.classes)
    order = np.lexsort((hashed(seed, "bucket", owner_keys[owner], label_keys[label]), owner))
    ranks, sizes = ranks_within(owner[order].astype(np.int32))
    bucket: Counts = np.empty(pairs.size, dtype=np.int64)
    bucket[order] = ranks * n_buckets // sizes
    return bucket[row_pair].astype(np.float64)


ENTRY = Entry(
    name="open_images",
    summary="photos by FedScale's clients, their labels arriving in ten buckets (the paper's Open Images)",
    kind="natural",
    n_samples=None,
    n_clients=5078,
    n_classes=N_CLASSES,
    licence="Open Images, annotations CC BY 4.0, images CC BY 2.0; clients by FedScale",
    how_to_get="unpack fedscale.eecs.umich.edu/dataset/openImage.tar.gz and name the folder open_images",
    files=(f"{FOLDER}/{_MAPPING}", f"{FOLDER}/train/"),
    load=load_open_images,
    # Times are made: a bucket holds all that a client has of some labels, which would be tested but never trained on.
    defaults=NaturalDefaults(interval="1s", block="none"),
)
