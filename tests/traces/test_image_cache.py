import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("PIL", reason="images need the extra 'images'")

from PIL import Image

from fielding.errors import FileFormatError, InputError, OptionError, OutputError
from fielding.traces import images as image_cache
from fielding.traces.images import ImageList, ImageSpec, cache_folder, cache_images
from fielding.traces.npz_file import Array
from tests.traces.pictures import paint

SMALL = ImageSpec(size=2)


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_images_of_any_size_become_one_array_mapped_from_disk(tmp_path: Path) -> None:
    first = paint(tmp_path / "a.png", (10, 20, 30), size=(9, 5))
    second = paint(tmp_path / "b.jpg", 200, size=(3, 40), mode="L")

    array = cache_images(ImageList(files=(first, second)), SMALL, folder=tmp_path / "cache")

    assert isinstance(array, np.memmap)
    assert array.shape == (2, 2, 2, 3)
    assert array[0].reshape(-1, 3).tolist() == [[10, 20, 30]] * 4
    assert np.abs(array[1].astype(int) - 200).max() <= 2


def test_gray_images_have_no_axis_of_channels(tmp_path: Path) -> None:
    path = paint(tmp_path / "a.png", (255, 255, 255))

    array = cache_images(ImageList(files=(path,)), ImageSpec(size=3, channels=1), folder=tmp_path / "cache")

    assert array.tolist() == [[[255] * 3] * 3]


def test_rows_and_columns_stay_where_they_are(tmp_path: Path) -> None:
    pixels = np.arange(4, dtype=np.uint8).reshape(2, 2)
    Image.fromarray(pixels).save(tmp_path / "a.png")

    array = cache_images(ImageList(files=(tmp_path / "a.png",)), ImageSpec(size=2, channels=1), folder=tmp_path / "c")

    assert array[0].tolist() == pixels.tolist()


def test_boxes_are_cut_out_and_cut_off_at_the_border(tmp_path: Path) -> None:
    pixels = np.zeros((4, 6, 3), dtype=np.uint8)
    pixels[:, 3:] = 100
    Image.fromarray(pixels).save(tmp_path / "a.png")
    boxes = np.array([[0, 0, 3, 4], [3, -5, 60, 4]])

    array = cache_images(ImageList(files=(tmp_path / "a.png",) * 2, boxes=boxes), SMALL, folder=tmp_path / "cache")

    assert np.unique(array[0]).tolist() == [0]
    assert np.unique(array[1]).tolist() == [100]


def test_a_box_outside_its_image_is_refused(tmp_path: Path) -> None:
    images = ImageList(files=(paint(tmp_path / "a.png"),), boxes=np.array([[6, 0, 9, 4]]))

    with pytest.raises(FileFormatError, match=r"a\.png: box \[6, 0, 9, 4\] lies outside its 6 x 4 pixels"):
        cache_images(images, SMALL, folder=tmp_path / "cache")


def test_the_second_time_nothing_is_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = ImageList(files=(paint(tmp_path / "a.png"),))
    first = cache_images(images, SMALL, folder=tmp_path / "cache")
    monkeypatch.setattr(image_cache, "_decode_chunks", None)

    assert (cache_images(images, SMALL, folder=tmp_path / "cache") == first).all()


@pytest.mark.parametrize("change", ["pixels", "time", "spec", "boxes", "order"])
def test_whatever_changes_the_images_makes_a_new_cache(tmp_path: Path, change: str) -> None:
    one, two = paint(tmp_path / "a.png"), paint(tmp_path / "b.png", (1, 2, 3))
    images, spec = ImageList(files=(one, two)), SMALL
    cache_images(images, spec, folder=tmp_path / "cache")
    if change == "pixels":
        paint(one, (9, 9, 9), size=(20, 20))
    elif change == "time":
        os.utime(one, ns=(1, 1))
    elif change == "spec":
        spec = ImageSpec(size=3)
    elif change == "boxes":
        images = ImageList(files=(one, two), boxes=np.array([[0, 0, 2, 2]] * 2))
    else:
        images = ImageList(files=(two, one))

    cache_images(images, spec, folder=tmp_path / "cache")

    assert len(files(tmp_path / "cache")) == 2


def test_a_damaged_cache_is_written_again(tmp_path: Path) -> None:
    images = ImageList(files=(paint(tmp_path / "a.png"),))
    cache_images(images, SMALL, folder=tmp_path / "cache")
    (kept,) = (tmp_path / "cache").iterdir()
    kept.write_bytes(kept.read_bytes()[:-1])

    assert cache_images(images, SMALL, folder=tmp_path / "cache")[0, 0, 0].tolist() == [10, 20, 30]


@pytest.mark.parametrize("content", [b"", b"no image", b"\x89PNG\r\n\x1a\n" + b"\0" * 40])
def test_an_image_that_cannot_be_read_is_named_and_nothing_is_written(tmp_path: Path, content: bytes) -> None:
    good, bad = paint(tmp_path / "a.png"), tmp_path / "bad.png"
    bad.write_bytes(content)

    with pytest.raises(FileFormatError) as caught:
        cache_images(ImageList(files=(good, bad)), SMALL, folder=tmp_path / "cache")

    assert str(bad) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert files(tmp_path / "cache") == []


def test_an_image_that_was_cut_short_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    Image.fromarray(np.arange(30_000, dtype=np.uint8).reshape(100, 100, 3)).save(path)
    path.write_bytes(path.read_bytes()[:700])

    with pytest.raises(FileFormatError, match=r"a\.jpg cannot be read .*truncated"):
        cache_images(ImageList(files=(path,)), SMALL, folder=tmp_path / "cache")


def test_a_missing_image_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"gone\.png cannot be read \(No such file or directory\)"):
        cache_images(ImageList(files=(tmp_path / "gone.png",)), SMALL, folder=tmp_path / "cache")


def test_pixels_of_sixteen_bits_are_refused(tmp_path: Path) -> None:
    Image.fromarray(np.full((4, 4), 40_000, dtype=np.uint16)).save(tmp_path / "a.png")

    with pytest.raises(FileFormatError, match=r"a\.png: its pixels have more than 8 bits"):
        cache_images(ImageList(files=(tmp_path / "a.png",)), SMALL, folder=tmp_path / "cache")


def test_transparency_is_dropped(tmp_path: Path) -> None:
    path = paint(tmp_path / "a.png", (10, 20, 30, 0), mode="RGBA")

    assert cache_images(ImageList(files=(path,)), SMALL, folder=tmp_path / "c")[0, 0, 0].tolist() == [10, 20, 30]


def test_progress_is_told_in_chunks_and_no_more_than_a_chunk_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_cache, "CHUNK", 4)
    sizes: list[int] = []
    real = image_cache._decode_chunks

    def spied(images: ImageList, spec: ImageSpec) -> Iterator[tuple[int, Array]]:
        for n_done, chunk in real(images, spec):
            sizes.append(len(chunk))
            yield n_done, chunk

    monkeypatch.setattr(image_cache, "_decode_chunks", spied)
    told: list[tuple[int, int]] = []
    paths = tuple(paint(tmp_path / f"{at}.png", (at, at, at)) for at in range(10))

    array = cache_images(
        ImageList(files=paths), SMALL, folder=tmp_path / "cache", on_images=lambda *both: told.append(both)
    )

    assert told == [(4, 10), (8, 10), (10, 10)]
    assert sizes == [4, 4, 2]
    assert array[:, 0, 0, 0].tolist() == list(range(10))


KILLED = """
import os, sys
from pathlib import Path
from fielding.traces import images as image_cache
from fielding.traces.images import ImageList, ImageSpec, cache_images
image_cache.CHUNK = 1
images = ImageList(files=tuple(sorted(Path(sys.argv[1]).glob("*.png"))))
cache_images(images, ImageSpec(size=2), folder=Path(sys.argv[2]), on_images=lambda done, total: os._exit(9))
"""


def test_a_process_killed_while_writing_leaves_nothing_that_counts(tmp_path: Path) -> None:
    paths = tuple(paint(tmp_path / "p" / f"{at}.png") for at in range(3))
    cache = tmp_path / "cache"
    killed = subprocess.run([sys.executable, "-c", KILLED, tmp_path / "p", cache], check=False)
    assert killed.returncode == 9
    assert [name.endswith(".tmp") for name in files(cache)] == [True]

    array = cache_images(ImageList(files=paths), SMALL, folder=cache)

    assert array.shape == (3, 2, 2, 3)
    assert [name.endswith(".npy") for name in files(cache)] == [True]


def test_a_cache_that_cannot_be_made_is_an_output_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(OutputError, match="cannot make the image cache"):
        cache_images(ImageList(files=(paint(tmp_path / "a.png"),)), SMALL, folder=tmp_path / "file" / "cache")


def test_without_pillow_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = paint(tmp_path / "a.png")
    monkeypatch.setitem(sys.modules, "PIL", None)

    with pytest.raises(InputError, match=r"pip install 'fielding\[images\]'"):
        cache_images(ImageList(files=(path,)), SMALL, folder=tmp_path / "cache")


@pytest.mark.parametrize(("size", "channels"), [(0, 3), (True, 3), (5000, 3), (8, 2), (8, 4)])
def test_an_impossible_spec_is_refused(size: int, channels: int) -> None:
    with pytest.raises(OptionError, match="give"):
        ImageSpec(size=size, channels=channels)


def test_the_cache_lies_where_the_system_keeps_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    assert cache_folder("images") == Path("/elsewhere/fielding/images")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/at/home")
    assert cache_folder("images") == Path("/at/home/.cache/fielding/images")
