import numpy as np
import pytest

from fielding.rng import stream
from fielding.traces.probe_model import LARGEST, N_COMPONENTS, fit_compression, scaled, train_probe
from tests.traces.dealt_traces import blobs


def test_components_have_no_correlation_and_spread_one() -> None:
    x = stream(0, "probe").normal(size=(500, 5)) @ stream(1, "probe").normal(size=(5, 5))

    components = fit_compression(x).apply(x)

    np.testing.assert_allclose(np.cov(components.T), np.eye(5), atol=0.05)


def test_many_features_become_few_and_the_strongest_are_kept() -> None:
    rng = stream(0, "probe")
    signal = rng.normal(size=(300, 3))
    x = np.concatenate([np.repeat(signal, 30, axis=1), rng.normal(size=(300, 60))], axis=1)

    compression = fit_compression(x.reshape(300, 10, 15))

    assert compression.strength.size == N_COMPONENTS
    assert (np.diff(compression.strength) <= 1e-3).all()
    explained = np.linalg.lstsq(compression.apply(x)[:, :3], signal - signal.mean(axis=0), rcond=None)[1]
    assert (explained / (signal - signal.mean(axis=0)).var(axis=0) / 300 < 0.02).all()


def test_neither_units_nor_outliers_nor_gaps_rule() -> None:
    rng = stream(0, "probe")
    x = rng.normal(size=(200, 4)) * [1.0, 1e6, 1e-6, 1.0] + [0.0, 1e7, 0.0, 5.0]
    x[0, 0], x[1, 1], x[2, 2] = 1e20, np.nan, np.inf

    components = fit_compression(x).apply(x)

    assert np.isfinite(components).all()
    units = scaled(x, np.zeros(4, dtype=np.float32), np.ones(4, dtype=np.float32))
    assert np.abs(units).max() == LARGEST
    assert units[1, 1] == 0.0


@pytest.mark.parametrize("value", [3.0, np.nan])
def test_samples_that_are_all_alike_have_no_components(value: float) -> None:
    assert fit_compression(np.full((9, 2, 2), value)).strength.size == 0


def test_classes_that_lie_apart_are_predicted_and_grouped_without_labels() -> None:
    pool = blobs(900)
    compression = fit_compression(pool.x[:600])
    components = compression.apply(pool.x)

    probe = train_probe(components[:600], pool.y[:600], n_classes=6, strength=compression.strength)

    assert (probe.predict(components[600:]) == pool.y[600:]).mean() > 0.9
    groups = probe.group(components[600:])
    purity = sum(np.bincount(pool.y[600:][groups == group]).max() for group in np.unique(groups).tolist()) / 300
    assert purity > 0.8


def test_fewer_samples_than_classes_are_enough() -> None:
    components = np.array([[-1.0], [1.0]], dtype=np.float32)

    probe = train_probe(
        components, np.array([0, 3], dtype=np.int32), n_classes=5, strength=np.ones(1, dtype=np.float32)
    )

    assert probe.group(components).tolist() == [0, 1]
    assert probe.predict(components).tolist() == [0, 3]
