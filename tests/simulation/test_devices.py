import gzip
from pathlib import Path

import numpy as np
import pytest
from fielding.simulation.devices import PROFILES, Devices, devices_of, read_devices, synthetic_devices

from fielding.errors import FileFormatError, InputError, OptionError
from fielding.rng import client_key

MANY_KEYS = np.arange(100_000, dtype=np.uint64)


def write(folder: Path, content: str) -> Path:
    path = folder / "devices.csv"
    path.write_text(content)
    return path


def harmonic_mean(numbers: np.ndarray) -> float:
    return float(1.0 / np.mean(1.0 / numbers))


def test_the_synthetic_profile_has_the_means_that_the_paper_implies() -> None:
    devices = synthetic_devices(MANY_KEYS, seed=1)

    assert harmonic_mean(devices.kbps) == pytest.approx(5950, rel=0.01)
    assert np.median(devices.kbps) == pytest.approx(8200, rel=0.01)
    assert np.std(np.log(devices.kbps)) == pytest.approx(0.8, rel=0.01)
    assert devices.ms_per_sample.mean() == pytest.approx(42, rel=0.02)
    assert np.median(devices.ms_per_sample) == pytest.approx(33, rel=0.01)
    assert (devices.ms_per_sample.min(), devices.ms_per_sample.max()) == (15.0, 199.0)


def test_the_slow_profile_has_the_slow_quarter_that_others_saw_in_the_trace() -> None:
    devices = synthetic_devices(MANY_KEYS, 1, PROFILES["synthetic-slow"])

    assert np.median(devices.kbps) == pytest.approx(6100, rel=0.02)
    assert np.mean(devices.kbps < 3000) == pytest.approx(0.26, abs=0.01)


def test_computing_and_bandwidth_are_independent() -> None:
    devices = synthetic_devices(MANY_KEYS, seed=1)

    assert abs(np.corrcoef(np.log(devices.kbps), np.log(devices.ms_per_sample))[0, 1]) < 0.01


def test_bandwidths_are_log_normal_in_the_tails_too() -> None:
    deviations = np.log(synthetic_devices(MANY_KEYS, seed=3).kbps / 8200) / 0.8

    assert np.mean(deviations < -1.0) == pytest.approx(0.1587, abs=0.005)
    assert np.mean(deviations > 2.0) == pytest.approx(0.0228, abs=0.002)


def test_uniform_devices_are_all_the_mean() -> None:
    devices = devices_of("uniform", [3, 1, 2], seed=9)

    assert devices.ms_per_sample.tolist() == [42.0] * 3
    assert devices.kbps.tolist() == [6000.0] * 3


def test_a_device_belongs_to_the_client_not_to_its_position() -> None:
    few, more = devices_of("synthetic", ["a", "b"], seed=1), devices_of("synthetic", ["x", "b", "a"], seed=1)

    assert few.kbps.tolist() == more.kbps[[2, 1]].tolist()
    assert few.ms_per_sample.tolist() == more.ms_per_sample[[2, 1]].tolist()
    keys = np.array([client_key("a"), client_key("b")], dtype=np.uint64)
    assert few.kbps.tolist() == synthetic_devices(keys, 1).kbps.tolist()


def test_another_seed_gives_other_devices() -> None:
    first, second = (synthetic_devices(MANY_KEYS, seed) for seed in (1, 2))

    assert not (first.kbps == second.kbps).any()


def test_a_file_with_ids_gives_every_client_its_own_row(tmp_path: Path) -> None:
    path = write(tmp_path, "client,kbps,ms_per_sample\n7,700,70\n5,500,50\n6,600,60\n")

    devices = devices_of(str(path), [5, 7], seed=1)

    assert devices.kbps.tolist() == [500.0, 700.0]
    assert devices.ms_per_sample.tolist() == [50.0, 70.0]


def test_a_file_without_ids_is_dealt_in_turn(tmp_path: Path) -> None:
    path = write(tmp_path, "ms_per_sample,kbps\n10,1000\n20,2000\n")

    assert devices_of(path, ["a", "b", "c"], seed=1).kbps.tolist() == [1000.0, 2000.0, 1000.0]


def test_a_gzipped_file_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "devices.csv.gz"
    path.write_bytes(gzip.compress(b"ms_per_sample,kbps\n10,1000\n", mtime=0))

    assert len(read_devices(path, ["a", "b"])) == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("ms_per_sample,kbps\n10,1000\n20,fast\n", r"line 3, column 'kbps': 'fast' is no number"),
        ("ms_per_sample,kbps\n0,1000\n", r"line 2, column 'ms_per_sample': '0' is no speed of a device; give a number"),
        ("ms_per_sample,kbps\n10,-1\n", r"line 2, column 'kbps': '-1' is no speed"),
        ("ms_per_sample,kbps\n10,1e-300\n", r"line 2, column 'kbps': '1e-300' is no speed"),
        ("ms_per_sample,kbps\nnan,1\n", r"line 2, column 'ms_per_sample': 'nan' is no finite number"),
        ("ms_per_sample,kbps\n", "has a header but no rows"),
        ("ms_per_sample,kbp\n1,2\n", "kbps"),
        ("client,ms_per_sample,kbps\na,1,2\nb,1,2\na,1,2\n", "line 4, column 'client': 'a' is there twice"),
        ("client,ms_per_sample,kbps\na,1,2\n", r"no row for client 'b' \(1 of 2 clients are missing\)"),
        ("client,ms_per_sample,kbps\n,1,2\n", "line 2, column 'client': '' is empty"),
    ],
)
def test_mistakes_in_a_file_are_named_by_line_and_column(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(FileFormatError, match=message):
        read_devices(write(tmp_path, content), ["a", "b"])


def test_an_unknown_profile_is_answered_with_the_known_ones() -> None:
    with pytest.raises(
        OptionError, match=r"unknown device profile 'synthetik'; did you mean 'synthetic'\? .*or the path of a CSV file"
    ):
        devices_of("synthetik", [1], seed=1)


def test_a_mistyped_path_is_treated_as_a_path(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"devises\.csv"):
        devices_of(str(tmp_path / "devises.csv"), [1], seed=1)


def test_devices_need_one_positive_number_of_each_kind_per_client() -> None:
    with pytest.raises(InputError, match=r"shape \(2,\) and kbps \(1,\)"):
        Devices(ms_per_sample=np.ones(2), kbps=np.ones(1))
    with pytest.raises(InputError, match=r"kbps of client 1 is nan"):
        Devices(ms_per_sample=np.ones(2), kbps=np.array([1.0, np.nan]))
