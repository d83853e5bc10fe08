"""What orders say of the shared model, and replies confirm, comes through Flower's records as it was."""

import numpy as np
import pytest

from fielding.errors import InputError
from fielding.training.layout import Layout

pytest.importorskip("flwr", reason="the flower extra is not installed")

from dataclasses import replace

from fielding.flower.wire.messages import order_from, order_records, reply_from, reply_records
from fielding.flower.wire.orders import (
    DescribeOrder,
    DescribeReply,
    Expected,
    Refusal,
    Report,
    SharedView,
    TrainOrder,
    TrainReply,
)
from tests.flower.devices import train

LAYOUT = Layout(names=("w",), shapes=((3,),), n_parameters=1)
FULL = SharedView(
    key="ab.cd",
    model=np.arange(3, dtype=np.float32),
    layout=LAYOUT,
    settings={"client": "", "classes": 2},
    reference=np.array([0.1, 1e300]),
)
EXPECTED = Expected(n_numbers=3, kind="vector")


@pytest.mark.parametrize(
    "view",
    [
        None,
        SharedView(key="ab"),
        SharedView(key="ab.cd", reference=np.array([0.1, -2.0])),
        replace(FULL, reference=None),
        FULL,
    ],
)
@pytest.mark.parametrize("verb", ["train", "describe"])
def test_orders_bring_the_view_that_was_put_in(view: SharedView | None, verb: str) -> None:
    order = (
        replace(train(3), shared=view)
        if verb == "train"
        else DescribeOrder(run_id="run", round_index=3, seed=1, shared=view)
    )

    found = order_from(order_records(order), order.verb)

    assert isinstance(found, (TrainOrder, DescribeOrder))
    if view is None:
        assert found.shared is None
        return
    assert found.shared is not None
    assert (found.shared.key, found.shared.layout, dict(found.shared.settings)) == (
        view.key,
        view.layout,
        dict(view.settings),
    )
    for ours, theirs in ((found.shared.model, view.model), (found.shared.reference, view.reference)):
        assert (None if ours is None else ours.tolist()) == (None if theirs is None else theirs.tolist())
    if isinstance(found, TrainOrder):
        assert found.model.tolist() == train(3).model.tolist()
        assert found.others == ()


def test_a_view_of_damaged_numbers_is_refused() -> None:
    order = DescribeOrder(run_id="run", round_index=3, seed=1, shared=replace(FULL, reference=np.array([np.nan])))

    with pytest.raises(InputError, match="'shared-reference' of config is empty or holds NaN"):
        order_from(order_records(order), "describe")


@pytest.mark.parametrize("holds", [None, "", "ab.cd"])
def test_replies_confirm_what_a_client_holds(holds: str | None) -> None:
    report = Report(number=2, representation=np.empty(0, np.float32), n_samples=3, kind="none", tally=np.array([3.0]))
    trained = TrainReply(
        model=np.zeros(3, np.float32), n_samples=1, loss=0.5, square_loss=0.25, report=report, holds=holds
    )
    for reply in (DescribeReply(n_samples=4, report=report, holds=holds), trained):
        found = reply_from(reply_records(reply), "train", EXPECTED)
        assert isinstance(found, (TrainReply, DescribeReply))
        assert found.holds == holds
        assert found.report is not None
        assert found.report.tally is not None
        assert (found.report.tally.tolist(), found.report.kind, found.report.is_silent) == ([3.0], "none", False)


def test_sums_that_are_not_finite_are_refused() -> None:
    report = Report(number=2, representation=np.empty(0, np.float32), n_samples=3, tally=np.array([np.inf]))

    found = reply_from(reply_records(DescribeReply(n_samples=4, report=report)), "describe", EXPECTED)

    assert isinstance(found, Refusal)
    assert "holds NaN or infinity" in found.text
