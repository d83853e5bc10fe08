from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding._typing import Counts
from fielding.client.privacy.counts import STEPS, sum_samples, unit_of
from fielding.client.privacy.geometric import RandomWords, repeatable_words
from fielding.client.privacy.ledger import LEDGER, PrivacyLedger, read_ledger
from fielding.client.privacy.rule import PrivacyRule, gaussian_rule
from fielding.client.representation.registry import representation_named
from fielding.errors import CheckpointError, OptionError
from fielding.rng import stream
from fielding.runtime import private_reports
from fielding.runtime.observe import Sight
from fielding.runtime.private_reports import PrivateObserver
from fielding.runtime.workers import Workers
from fielding.traces.histograms import WindowPlan
from fielding.traces.sliding import SlidingWindows
from tests.runtime.plans import softmax_trainer
from tests.runtime.seeing import MODEL, Arrivals, seen_from_scratch, windows_of
from tests.simulation.run_cases import Sample, planted_windows

ONE_REPORT = PrivacyRule(epsilon=Fraction(1), reports=1, window=2)


def noise_of(client: int, round_index: int) -> RandomWords:
    return repeatable_words(stream(7, "test", client, round_index))


def observer_of(
    windows: SlidingWindows,
    rule: PrivacyRule = ONE_REPORT,
    *,
    name: str = "label",
    ledger: Path | None = None,
    is_whole: bool = True,
) -> PrivateObserver:
    representation = representation_named(name)
    compute = None if name.startswith("label") else Workers(softmax_trainer())
    observer = PrivateObserver(
        windows,
        representation,
        rule=rule,
        sight=Sight(windows, compute),
        ledger=PrivacyLedger(ledger, rule),
        client_ids=list(range(windows.n_clients)),
        noise_of=noise_of,
        is_whole=is_whole,
    )
    if compute is not None:
        observer.share(MODEL)
    return observer


def reports_of(observer: PrivateObserver, n_rounds: int) -> dict[tuple[int, int], Counts]:
    """Return the noised counts of every report, by round and client."""
    found = {}
    for round_index in range(n_rounds):
        due = observer.observe(round_index)
        for client, vector, n_samples in zip(due.clients, due.representations, due.n_samples, strict=True):
            found[round_index, int(client)] = np.rint(vector * n_samples).astype(np.int64)
    return found


def exact_counts(windows: SlidingWindows, client: int, round_index: int) -> Counts:
    rows, _ = windows.training(round_index).of(np.array([client]))
    rows = rows[windows.rounds(rows) > round_index - windows.n_visible]  # after a trace its last window stays
    return np.bincount(windows.labels(rows), minlength=windows.n_classes).astype(np.int64)


values = st.lists(st.sampled_from([-2, 3]), min_size=1, max_size=4)


@given(st.lists(values, min_size=6, max_size=10), st.integers(1, 4), st.integers(1, 3), st.data())
def test_all_reports_of_a_life_together_tell_no_more_than_epsilon_of_a_sample(
    blocks: list[list[int]], n_visible: int, reports: int, data: st.DataObject
) -> None:
    rule = PrivacyRule(epsilon=Fraction(2), reports=min(reports, n_visible), window=n_visible)
    at = data.draw(st.integers(0, len(blocks) - 1))
    place = data.draw(st.integers(0, len(blocks[at]) - 1))
    other = [[*block] for block in blocks]
    other[at][place] = -2 if blocks[at][place] > 0 else 3
    one, neighbour = (
        windows_of({0: [tuple(block) for block in some]}, n_visible=n_visible) for some in (blocks, other)
    )
    n_rounds = len(blocks) + 2 * n_visible

    told, also = reports_of(observer_of(one, rule), n_rounds), reports_of(observer_of(neighbour, rule), n_rounds)

    # The schedule does not depend on the values; whatever came out, the ratio of its probabilities is bounded.
    assert told.keys() == also.keys()
    log_ratio = Fraction(0)
    for (round_index, client), output in told.items():
        away, near = (np.abs(output - exact_counts(each, client, round_index)).sum() for each in (neighbour, one))
        log_ratio += Fraction(int(away - near)) / rule.noise(1).scale
    assert abs(log_ratio) <= rule.epsilon


def test_reports_are_counts_with_the_noise_of_the_rule() -> None:
    windows = windows_of({0: [(1, 1, -1), (1, -1, -1)], 1: [(-1,), (-1, 1)]}, n_visible=2)
    rule = PrivacyRule(epsilon=Fraction(1, 2), reports=1, window=2)

    due = observer_of(windows, rule).observe(0)

    assert due.clients.tolist() == [0, 1]
    for client, vector in enumerate(due.representations):
        words = noise_of(client, 0)
        rule.next_round(0, None, words)  # the turn is drawn first
        noised = exact_counts(windows, client, 0) + rule.noise(1).draw(2, words)
        assert vector.tolist() == (noised / due.n_samples[client]).astype(np.float32).tolist()


def test_clients_register_together_and_then_report_in_turn_once_in_a_window() -> None:
    steady: Arrivals = {client: [(1,)] * 30 for client in range(20)}
    rule = PrivacyRule(epsilon=Fraction(1), reports=2, window=8)

    rounds = [at for at, _ in reports_of(observer_of(windows_of(steady, n_visible=8), rule), 20)]

    counted = np.bincount(rounds)
    assert counted[:4].tolist() == [20, 0, 0, 0]
    assert (counted[4:8] > 0).all()
    assert counted.reshape(5, 4).sum(axis=1).tolist() == [20] * 5
    assert (counted[4:].reshape(4, 4) == counted[4:8]).all()


def test_a_report_that_could_not_be_sent_goes_out_as_it_was_and_costs_nothing(tmp_path: Path) -> None:
    windows = windows_of({0: [(1, -1)] * 12, 1: [(1, 1)] * 12}, n_visible=4)
    rule = PrivacyRule(epsilon=Fraction(1), reports=1, window=4)
    observer = observer_of(windows, rule, ledger=tmp_path / LEDGER)
    first = observer.observe(0)

    observer.hold(np.array([1]))
    again = observer.observe(1)

    assert again.clients.tolist() == [1]
    assert again.representations.tolist() == first.representations[1:].tolist()
    assert again.n_samples.tolist() == [first.n_samples[1]]
    assert len(read_ledger(tmp_path / LEDGER).spendings) == 2


def test_a_client_without_samples_says_so_at_once_and_one_that_comes_late_registers_then() -> None:
    windows = windows_of({0: [(1, -1), (), (), (1,), (1,)], 1: [(), (), (1,), (1,), (1,)]})
    rule = PrivacyRule(epsilon=Fraction(1), reports=1, window=1)
    observer = observer_of(windows, rule)

    due = [observer.observe(at) for at in range(4)]

    assert [one.clients.tolist() for one in due] == [[0], [0], [1], [0, 1]]
    assert [one.n_samples.tolist() for one in due] == [[2], [0], [1], [1, 1]]
    assert due[1].representations.tolist() == [[0.0, 0.0]]


def test_samples_that_a_store_still_shows_after_their_time_are_not_counted_again() -> None:
    windows = windows_of({0: [(1, 1), (1, 1)]}, n_visible=2)  # the trace ends, and its last window stays
    observer = observer_of(windows, ONE_REPORT)

    rounds = [at for at in range(20) if len(observer.observe(at))]

    assert max(rounds) < 2


def test_a_refused_report_is_not_made(tmp_path: Path) -> None:
    windows = windows_of({0: [(1,)] * 8}, n_visible=2)
    spent = PrivacyLedger(tmp_path / LEDGER, ONE_REPORT)
    spent.spend([(0, 0)], 0)

    observer = observer_of(windows, ONE_REPORT, ledger=tmp_path / LEDGER)

    assert [len(observer.observe(at)) for at in range(3)] == [0, 0, 1]


@pytest.mark.parametrize("name", ["predictions", "confusion", "soft-confusion"])
def test_what_a_shared_model_sees_is_counted_with_noise(name: str) -> None:
    steady: Arrivals = {client: [(*[2] * 225, *[-2] * 75)] for client in range(2)}
    rule = PrivacyRule(epsilon=Fraction(100), reports=1, window=1)
    observer = observer_of(windows_of(steady), rule, name=name)

    due = observer.observe(0)

    representation = representation_named(name)
    shown = {"predictions": [0.25, 0.75], "confusion": [0.5, 0, 0, 0.5], "soft-confusion": [0.491, 0.009, 0.009, 0.491]}
    assert unit_of(representation) in (1, 1000)
    assert np.abs(due.representations - shown[name]).max() < 0.02
    assert observer.looked.clients.tolist() == [0, 1]


def test_reports_wait_for_the_model_that_clients_see_with() -> None:
    windows = windows_of({0: [(1,)] * 4})
    waiting = PrivateObserver(
        windows,
        representation_named("confusion"),
        rule=PrivacyRule(epsilon=Fraction(1), reports=1, window=1),
        sight=Sight(windows, Workers(softmax_trainer())),
        ledger=PrivacyLedger(None, ONE_REPORT),
        client_ids=[0],
        noise_of=noise_of,
    )

    assert len(waiting.observe(0)) == 0
    waiting.share(MODEL)
    assert waiting.observe(1).clients.tolist() == [0]


GAUSSIAN = gaussian_rule(epsilon=Fraction(4), delta=Fraction(1, 10**5), reports=2, window=4, max_norm=1.5)


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("label", PrivacyRule(epsilon=Fraction(1), reports=2, window=4)),
        ("embedding", GAUSSIAN),
        ("head-gradient", GAUSSIAN),
    ],
)
def test_a_device_reports_as_in_a_fleet_and_goes_on_with_what_it_said(
    tmp_path: Path, name: str, rule: PrivacyRule
) -> None:
    blocks = [(1, -1), (2, -3), (1,), (-2, 1, 1), (3, 3)] * 4
    windows = windows_of({0: blocks, 1: [*blocks[1:], (1,)]}, n_visible=4)
    alone = windows_of({0: blocks}, n_visible=4)
    fleet = observer_of(windows, rule, name=name)
    whole = [fleet.observe(at) for at in range(10)]
    state = None

    for at in range(10):
        device = observer_of(alone, rule, name=name, ledger=tmp_path / LEDGER, is_whole=False)
        if state is not None:
            device.resume(state)
        told = device.observe(at)
        state = device.state()

        assert told.representations.tolist() == whole[at].representations[whole[at].clients == 0].tolist()
    assert len(read_ledger(tmp_path / LEDGER).spendings) > 2
    with pytest.raises(CheckpointError, match="describes no private reports"):
        device.resume({})


@pytest.mark.parametrize("name", ["embedding", "head-gradient"])
def test_sums_carry_the_noise_of_the_rule_in_whole_steps(name: str) -> None:
    windows = windows_of({0: [(1, -2, 3)]})
    rule, representation = replace(GAUSSIAN, window=2), representation_named(name)

    due = observer_of(windows, rule, name=name).observe(0)

    words = noise_of(0, 0)
    rule.next_round(0, None, words)  # the turn is drawn first
    exact = sum_samples(representation, seen_from_scratch(windows, 0), rule.max_norm)[0]
    noised = exact + rule.gaussian_noise(STEPS).draw(exact.size, words)
    assert due.representations.tolist() == [(noised / STEPS / 3).astype(np.float32).tolist()]


def test_what_cannot_be_summed_up_spends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_given: object) -> Counts:
        raise OptionError("vectors cannot be projected")

    monkeypatch.setattr(private_reports, "count_samples", refuse)

    with pytest.raises(OptionError, match="cannot be projected"):
        observer_of(windows_of({0: [(1,)]}), GAUSSIAN, name="head-gradient", ledger=tmp_path / LEDGER).observe(0)
    assert not (tmp_path / LEDGER).exists()


def test_windows_of_real_gaps_hold_a_sample_for_as_long_as_the_rule_says() -> None:
    samples = [Sample(client=0, interval=interval, value=1.0, label=1) for interval in range(9)]
    windows = planted_windows(samples, n_clients=1, plan=WindowPlan(gap=3, window=7), n_intervals=9)
    span = windows.n_visible * windows.gap
    rounds = [at for at in range(18) if 4 in windows.training(at).of(np.array([0]))[0]]

    assert len(rounds) == span == 9
    assert windows.rounds(np.array([4]))[0] == min(rounds)
