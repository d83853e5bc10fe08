"""What is timed of experts is what clients are served by, together or one by one."""

import pytest

from benchmarks.serving import compare_serving


@pytest.mark.parametrize("n_window", [5, 40])
def test_clients_are_served_alike_together_and_one_by_one(n_window: int) -> None:
    rows = {row.contender: row for row in compare_serving(3, n_window, repeat=1)}

    assert list(rows) == ["together", "one by one", "forward pass"]
    assert rows["one by one"].largest_difference < 1e-9
    assert rows["forward pass"].times_the_pass == 1.0
    assert all(row.ms_a_client > 0.0 for row in rows.values())
