"""FMoW, the satellite images of the paper: a client per UTM cell, from 2015 on, as WILDS packs them.

Layout (read from the public sources of WILDS, version 1.1, not from the 50 GB archive itself): ``rgb_metadata.csv``
with a row per image and the columns ``split, img_filename, img_path, spatial_reference, epsg, category, visible,
img_width, img_height, country_code, cloud_cover, timestamp, lat, lon`` (and ``region``), and
``images/rgb_img_<row>.png``. Rows of the split ``seq`` are sequestered and left out, as WILDS does. The paper takes
the zone from the metadata of the original FMoW; WILDS does not carry it, so it is computed from latitude and
longitude here and the number of clients may differ from 302.
"""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from fielding._typing import Counts, Mask
from fielding.errors import FileFormatError, InputError
from fielding.traces.catalog.entry import Entry, NaturalDefaults, Opening, decoding_of, narrowing_of
from fielding.traces.catalog.utm import grid_zones
from fielding.traces.columns import encoded_ids, listed_classes
from fielding.traces.csv_table import open_table
from fielding.traces.image_cache import ImageList
from fielding.traces.images import with_images
from fielding.traces.text_columns import Column, NameColumn, NumberColumn, fill_columns, number_parser, time_parser
from fielding.traces.trace import Trace

FOLDER = "fmow_v1.1"
SIZE = 64
FIRST_TIME = datetime(2015, 1, 1, tzinfo=UTC).timestamp()
SEQUESTERED = "seq"


def load(folder: Path, opening: Opening) -> Trace:
    """Return the images from 2015 on, by UTM cell."""
    root = folder / FOLDER
    trace, rows = read_metadata(root / "rgb_metadata.csv")
    images = ImageList(files=tuple(root / "images" / f"rgb_img_{row}.png" for row in rows.tolist()))
    narrow = narrowing_of(opening).apply
    return with_images(trace, images, decoding=decoding_of(opening, size=SIZE), narrow=narrow)


def read_metadata(path: Path) -> tuple[Trace, Counts]:
    """Return the trace without images, and the row of the file that each of its rows was: the number of the image."""
    table = open_table(path)
    split, label = NameColumn(), NameColumn()
    time = NumberColumn(time_parser())
    latitude, longitude = (NumberColumn(number_parser(name)) for name in ("latitude", "longitude"))
    columns: dict[str, Column] = {
        "split": split,
        "category": label,
        "timestamp": time,
        "lat": latitude,
        "lon": longitude,
    }
    fill_columns(table, [(table.position(name), column) for name, column in columns.items()], None)
    try:
        client_ids, client = encoded_ids(np.array(grid_zones(latitude.values(), longitude.values())))
    except InputError as error:
        raise FileFormatError(f"{path}: {error}") from None
    classes, y = listed_classes(label.names(), label.codes())
    trace = Trace(client_ids=tuple(client_ids), client=client, time=time.values(), y=y, classes=classes)
    return _since_2015(path, trace, np.array(split.names())[split.codes()] != SEQUESTERED)


def _since_2015(path: Path, trace: Trace, is_public: Mask) -> tuple[Trace, Counts]:
    """Return the public images taken on or after January 1, 2015, and their rows."""
    keep = is_public & (trace.time >= FIRST_TIME)
    if not keep.any():
        raise FileFormatError(f"{path} lists no public image from 2015 on; get the whole metadata")
    return trace.rows(keep), np.flatnonzero(keep)


ENTRY = Entry(
    name="fmow",
    summary="satellite images by use of the land, a client per UTM cell (the paper's FMoW)",
    kind="natural",
    n_samples=None,
    n_clients=302,
    n_classes=62,
    licence="Functional Map of the World; FMoW Challenge Public License",
    how_to_get="download fmow_v1.1 (50 GB) with the `wilds` package and put the folder there",
    files=(f"{FOLDER}/rgb_metadata.csv", f"{FOLDER}/images/"),
    load=load,
    defaults=NaturalDefaults(interval="1d"),
)
