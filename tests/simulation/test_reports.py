"""Whose reports travel when, what they weigh, and how a shared model reaches clients."""

from collections.abc import Mapping

import numpy as np
import pytest

from fielding._typing import Counts, Mask, Vector
from fielding.client.drift import AnyChange
from fielding.client.fleet import FleetReports
from fielding.methods.kinds import ReportsFrom
from fielding.runtime.observe import NOTHING, LabelObserver, LookingCosts
from fielding.simulation.reports import Mailbox, SentReports, SharedModel
from tests.runtime.seeing import MODEL, Told, observer_of, windows_of

N_LABELS = 2


class Script:
    """Clients that have something to tell in rounds that are written down; what could not be sent comes again."""

    level: float | None = None
    span = 1

    def __init__(self, rounds: Mapping[int, list[int]], looked: LookingCosts | None = None) -> None:
        self._rounds, self.looked = rounds, looked or LookingCosts()
        self._held: Counts = NOTHING.clients

    def hold(self, clients: Counts) -> None:
        self._held = clients

    def observe(self, round_index: int) -> FleetReports:
        told = np.array(self._rounds.get(round_index, []), dtype=np.int64)
        clients = np.union1d(told, self._held).astype(np.int64)
        shares = np.tile(np.array([1.0, 0.0], dtype=np.float32), (clients.size, 1))
        return FleetReports(clients=clients, representations=shares, n_samples=clients * 10)


def everyone(clients: Counts) -> Mask:
    return np.ones(clients.size, dtype=np.bool_)


def without(*offline: int) -> "OnlineBut":
    return OnlineBut(offline)


class OnlineBut:
    """Says that all can be reached but some."""

    def __init__(self, offline: tuple[int, ...]) -> None:
        self._offline = np.array(offline, dtype=np.int64)

    def __call__(self, clients: Counts) -> Mask:
        return ~np.isin(clients, self._offline)


def who(letters: SentReports) -> list[int]:
    return letters.clients.tolist()


def test_where_nobody_listens_nothing_is_sent() -> None:
    mailbox = Mailbox(None, "nobody")

    letters = [mailbox.send(0, everyone), mailbox.collect(np.array([0, 1]), 0)]

    assert [who(one) for one in letters] == [[], []]
    assert all(array.size == 0 for array in mailbox.arrays().values())


def test_drifted_clients_report_at_once_and_who_is_away_when_it_is_back() -> None:
    mailbox = Mailbox(Script({0: [0, 1, 2], 2: [0]}), "drifted")

    sent = [
        mailbox.send(0, without(1, 2)),
        mailbox.send(1, without(2)),
        mailbox.send(2, without(2)),
        mailbox.send(3, everyone),
        mailbox.send(4, everyone),
    ]

    assert [who(one) for one in sent] == [[0], [1], [0], [2], []]


def test_letters_weigh_what_they_say() -> None:
    letters = Mailbox(Script({0: [1, 3]}), "drifted").send(0, everyone)

    clients, costs = letters.costs()

    assert letters.n_samples.tolist() == [10, 30]
    assert letters.representations.tolist() == [[1.0, 0.0], [1.0, 0.0]]
    assert clients.tolist() == [1, 3]
    assert np.asarray(costs.up_bytes).tolist() == [8, 8]
    for nothing in (costs.down_bytes, costs.forward_samples, costs.train_samples):
        assert not np.asarray(nothing).any()


def looked_at() -> LookingCosts:
    return LookingCosts(clients=np.array([0, 3]), forward=np.array([5, 2]), backward=np.array([1, 0]), received=11)


def test_who_looked_at_samples_pays_for_it_whether_it_reports_or_not() -> None:
    clients, costs = Mailbox(Script({0: [1, 3]}, looked_at()), "drifted").send(0, without(1)).costs()

    assert clients.tolist() == [0, 3]
    assert np.asarray(costs.up_bytes).tolist() == [0, 8]
    assert np.asarray(costs.down_bytes).tolist() == [44, 44]
    assert np.asarray(costs.forward_samples).tolist() == [5, 2]
    assert np.asarray(costs.train_samples).tolist() == [1, 0]


def test_nobody_looks_where_only_first_reports_are_heard_and_all_have_sent_theirs() -> None:
    mailbox = Mailbox(Script({0: [0, 1], 1: [1]}, looked_at()), "first")

    assert mailbox.send(0, everyone).costs()[0].tolist() == [0, 1, 3]
    assert mailbox.send(1, everyone).costs()[0].tolist() == []


def test_looks_are_charged_once_where_reports_travel_with_models() -> None:
    mailbox = Mailbox(Script({0: [0, 1], 1: [1]}, looked_at()), "participants")
    mailbox.send(0, everyone)

    assert mailbox.send(1, everyone).costs()[0].tolist() == [0, 3], "client 1 keeps its report"
    assert mailbox.collect(np.array([1]), 1).costs()[0].tolist() == [1]


def test_flags_say_no_more_than_whether_there_are_data() -> None:
    # Client 0 has no samples.
    letters = Mailbox(Script({0: [0, 4]}), "flags").send(0, everyone)

    assert letters.representations.tolist() == [[0.0], [1.0]]
    assert letters.representations.dtype == np.float32


def test_only_the_first_report_of_each_client_is_sent() -> None:
    mailbox = Mailbox(Script({0: [0, 1, 2], 1: [0], 2: [0, 1, 2, 3]}), "first")

    sent = [
        mailbox.send(0, without(2)),
        mailbox.send(1, without(2)),
        mailbox.send(2, everyone),
        mailbox.send(3, everyone),
    ]

    assert [who(one) for one in sent] == [[0, 1], [], [2, 3], []]


def test_participants_report_with_their_models_but_everyone_at_the_start() -> None:
    mailbox = Mailbox(Script({0: [0, 1], 1: [0, 1, 2]}), "participants")

    before = [who(mailbox.send(0, everyone))]
    after = [who(mailbox.collect(np.array([0]), 0))]
    for round_index, participants in ((1, [1]), (2, [1]), (3, [0, 2])):
        before.append(who(mailbox.send(round_index, everyone)))
        after.append(who(mailbox.collect(np.array(participants), round_index)))

    assert before == [[0, 1], [], [], []]
    assert after == [[], [1], [], [0, 2]], "who does not take part keeps its report"


def test_the_start_is_when_there_is_something_to_report_at_all() -> None:
    mailbox = Mailbox(Script({2: [0, 1], 3: [0, 1]}), "participants")

    before, after = [], []
    for round_index in range(4):
        before.append(who(mailbox.send(round_index, everyone)))
        after.append(who(mailbox.collect(np.array([0]), round_index)))

    assert before == [[], [], [0, 1], []]
    assert after == [[], [], [], [0]]


def test_who_is_away_cannot_report_with_its_model() -> None:
    mailbox = Mailbox(Script({0: [3], 1: [0, 1]}), "participants")
    mailbox.send(0, everyone)
    mailbox.collect(np.array([]), 0)

    mailbox.send(1, without(1))
    sent = mailbox.collect(np.array([0, 1]), 1)
    mailbox.send(2, everyone)
    later = mailbox.collect(np.array([1]), 2)

    assert (who(sent), who(later)) == ([0], [1])


def test_a_checkpoint_knows_who_sent_a_report_with_its_model_and_when() -> None:
    mailbox = Mailbox(Script({0: [3], 1: [0, 1], 2: [0, 2]}), "participants")
    for round_index, participants in ((0, [0]), (1, [1]), (2, [0, 2])):
        mailbox.send(round_index, everyone)
        mailbox.collect(np.array(participants), round_index)

    arrays = mailbox.arrays()

    assert {name: array.tolist() for name, array in arrays.items()} == {
        "sent_round": [1, 2, 2],
        "sent_client": [1, 0, 2],
    }
    assert [mailbox.sent_in(at, arrays).tolist() for at in range(4)] == [[], [1], [0, 2], []]
    assert mailbox.sent_in(1, {}).tolist() == []


@pytest.mark.parametrize("reports_from", ["drifted", "flags", "first", "participants"])
def test_a_mailbox_that_goes_through_the_rounds_again_goes_on_alike(reports_from: ReportsFrom) -> None:
    rounds = {0: [0, 1, 2], 1: [0, 3], 2: [1], 3: [0, 1, 2, 3], 4: [2]}
    away, participants = {0: without(1), 3: without(0, 2)}, {1: [0], 2: [1, 3], 3: [1], 4: [2]}
    straight, again = Mailbox(Script(rounds), reports_from), Mailbox(Script(rounds), reports_from)
    for at in range(3):
        straight.send(at, away.get(at, everyone))
        straight.collect(np.array(participants.get(at, [])), at)
    arrays = straight.arrays()

    for at in range(3):
        again.send(at, away.get(at, everyone))
        again.collect(again.sent_in(at, arrays), at)

    for at in range(3, 5):
        courses = [
            (who(one.send(at, away.get(at, everyone))), who(one.collect(np.array(participants[at]), at)))
            for one in (straight, again)
        ]
        assert courses[0] == courses[1]
    assert straight.arrays()["sent_client"].tolist() == again.arrays()["sent_client"].tolist()


def waiting() -> SharedModel:
    """Return clients that get their model after three rounds."""
    observer = observer_of(windows_of({0: [(1,)] * 6}), detector=Told(needs_errors=True), is_open=False)
    return SharedModel(observer, rounds=3)


def test_clients_wait_until_the_model_is_due() -> None:
    sharing = waiting()

    assert [sharing.is_time(n_done) for n_done in (1, 2, 3, 4)] == [False, False, True, True]
    sharing.share(MODEL)
    assert not sharing.is_time(4), "they have it"


def test_the_model_that_was_sent_is_kept_as_it_was() -> None:
    sharing = waiting()
    model = MODEL.copy()
    assert sharing.arrays().keys() == {"served_errors"}

    sharing.share(model)
    model[:] = 0.0

    assert sharing.arrays()["shared_model"].tolist() == MODEL.tolist()


def test_after_a_restart_the_model_comes_again_when_it_came_before() -> None:
    first = waiting()
    first.share(MODEL)
    second = waiting()
    second.restore(first.arrays())

    times = []
    for n_done in range(5):
        awaited = second.is_time(n_done)
        second.share_again(n_done)
        times.append((awaited, second.is_time(n_done)))

    assert times == [(False, False)] * 3 + [(True, False), (False, False)]
    assert second.arrays()["shared_model"].tobytes() == first.arrays()["shared_model"].tobytes()


def test_before_it_is_due_a_restart_finds_no_model() -> None:
    first = waiting()
    second = waiting()
    second.restore(first.arrays())

    second.share_again(3)

    assert second.is_time(3), "still awaited: a round has to make it"


def test_errors_reach_clients_that_want_them() -> None:
    asked: list[int] = []

    def errors(rows: Counts) -> Vector:
        asked.extend(rows.tolist())
        return np.zeros(rows.size)

    observer = observer_of(windows_of({0: [(1,), (1,)]}), detector=Told(needs_errors=True))
    SharedModel(observer, rounds=1).listen(errors)
    for round_index in range(2):
        observer.observe(round_index)

    assert asked == [0, 1]


def test_who_needs_no_model_is_left_alone() -> None:
    for observer in (None, LabelObserver(windows_of({0: [(1,)]}), AnyChange())):
        sharing = SharedModel(observer, rounds=0)
        sharing.listen(lambda rows: np.zeros(rows.size))
        sharing.share(MODEL)
        sharing.restore({})
        sharing.share_again(5)

        assert not sharing.is_time(5)
        assert sharing.arrays() == {}
