from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("PIL", reason="images need the extra 'images'")

from fielding.errors import FileFormatError, InputError, OptionError
from fielding.traces.images import (
    Decoding,
    ImageList,
    ImageSpec,
    attach_images,
    find_images,
    image_folder,
    image_index,
    is_image_list,
)
from fielding.traces.pool import Pool
from fielding.traces.trace import Trace
from tests.traces.pictures import paint


@pytest.fixture
def decoding(tmp_path: Path) -> Decoding:
    return Decoding(spec=ImageSpec(size=2), folder=tmp_path / "cache")


def test_a_folder_per_class_is_a_pool(tmp_path: Path, decoding: Decoding) -> None:
    for name, shade in (("dog/b.png", 1), ("dog/a.PNG", 2), ("cat/z.jpg", 3)):
        paint(tmp_path / "set" / name, (shade,) * 3)

    pool = image_folder(tmp_path / "set", decoding)

    assert isinstance(pool, Pool)
    assert pool.classes == ("cat", "dog")
    assert pool.y.tolist() == [0, 1, 1]
    assert pool.x[:, 0, 0, 0].tolist() == [3, 2, 1]
    assert pool.features(np.array([1]))[0, 0, 0, 0] == pytest.approx(2 / 255)
    assert isinstance(pool.x, np.memmap)


def test_classes_that_are_numbers_stand_in_their_order(tmp_path: Path) -> None:
    for name in ("10", "9"):
        paint(tmp_path / name / "a.png")

    assert find_images(tmp_path).classes == ("9", "10")


def test_what_is_no_image_of_a_class_is_passed_over_and_counted(tmp_path: Path) -> None:
    paint(tmp_path / "cat" / "a.png")
    paint(tmp_path / "cat" / "deeper" / "b.png")
    (tmp_path / "cat" / "notes.txt").write_text("x")
    (tmp_path / "README").write_text("x")
    (tmp_path / "empty").mkdir()

    found = find_images(tmp_path)

    assert [path.name for path in found.images.files] == ["a.png"]
    assert found.classes == ("cat",)
    assert found.n_ignored == 3


def test_a_folder_without_images_is_refused(tmp_path: Path) -> None:
    (tmp_path / "readme.md").write_text("x")

    with pytest.raises(FileFormatError, match=r"holds no images \(1 other files\); lay images out as <class>/<image>"):
        find_images(tmp_path)
    with pytest.raises(FileFormatError, match="cannot be read"):
        find_images(tmp_path / "gone")


def test_images_that_lie_directly_in_a_folder_are_counted(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        paint(tmp_path / name)
    (tmp_path / "notes.txt").write_text("x")

    with pytest.raises(
        FileFormatError, match=r"2 images lie directly in .*; put them into one folder per class, or list"
    ):
        find_images(tmp_path)


DAY = 86_400.0


def test_a_folder_per_client_with_one_per_class_is_a_trace(tmp_path: Path, decoding: Decoding) -> None:
    for name in ("ann/cat/IMG_10.png", "ann/dog/IMG_9.png", "bob/cat/IMG_1.png"):
        paint(tmp_path / "set" / name)
    (tmp_path / "set" / "ann" / "notes.txt").write_text("x")
    notes: list[str] = []

    trace = image_folder(tmp_path / "set", decoding, on_note=notes.append)

    assert isinstance(trace, Trace)
    assert trace.client_ids == ("ann", "bob")
    assert trace.classes == ("cat", "dog")
    assert trace.client.tolist() == [0, 0, 1]
    assert trace.y.tolist() == [0, 1, 0]
    assert trace.time.tolist() == [5 * DAY, 0.0, 0.0]  # IMG_9 came before IMG_10
    assert np.asarray(trace.x).shape == (3, 2, 2, 3)
    assert find_images(tmp_path / "set").n_ignored == 1
    (note,) = notes
    assert "is taken for <client>/<class>/<image>: 2 clients (ann, bob), 2 classes (cat, dog)" in note
    assert "in the order of the numbers in their names" in note


def test_dates_in_the_names_of_images_are_their_times(tmp_path: Path) -> None:
    for name in ("a/x/IMG_20240102_030405.png", "a/y/2024-01-01.png", "b/x/photo 2024-01-01 10.30.png"):
        paint(tmp_path / name)

    found = find_images(tmp_path)

    assert found.trace is not None
    hours = (found.trace.time - found.trace.time.min()) / 3600.0
    assert hours.round(3).tolist() == [27.068, 0.0, 10.5]


def test_an_order_that_is_not_known_makes_up_no_drift(tmp_path: Path) -> None:
    for label in ("cat", "dog"):
        for number in range(20):
            paint(tmp_path / "ann" / label / f"{label}{number}.png")
    notes: list[str] = []

    found = find_images(tmp_path, on_note=notes.append)

    assert found.trace is not None
    for day in range(10):
        assert sorted(found.y[found.trace.time == day * DAY].tolist()) == [0, 0, 1, 1]
    assert "each class evenly, as no order is known" in notes[0]


def test_folders_that_are_called_like_clients_are_refused_until_the_layout_is_said(tmp_path: Path) -> None:
    for name in ("client_01/a.png", "client_02/b.png"):
        paint(tmp_path / name)

    with pytest.raises(FileFormatError) as caught:
        find_images(tmp_path)

    assert "(client_01, client_02) are called like clients, not like classes" in str(caught.value)
    assert "lay images out as <client>/<class>/<image> or <class>/<image>" in str(caught.value)
    assert find_images(tmp_path, "class/image").classes == ("client_01", "client_02")
    with pytest.raises(FileFormatError, match="holds no images"):
        find_images(tmp_path, "client/class/image")
    with pytest.raises(OptionError, match="unknown layout 'clients'"):
        find_images(tmp_path, "clients")


@pytest.mark.parametrize("names", [("cat", "dog"), ("0", "1"), ("userful", "clients of mine"), ("user1", "cat")])
def test_other_folders_are_classes_and_that_is_said(tmp_path: Path, names: tuple[str, str]) -> None:
    for name in names:
        paint(tmp_path / name / "a.png")
    notes: list[str] = []

    assert set(find_images(tmp_path, on_note=notes.append).classes) == set(names)
    assert "are taken for classes" in notes[0]


def test_images_at_two_depths_leave_the_layout_open(tmp_path: Path) -> None:
    for name in ("ann/cat/1.png", "ann/dog/2.png", "ann/thumb.png"):
        paint(tmp_path / name)

    with pytest.raises(
        FileFormatError, match=r"holds 1 images as <folder>/<image> and 2 one folder deeper; set trace\."
    ):
        find_images(tmp_path)
    assert find_images(tmp_path, "client/class/image").classes == ("cat", "dog")


def write_index(folder: Path, content: str) -> Path:
    path = folder / "index.csv"
    path.write_text(content, encoding="utf-8")
    return path


def test_a_list_with_clients_and_times_is_a_trace(tmp_path: Path, decoding: Decoding) -> None:
    for shade in (1, 2):
        paint(tmp_path / "p" / f"{shade}.png", (shade,) * 3)
    rows = "p/2.png,dog,bob,2024-01-02\np/1.png,cat,ann,2024-01-01\np/2.png,cat,ann,2024-01-03\n"

    trace = image_index(write_index(tmp_path, f"file,label,client,time\n{rows}"), decoding)

    assert isinstance(trace, Trace)
    assert trace.client_ids == ("ann", "bob")
    assert trace.client.tolist() == [1, 0, 0]
    assert trace.y.tolist() == [1, 0, 0]
    assert np.diff(trace.time).tolist() == [-86_400.0, 2 * 86_400.0]
    assert np.asarray(trace.x)[:, 0, 0, 0].tolist() == [2, 1, 2]


@pytest.mark.parametrize(
    ("content", "is_list"),
    [
        ("file,label\n1.png,a\n", True),
        ("file,label\n1.PNG,a\n", True),  # whether it is there is told when it is read
        ("file,label\nraw,a\n", True),
        ("file,label,client,time\nsrc/main.c,a,b,1\n", False),  # commits, not images
        ("name,label\n1.png,a\n", False),
    ],
)
def test_a_list_is_told_by_its_first_file(tmp_path: Path, content: str, is_list: bool) -> None:
    (tmp_path / "raw").touch()

    assert is_image_list(write_index(tmp_path, content)) is is_list


def test_a_list_without_clients_is_a_pool(tmp_path: Path, decoding: Decoding) -> None:
    paint(tmp_path / "1.png")

    pool = image_index(write_index(tmp_path, "label,file\ncat,1.png\n"), decoding)

    assert isinstance(pool, Pool)
    assert pool.classes == ("cat",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("file,label\n1.png,a\n../1.png,a\n", "line 3, column 'file': '../1.png' is no path inside the folder"),
        ("file,label\na\\..\\..\\1.png,a\n", "leave out '..'"),
        (
            "file,label\n/etc/hosts,a\n",
            "line 2, column 'file': '/etc/hosts' is no path inside the folder of the list; give",
        ),
        ("file,label\nC:\\x.png,a\n", "give it relative to that folder"),
        ("file,label\nlink.png,a\n", "line 2, column 'file': 'link.png' is a link that leads out of the folder"),
        ("file,label\nlinked/1.png,a\n", "is a link that leads out of the folder"),
        ("file,label\ngone.png,a\n", "line 2, column 'file': 'gone.png' is not there"),
        ("file,label\n,a\n", "line 2, column 'file': '' is empty"),
        ("file,label\n1.png,\n", "line 2, column 'label': '' is empty"),
        ("file,label,client\n1.png,a,b\n", "has only one of the columns 'client' and 'time'"),
        ("name,label\n1.png,a\n", "has no column 'file'"),
        ("file,label,client,time\n1.png,a,b,soon\n", "line 2, column 'time': 'soon' is no date"),
    ],
)
def test_a_bad_list_is_refused_by_line(tmp_path: Path, decoding: Decoding, content: str, message: str) -> None:
    inside = tmp_path / "set"
    paint(inside / "1.png")
    paint(tmp_path / "outside" / "1.png")
    (inside / "link.png").symlink_to(tmp_path / "outside" / "1.png")
    (inside / "linked").symlink_to(tmp_path / "outside")

    with pytest.raises(FileFormatError) as caught:
        image_index(write_index(inside, content), decoding)

    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_images_of_rows_that_are_left_out_are_never_decoded(tmp_path: Path, decoding: Decoding) -> None:
    good = paint(tmp_path / "good.png", (7, 7, 7))
    bad = tmp_path / "bad.png"
    bad.write_bytes(b"no image")
    trace = Trace(
        client_ids=("a", "b"),
        client=np.array([0, 1, 1], dtype=np.int32),
        time=np.arange(3.0),
        y=np.zeros(3, dtype=np.int32),
        classes=("x",),
    )
    images = ImageList(files=(bad, good, good), boxes=np.array([[0, 0, 1, 1], [0, 0, 2, 2], [0, 0, 3, 3]]))

    kept = attach_images(trace, images, decoding=decoding, narrow=lambda whole: whole.most_active(1))

    assert kept.client_ids == ("b",)
    assert np.asarray(kept.x).shape == (2, 2, 2, 3)
    with pytest.raises(FileFormatError, match=r"bad\.png cannot be read"):
        attach_images(trace, images, decoding=decoding)
    with pytest.raises(InputError, match="2 images for 3 rows"):
        attach_images(trace, ImageList(files=(good, good)), decoding=decoding)
