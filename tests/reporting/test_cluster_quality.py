import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import adjusted_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix

from fielding.reporting.numbers.run_metrics import churn, final_agreement, mutual_information, purity

PAIRS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=30)


@given(PAIRS)
def test_purity_is_that_of_the_contingency_table(pairs: list[tuple[int, int]]) -> None:
    clusters, concepts = np.array(pairs).T

    expected = contingency_matrix(clusters, concepts).max(axis=1).sum() / len(pairs)
    assert purity(clusters, concepts) == pytest.approx(expected)


def test_mutual_information_is_adjusted() -> None:
    clusters, concepts = [0, 0, 1, 1, 2, 2], [0, 0, 0, 1, 1, 1]

    assert mutual_information(clusters, concepts) == pytest.approx(adjusted_mutual_info_score(concepts, clusters))
    assert mutual_information([0, 0, 1, 1], [1, 1, 0, 0]) == 1.0
    assert mutual_information([0, 0, 0, 0], [1, 1, 0, 0]) == pytest.approx(0.0)


def test_agreement_is_that_of_the_rounds_that_count() -> None:
    clusters = [(0, [("ann", 0), ("bob", 0), ("cem", 1)]), (3, [("bob", 1)]), (9, [("ann", 1)])]
    concepts = [(0, [("ann", 5), ("bob", 6), ("cem", 6), ("dee", 6)])]

    found = final_agreement(clusters, concepts, [2, 3])

    # After round 2 one of three is in a cluster of others, after round 3 nobody is; dee has no cluster.
    assert found["final_purity"] == pytest.approx((2 / 3 + 1) / 2)
    first = adjusted_mutual_info_score([5, 6, 6], [0, 0, 1])
    assert found["final_ami"] == pytest.approx((first + 1.0) / 2)


def test_without_truth_or_clusters_there_is_no_agreement() -> None:
    known = [(0, [("ann", 0)])]
    nobody = {"final_ami": None, "final_purity": None}

    assert (
        final_agreement(known, [], [1])
        == final_agreement([], known, [1])
        == final_agreement(known, known, [])
        == nobody
    )
    assert final_agreement([(0, [("ann", -1)])], known, [1]) == nobody


def test_churn_counts_moves_but_neither_first_clusters_nor_clients_without_one() -> None:
    lines = [(0, [("ann", 0), ("bob", 0), ("cem", -1)]), (1, [("cem", 1)]), (2, [("ann", 1), ("bob", -1)])]

    # One of the two clients that are left in a cluster moved in round 2; there are four rounds after the first.
    assert churn(lines, 5) == pytest.approx((1 / 2) / 4)
    assert churn([], 5) is None
    assert churn(lines, 1) is None
