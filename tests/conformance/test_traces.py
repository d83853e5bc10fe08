"""What holds for every data set of the catalog that is here: it can be opened, split and trained on."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from fielding.simulation.experiment import run
from fielding.traces.catalog import CATALOG, open_source
from fielding.traces.histograms import WindowPlan
from fielding.traces.natural import natural_schedule
from fielding.traces.pool import Pool
from fielding.traces.trace import Trace

PUBLIC = ("digits", "fashion_mnist", "cifar100", "extrasensory", "zephyr")
"""Those that tests have; the paper's own are read from generated files in tests/traces/catalog."""


@cache
def source_of(name: str, folder: Path) -> Pool | Trace:
    if CATALOG[name].missing(folder):
        pytest.skip(f"{name} is not in {folder}")
    return open_source(name, folder)


@pytest.mark.parametrize("name", PUBLIC)
def test_a_data_set_is_what_the_catalog_says(name: str, data_folder: Path) -> None:
    entry, source = CATALOG[name], source_of(name, data_folder)

    assert len(source.classes) == entry.n_classes
    assert isinstance(source, Pool) == (entry.kind == "pool")
    assert source.x is not None
    assert source.x.shape[0] == source.y.size
    assert np.unique(source.y).size > 1


@pytest.mark.parametrize("name", PUBLIC)
def test_a_fifth_of_the_samples_of_most_classes_is_for_testing(name: str, data_folder: Path) -> None:
    source = source_of(name, data_folder)
    pool = natural_schedule(source, WindowPlan(interval="1d"))[0] if isinstance(source, Trace) else source
    is_test = pool.is_test()

    assert is_test.mean() == pytest.approx(0.2, abs=0.03)
    counts = np.bincount(pool.y, minlength=len(pool.classes))
    shares = np.bincount(pool.y[is_test], minlength=len(pool.classes))[counts > 500] / counts[counts > 500]
    assert ((shares > 0.1) & (shares < 0.3)).all()


@pytest.mark.parametrize("name", PUBLIC)
def test_a_data_set_can_be_trained_on(name: str, data_folder: Path) -> None:
    if CATALOG[name].missing(data_folder):
        pytest.skip(f"{name} is not in {data_folder}")
    trace = {"name": name, "data": str(data_folder), "clients": 12, "gap": 2, "window": 6}
    result = run({"rounds": 4, "trace": trace, "model": {"name": "softmax"}, "training": {"participants": 8}})

    accuracy = result.column("accuracy")[1]
    assert len(result.rounds) == 4
    assert all(np.isfinite(value) for value in accuracy)
    assert all(row["n_participants"] for row in result.rounds)
    assert all(row.get("n_failed") == 0 for row in result.rounds)
