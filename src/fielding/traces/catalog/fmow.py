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

from fielding._typing import Counts, Vector
from fielding.errors import FileFormatError, InputError
from fielding.traces.catalog.entry import Entry, NaturalDefaults, Opening, decoding_of, narrowing_of
from fielding.traces.csv_table import (
    CsvColumn,
    NameColumn,
    NumberColumn,
    encode_ids,
    fill_columns,
    number_parser,
    open_table,
    sort_classes,
    time_parser,
)
from fielding.traces.images import ImageList, attach_images
from fielding.traces.trace import Trace

BANDS = "CDEFGHJKLMNPQRSTUVWX"
"""Latitude bands of 8 degrees from 80 degrees south; the last reaches to 84 degrees north. I and O are left out."""


def grid_zones(latitude: Vector, longitude: Vector) -> list[str]:
    """Return the UTM cell of each point, such as ``"32U"``, with the exceptions of Norway and Svalbard.

    Degrees are positive north and east; more than 90 and 180 raise. Near the poles, where UTM ends, one of A, B (south)
    and Y, Z (north).

    Examples
    --------
    >>> grid_zones(np.array([48.1, -33.9, 60.4, 78.2, 89.0]), np.array([11.6, 151.2, 5.3, 15.6, -5.0]))
    ['32U', '56H', '32V', '33X', 'Y']
    """
    bad = ~((np.abs(latitude) <= 90.0) & (np.abs(longitude) <= 180.0))
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(f"row {row} lies at latitude {latitude[row]}, longitude {longitude[row]}; no such place")
    band = np.clip(np.floor((latitude + 80.0) / 8.0), 0, len(BANDS) - 1).astype(np.int64)
    zone = np.floor((longitude + 180.0) / 6.0).astype(np.int64) % 60 + 1
    zone[(band == BANDS.index("V")) & (longitude >= 3.0) & (longitude < 12.0)] = 32
    for west, east, wide in ((0.0, 9.0, 31), (9.0, 21.0, 33), (21.0, 33.0, 35), (33.0, 42.0, 37)):
        zone[(band == BANDS.index("X")) & (longitude >= west) & (longitude < east)] = wide
    cells = [f"{number}{BANDS[letter]}" for number, letter in zip(zone.tolist(), band.tolist(), strict=True)]
    for row in np.flatnonzero((latitude < -80.0) | (latitude > 84.0)).tolist():
        cells[row] = ("AB" if latitude[row] < 0 else "YZ")[int(longitude[row] >= 0.0)]
    return cells


FOLDER = "fmow_v1.1"
SIZE = 64
FIRST_TIME = datetime(2015, 1, 1, tzinfo=UTC).timestamp()
SEQUESTERED = "seq"


def load_fmow(folder: Path, opening: Opening) -> Trace:
    """Return the images from 2015 on, by UTM cell."""
    root = folder / FOLDER
    trace, rows = read_metadata(root / "rgb_metadata.csv")
    images = ImageList(files=tuple(root / "images" / f"rgb_img_{row}.png" for row in rows.tolist()))
    narrow = narrowing_of(opening).apply
    return attach_images(trace, images, decoding=decoding_of(opening, size=SIZE), narrow=narrow)


def read_metadata(path: Path) -> tuple[Trace, Counts]:
    """Return the trace without images, and the row of the file that each of its rows was: the number of the image."""
    table = open_table(path)
    split, label = NameColumn(), NameColumn()
    time = NumberColumn(time_parser())
    latitude, longitude = (NumberColumn(number_parser(name)) for name in ("latitude", "longitude"))
    columns: dict[str, CsvColumn] = {
        "split": split,
        "category": label,
        "timestamp": time,
        "lat": latitude,
        "lon": longitude,
    }
    fill_columns(table, [(table.position(name), column) for name, column in columns.items()], None)
    try:
        client_ids, client = encode_ids(np.array(grid_zones(latitude.values(), longitude.values())))
    except InputError as error:
        raise FileFormatError(f"{path}: {error}") from None
    classes, y = sort_classes(label.names(), label.codes())
    trace = Trace(client_ids=tuple(client_ids), client=client, time=time.values(), y=y, classes=classes)
    keep = (np.array(split.names())[split.codes()] != SEQUESTERED) & (trace.time >= FIRST_TIME)
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
    load=load_fmow,
    # Images of one pass of a satellite are seconds apart; that a place comes again weeks later, no block can help.
    defaults=NaturalDefaults(interval="1d", block="1d"),
)
