"""The shared model reaches clients when it is due, and once more after a restart."""

import numpy as np
from fielding.simulation.observers import LabelObserver
from fielding.simulation.sharing import Sharing

from fielding._typing import Counts, Vector
from fielding.client.drift import AnyChange
from tests.simulation.seeing import MODEL, Told, observer_of, windows_of


def waiting() -> Sharing:
    """Return clients that get their model after three rounds."""
    observer = observer_of(windows_of({0: [(1,)] * 6}), judge=Told(needs_errors=True), is_open=False)
    return Sharing(observer, rounds=3)


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

    observer = observer_of(windows_of({0: [(1,), (1,)]}), judge=Told(needs_errors=True))
    Sharing(observer, rounds=1).listen(errors)
    for round_index in range(2):
        observer.observe(round_index)

    assert asked == [0, 1]


def test_who_needs_no_model_is_left_alone() -> None:
    for observer in (None, LabelObserver(windows_of({0: [(1,)]}), AnyChange())):
        sharing = Sharing(observer, rounds=0)
        sharing.listen(lambda rows: np.zeros(rows.size))
        sharing.share(MODEL)
        sharing.restore({})
        sharing.share_again(5)

        assert not sharing.is_time(5)
        assert sharing.arrays() == {}
