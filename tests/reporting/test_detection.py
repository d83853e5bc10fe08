import pytest

from fielding.reporting.numbers.run_metrics import client_rounds, concept_changes, detection


def found(changes: dict[str, list[int]], reports: dict[str, list[int]]) -> tuple[float | None, ...]:
    figures = detection(changes, reports, n_rounds=20, n_client_rounds=50)  # type: ignore[arg-type]
    return tuple(figures[name] for name in ("detection_delay", "miss_rate", "false_reports_per_100"))


def test_a_report_in_the_round_of_the_change_comes_at_once() -> None:
    assert found({"ann": [4]}, {"ann": [0, 4]}) == (0.0, 0.0, 0.0)


def test_the_delay_is_that_of_the_next_report_and_a_second_one_is_false() -> None:
    assert found({"ann": [4]}, {"ann": [0, 6, 9]}) == (2.0, 0.0, 2.0)


def test_a_change_without_a_report_before_the_next_one_is_missed() -> None:
    assert found({"ann": [4, 8]}, {"ann": [0, 8]}) == (0.0, 0.5, 0.0)


def test_a_change_that_is_never_reported_is_missed() -> None:
    assert found({"ann": [4], "bob": [5]}, {"ann": [0, 7]}) == (3.0, 0.5, 0.0)


def test_reports_of_clients_that_never_change_are_false_but_for_the_first() -> None:
    assert found({"ann": []}, {"ann": [0, 3, 5], "stranger": [1]}) == (None, None, 4.0)


def test_without_rounds_of_clients_there_is_no_rate() -> None:
    assert detection({}, {}, n_rounds=0, n_client_rounds=0)["false_reports_per_100"] is None


def test_a_break_is_no_change_if_the_concept_comes_back() -> None:
    lines = [(0, [("ann", 2), ("bob", -1)]), (4, [("ann", -1)]), (6, [("ann", 2), ("bob", 1)]), (8, [("bob", 2)])]

    assert concept_changes(lines) == {"ann": [], "bob": [8]}
    assert client_rounds(lines, 10) == 4 + 4 + 4


@pytest.mark.parametrize("at", [3, 5])
def test_a_break_into_another_concept_is_a_change(at: int) -> None:
    assert concept_changes([(0, [(7, 2)]), (2, [(7, -1)]), (at, [(7, 1)])]) == {7: [at]}
