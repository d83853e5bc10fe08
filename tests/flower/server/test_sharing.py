"""The server shares a model once with everybody, and makes vectors of the sums that come back first."""

from pathlib import Path

import numpy as np
import pytest

from fielding.client.representation.confusion import Confusion
from fielding.client.representation.embedding import ClassMeans, Embedding
from fielding.client.representation.representation import Representation
from fielding.errors import CheckpointError
from fielding.flower.device.state import confirmation, keep_shared
from fielding.flower.server.sharing import Sharing
from fielding.flower.wire.orders import Report, SharedView
from fielding.training.layout import Layout
from tests.flower.devices import WORK

LAYOUT = Layout(names=("w",), shapes=((2,),), n_parameters=1)
MODEL = np.array([1, 2], dtype=np.float32)
NOTHING = np.empty(0, dtype=np.float32)


def embedding() -> Sharing:
    return Sharing(Embedding(), layout=LAYOUT, work=WORK, rounds=2)


def shared(n_clients: int = 2, representation: Representation | None = None) -> Sharing:
    sharing = embedding() if representation is None else Sharing(representation, layout=LAYOUT, work=WORK)
    sharing.grow(n_clients)
    sharing.share(MODEL)
    return sharing


def summed(*sums: float, number: int = 1) -> Report:
    return Report(number=number, representation=NOTHING, n_samples=4, tally=np.array(sums))


def described(sharing: Sharing) -> dict[int, list[float]]:
    return {client: report.representation.tolist() for client, report in sharing.settle()}


def test_it_is_time_after_some_rounds_and_only_once() -> None:
    sharing = embedding()
    assert [sharing.is_time(n_done) for n_done in range(4)] == [False, False, True, True]
    assert sharing.view_for(None) is None

    sharing.share(MODEL)

    assert not sharing.is_time(4)
    assert not Sharing(Embedding(), layout=LAYOUT, work=WORK, model=MODEL).is_time(9)


def test_the_first_reports_are_relative_to_their_sum_whoever_comes_later_too() -> None:
    means = shared(3, ClassMeans(dims=1, shrink=0.0))
    first, other = summed(2.0, 0.0, 0.0), summed(2.0, 8.0, 32.0)  # one class: samples, sum, squares
    assert means.accept(1, first) is None
    assert means.accept(0, other) is None

    assert described(means) == {0: [1.0, 1.0], 1: [-1.0, 1.0]}  # 4 and 0, of mean 2 and spread 2
    late = means.accept(2, summed(1.0, 2.0, 4.0))
    assert late is not None
    assert late.representation.tolist() == [0.0, 1.0]
    assert described(means) == {}


def test_sums_that_cannot_be_those_of_a_window_count_for_nothing() -> None:
    sharing = shared(4, Confusion())
    sharing.accept(0, summed(3.0, 1.0, 0.0, 4.0))
    sharing.accept(1, summed(-9.0, 1.0, 0.0, 4.0))  # shares below zero
    sharing.accept(2, summed(3.0, 1.0))
    sharing.accept(3, summed(3.0, 1.0, 0.0, 4.0))

    assert set(described(sharing)) == {0, 3}
    assert sharing.accept(2, summed(3.0, 1.0)) is None


def test_a_vector_before_there_is_a_reference_is_refused() -> None:
    sharing = shared()
    vector = Report(number=1, representation=MODEL, n_samples=3)
    assert sharing.accept(1, vector) is None
    sharing.accept(0, summed(4.0, 4.0, 8.0))
    assert set(described(sharing)) == {0}
    assert sharing.accept(1, vector) is vector


def test_sums_that_add_up_to_infinity_are_no_reference() -> None:
    sharing = shared(2, ClassMeans(dims=1, shrink=0.0))
    with np.errstate(over="ignore"):
        for client in (0, 1):
            sharing.accept(client, summed(1.5e308, 1.0, 1.0))
        assert described(sharing) == {}
    sharing.accept(0, summed(2.0, 8.0, 32.0))
    assert set(described(sharing)) == {0}


def test_reports_without_sums_pass_and_sums_without_a_model_do_not() -> None:
    sharing = embedding()
    silent = Report(number=1, representation=NOTHING, n_samples=0)

    assert sharing.accept(0, silent) is silent
    assert sharing.accept(0, summed(1.0, 1.0, 1.0)) is None
    assert sharing.settle() == []


def test_a_client_is_sent_what_it_has_not_confirmed(tmp_path: Path) -> None:
    sharing = shared()
    asked = sharing.view_for(0)
    assert asked is not None
    assert (asked.model is not None, asked.reference is not None) == (True, False)
    sharing.note(0, confirmation(asked, keep_shared(tmp_path, asked)))
    bare = sharing.view_for(0)
    assert bare is not None
    assert bare.is_bare
    assert confirmation(bare, keep_shared(tmp_path, bare)) is None

    sharing.accept(0, summed(1.0, 1.0, 1.0))
    sharing.settle()
    completed, other = sharing.view_for(0), sharing.view_for(1)

    assert completed is not None
    assert other is not None
    assert (completed.model is None, other.model is None) == (True, False)
    assert completed.reference is not None
    assert completed.reference.tolist() == [1.0, 1.0, 1.0]
    held = keep_shared(tmp_path, completed)
    sharing.note(0, confirmation(completed, held))
    assert held is not None
    assert (held.model.tolist(), held.reference is not None) == (MODEL.tolist(), True)
    last = sharing.view_for(0)
    assert last is not None
    assert last.is_bare


def test_a_client_that_lacks_what_it_should_hold_says_so(tmp_path: Path) -> None:
    view = SharedView(key="ab.cd")

    assert keep_shared(tmp_path, view) is None
    assert confirmation(view, None) == ""
    sharing = shared()
    sharing.note(0, "another")
    again = sharing.view_for(0)
    assert again is not None
    assert again.model is not None


def test_what_is_shared_survives_a_server() -> None:
    before = shared()
    view = before.view_for(0)
    assert view is not None
    before.note(0, view.key)
    before.accept(0, summed(1.0, 1.0, 1.0))
    before.settle()
    after = embedding()

    after.restore(before.arrays())

    assert after.arrays().keys() == before.arrays().keys()
    assert after.bare_view() is not None
    for client in range(2):
        one, other = before.view_for(client), after.view_for(client)
        assert one is not None
        assert other is not None
        assert (one.key, one.model is None, one.reference is None) == (other.key, other.model is None, False)
    with pytest.raises(CheckpointError, match="lacks the shared model"):
        after.restore({})
    with pytest.raises(CheckpointError, match="has 3 numbers"):
        after.restore({**before.arrays(), "shared.model": np.zeros(3, dtype=np.float32)})
