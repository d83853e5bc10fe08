import pytest

from fielding.reporting.numbers.paired import best
from fielding.rng import stream


def test_who_is_clearly_above_all_others_wins_alone() -> None:
    found = best({"low": [0.5, 0.61, 0.7], "high": [0.7, 0.8, 0.9], "lower": [0.41, 0.5, 0.6]})

    assert found == {"marked": ["high"], "winner": "high", "worse": ["low", "lower"]}


def test_whoever_is_level_with_the_best_is_marked_too_and_nobody_wins() -> None:
    found = best({"a": [0.9, 0.8, 0.7], "b": [0.88, 0.81, 0.7], "c": [0.5, 0.41, 0.3]})

    assert found == {"marked": ["a", "b"], "winner": None, "worse": ["c"]}


def test_nobody_is_marked_where_nobody_is_clearly_worse() -> None:
    assert best({"a": [0.9, 0.5, 0.7], "b": [0.6, 0.8, 0.6]}) == {"marked": [], "winner": None, "worse": []}


def test_methods_that_are_the_same_are_level() -> None:
    assert best({"a": [0.5, 0.6], "b": [0.5, 0.6]})["marked"] == []


def test_fewer_than_three_seeds_mark_nobody() -> None:
    assert best({"a": [0.9], "b": [0.1]}) == {"marked": [], "winner": None, "worse": []}
    assert best({"a": [0.5, 0.6], "b": [0.4, 0.5]}) == {"marked": [], "winner": None, "worse": []}
    assert best({"a": [0.9, 0.91], "b": [0.1, 0.1]}) == {"marked": [], "winner": None, "worse": []}
    assert best({"a": [0.9, None], "b": [None, 0.1]})["marked"] == []


def test_a_single_method_is_not_the_best_of_anything() -> None:
    assert best({"a": [0.9, 0.8]})["marked"] == best({})["marked"] == []


def test_more_rivals_need_clearer_differences() -> None:
    ours, theirs = [0.9, 0.8, 0.7, 0.6], [0.85, 0.71, 0.68, 0.5]  # p is 0.03

    assert best({"a": ours, "b": theirs})["winner"] == "a"
    crowd = {f"rival {at}": theirs for at in range(3)}
    assert best({"a": ours, **crowd}) == {"marked": [], "winner": None, "worse": []}


def test_lower_may_be_better() -> None:
    assert best({"a": [3.0, 4.0, 5.0], "b": [1.0, 2.1, 3.0]}, lower_is_better=True)["winner"] == "b"


def test_a_method_that_lacks_seeds_cannot_be_the_best_nor_be_judged_by_one() -> None:
    found = best({"lucky": [None, None, 0.99], "a": [0.7, 0.8, 0.9], "b": [0.5, 0.61, 0.7]})

    assert found == {"marked": ["a"], "winner": None, "worse": ["b"]}


def test_a_method_that_lacks_seeds_is_judged_by_those_it_shares() -> None:
    found = best({"a": [0.7, 0.8, 0.9, 0.8], "short": [None, 0.61, 0.7, 0.6]})

    assert found == {"marked": ["a"], "winner": "a", "worse": ["short"]}


def test_a_method_that_lacks_a_seed_may_be_the_best() -> None:
    low, lowest = [0.5, 0.52, 0.51, 0.49, 0.5], [0.3, 0.31, 0.29, 0.3, 0.32]
    short = [None, 0.9, 0.91, 0.89, 0.9]

    assert best({"low": low, "short": short, "lowest": lowest})["marked"] == ["short"]
    assert best({"low": low, "short": short})["winner"] == "short"


def test_differences_without_spread_mark_nobody() -> None:
    assert best({"a": [0.5, 0.6, 0.7], "b": [0.4, 0.5, 0.6]})["marked"] == []


def test_nobody_is_marked_whom_another_clearly_beats() -> None:
    # On seeds 1 to 3 a is above b, on 4 to 6 b is above c, on 7 to 9 c is above a.
    above, below, none = [0.9, 0.8, 0.71], [0.5, 0.41, 0.3], [None] * 3

    found = best({"a": [*above, *none, *below], "b": [*below, *above, *none], "c": [*none, *below, *above]})

    assert found == {"marked": [], "winner": None, "worse": ["a", "b", "c"]}


@pytest.mark.parametrize("n_methods", [2, 8])
def test_equal_methods_are_marked_in_no_more_than_a_twentieth_of_all_comparisons(n_methods: int) -> None:
    draws, n_marked = stream(0, "equal methods", n_methods), 0
    for _ in range(300):
        figures = draws.normal(size=(n_methods, 5))
        n_marked += bool(best({str(at): row.tolist() for at, row in enumerate(figures)})["marked"])

    assert n_marked / 300 < 0.08


def test_the_best_is_sought_among_those_with_the_most_seeds() -> None:
    found = best({"short": [None, None, 1.5], "a": [1.0, 1.1, 1.2], "b": [3.0, 3.0, 3.1]}, lower_is_better=True)

    assert found == {"marked": ["a"], "winner": None, "worse": ["b"]}


def test_a_method_that_is_better_on_the_seeds_it_has_is_not_worse() -> None:
    found = best({"a": [0.7, 0.8, 0.75, 0.1], "short": [0.71, 0.82, 0.75, None], "c": [0.2, 0.31, 0.24, -0.4]})

    assert found == {"marked": ["a", "short"], "winner": None, "worse": ["c"]}
