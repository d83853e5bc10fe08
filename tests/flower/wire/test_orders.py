"""Orders arrive as they were, and whatever is none is refused in one line."""

import importlib.util
import json
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
from fielding.federation.clients import Pull
from fielding.flower.wire.messages import PROTOCOL, named_model, order_from, order_records
from fielding.flower.wire.orders import (
    Delivery,
    DescribeOrder,
    EvaluateOrder,
    Order,
    ProbeOrder,
    ServedView,
    SharedView,
    TrainOrder,
    Verb,
    WorkRule,
)
from fielding.runtime.serve import Serving
from fielding.runtime.train import LocalRule
from fielding.training.layout import Layout
from fielding.training.trainer import LearningRate
from tests.flower import mail
from tests.flower.devices import WORK, one_job

if importlib.util.find_spec("flwr") is None:
    pytest.skip("flwr is not installed: it is in the extra 'flower'", allow_module_level=True)

from flwr.app import RecordDict

from tests.flower.spoiling import array, assert_same, drop, over_the_wire, put

counts = st.integers(0, 2**53)
models = hnp.arrays(np.float32, 6, elements=st.floats(-(2.0**99), 2.0**99, width=32))

MANY = np.arange(18, dtype=np.float32).reshape(3, 6)
PULL = Pull(
    anchors=np.array([[1, 2, 3, 4, 0, 0]], dtype=np.float32),
    row=np.zeros(1, dtype=np.int64),
    strength=np.array([0.5, 0.5, 0.0, 0.25, 0.0, 0.0]),
)
EVERYTHING = WorkRule(
    client=7,
    classes=3,
    model="mlp",
    hidden=5,
    trainer="torch",
    device="cuda:1",
    mix_rate=0.5,
    serving=Serving(correction="predicted", smoothing=2.0, fine_tune=4),
    local=LocalRule(
        n_steps=9,
        batch_size=4,
        rate=LearningRate(initial=0.3, decay=0.5, every=2, floor=0.01),
        momentum=0.1,
        weight_decay=0.2,
        prox=0.3,
        moon=0.4,
        moon_temperature=0.6,
        rehearsal=True,
        balanced=True,
    ),
)
VIEW = SharedView(
    key="ab.cd",
    model=np.arange(3, dtype=np.float32),
    layout=Layout(names=("w",), shapes=((3,),), n_parameters=1),
    work=EVERYTHING,
    reference=np.array([0.1, 1e300]),
)
OBSERVED: dict[str, Json] = {"classes": 2, "describing": {"options": {"alpha": 0.1}}}
NAMED = Delivery(key="ab12", version="r41-c2", round_index=41, cluster=2, metrics={"accuracy": 0.5}, is_pinned=True)
DELIVERED = replace(
    NAMED,
    cluster=-1,
    metrics={},
    model=np.arange(3, dtype=np.float32),
    layout=Layout(names=("w",), shapes=((3,),), n_parameters=1),
    work=EVERYTHING,
    served=ServedView(heard=np.array([0.5, np.nan]), heads=np.array([[1, 2], [3, 4]], dtype=np.float32), row=1),
)
ORDERS: dict[str, Order] = {
    "training": mail.train_order(3),
    "training on trial": mail.train_order(n_steps=9, with_start_loss=True, is_probe=True),
    "several models": mail.train_order(model=MANY, chooses=True, rate_factors=np.array([1.0, 0.5, 2.0])),
    "another rate": mail.train_order(rate_factors=np.array([0.5])),
    "samples of long ago": mail.train_order(blocks=[np.array([0, 3])]),
    "no samples": mail.train_order(blocks=[np.array([], dtype=np.int64)]),
    "a part": mail.train_order(upload_shares=np.array([0.25])),
    "a pull": mail.train_order(pull=PULL),
    "all at once": mail.train_order(
        model=MANY, chooses=True, n_steps=1, blocks=[np.array([2])], upload_shares=np.array([0.0]), pull=PULL
    ),
    "training, confirmed and observed": replace(mail.train_order(), confirmed=4, observe=OBSERVED),
    "another rule": replace(mail.train_order(), work=EVERYTHING),
    "news": mail.describe_order(3),
    "news, confirmed and observed": replace(mail.describe_order(3), confirmed=4, observe=OBSERVED),
    "a test": replace(mail.evaluate_order(3), observe=OBSERVED, work=EVERYTHING),
    "losses": mail.probe_order(3),
    "accuracies": replace(mail.probe_order(), wanted="accuracies", blocks=(None, (0, 2), ()), observe=OBSERVED),
    "corrected": replace(mail.probe_order(), corrected=True),
    "sizes": ProbeOrder(run_id="run", round_index=3, seed=7, confirmed=2, wanted="sizes", blocks=((1, 2),)),
    "news and a model to serve": replace(mail.describe_order(3), deliver=DELIVERED),
    "training and a model to serve": replace(mail.train_order(3), deliver=replace(DELIVERED, served=None)),
    "training on the model to serve": replace(mail.train_order(3), deliver=NAMED),
    "a test of the model to serve": replace(mail.evaluate_order(3), deliver=NAMED),
    "a test and another model to serve": replace(mail.evaluate_order(3), deliver=DELIVERED),
}
VIEWS = {
    "a key": SharedView(key="ab"),
    "a reference": SharedView(key="ab.cd", reference=np.array([0.1, -2.0])),
    "a model": replace(VIEW, reference=None),
    "all": VIEW,
}


def arrived(order: Order) -> Order:
    return order_from(over_the_wire(order_records(order)), order.verb)


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_every_kind_of_order_arrives_as_it_was(order: Order) -> None:
    assert_same(arrived(order), order)


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize(
    "order", [mail.train_order(3), mail.train_order(model=MANY, chooses=True), mail.describe_order()]
)
def test_so_does_what_it_says_of_the_shared_model(order: TrainOrder | DescribeOrder, view: SharedView) -> None:
    assert_same(arrived(replace(order, shared=view)), replace(order, shared=view))


@given(
    model=models,
    text=st.text(max_size=20),
    whole=st.tuples(counts, st.integers(1, 2**53), st.integers(0, 2**63 - 1), counts),
    flag=st.booleans(),
)
def test_orders_arrive_whatever_their_numbers_and_words(
    model: npt.NDArray[np.float32], text: str, whole: tuple[int, int, int, int], flag: bool
) -> None:
    round_index, n_steps, seed, confirmed = whole
    layout = Layout(names=(f"a{text}", f"b{text}"), shapes=((2, 2), (2,)), n_parameters=1)
    observe = {"detector": 0.1, text: [None, flag, text]}
    common: dict[str, Any] = {"run_id": text, "round_index": round_index, "seed": seed, "observe": observe}
    work = replace(WORK, client=text, model=text)
    plan = one_job(model, n_steps=n_steps, with_start_loss=flag)

    for sent in (
        TrainOrder(**common, plan=plan, layout=layout, work=work, confirmed=confirmed),
        EvaluateOrder(**common, model=model, layout=layout, work=work),
        DescribeOrder(**common, confirmed=confirmed, asks="end" if flag else "name"),
    ):
        assert_same(arrived(sent), sent)


def said(order: Order) -> dict[str, Any]:
    """Return what an order says beside its models."""
    found = json.loads(str(order_records(order)["config"]["order"]))
    assert isinstance(found, dict)
    return found


def test_what_is_as_usual_takes_no_room() -> None:
    local = {"n_steps": 3, "batch_size": 2, "rate": {"initial": 0.5}}

    assert said(mail.train_order()).keys() == {"run", "round", "seed", "work", "layout"}
    assert said(mail.train_order())["work"] == {"client": "phone", "classes": 2, "model": "softmax", "local": local}
    assert said(mail.probe_order()).keys() == {"run", "round", "seed", "wanted", "blocks", "work", "layout"}
    assert set(order_records(ORDERS["sizes"])) == {"config"}


def test_the_parts_that_a_pull_leaves_alone_are_not_sent() -> None:
    records = order_records(mail.train_order(pull=PULL))

    assert said(mail.train_order(pull=PULL))["pull"] == [[2, 0.5], [3, 0.0], [4, 0.25]]
    assert len(named_model(records, "anchor", None)) == 4
    assert "pull" not in said(mail.train_order(pull=replace(PULL, strength=np.zeros(6))))


def test_a_pull_that_would_be_as_large_as_a_model_is_refused_by_the_server() -> None:
    strength = np.arange(2002.0)
    pull = Pull(anchors=np.zeros((1, 2002), np.float32), row=np.zeros(1, dtype=np.int64), strength=strength)
    with pytest.raises(InputError, match="pulls 2002 parts of a model differently; an order names 1000"):
        order_records(mail.train_order(model=np.zeros(2002, np.float32), pull=pull))


# ---- what is none --------------------------------------------------------------------------------------------------


def refused(records: RecordDict, verb: Verb) -> str:
    with pytest.raises(InputError) as told:
        order_from(records, verb)
    assert "\n" not in str(told.value)
    assert len(str(told.value)) < 300
    return str(told.value)


@pytest.mark.parametrize("protocol", [1, PROTOCOL + 1, None, "2", True])
def test_an_order_of_another_agreement_is_refused_in_one_clear_line(protocol: object) -> None:
    records = order_records(mail.train_order())
    (drop("config", "fielding") if protocol is None else put("config", "fielding", protocol))(records)

    assert refused(records, "train") == (
        f"an order follows agreement {protocol!r} but this release agreement 3, {PROTOCOL}; install the same release "
        "of fielding on server and clients"
    )


def says(**changes: Any) -> Callable[[RecordDict], None]:
    """Have an order say something else; None takes a word away, two underscores lead into a part."""

    def spoil(records: RecordDict) -> None:
        told = json.loads(str(records["config"]["order"]))
        for name, value in changes.items():
            *path, last = name.split("__")
            part = told
            for step in path:
                part = part.setdefault(step, {})
            if value is None:
                del part[last]
            else:
                part[last] = value
        put("config", "order", json.dumps(told))(records)

    return spoil


def written(text: object) -> Callable[[RecordDict], None]:
    return put("config", "order", text)


def layout(names: list[str], shapes: list[Any], n_parameters: int = 1) -> Callable[[RecordDict], None]:
    return says(layout={"names": names, "shapes": shapes, "n_parameters": n_parameters})


BAD_ORDERS = {
    "no config": drop("config"),
    "no model": drop("arrays"),
    "no words": drop("config", "order"),
    "words in bytes": written(b"{}"),
    "no JSON": written("{"),
    "a list": written("[]"),
    "a list in itself": written("[" * 100_000),
    "words without end": written(" " * (1 << 20) + "{}"),
    "an unknown key beside": put("config", "extra", 1),
    "an unknown key": says(extra=1),
    "no rule": says(work=None),
    "no layout": says(layout=None),
    "0 steps": says(steps=0),
    "half a step": says(steps=1.5),
    "a negative round": says(round=-1),
    "a round without end": says(round=2**60),
    "a number for a flag": says(start_loss=1),
    "a run id without end": says(run="x" * 1000),
    "rules of observation in a list": says(observe=[]),
    "a layout of another model": layout(["w"], [[7]]),
    "a layout with fewer shapes": layout(["w", "b"], [[6]]),
    "a layout with odd shapes": layout(["w"], [[-1, -6]]),
    "a layout with names twice": layout(["w", "w"], [[3], [3]]),
    "a layout with too many parameters": layout(["w"], [[6]], 2),
    "a layout with dimensions without end": layout(["w"], [[1] * 33]),
    "factors without models": says(rates=[1.0, 2.0]),
    "a factor below 0": says(rates=[-1.0]),
    "a block of texts": says(block=["a"]),
    "a share above 1": says(share=1.5),
    "a pull toward nothing": says(pull=[[6, 0.5]]),
    "a pull beyond the end": says(pull=[[7, 0.5]]),
    "a pull that goes back": says(pull=[[3, 0.5], [2, 0.5]]),
    "a pull in too many parts": says(pull=[[at, 0.5] for at in range(1, 1002)]),
    "models of another name": put("arrays", "model-7", array(np.zeros(6, dtype=np.float32))),
    "models of other lengths": put("arrays", "model-1", array(np.zeros(5, dtype=np.float32))),
    "a shared model that nobody speaks of": put("arrays", "shared", array(np.zeros(6, dtype=np.float32))),
    "an anchor without a pull": put("arrays", "anchor", array(np.zeros(6, dtype=np.float32))),
    "a rule with an unknown word": says(work__sun=1.0),
    "a rule without a client": says(work__client=None),
    "a rule without classes": says(work__classes=0),
    "a rule of no way to train": says(work__local=None),
    "no batch": says(work__local__batch_size=0),
    "a rate below 0": says(work__local__rate__initial=-1.0),
    "no temperature": says(work__local__moon_temperature=0.0),
    "a number for rehearsal": says(work__local__rehearsal=1),
    "an unknown correction": says(work__serving__correction="all"),
    "an unknown smoothing": says(work__serving__smoothing="much"),
    "less than no fine tuning": says(work__serving__fine_tune=-1),
    "a mix that overshoots": says(work__mix_rate=1.5),
}
BAD_QUESTIONS = {
    "about something else": says(wanted="weather"),
    "about sizes of models": says(wanted="sizes"),
    "about no samples": says(blocks=[]),
    "about samples of no interval": says(blocks=[[-1]]),
    "about a block alone": says(blocks=3),
    "about no models": drop("arrays"),
    "about models of no layout": says(layout=None),
    "about models of no rule": says(work=None),
}
BAD_VIEWS = {
    "a key without end": says(shared__key="x" * 65),
    "no key": says(shared__key=None),
    "no layout": says(shared__layout=None),
    "no rule": says(shared__work=None),
    "a layout of another model": says(shared__layout__shapes=[[4]]),
    "no sums": put("config", "reference", b""),
    "half a sum": put("config", "reference", b"12345"),
    "sums in a list": put("config", "reference", [0.5]),
    "NaN": put("config", "reference", np.array([np.nan]).tobytes()),
}
CASES: list[tuple[Order, str, Callable[[RecordDict], None]]] = [
    *((mail.train_order(), name, spoil) for name, spoil in BAD_ORDERS.items()),
    *((mail.probe_order(), name, spoil) for name, spoil in BAD_QUESTIONS.items()),
    *((replace(mail.describe_order(), shared=VIEW), name, spoil) for name, spoil in BAD_VIEWS.items()),
    *((replace(mail.train_order(), shared=VIEW), name, spoil) for name, spoil in BAD_VIEWS.items()),
]


@pytest.mark.parametrize(
    ("order", "spoil"),
    [(order, spoil) for order, _, spoil in CASES],
    ids=[f"{order.verb}, {name}" for order, name, _ in CASES],
)
def test_a_malformed_order_is_refused_in_one_line(order: Order, spoil: Callable[[RecordDict], None]) -> None:
    records = order_records(order)
    order_from(records, order.verb)
    records = over_the_wire(records)
    spoil(records)

    refused(records, order.verb)


@pytest.mark.parametrize(
    ("order", "verb"),
    [
        (mail.train_order(), "describe"),
        (mail.describe_order(), "evaluate"),
        (mail.describe_order(), "train"),
        (mail.evaluate_order(), "probe"),
        (mail.probe_order(), "train"),
    ],
)
def test_an_order_for_something_else_is_refused(order: Order, verb: Verb) -> None:
    refused(order_records(order), verb)


def _spoiled_delivery(change: Callable[[dict[str, Any]], object]) -> RecordDict:
    """Return an order that delivers a model, with something changed in what it says of it."""
    records = order_records(replace(mail.describe_order(3), deliver=DELIVERED))
    body = json.loads(str(records["config"]["order"]))
    change(body["deliver"])
    put("config", "order", json.dumps(body))(records)
    return records


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda deliver: deliver.update(key="../../etc"), "not as it should be"),
        (lambda deliver: deliver.update(version="r1/../x"), "not as it should be"),
        (lambda deliver: deliver.update(cluster=-2), "not as it should be"),
        (lambda deliver: deliver.update(colour="red"), "not as it should be"),
        (lambda deliver: deliver["work"].update(colour="red"), "unknown 'colour'"),
        (lambda deliver: deliver.pop("layout"), "lacks its 'layout'"),
        (lambda deliver: deliver["served"].update(n_heads=3), "3 heads of an order have 4 numbers"),
        (lambda deliver: deliver["served"].update(row=2), "head 2 of 2"),
    ],
)
def test_a_delivery_that_is_none_is_refused(change: Callable[[dict[str, Any]], object], why: str) -> None:
    with pytest.raises(InputError, match=why):
        order_from(_spoiled_delivery(change), "describe")


def test_a_question_that_names_a_model_but_brings_none_is_refused() -> None:
    records = order_records(replace(mail.describe_order(3), deliver=NAMED))
    with pytest.raises(InputError, match="none came along"):
        order_from(records, "describe")


def test_a_model_with_nan_is_not_taken() -> None:
    bad = replace(DELIVERED, model=np.array([1, np.nan, 0], dtype=np.float32))
    with pytest.raises(InputError, match="NaN or infinity"):
        order_from(order_records(replace(mail.describe_order(3), deliver=bad)), "describe")


def test_a_device_of_agreement_3_is_sent_no_model_to_serve() -> None:
    got = order_from(order_records(replace(mail.describe_order(3), deliver=DELIVERED), agreement=3), "describe")
    assert isinstance(got, DescribeOrder)
    assert got.deliver is None
