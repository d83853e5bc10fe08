import gzip
from pathlib import Path

import numpy as np
import pytest

from fielding.errors import FileFormatError
from fielding.traces.catalog.fetching import (
    Convert,
    cifar100_arrays,
    extrasensory_arrays,
    fashion_mnist_arrays,
    read_idx,
)
from tests.traces.catalog.publishing import Pages, cifar_archive, fashion_files, idx, sensor_archive, tar_gz


def stored(folder: Path, pages: Pages) -> dict[str, Path]:
    for name, raw in pages.items():
        (folder / name).write_bytes(raw)
    return {name: folder / name for name in pages}


def test_fashion_mnist_is_its_training_set_then_its_test_set(tmp_path: Path) -> None:
    arrays = fashion_mnist_arrays(stored(tmp_path, fashion_files()))

    assert arrays["x"].shape == (5, 28, 28)
    assert arrays["x"][:, 3, 4].tolist() == arrays["y"].tolist() == [0, 1, 2, 3, 4]
    assert arrays["is_test"].tolist() == [False, False, False, True, True]
    assert len(arrays["classes"]) == 10


def test_cifar_images_shrink_to_means_of_four_pixels(tmp_path: Path) -> None:
    arrays = cifar100_arrays(stored(tmp_path, {"cifar-100-binary.tar.gz": cifar_archive()}))

    assert arrays["x"].shape == (3, 16, 16, 3)
    # Rows 0 and 1 of image 2 are 8 and 9 in red: the mean 8.5 is rounded up.
    assert arrays["x"][2, 0, :, 0].tolist() == [9] * 16
    assert arrays["x"][0, :, 0, 0].tolist() == arrays["x"][0, 0, :, 1].tolist() == list(range(1, 33, 2))
    assert np.unique(arrays["x"][..., 2]).tolist() == [7]
    assert arrays["y"].tolist() == [10, 11, 12]
    assert arrays["is_test"].tolist() == [False, False, True]
    assert arrays["classes"][10] == "class10"


def test_extrasensory_keeps_minutes_with_one_activity_and_standardizes_them(tmp_path: Path) -> None:
    rows = {
        "00EABED2": ["100,1,5,1,0,0,0,0,0", "160,3,,0,1,nan,0,0,0", "220,9,9,1,1,0,0,0,0", "280,9,9,0,0,,,,"],
        "FDAA70A1": ["50,nan,5,0,0,0,0,0,1"],
        "99999999": ["50,4,4,1,0,0,0,0,0"],
    }

    arrays = extrasensory_arrays(stored(tmp_path, {"ExtraSensory.per_uuid_features_labels.zip": sensor_archive(rows)}))

    assert arrays["client"].tolist() == ["00EABED2", "00EABED2", "FDAA70A1"]
    assert arrays["time"].tolist() == [100, 160, 50]
    assert arrays["y"].tolist() == [0, 1, 5]
    assert arrays["features"].tolist() == ["acc:mean", "acc:std"]
    assert arrays["x"].tolist() == [[-1.0, 0.0], [1.0, 0.0], [0.0, 0.0]]
    assert arrays["x"].dtype == np.float16


def test_what_lies_far_out_is_cut_off(tmp_path: Path) -> None:
    rows = {"00EABED2": [f"{60 * at},{1000.0 if at == 99 else 0.0},1,1,0,0,0,0,0" for at in range(100)]}

    arrays = extrasensory_arrays(stored(tmp_path, {"ExtraSensory.per_uuid_features_labels.zip": sensor_archive(rows)}))

    assert float(arrays["x"].max()) == 5.0


DAMAGED: list[tuple[Convert, Pages]] = [
    (fashion_mnist_arrays, fashion_files() | {"train-images-idx3-ubyte.gz": b"no gzip"}),
    (
        fashion_mnist_arrays,
        fashion_files() | {"train-images-idx3-ubyte.gz": fashion_files()["t10k-images-idx3-ubyte.gz"]},
    ),
    (cifar100_arrays, {"cifar-100-binary.tar.gz": b"no archive"}),
    (cifar100_arrays, {"cifar-100-binary.tar.gz": cifar_archive()[:-900]}),
    (cifar100_arrays, {"cifar-100-binary.tar.gz": tar_gz({"cifar-100-binary/train.bin": b"123"})}),
    (cifar100_arrays, {"cifar-100-binary.tar.gz": tar_gz({"other": b"123"})}),
    (extrasensory_arrays, {"ExtraSensory.per_uuid_features_labels.zip": b"PK no zip"}),
    (extrasensory_arrays, {"ExtraSensory.per_uuid_features_labels.zip": sensor_archive({"99999999": []})}),
    (extrasensory_arrays, {"ExtraSensory.per_uuid_features_labels.zip": sensor_archive({"00EABED2": ["1,2"]})}),
]


@pytest.mark.parametrize(("convert", "pages"), DAMAGED)
def test_a_damaged_archive_is_one_clear_error(tmp_path: Path, convert: Convert, pages: Pages) -> None:
    with pytest.raises(FileFormatError) as caught:
        convert(stored(tmp_path, pages))

    assert "fetch" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("wrong", [b"\0\0\x0d\1", b"\0\0\x08\0", b"\0\0\x08\3\0\0"])
def test_only_idx_files_of_bytes_are_read(tmp_path: Path, wrong: bytes) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(wrong))

    with pytest.raises(FileFormatError, match=r"a\.gz is no IDX file of bytes"):
        read_idx(tmp_path / "a.gz")


def test_an_idx_file_keeps_its_shape(tmp_path: Path) -> None:
    array = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    (tmp_path / "a.gz").write_bytes(idx(array))

    assert (read_idx(tmp_path / "a.gz") == array).all()
