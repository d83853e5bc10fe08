import numpy as np
import pytest

from fielding.rng import stream
from fielding.simulation.probe_model import LARGEST, N_COMPONENTS, fitted_compression, scaled, trained_probe
from tests.simulation.dealt_traces import blobs


def test_components_have_no_correlation_and_spread_one() -> None:
    x = stream(0, "probe").normal(size=(500, 5)) @ stream(1, "probe").normal(size=(5, 5))

    components = fitted_compression(x).apply(x)

    np.testing.assert_allclose(np.cov(components.T), np.eye(5), atol=0.05)


def test_many_features_become_few_and_the_strongest_are_kept() -> None:
    rng = stream(0, "probe")
    signal = rng.normal(size=(300, 3))
    x = np.concatenate([np.repeat(signal, 30, axis=1), rng.normal(size=(300, 60))], axis=1)

    compression = fitted_compression(x.reshape(300, 10, 15))

    assert compression.strength.size == N_COMPONENTS
    assert (np.diff(compression.strength) <= 1e-3).all()
    explained = np.linalg.lstsq(compression.apply(x)[:, :3], signal - signal.mean(axis=0), rcond=None)[1]
    assert (explained / (signal - signal.mean(axis=0)).var(axis=0) / 300 < 0.02).all()


def test_neither_units_nor_outliers_nor_gaps_rule() -> None:
    rng = stream(0, "probe")
    x = rng.normal(size=(200, 4)) * [1.0, 1e6, 1e-6, 1.0] + [0.0, 1e7, 0.0, 5.0]
    x[0, 0], x[1, 1], x[2, 2] = 1e20, np.nan, np.inf

    components = fitted_compression(x).apply(x)

    assert np.isfinite(components).all()
    units = scaled(x, np.zeros(4, dtype=np.float32), np.ones(4, dtype=np.float32))
    assert np.abs(units).max() == LARGEST
    assert units[1, 1] == 0.0


@pytest.mark.parametrize("value", [3.0, np.nan])
def test_samples_that_are_all_alike_have_no_components(value: float) -> None:
    assert fitted_compression(np.full((9, 2, 2), value)).strength.size == 0


def test_classes_that_lie_apart_are_predicted_and_grouped_without_labels() -> None:
    pool = blobs(900)
    compression = fitted_compression(pool.x[:600])
    components = compression.apply(pool.x)

    probe = trained_probe(components[:600], pool.y[:600], n_classes=6, strength=compression.strength)

    assert (probe.predicted(components[600:]) == pool.y[600:]).mean() > 0.9
    groups = probe.grouped(components[600:])
    purity = sum(np.bincount(pool.y[600:][groups == group]).max() for group in np.unique(groups).tolist()) / 300
    assert purity > 0.8


def test_fewer_samples_than_classes_are_enough() -> None:
    components = np.array([[-1.0], [1.0]], dtype=np.float32)

    probe = trained_probe(
        components, np.array([0, 3], dtype=np.int32), n_classes=5, strength=np.ones(1, dtype=np.float32)
    )

    assert probe.grouped(components).tolist() == [0, 1]
    assert probe.predicted(components).tolist() == [0, 3]
