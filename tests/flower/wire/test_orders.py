"""Orders arrive as they were, and whatever is none is an error."""

import importlib.util
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fielding._typing import Json
from fielding.errors import InputError
from fielding.flower.wire.messages import fields_of, order_from, order_records
from fielding.flower.wire.orders import DescribeOrder, EvaluateOrder, Order, OrderedPull, ProbeOrder, TrainOrder, Wanted
from fielding.training.layout import Layout
from tests.flower import mail

if importlib.util.find_spec("flwr") is None:
    pytest.skip("flwr is not installed: it is in the extra 'flower'", allow_module_level=True)

from flwr.app import RecordDict

from tests.flower.spoiling import array, drop, over_the_wire, put

counts = st.integers(0, 2**53)
models = hnp.arrays(np.float32, 6, elements=st.floats(-(2.0**99), 2.0**99, width=32))


@given(
    model=models,
    text=st.text(max_size=20),
    whole=st.tuples(counts, st.integers(1, 2**53), st.integers(0, 2**63 - 1), counts),
    flag=st.booleans(),
)
def test_orders_arrive_as_they_were(
    model: npt.NDArray[np.float32], text: str, whole: tuple[int, int, int, int], flag: bool
) -> None:
    round_index, n_steps, seed, confirmed = whole
    layout = Layout(names=(f"a{text}", f"b{text}"), shapes=((2, 2), (2,)), n_parameters=1)
    settings: dict[str, Json] = {"learning_rate": 0.1, text: [None, flag, text]}
    common: dict[str, Any] = {"run_id": text, "round_index": round_index, "seed": seed}
    train = TrainOrder(
        **common,
        model=model,
        layout=layout,
        settings=settings,
        n_steps=n_steps,
        confirmed=confirmed,
        with_start_loss=flag,
    )
    evaluate = EvaluateOrder(**common, model=model, layout=layout, settings=settings)
    describe = DescribeOrder(**common, confirmed=confirmed)

    for sent in (train, evaluate, describe):
        assert_arrives(sent)


def assert_arrives(sent: Order) -> None:
    got = order_from(over_the_wire(order_records(sent)), sent.verb)

    assert type(got) is type(sent)
    for name in sent.__dataclass_fields__:
        one, other = getattr(got, name), getattr(sent, name)
        if name == "blocks":
            assert one == other
        else:
            np.testing.assert_array_equal(one, other)


def test_what_some_methods_ask_beyond_the_usual_arrives_too() -> None:
    first, *others = np.arange(18, dtype=np.float32).reshape(3, 6)
    order = replace(
        mail.train_order(), model=first, others=tuple(others), rate_factors=(1.0, 0.5, 2.0), block=(0, 3), share=0.25
    )
    assert_arrives(order)
    pull = OrderedPull(anchor=np.arange(4, dtype=np.float32), runs=((2, 0.5), (4, 0.25)))
    got = order_from(over_the_wire(order_records(replace(mail.train_order(), pull=pull))), "train")
    assert isinstance(got, TrainOrder)
    assert got.pull is not None
    assert (got.pull.anchor.tolist(), got.pull.runs) == ([0.0, 1.0, 2.0, 3.0], pull.runs)


def test_an_order_like_most_says_nothing_of_it() -> None:
    assert "wishes" not in order_records(mail.train_order())["config"]


@pytest.mark.parametrize("wanted", ["losses", "accuracies"])
def test_questions_about_models_arrive_as_they_were(wanted: Wanted) -> None:
    models = tuple(np.arange(12, dtype=np.float32).reshape(2, 6))
    assert_arrives(replace(mail.probe_order(), wanted=wanted, models=models, blocks=(None, (0, 2), ())))


def test_so_do_questions_about_samples() -> None:
    common: dict[str, Any] = {"run_id": "run", "round_index": 3, "seed": 7, "confirmed": 2}
    sizes = ProbeOrder(**common, wanted="sizes", blocks=((1, 2),))
    assert_arrives(sizes)
    assert set(order_records(sizes)) == {"config"}


@pytest.mark.parametrize("ways", [{"corrected": True}, {"aside": True}, {"corrected": True, "aside": True}])
def test_how_a_question_is_meant_arrives_and_takes_no_room_if_it_is_usual(ways: dict[str, Any]) -> None:
    usual = mail.probe_order()
    assert_arrives(replace(usual, **ways))
    assert not ways.keys() & set(fields_of(order_records(usual), "config").values)


def test_a_client_of_another_release_says_so() -> None:
    records = order_records(mail.train_order())
    put("config", "fielding", 2)(records)

    with pytest.raises(InputError, match=r"agreement 2 .* install the same release"):
        order_from(records, "train")


BAD_ORDERS = {
    "no config": drop("config"),
    "no model": drop("arrays"),
    "no steps": drop("config", "steps"),
    "0 steps": put("config", "steps", 0),
    "an unknown key": put("config", "extra", 1),
    "a negative round": put("config", "round", -1),
    "a number for a flag": put("config", "start-loss", 1),
    "settings that are no JSON": put("config", "settings", "{"),
    "settings that are a list": put("config", "settings", "[]"),
    "settings in themselves": put("config", "settings", "[" * 100_000),
    "a layout of another model": put("config", "layout", '{"names":["w"],"shapes":[[7]],"n_parameters":1}'),
    "a layout with fewer shapes": put("config", "layout", '{"names":["w","b"],"shapes":[[6]],"n_parameters":1}'),
    "a layout with odd shapes": put("config", "layout", '{"names":["w"],"shapes":[[-1,-6]],"n_parameters":1}'),
    "a layout with names twice": put("config", "layout", '{"names":["w","w"],"shapes":[[3],[3]],"n_parameters":1}'),
    "a layout with too many parameters": put("config", "layout", '{"names":["w"],"shapes":[[6]],"n_parameters":2}'),
    "a run id without end": put("config", "run", "x" * 1000),
    "an unknown wish": put("config", "wishes", '{"more":1}'),
    "factors without models": put("config", "wishes", '{"rates":[1.0,2.0]}'),
    "a factor below 0": put("config", "wishes", '{"rates":[-1.0]}'),
    "a block of texts": put("config", "wishes", '{"block":["a"]}'),
    "a pull toward nothing": put("config", "wishes", '{"pull":[[6,0.5]]}'),
    "a pull beyond the end": put("config", "wishes", '{"pull":[[7,0.5]]}'),
    "a pull that goes back": put("config", "wishes", '{"pull":[[3,0.5],[2,0.5]]}'),
    "models of another name": put("arrays", "model-7", array(np.zeros(6, dtype=np.float32))),
    "models of other lengths": put("arrays", "model-1", array(np.zeros(5, dtype=np.float32))),
}
BAD_QUESTIONS = {
    "about something else": put("config", "wanted", "weather"),
    "about sizes of models": put("config", "wanted", "sizes"),
    "about no samples": put("config", "blocks", '{"of":[]}'),
    "about samples of no interval": put("config", "blocks", '{"of":[[-1]]}'),
    "about a list alone": put("config", "blocks", "[]"),
    "about no models": drop("arrays"),
    "about a number of asides": put("config", "aside", 1),
}


@pytest.mark.parametrize("spoil", BAD_QUESTIONS.values(), ids=BAD_QUESTIONS)
def test_a_malformed_question_is_an_error(spoil: Callable[[RecordDict], None]) -> None:
    records = order_records(mail.probe_order())
    spoil(records)

    with pytest.raises(InputError):
        order_from(records, "probe")


@pytest.mark.parametrize("spoil", BAD_ORDERS.values(), ids=BAD_ORDERS)
def test_a_malformed_order_is_an_error(spoil: Callable[[RecordDict], None]) -> None:
    records = order_records(mail.train_order())
    spoil(records)

    with pytest.raises(InputError):
        order_from(records, "train")


def test_an_order_for_something_else_is_an_error() -> None:
    with pytest.raises(InputError):
        order_from(order_records(mail.train_order()), "describe")
    with pytest.raises(InputError):
        order_from(order_records(mail.describe_order()), "evaluate")
