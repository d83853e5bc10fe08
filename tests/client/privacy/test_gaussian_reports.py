"""Sums of cut-down vectors of samples: what one sample changes, and the noise on them."""

import numpy as np
import pytest

from fielding.client.privacy.counts import is_summed, noised_vectors, sum_samples, unit_of
from fielding.client.representation.embedding import ClassMeans, Embedding
from fielding.client.representation.gradient import Gradient, HeadGradient
from fielding.client.representation.representation import Representation, Seen
from fielding.config.reader import config_from
from fielding.engine.plugins import noise_variance_of, privacy_of
from fielding.engine.report_rule import report_rule_of
from fielding.errors import OptionError

RNG = np.random.default_rng(8)
BOTH: list[Representation] = [Embedding(), HeadGradient(dims=20)]


def window(n_samples: int = 12, n_features: int = 80, n_classes: int = 3) -> Seen:
    return Seen(
        labels=RNG.integers(-1, n_classes, n_samples),
        features=RNG.normal(scale=RNG.choice([0.01, 1.0, 1e3]), size=(n_samples, n_features)).astype(np.float32),
        scores=RNG.normal(scale=3.0, size=(n_samples, n_classes)).astype(np.float32),
        sizes=np.array([n_samples]),
    )


def neighbour(seen: Seen) -> Seen:
    """Return the window with another value of one sample."""
    other, at = window(), int(RNG.integers(12))
    values = {name: getattr(seen, name).copy() for name in ("labels", "features", "scores")}
    for name, value in values.items():
        value[at] = getattr(other, name)[at]
    return Seen(sizes=seen.sizes, **values)


@pytest.mark.parametrize("representation", BOTH, ids=["embedding", "head-gradient"])
def test_a_sample_moves_the_sum_by_two_at_most(representation: Representation) -> None:
    farthest = 0.0
    for _ in range(200):
        seen = window()
        first, second = (sum_samples(representation, one, 0.7) for one in (seen, neighbour(seen)))
        farthest = max(farthest, float(np.linalg.norm(first - second)))

    assert 0.4 < farthest <= 2.0 + 1e-6


def test_short_vectors_stay_as_they_are_in_units_of_the_norm() -> None:
    seen = window(n_features=5)
    short = Seen(labels=seen.labels, features=seen.features / 1e5, scores=seen.scores, sizes=seen.sizes)

    found = sum_samples(Embedding(), short, 0.5)

    np.testing.assert_allclose(found[0], short.features.sum(axis=0) / 0.5, rtol=1e-5)


def test_what_is_not_finite_counts_for_nothing() -> None:
    seen = window()
    seen.features[3] = np.inf

    assert np.linalg.norm(sum_samples(Embedding(), seen, 1.0)) <= 11.0 + 1e-6


def test_sums_are_divided_by_the_public_number_of_samples() -> None:
    found = noised_vectors(Embedding(), np.array([[2.0, -4.0]]), np.array([4]), np.zeros(2))

    assert found.tolist() == [[0.5, -1.0]]


def test_the_noise_follows_from_epsilon_delta_and_the_number_of_reports() -> None:
    def noise(**privacy: float) -> float:
        config = config_from({"privacy": {"mode": "record", **privacy}, "coordinator": {"representation": "embedding"}})
        rule = report_rule_of(config.coordinator, is_own=False, seed=1)
        found = privacy_of(config, rule)
        assert found is not None
        assert noise_variance_of(config, rule) == (2.0 * found.noise_multiplier) ** 2
        return found.noise_multiplier

    once = noise(epsilon=2.0)
    assert noise(epsilon=8.0) < once < noise(epsilon=2.0, delta=1e-7)
    assert noise(epsilon=2.0, reports_per_window=4) == pytest.approx(2.0 * once, rel=0.01)


def test_others_are_refused_and_told_why() -> None:
    assert not is_summed(ClassMeans())
    with pytest.raises(OptionError, match=r"how much one sample changes .* is not proven.*embedding, head-gradient"):
        unit_of(ClassMeans(), "class-means")
    with pytest.raises(OptionError, match=r"'gradient' would need the gradient of each sample alone.*'head-gradient'"):
        unit_of(Gradient(), "gradient")
