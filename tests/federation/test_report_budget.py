"""Who is asked what is new: never more than the budget, each client in turn, the same after a stop."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding._typing import Counts, Mask
from fielding.errors import CheckpointError, OptionError
from fielding.federation.report_budget import HALF_LIFE, ReportBudget, sample_clients, usual_budget
from fielding.rng import Hashes, hashed, stream


def budget_of(n_clients: int, budget: int) -> ReportBudget:
    made = ReportBudget(budget)
    made.grow(n_clients)
    return made


def draws_of(n_clients: int, round_index: int) -> Hashes:
    return hashed(1, "ask", round_index, np.arange(n_clients, dtype=np.uint64))


def everyone(n_clients: int) -> Mask:
    return np.ones(n_clients, dtype=np.bool_)


def asked(budget: ReportBudget, round_index: int, candidates: Mask) -> Counts:
    return budget.choose(candidates, draws_of(candidates.size, round_index), round_index)


def live_through(budget: ReportBudget, n_clients: int, rounds: range, *, seed: int = 1) -> list[list[int]]:
    """Let a few clients train, drift and be tested in every round, and return who was asked."""
    found = []
    for at in rounds:
        rng = stream(seed, "life", at)
        training = rng.choice(n_clients, size=min(2, n_clients), replace=False)
        budget.note_reports(rng.choice(n_clients, size=min(3, n_clients), replace=False))
        budget.note_losses(training, rng.exponential(size=training.size))
        budget.note_heard(training, at)
        candidates = everyone(n_clients)
        candidates[training] = False
        found.append(asked(budget, at, candidates).tolist())
    return found


@given(n_clients=st.integers(1, 60), size=st.integers(1, 70), seed=st.integers(0, 5))
def test_every_client_that_can_be_reached_is_heard_within_the_bound(n_clients: int, size: int, seed: int) -> None:
    budget = budget_of(n_clients, size)
    bound = budget.bound(n_clients)
    last_heard = np.full(n_clients, -1)
    for at in range(3 * bound + 3):
        rng = stream(seed, "life", at)
        training = rng.choice(n_clients, size=min(2, n_clients - 1), replace=False)
        budget.note_heard(training, at)
        # The same few drift and are served badly, for ever: the others must not wait for longer.
        budget.note_reports(np.arange(min(3, n_clients)))
        budget.note_losses(np.arange(n_clients), np.where(np.arange(n_clients) < 3, 100.0, 0.01))
        candidates = everyone(n_clients)
        candidates[training] = False
        last_heard[training] = last_heard[asked(budget, at, candidates)] = at
        assert at - last_heard.min() <= bound


@given(
    n_clients=st.integers(1, 60), size=st.integers(1, 70), n_busy=st.integers(0, 80), share=st.sampled_from([0, 0.5, 1])
)
def test_the_budget_is_used_and_never_exceeded(n_clients: int, size: int, n_busy: int, share: float) -> None:
    budget = budget_of(n_clients, size)
    for at in range(4):
        candidates = stream(3, "there", at).random(n_clients) < share
        chosen = budget.choose(candidates, draws_of(n_clients, at), at, n_busy=n_busy)
        assert chosen.size == min(max(0, size - n_busy), int(candidates.sum()))
        assert candidates[chosen].all()
        assert (np.diff(chosen) > 0).all()


def test_one_that_drifts_often_and_is_served_badly_is_heard_more_often() -> None:
    budget, n_asked = budget_of(100, 10), np.zeros(100)
    budget.note_losses(np.arange(100), np.where(np.arange(100) == 7, 3.0, 1.0))
    for at in range(100):
        budget.note_reports(np.array([7] if at % 5 == 0 else [], dtype=np.int64))
        n_asked[asked(budget, at, everyone(100))] += 1
    others = np.delete(n_asked, 7)
    assert n_asked[7] > 2 * others.mean()
    assert others.min() >= 5  # half of the budget is for all, whatever else is known


def test_a_report_counts_half_after_its_half_life() -> None:
    budget = budget_of(2, 1)
    budget.note_reports(np.array([1]))
    for _ in range(HALF_LIFE):
        budget.note_reports(np.array([], dtype=np.int64))
    assert budget.arrays()["report_budget.drifts"].tolist() == pytest.approx([0.0, 0.5])


@pytest.mark.parametrize("loss", [np.inf, np.nan, 0.0, 1e300])
def test_losses_that_are_no_numbers_do_no_harm(loss: float) -> None:
    budget = budget_of(20, 4)
    budget.note_losses(np.arange(20), np.full(20, loss))
    assert asked(budget, 0, everyone(20)).size == 4
    budget.note_losses(np.arange(10), np.ones(10))
    assert asked(budget, 1, everyone(20)).size == 4


def test_the_order_of_clients_does_not_matter() -> None:
    n_clients, order = 40, stream(5, "order").permutation(40)
    plain, shuffled = budget_of(n_clients, 6), budget_of(n_clients, 6)
    for at in range(12):
        draws = draws_of(n_clients, at)
        drifted = stream(5, "drifted", at).choice(n_clients, size=3, replace=False)
        plain.note_reports(drifted)
        shuffled.note_reports(np.flatnonzero(np.isin(order, drifted)))
        wanted = plain.choose(everyone(n_clients), draws, at)
        assert sorted(order[shuffled.choose(everyone(n_clients), draws[order], at)].tolist()) == wanted.tolist()


@given(stop=st.integers(0, 12))
def test_a_budget_goes_on_from_its_checkpoint(stop: int) -> None:
    whole, cut, resumed = budget_of(30, 5), budget_of(30, 5), ReportBudget(5)
    wanted = live_through(whole, 30, range(12))
    found = live_through(cut, 30, range(stop))
    resumed.restore(cut.arrays())
    found += live_through(resumed, 30, range(stop, 12))

    assert found == wanted
    assert {name: one.tobytes() for name, one in resumed.arrays().items()} == {
        name: one.tobytes() for name, one in whole.arrays().items()
    }


def test_those_that_join_are_asked_first() -> None:
    budget = budget_of(10, 4)
    for at in range(6):
        asked(budget, at, everyone(10))
    budget.grow(12)
    assert {10, 11} <= set(asked(budget, 6, everyone(12)).tolist())


def test_a_checkpoint_of_an_older_version_begins_anew_and_a_broken_one_is_refused() -> None:
    budget = budget_of(3, 2)
    budget.restore({})
    broken = {**budget.arrays(), "report_budget.losses": np.zeros(7)}
    with pytest.raises(CheckpointError, match="does not fit together"):
        budget.restore(broken)


@pytest.mark.parametrize("budget", [0, -1, True, 2.0])
def test_a_budget_is_a_whole_number(budget: int) -> None:
    with pytest.raises(OptionError, match="give a whole number of at least 1"):
        ReportBudget(budget)


def test_a_sample_is_uniform_and_no_larger_than_wanted() -> None:
    n_drawn = np.zeros(30)
    for at in range(400):
        sample = sample_clients(everyone(30), draws_of(30, at), 6)
        assert sample.size == 6
        n_drawn[sample] += 1
    assert abs(n_drawn - 80).max() < 4 * np.sqrt(80)
    assert sample_clients(everyone(30), draws_of(30, 0), None).size == 30
    assert usual_budget(5) == 20
