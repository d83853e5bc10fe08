"""The readers of the paper's data, on small files in the layouts that its authors' tools write."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("PIL", reason="images need the extra 'images'")

from PIL import Image

from fielding.errors import FileFormatError
from fielding.traces.catalog import Narrowing, Opening, open_source
from fielding.traces.catalog.open_images import bucket_times, read_mapping
from fielding.traces.trace import Trace
from tests.traces.pictures import paint

FMOW_HEADER = (
    "split,img_filename,img_path,spatial_reference,epsg,category,visible,img_width,img_height,"
    "country_code,cloud_cover,timestamp,lat,lon,region"
)


def opened(name: str, folder: Path, opening: Opening | None = None) -> Trace:
    trace = open_source(name, folder, opening or Opening(size=2, cache=folder / "cache"))
    assert isinstance(trace, Trace)
    assert isinstance(trace.x, np.memmap)
    return trace


def shades(trace: Trace) -> list[int]:
    """Return the red of the first pixel of every row."""
    return [int(one) for one in np.asarray(trace.x)[:, 0, 0, 0]]


def write_fmow(folder: Path, rows: list[tuple[str, str, str, float, float]]) -> None:
    lines = [FMOW_HEADER]
    for number, (split, category, when, latitude, longitude) in enumerate(rows):
        lines.append(f"{split},f.jpg,p/f.jpg,EPSG,32632,{category},1,9,9,DEU,0,{when},{latitude},{longitude},Europe")
        paint(folder / "fmow_v1.1" / "images" / f"rgb_img_{number}.png", (number,) * 3)
    (folder / "fmow_v1.1" / "rgb_metadata.csv").write_text("\n".join(lines), encoding="utf-8")


def test_fmow_is_a_client_per_utm_cell_from_2015_on(tmp_path: Path) -> None:
    write_fmow(
        tmp_path,
        [
            ("train", "zoo", "2014-12-31T23:59:59Z", 48.1, 11.6),
            ("train", "zoo", "2015-01-01T00:00:00Z", 48.1, 11.6),
            ("seq", "zoo", "2016-01-01T00:00:00Z", 48.1, 11.6),
            ("val", "airport", "2016-05-10T08:51:23.125Z", -33.9, 151.2),
            ("test", "zoo", "2016-05-10T08:51:23Z", 48.2, 11.0),
        ],
    )

    trace = opened("fmow", tmp_path)

    assert trace.client_ids == ("32U", "56H")
    assert trace.client.tolist() == [0, 1, 0]
    assert trace.classes == ("airport", "zoo")
    assert trace.y.tolist() == [1, 0, 1]
    assert trace.time[0] == 1_420_070_400.0
    assert trace.time[1] - trace.time[2] == 0.125
    assert shades(trace) == [1, 3, 4]


def test_fmow_decodes_only_the_clients_that_are_wanted(tmp_path: Path) -> None:
    write_fmow(
        tmp_path, [("train", "zoo", "2016-01-01T00:00:00Z", 48.1, 11.6)] * 2 + [("train", "zoo", "2016-01-02", 0, 0)]
    )
    (tmp_path / "fmow_v1.1" / "images" / "rgb_img_2.png").write_bytes(b"damaged")

    trace = opened("fmow", tmp_path, Opening(size=2, cache=tmp_path / "c", narrowing=Narrowing(clients=1)))

    assert shades(trace) == [0, 1]
    with pytest.raises(FileFormatError, match=r"rgb_img_2\.png cannot be read"):
        opened("fmow", tmp_path)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("train", "zoo", "soon", 48.1, 11.6), "line 2, column 'timestamp': 'soon' is no date"),
        (("train", "zoo", "2016-01-01", 95.0, 11.6), "row 0 lies at latitude 95.0"),
        (("train", "zoo", "2010-01-01", 5.0, 11.6), "lists no public image from 2015 on"),
    ],
)
def test_bad_metadata_of_fmow_is_refused(tmp_path: Path, row: tuple[str, str, str, float, float], message: str) -> None:
    write_fmow(tmp_path, [row])

    with pytest.raises(FileFormatError) as caught:
        opened("fmow", tmp_path)

    assert message in str(caught.value)
    assert "rgb_metadata.csv" in str(caught.value)


def write_cityscapes(folder: Path, city: str, rows: list[str]) -> Path:
    path = folder / "cityscapes" / "sample_lists" / "citywise" / f"{city}_fine.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(f"{number},{row}" for number, row in enumerate(rows)), encoding="utf-8")
    return path


def frame(folder: Path, name: str, left: int, right: int) -> str:
    """Write a frame whose left and right halves differ, and return how lists name it."""
    pixels = np.full((4, 8, 3), left, dtype=np.uint8)
    pixels[:, 4:] = right
    path = folder / "cityscapes" / "leftImg8bit" / "train" / name.split("_")[0] / f"{name}_leftImg8bit.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)
    return f"train/{path.parent.name}/{path.name}"


def test_cityscapes_are_crops_sorted_by_frame_with_a_hundred_a_client(tmp_path: Path) -> None:
    late = frame(tmp_path, "ulm_000001_000019", 50, 60)
    early = frame(tmp_path, "ulm_000000_000019", 10, 20)
    other = frame(tmp_path, "bonn_000000_000019", 30, 40)
    rows = [f"{late},1,4,0,8,4"] * 3 + [f"{early},0,0,0,4,4"] * 99 + [f"{early},7,0,0,4,4"]
    write_cityscapes(tmp_path, "ulm", rows)
    write_cityscapes(tmp_path, "bonn", [f"{other},4,4,0,8,4"])

    trace = opened("cityscapes", tmp_path)

    assert trace.client_ids == ("bonn-000", "ulm-000", "ulm-001")
    assert trace.samples_per_client().tolist() == [1, 100, 2]
    assert trace.classes == ("person", "car", "truck", "bus", "bicycle", "motorcycle")
    assert trace.y.tolist() == [4] + [0] * 99 + [1] * 3
    assert shades(trace) == [40] + [10] * 99 + [60] * 3
    assert trace.time.tolist() == [0.0, *np.repeat(np.arange(10.0), 10).tolist(), 0.0, 5.0]
    assert trace.interval_of("1s").max() == 9


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("a.png,0,0,0,4", "line 1: 6 cells; wanted are idx, imgpath, class"),
        ("a.png,x,0,0,4,4", "line 1: 'x,0,0,4,4' are no numbers"),
        ("a.png,-1,0,0,4,4", "line 1: class is -1"),
        ("../a.png,1,0,0,4,4", "frame '../a.png' is no path inside"),
        ("a.png,1,0,0,4,4", "frame 'a.png' is not there"),
    ],
)
def test_a_bad_list_of_cityscapes_is_refused(tmp_path: Path, row: str, message: str) -> None:
    frame(tmp_path, "ulm_000000_000019", 10, 20)
    write_cityscapes(tmp_path, "ulm", [row])

    with pytest.raises(FileFormatError) as caught:
        opened("cityscapes", tmp_path)

    assert message in str(caught.value)


WAYMO_HEADER = (
    "idx,image name,class,timestamp,weather,location,time of day,segment,frame index,camera name,"
    "label id,xmin,ymin,xmax,ymax,detection difficulty level,tracking difficulty level"
)


def write_waymo(folder: Path, name: str, samples: list[tuple[str, str, int, int]]) -> None:
    """Write a list of (segment, camera, frame, class) and an image of shade 10 times frame for each."""
    root = folder / "waymo_classification_images"
    lines = [WAYMO_HEADER]
    for number, (segment, camera, when, label) in enumerate(samples):
        image = f"{when:04d}_obj{number}.jpg"
        lines.append(f"{number},{image},{label},1,sunny,sf,Day,{segment},{when},{camera},obj{number},0,0,9,9,0,0")
        paint(root / segment / camera / image, (10 * when,) * 3)
    path = root / "sample_lists" / "citywise" / f"{name}_labels.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines), encoding="utf-8")


def test_waymo_is_a_client_per_camera_and_segment_in_order_of_frames(tmp_path: Path) -> None:
    samples = [("seg1", "FRONT", 9, 0), ("seg1", "FRONT", 2, 3), ("seg1", "SIDE_LEFT", 1, 1), ("seg0", "FRONT", 5, 2)]
    write_waymo(tmp_path, "sf", samples)
    write_waymo(tmp_path, "sf_000_009", samples[:2])

    trace = opened("waymo", tmp_path)

    assert trace.client_ids == ("seg0/FRONT", "seg1/FRONT", "seg1/SIDE_LEFT")
    assert trace.client.tolist() == [0, 1, 1, 2]
    assert [trace.classes[code] for code in trace.y.tolist()] == ["sign", "cyclist", "vehicle", "pedestrian"]
    assert trace.time.tolist() == [0.0, 0.0, 5.0, 0.0]
    assert np.abs(np.array(shades(trace)) - [50, 20, 90, 10]).max() <= 2


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        ((1, 2, 4), ["vehicle", "pedestrian", "cyclist"]),
        ((1, 2, 3), ["vehicle", "pedestrian", "sign"]),
        ((0, 1, 3), ["vehicle", "pedestrian", "cyclist"]),
        ((0, 1, 4), ["vehicle", "cyclist"]),
    ],
)
def test_classes_of_waymo_count_from_one_if_there_is_a_four_or_no_zero(
    tmp_path: Path, labels: tuple[int, ...], names: list[str]
) -> None:
    write_waymo(tmp_path, "sf", [("seg", "FRONT", at, label) for at, label in enumerate(labels)])

    trace = opened("waymo", tmp_path)

    assert [trace.classes[code] for code in trace.y.tolist()] == names


def test_a_bad_list_of_waymo_is_refused(tmp_path: Path) -> None:
    write_waymo(tmp_path, "sf", [("seg", "FRONT", 1, 9)])
    with pytest.raises(FileFormatError, match="class 9 is unknown"):
        opened("waymo", tmp_path)
    write_waymo(tmp_path, "sf", [("seg", "FRONT", 1, 0)])
    (tmp_path / "waymo_classification_images" / "seg" / "FRONT" / "0001_obj0.jpg").unlink()
    with pytest.raises(FileFormatError, match=r"image 'seg/FRONT/0001_obj0\.jpg' is not there"):
        opened("waymo", tmp_path)


def write_mapping(folder: Path, samples: list[tuple[int, str]]) -> Path:
    """Write FedScale's mapping of (client, label), and an image whose shade is its number for each."""
    lines = ["client_id,sample_path,label_name,label_id"]
    for number, (client, label) in enumerate(samples):
        lines.append(f"{client},{number:05d}.jpg,{label},{len(label)}")
        paint(folder / "open_images" / "train" / f"{number:05d}.jpg", (number,) * 3)
    path = folder / "open_images" / "client_data_mapping" / "train.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_open_images_keeps_clients_with_ten_of_the_top_classes(tmp_path: Path) -> None:
    ten = [f"label{code}" for code in range(10)]
    samples = [(7, label) for label in ten] + [(8, label) for label in ten[:9]] + [(7, "label0")]
    write_mapping(tmp_path, samples)

    trace = opened("open_images", tmp_path)

    assert trace.client_ids == (7,)
    assert trace.y.size == 11
    assert sorted(trace.time[:10].tolist()) == [float(bucket) for bucket in range(10)]
    assert trace.time[10] == trace.time[0]
    assert np.abs(np.array(shades(trace)) - [*range(10), 19]).max() <= 2


def test_only_the_most_frequent_classes_are_kept(tmp_path: Path) -> None:
    path = write_mapping(tmp_path, [(1, "b"), (1, "b"), (1, "c"), (1, "a"), (2, "c"), (2, "c"), (3, "b")])

    trace, names = read_mapping(path, n_classes=2, least_classes=2)

    assert trace.classes == ("b", "c")
    assert trace.client_ids == (1,)
    assert trace.y.tolist() == [0, 0, 1]
    assert names == ["00000.jpg", "00001.jpg", "00002.jpg"]
    with pytest.raises(FileFormatError, match="no client has samples of 3 of the top 2 classes"):
        read_mapping(path, n_classes=2, least_classes=3)


def test_the_buckets_of_a_client_follow_from_its_labels_and_the_seed_alone() -> None:
    labels = [f"label{code:02d}" for code in range(20)]
    both = Trace(
        client_ids=(1, 2),
        client=np.repeat(np.array([0, 1], dtype=np.int32), 20),
        time=np.zeros(40),
        y=np.tile(np.arange(20, dtype=np.int32), 2),
        classes=tuple(labels),
    )
    alone = both.rows(both.client == 1)

    buckets = bucket_times(both, seed=3)

    assert np.bincount(buckets[:20].astype(int)).tolist() == [2] * 10
    assert (buckets[20:] == bucket_times(alone, seed=3)).all()
    assert (buckets[:20] != buckets[20:]).any()
    assert (buckets != bucket_times(both, seed=4)).any()
