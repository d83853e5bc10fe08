import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fielding.federation.budget import participant_budget


@given(st.integers(0, 60), st.lists(st.integers(0, 40), min_size=1, max_size=12), st.booleans())
def test_a_budget_is_never_exceeded_and_never_asks_for_members_that_are_not_there(
    total: int, sizes: list[int], strict: bool
) -> None:
    members = np.array(sizes)

    budget = participant_budget(total, members, strict=strict)

    assert budget.sum() <= total
    assert (budget <= members).all()
    if not strict:
        assert budget.sum() == min(total, members.sum())


@given(st.integers(1, 60), st.lists(st.integers(60, 90), min_size=1, max_size=12))
def test_clusters_with_enough_members_get_equal_shares_and_the_largest_the_rest(total: int, sizes: list[int]) -> None:
    members = np.array(sizes)

    budget = participant_budget(total, members)

    assert budget.max() - budget.min() <= 1
    favored, others = members[budget > budget.min()], members[budget == budget.min()]
    assert not favored.size or favored.min() >= others.max()


@given(
    st.integers(0, 12),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2**64 - 1)), min_size=1, max_size=12),
    st.booleans(),
)
def test_draws_decide_only_where_there_are_fewer_participants_than_clusters(
    total: int, clusters: list[tuple[int, int]], strict: bool
) -> None:
    members = np.array([size for size, _ in clusters])
    draws = np.array([draw for _, draw in clusters], dtype=np.uint64)

    budget = participant_budget(total, members, strict=strict, draws=draws)

    if total >= np.count_nonzero(members):
        assert budget.tolist() == participant_budget(total, members, strict=strict).tolist()
        return
    asked, left_out = draws[budget > 0], draws[(members > 0) & (budget == 0)]
    assert budget.sum() == total
    assert (budget <= np.minimum(members, 1)).all()
    assert not asked.size or asked.max() <= left_out.min()


def test_every_cluster_gets_somebody_if_there_are_enough_participants() -> None:
    assert participant_budget(3, np.array([90, 1, 1])).tolist() == [1, 1, 1]
