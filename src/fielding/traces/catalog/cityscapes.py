"""Cityscapes as Ekya cuts it: crops of people and vehicles, a client per 100 consecutive ones of a city.

Layout (read from Ekya's public sources, which write these lists; the lists themselves are not public): a CSV without
header per city, ``sample_lists/citywise/<city>_fine.csv``, with the cells ``idx, imgpath, class, x0, y0, x1, y1``;
frames are in ``leftImg8bit/<imgpath>``. Classes above 5 are left out, as in Ekya. The paper makes a client of "100
consecutive frames"; Cityscapes has too few frames for its 217 clients, so samples must be meant. Samples are sorted
by frame; the last client of a city has what is left over.
"""

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fielding.errors import FileFormatError, echo
from fielding.traces.catalog.entry import Entry, NaturalDefaults, Opening, decoding_of, interval_times, narrowing_of
from fielding.traces.csv_table import encode_ids
from fielding.traces.images import attach_images, images_below
from fielding.traces.npz_file import unreadable
from fielding.traces.trace import Trace

FOLDER = "cityscapes"
SIZE = 32
CLASSES = ("person", "car", "truck", "bus", "bicycle", "motorcycle")
SAMPLES_PER_CLIENT = 100
_CELLS = ("idx", "imgpath", "class", "x0", "y0", "x1", "y1")
_LIST = "sample_lists/citywise"


def load_cityscapes(folder: Path, opening: Opening) -> Trace:
    """Return the crops, in ten intervals by frame."""
    root = folder / FOLDER
    lists = sorted((root / _LIST).glob("*_fine.csv"))
    if not lists:
        raise FileFormatError(f"{root / _LIST} holds no list <city>_fine.csv; make them with Ekya's script")
    samples = [(path.name.removesuffix("_fine.csv"), *sample) for path in lists for sample in read_crops(path)]
    # Sorted by frame: the name of a frame is city, sequence and number, each of fixed width.
    samples.sort(key=lambda sample: (sample[0], sample[1]))
    places: dict[str, int] = {}
    owners = []
    for city, *_ in samples:
        owners.append(f"{city}-{places.setdefault(city, 0) // SAMPLES_PER_CLIENT:03d}")
        places[city] += 1
    client_ids, client = encode_ids(np.array(owners))
    trace = Trace(
        client_ids=tuple(client_ids),
        client=client,
        time=interval_times(client),
        y=np.array([label for _, _, label, _ in samples], dtype=np.int32),
        classes=CLASSES,
    )
    names, boxes = [name for _, name, _, _ in samples], np.array([box for *_, box in samples], dtype=np.int64)
    images = images_below((root / "leftImg8bit").resolve(), names, kind="frame", boxes=boxes)
    return attach_images(trace, images, decoding=decoding_of(opening, size=SIZE), narrow=narrowing_of(opening).apply)


def read_crops(path: Path) -> Iterator[tuple[str, int, list[int]]]:
    """Yield frame, class and box of every sample of a list."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            for number, cells in enumerate(csv.reader(file, strict=True), 1):
                if not cells or (number == 1 and cells[0] == _CELLS[0]):
                    continue
                sample = _sample(f"{path}, line {number}", cells)
                if sample[1] < len(CLASSES):
                    yield sample
    except OSError as error:
        raise unreadable(path, error) from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise FileFormatError(f"{path} is no CSV file in UTF-8 ({error}); make it with Ekya's script") from None


def _sample(where: str, cells: list[str]) -> tuple[str, int, list[int]]:
    if len(cells) != len(_CELLS):
        raise FileFormatError(f"{where}: {len(cells)} cells; wanted are {', '.join(_CELLS)}")
    try:
        label, *box = [int(float(cell)) for cell in cells[2:]]
    except (ValueError, OverflowError):
        raise FileFormatError(
            f"{where}: {echo(','.join(cells[2:]))} are no numbers; wanted are a class and a box"
        ) from None
    if label < 0:
        raise FileFormatError(f"{where}: class is {label}; a number from 0 is wanted")
    return cells[1], label, box


ENTRY = Entry(
    name="cityscapes",
    summary="crops of people and vehicles from street scenes, 100 consecutive ones a client (the paper's Cityscapes)",
    kind="natural",
    n_samples=None,
    n_clients=217,
    n_classes=len(CLASSES),
    licence="Cityscapes, non-commercial; registration needed",
    how_to_get="register at cityscapes-dataset.com for leftImg8bit and gtFine, then make the lists with Ekya's script",
    files=(f"{FOLDER}/{_LIST}/", f"{FOLDER}/leftImg8bit/"),
    load=load_cityscapes,
    # Ten consecutive crops, an interval, are about those of one frame; times are numbers of intervals, none is shorter.
    defaults=NaturalDefaults(interval="1s", block="1s"),
)
