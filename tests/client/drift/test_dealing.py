from itertools import combinations, product

import numpy as np
import pytest

from fielding._typing import Matrix
from fielding.client.drift.pearson import pearson
from fielding.client.drift.two_sample import Deal, drawn_p_value, matched_p_value, moments, other_deals
from fielding.rng import stream


def within_strata(features: Matrix, strata: list[int]) -> Matrix:
    """Return a form that is zero between strata and whose rows sum to 0."""
    marks = np.array(strata)
    same = marks[:, np.newaxis] == marks
    inner = features - (same / same.sum(axis=1, keepdims=True)) @ features
    return np.where(same, inner @ inner.T, 0.0)


def all_deals(deal: Deal) -> list[np.ndarray]:
    """Return every way to deal the samples of each stratum again."""
    ways = []
    for stratum in range(deal.totals.size):
        rows = np.flatnonzero(deal.strata == stratum)
        ways.append(list(combinations(rows, int(deal.n_fresh[stratum]))))
    return [np.isin(np.arange(deal.strata.size), np.concatenate(way)) for way in product(*ways)]


@pytest.mark.parametrize("strata", [[0] * 7, [0, 0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2, 0], [0, 1, 1, 1, 1, 1, 1]])
def test_moments_are_exact_over_all_deals(strata: list[int]) -> None:
    rng = stream(1, "moments")
    form = within_strata(rng.standard_normal((7, 3)), strata)
    deal = Deal(is_fresh=np.array([1, 0, 1, 0, 0, 1, 0], dtype=np.bool_), strata=np.array(strata))

    values = [dealt @ form @ dealt for dealt in all_deals(deal)]

    mean, variance = moments(form, deal)
    assert mean == pytest.approx(np.mean(values))
    assert variance == pytest.approx(np.var(values))


def test_a_form_that_counts_labels_has_the_moments_of_pearson() -> None:
    labels = np.array([0, 0, 1, 1, 1, 2, 2, 0, 1, 2, 2, 2])
    is_fresh = np.arange(12) >= 7
    hot = np.eye(3)[labels]
    inner = (hot - hot.mean(axis=0)) / np.sqrt(hot.sum(axis=0))
    scale = 12 * 12 / (5 * 7)

    mean, variance = moments(scale * inner @ inner.T, Deal(is_fresh=is_fresh, strata=np.zeros(12, dtype=np.int64)))

    pair = pearson(
        hot[is_fresh].sum(axis=0, dtype=np.int64)[np.newaxis], hot[~is_fresh].sum(axis=0, dtype=np.int64)[np.newaxis]
    )
    assert [mean, variance] == pytest.approx([pair.mean[0], pair.variance[0]])


def test_deals_keep_the_numbers_of_every_stratum() -> None:
    strata = np.array([0, 1, 0, 1, 1, 2, 0])
    deal = Deal(is_fresh=np.array([1, 1, 0, 0, 1, 1, 0], dtype=np.bool_), strata=strata)

    dealt = other_deals(deal, 50, seed=3)

    for stratum in range(3):
        assert (dealt[:, strata == stratum].sum(axis=1) == deal.n_fresh[stratum]).all()
    assert len(np.unique(dealt, axis=0)) == 9


def test_all_deals_of_a_pair_are_drawn_alike_often() -> None:
    deal = Deal(is_fresh=np.array([True, False]), strata=np.array([0, 0]))

    assert 0.4 < other_deals(deal, 400, seed=0)[:, 0].mean() < 0.6


def test_drawn_and_matched_p_values_agree() -> None:
    form = within_strata(stream(2, "agree").standard_normal((40, 5)), [0] * 40)
    deal = Deal(is_fresh=np.arange(40) < 15, strata=np.zeros(40, dtype=np.int64))

    assert matched_p_value(form, deal) == pytest.approx(drawn_p_value(form, deal, n_deals=2000, seed=1), abs=0.05)


def test_where_every_deal_gives_the_same_nothing_is_surprising() -> None:
    deal = Deal(is_fresh=np.array([True, False]), strata=np.array([0, 0]))
    form = np.array([[1.0, -1.0], [-1.0, 1.0]])

    assert matched_p_value(form, deal) == 1.0
    assert drawn_p_value(form, deal, n_deals=20, seed=0) == 1.0
