"""Messages lost, doubled, late and out of order, nodes that crash, a server killed again and again (QUALITY.md R16)."""

from collections import Counter
from pathlib import Path

import pytest

from fielding.records.run_folder import EVENTS, ROUNDS

pytest.importorskip("flwr", reason="the flower extra is not installed")

from tests.flower.chaos import CALM, DEADLINE_S, Chaos, Odds, run_chaos
from tests.flower.device_wire import lines


def reporters(chaos: Chaos) -> Counter[str]:
    """Return how often the reports of each client acted."""
    return Counter(str(one) for event in lines(chaos.out, EVENTS) for one in list(event["reported"]))  # type: ignore[call-overload]


def assert_sound(chaos: Chaos, *, rounds: int, n_restarts: int) -> None:
    rows = lines(chaos.out, ROUNDS)
    assert chaos.problems == []
    assert chaos.n_restarts == n_restarts
    assert [row["round"] for row in rows] == list(range(rounds))
    assert all(row["bytes_down"] or row["bytes_up"] for row in rows), "a round was spent on nothing"
    assert chaos.longest_s <= DEADLINE_S + 1e-6
    assert all(chaos.network.happened[what] for what in ("request_lost", "response_lost", "cut", "doubled", "crash"))


@pytest.mark.parametrize("seed", [5])
def test_every_update_that_was_answered_in_time_counts_once_whatever_happens_on_the_way(
    tmp_path: Path, seed: int
) -> None:
    chaos = run_chaos(tmp_path, rounds=24, seed=seed, odds=Odds(), n_restarts=4)

    assert_sound(chaos, rounds=24, n_restarts=4)
    assert sum(chaos.counted.values()) > 20
    assert max(reporters(chaos).values()) <= 2  # at the start, and after the one drift that any of them has


def test_no_round_is_spent_on_nothing_where_most_answers_are_lost_or_late(tmp_path: Path) -> None:
    chaos = run_chaos(tmp_path, rounds=8, seed=2, odds=Odds(), n_restarts=0, deadline_s=DEADLINE_S / 2)

    assert chaos.problems == []
    assert all(row["bytes_down"] or row["bytes_up"] for row in lines(chaos.out, ROUNDS))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_after_200_rounds_of_chaos_and_20_restarts_all_is_as_in_a_calm_run(tmp_path: Path, seed: int) -> None:
    calm = run_chaos(tmp_path / "calm", rounds=200, seed=seed, odds=CALM, n_restarts=0)
    # Once all have told of themselves: who could not at the start joins the nearest cluster, and groups may be others.
    chaos = run_chaos(tmp_path / "chaos", rounds=200, seed=seed, odds=Odds(first_push=2), n_restarts=20)

    assert_sound(chaos, rounds=200, n_restarts=20)
    assert calm.problems == []
    assert chaos.clusters() == calm.clusters()
    assert reporters(chaos) == reporters(calm)
    assert chaos.accuracy() == calm.accuracy() == 1.0
