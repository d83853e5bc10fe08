"""Waymo Open as Ekya cuts it: crops of road users and signs, a client per camera and segment.

Layout (read from Ekya's public sources, which write it; not checked against Ekya's archive): lists
``sample_lists/citywise/<city>_labels.csv`` with the columns ``idx, image name, class, timestamp, weather, location,
time of day, segment, frame index, camera name, label id, xmin, ymin, xmax, ymax, ...`` and crops in
``<segment>/<camera name>/<image name>``. Ekya also cuts these lists into shorter ones; a sample that stands in
several counts once. Ekya writes Waymo's own classes (1 vehicle, 2 pedestrian, 3 sign, 4 cyclist) and reads them from
0; a list with a 4 or without a 0 is taken to count from 1, which is a guess.
"""

from pathlib import Path

import numpy as np

from fielding.errors import FileFormatError
from fielding.traces.catalog.entry import Entry, NaturalDefaults, Opening, decoding_of, interval_times, narrowing_of
from fielding.traces.csv_table import (
    CsvColumn,
    NameColumn,
    NumberColumn,
    count_parser,
    encode_ids,
    fill_columns,
    open_table,
)
from fielding.traces.images import attach_images, images_below
from fielding.traces.trace import Trace

FOLDER = "waymo_classification_images"
SIZE = 32
CLASSES = ("vehicle", "pedestrian", "sign", "cyclist")
_LIST = "sample_lists/citywise"


def load_waymo(folder: Path, opening: Opening) -> Trace:
    """Return the crops, in ten intervals by frame."""
    root = folder / FOLDER
    samples: dict[tuple[str, str, str], tuple[int, int]] = {}
    for path in sorted((root / _LIST).glob("*_labels.csv")):
        for place, frame, label in read_samples(path):
            samples.setdefault(place, (frame, label))
    if not samples:
        raise FileFormatError(f"{root / _LIST} holds no list <city>_labels.csv; get Ekya's archive")
    ordered = sorted(samples, key=lambda place: (place[0], place[1], samples[place][0], place[2]))
    labels = np.array([samples[place][1] for place in ordered], dtype=np.int64)
    if int(labels.max()) > len(CLASSES):
        raise FileFormatError(f"{root / _LIST}: class {int(labels.max())} is unknown; Waymo's run from 0 to 4")
    counts_from_one = bool((labels == len(CLASSES)).any()) or not (labels == 0).any()
    codes = (labels - int(counts_from_one)).astype(np.int32)  # -1 is Waymo's class "unknown"
    known = np.flatnonzero(codes >= 0).tolist()
    ordered = [ordered[row] for row in known]
    client_ids, client = encode_ids(np.array([f"{segment}/{camera}" for segment, camera, _ in ordered]))
    trace = Trace(
        client_ids=tuple(client_ids), client=client, time=interval_times(client), y=codes[known], classes=CLASSES
    )
    images = images_below(root.resolve(), ["/".join(place) for place in ordered])
    return attach_images(trace, images, decoding=decoding_of(opening, size=SIZE), narrow=narrowing_of(opening).apply)


def read_samples(path: Path) -> list[tuple[tuple[str, str, str], int, int]]:
    """Return (segment, camera, image name), frame and class of every sample of a list."""
    table = open_table(path)
    segment, camera, image = NameColumn(), NameColumn(), NameColumn()
    frame, label = NumberColumn(count_parser("frame")), NumberColumn(count_parser("class"))
    columns: dict[str, CsvColumn] = {
        "segment": segment,
        "camera name": camera,
        "image name": image,
        "frame index": frame,
        "class": label,
    }
    fill_columns(table, [(table.position(name), column) for name, column in columns.items()], None)
    segments, cameras, names = (np.array(one.names())[one.codes()].tolist() for one in (segment, camera, image))
    frames, labels = (column.values().astype(np.int64).tolist() for column in (frame, label))
    places = zip(segments, cameras, names, strict=True)
    return list(zip(places, frames, labels, strict=True))


ENTRY = Entry(
    name="waymo",
    summary="crops of road users and signs, a client per camera and segment (the paper's Waymo Open)",
    kind="natural",
    n_samples=None,
    n_clients=212,
    n_classes=len(CLASSES),
    licence="Waymo Open Dataset, non-commercial; registration needed",
    how_to_get="get waymo_classification_images.tar from Ekya (github.com/edge-video-services/ekya) and unpack it",
    files=(f"{FOLDER}/{_LIST}/",),
    load=load_waymo,
    # Frames are a tenth of a second apart and show the same things; times are numbers of intervals, none is shorter.
    defaults=NaturalDefaults(interval="1s", block="1s"),
)
