"""A street where over 80 % of what cameras see are cars: labels of KITTI's videos with images of Fashion-MNIST.

KITTI's labels come without images here, so each label gets images of its own from another data set. Who sees which kind
of object when is KITTI's; what objects look like is not. Only videos in which more than half of the objects are cars
are kept, because over all videos cars are 58 %.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fielding._typing import Codes, Counts
from fielding.atomic import replaced_file
from fielding.errors import InputError
from fielding.rng import stream
from fielding.traces.catalog.entry import interval_times
from fielding.traces.csv_table import encode_ids
from fielding.traces.importers import import_trace
from fielding.traces.npz_file import read_arrays, write_arrays
from fielding.traces.trace import Trace

LABELS, IMAGES = "kitti_objects.csv.gz", "fashion_mnist.npz"
MOST = "Car"
LEAST_SHARE = 0.5
"""Share of cars that a video is kept from."""
FRAMES_PER_SECOND, KEPT_FRAMES = 10, 2
"""KITTI's, and every how many-th frame is kept: there are not enough images for all."""
SAMPLES_PER_CLIENT = 70
"""Consecutive objects of a video that make a client, which gives about as many clients as the paper has on Waymo."""
LOOKS: dict[str, tuple[str, ...]] = {
    "Car": ("Pullover", "Coat"),
    "Van": ("Shirt",),
    "Misc": ("T-shirt/top",),
    "Truck": ("Dress",),
    "Pedestrian": ("Sneaker",),
    "Person": ("Ankle boot",),
    "Cyclist": ("Sandal",),
    "Tram": ("Bag",),
}
"""What stands for what: kinds that are easily confused look alike. Cars need the images of two classes."""
SEED = 20_261_116
"""Of which image an object gets; the same for all runs."""


def recipe_digest() -> str:
    """Return what tells this recipe from any other one."""
    recipe = [LABELS, IMAGES, MOST, LEAST_SHARE, FRAMES_PER_SECOND, KEPT_FRAMES, SAMPLES_PER_CLIENT, LOOKS, SEED]
    return hashlib.sha256(json.dumps(recipe).encode()).hexdigest()


def street_file(data: Path, folder: Path) -> Path:
    """Return the file of the trace, made from the data folder if it is not there yet.

    The digest of its recipe stands beside it; a file without one may not be whole and is made again.

    Raises
    ------
    InputError
        If the file is of another recipe, which runs may have been made with, or data are missing.
    """
    path, mark = folder / "street.npz", folder / "street.recipe"
    if path.exists() and mark.exists():
        if mark.read_text(encoding="ascii").strip() != recipe_digest():
            raise InputError(f"{path} is of another recipe; give another --out, or remove it and the runs made with it")
        return path
    _build(data, path)
    with replaced_file(mark) as file:
        file.write(f"{recipe_digest()}\n".encode())
    return path


def _build(data: Path, path: Path) -> None:
    for name in (LABELS, IMAGES):
        if not (data / name).exists():
            raise InputError(f"{data} has no {name}; name the data folder with FIELDING_DATA")
    path.parent.mkdir(parents=True, exist_ok=True)
    labels = car_videos(import_trace(data / LABELS))
    names = np.array(labels.classes)[labels.y]
    owners = owners_of(labels)
    ids, client = encode_ids(np.array(owners))
    arrays = read_arrays(data / IMAGES, ("x", "y", "classes"))
    rows = looks(names.tolist(), arrays["y"], arrays["classes"].tolist())
    write_arrays(
        path,
        {
            "x": arrays["x"][rows],
            "y": labels.y.astype(np.int32),
            "classes": np.array(labels.classes),
            "client": np.array(ids)[client],
            "time": interval_times(client),
        },
        compress=False,
    )


def car_videos(trace: Trace) -> Trace:
    """Return every other frame of the videos that show cars for the most part, by video and time."""
    is_car = np.array([trace.classes[code] == MOST for code in trace.y])
    sizes = np.bincount(trace.client, minlength=len(trace.client_ids))
    cars = np.bincount(trace.client, weights=is_car, minlength=len(trace.client_ids))
    frame = np.rint(trace.time * FRAMES_PER_SECOND).astype(np.int64)
    kept = trace.rows((cars > LEAST_SHARE * sizes)[trace.client] & (frame % KEPT_FRAMES == 0))
    order = np.lexsort((kept.time, kept.client))
    return replace(kept, client=kept.client[order], time=kept.time[order], y=kept.y[order])


def owners_of(trace: Trace) -> list[str]:
    """Return the client of every row: so many consecutive objects of a video; what is left over joins the last.

    Examples
    --------
    >>> trace = Trace(client_ids=("a",), client=np.zeros(150, dtype=np.int32), time=np.arange(150.0),
    ...               y=np.zeros(150, dtype=np.int32), classes=("Car",))
    >>> owners = owners_of(trace)
    >>> owners[0], owners[70], owners[149]
    ('a-00', 'a-01', 'a-01')
    """
    sizes = np.bincount(trace.client, minlength=len(trace.client_ids))
    begins = np.cumsum(sizes) - sizes
    part = (np.arange(trace.n_rows) - begins[trace.client]) // SAMPLES_PER_CLIENT
    last = np.maximum(sizes // SAMPLES_PER_CLIENT, 1) - 1
    part = np.minimum(part, last[trace.client])
    return [f"{trace.client_ids[video]}-{at:02d}" for video, at in zip(trace.client, part, strict=True)]


def looks(names: Sequence[str], y: Codes, classes: Sequence[str]) -> Counts:
    """Return an image for every object, no image twice.

    Parameters
    ----------
    names
        What the objects are.
    y, classes
        The class of every image, and what the classes are called.
    """
    rows: npt.NDArray[np.int64] = np.empty(len(names), dtype=np.int64)
    wanted = np.array(names)
    for name, shown in LOOKS.items():
        own = np.flatnonzero(wanted == name)
        images = np.flatnonzero(np.isin(y, [classes.index(one) for one in shown]))
        if own.size > images.size:
            raise InputError(f"{own.size} objects are a {name}, but there are {images.size} images; keep fewer frames")
        rows[own] = stream(SEED, "looks").permutation(images)[: own.size]
    return rows
