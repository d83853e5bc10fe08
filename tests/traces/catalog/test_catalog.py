import gzip
from pathlib import Path

import numpy as np
import pytest

from fielding.errors import FileFormatError, InputError, OptionError
from fielding.traces.catalog import CATALOG, FOLDER_VARIABLE, Narrowing, Opening, data_folder, open_source
from fielding.traces.intervals import checked_align, parse_interval
from fielding.traces.pool import Pool
from fielding.traces.trace import Trace


@pytest.mark.parametrize("name", sorted(CATALOG))
def test_every_entry_tells_what_it_is_and_how_to_get_it(name: str) -> None:
    entry = CATALOG[name]

    assert entry.name == name
    assert all((entry.summary, entry.licence, entry.how_to_get))
    assert not any("\n" in words for words in (entry.summary, entry.licence, entry.how_to_get))
    assert (entry.defaults is not None) == (entry.kind == "natural") == (entry.n_clients is not None)
    if entry.defaults is not None:
        parse_interval(entry.defaults.interval)
        checked_align(entry.defaults.align)


@pytest.mark.parametrize("name", sorted(name for name, entry in CATALOG.items() if entry.files))
def test_a_missing_file_is_named_with_the_folder_and_the_way_to_get_it(tmp_path: Path, name: str) -> None:
    entry = CATALOG[name]

    with pytest.raises(InputError) as caught:
        open_source(name, tmp_path)

    for words in (name, entry.files[0], str(tmp_path), entry.how_to_get, "--data", "FIELDING_DATA"):
        assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_data_set_is_answered_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="unknown data set 'digit'; did you mean 'digits'"):
        open_source("digit", tmp_path)


def test_the_folder_is_the_one_given_or_that_of_the_environment_or_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    monkeypatch.setenv(FOLDER_VARIABLE, "/env")
    assert data_folder("here") == Path("here")
    assert data_folder() == Path("/env")
    monkeypatch.delenv(FOLDER_VARIABLE)
    assert data_folder() == Path("/cache/fielding/data")


def test_digits_are_those_of_scikit_learn(tmp_path: Path) -> None:
    from sklearn.datasets import load_digits

    oracle = load_digits()
    pool = open_source("digits", tmp_path)

    assert isinstance(pool, Pool)
    assert (pool.x == oracle.images).all()
    assert (pool.y == oracle.target).all()
    assert pool.classes == tuple(map(str, oracle.target_names))
    assert pool.features(np.arange(len(pool))).max() == 1.0


def test_digits_without_scikit_learn_are_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fielding.traces.catalog.digits.find_spec", lambda _: None)

    with pytest.raises(InputError, match="digits come with scikit-learn, which is missing"):
        open_source("digits", tmp_path)


ROWS = [
    ("a", 2000, "net"),
    ("b", 100, "net"),
    ("b", 90, "doc"),
    ("b", 80, "doc"),
    ("c", 1999, "doc"),
    ("c", 1998, "net"),
]


def write_commits(folder: Path) -> None:
    day = 86_400
    rows = [f"{who},{day * when},{what},fix {what}" for who, when, what in ROWS]
    raw = gzip.compress("\n".join(["client,time,label,text", *rows]).encode())
    (folder / "zephyr_commits.csv.gz").write_bytes(raw)


def test_a_natural_trace_opens_with_what_suits_it_unless_told_otherwise(tmp_path: Path) -> None:
    write_commits(tmp_path)

    usual = open_source("zephyr", tmp_path)
    whole = open_source("zephyr", tmp_path, Opening(narrowing=Narrowing(), n_text_features=16))
    one = open_source("zephyr", tmp_path, Opening(narrowing=Narrowing(last="1050d", clients=1)))

    assert isinstance(usual, Trace)
    assert isinstance(whole, Trace)
    assert isinstance(one, Trace)
    assert usual.client_ids == ("a", "c")
    assert np.asarray(usual.x).shape == (3, 512)
    assert whole.client_ids == ("a", "b", "c")
    assert np.asarray(whole.x).shape == (6, 16)
    assert one.client_ids == ("c",)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "cifar100_16px.npz").write_bytes(b"no archive")

    with pytest.raises(FileFormatError, match=r"cifar100_16px\.npz is no \.npz file"):
        open_source("cifar100", tmp_path)


REAL = [name for name, entry in CATALOG.items() if len(entry.files) == 1 and "/" not in entry.files[0]]


@pytest.mark.parametrize("name", REAL)
def test_the_real_files_are_as_the_catalog_says(data_folder: Path, name: str) -> None:
    entry = CATALOG[name]
    if entry.missing(data_folder):
        pytest.skip(f"{entry.files[0]} is not in the data folder")

    source = open_source(name, data_folder, Opening(narrowing=Narrowing(), n_text_features=4))

    assert source.y.size == entry.n_samples
    assert len(source.classes) == entry.n_classes
    assert source.x is not None
    assert source.x.dtype == {"zephyr": np.float32, "extrasensory": np.float16}.get(name, np.uint8)
    if isinstance(source, Trace):
        assert len(source.client_ids) == entry.n_clients
        assert entry.defaults is not None
        usual = entry.defaults.narrowing.apply(source)
        assert len(usual.client_ids) == {"zephyr": 302}.get(name, entry.n_clients)
        assert int(usual.interval_of("1d").max()) < {"zephyr": 1050}.get(name, 366)
