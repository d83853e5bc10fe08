import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding.federation.evaluation import adjusted_rand_index

GROUPS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30)


@given(GROUPS)
def test_the_index_is_that_of_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    from sklearn.metrics import adjusted_rand_score

    first, second = np.array(pairs).T

    assert adjusted_rand_index(first, second) == pytest.approx(adjusted_rand_score(first, second), abs=1e-12)
