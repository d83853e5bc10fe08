"""A device that judges models: on its window or on samples of long ago, with Fielding's code or the user's own."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fielding._typing import Models
from fielding.errors import InputError
from fielding.flower.device.own_code import OwnCode
from fielding.flower.device.rule import DeviceRule
from fielding.flower.wire.orders import ProbeOrder, ProbeReply, TrainReply
from fielding.runtime.own_code import Embedded, Fitted, Samples, Scored, Tensors
from fielding.runtime.serve import Serving
from fielding.training.label_mix import append_even_mix, extend_layout
from tests.flower.devices import RULE, TRAINER, WORK, Diary, device, one_job, samples, train

ZEROS, TENS = np.zeros(6, dtype=np.float32), np.zeros(6, dtype=np.float32)
TENS[[0, 3]] = 10.0
"""A model that knows nothing, and one that knows the samples of these tests."""
REMEMBERING = replace(RULE, memory_rounds=10)


def probe(round_index: int, *models: Models, **ways: Any) -> ProbeOrder:
    usual: dict[str, Any] = {"wanted": "losses", "models": np.stack(models), "work": WORK} if models else {}
    return ProbeOrder(
        run_id="run",
        round_index=round_index,
        seed=7,
        layout=TRAINER.layout,
        **{"wanted": "sizes", **usual, **ways},
    )


def answer(
    folder: Path, diary: Diary, order: ProbeOrder, rule: DeviceRule = REMEMBERING, own: OwnCode | None = None
) -> ProbeReply:
    reply = device(folder, diary, rule, own).answer(order)
    assert isinstance(reply, ProbeReply)
    return reply


def test_a_question_is_about_training_samples_alone(tmp_path: Path) -> None:
    diary = Diary({0: samples([0, 1, 1, 1], n_test=1)})
    losses, shares = (
        answer(tmp_path, diary, probe(0, ZEROS, TENS, wanted=wanted)) for wanted in ("losses", "accuracies")
    )

    assert losses.sizes.tolist() == shares.sizes.tolist() == [3]
    assert losses.values[0, 0] == pytest.approx(np.log(2))
    assert losses.values[0, 1] < 0.01
    assert shares.values[0].tolist() == pytest.approx([1 / 3, 1.0])


def test_a_device_without_samples_says_so(tmp_path: Path) -> None:
    reply = answer(tmp_path, Diary({}), probe(0, ZEROS, TENS, blocks=(None, (0,))))

    assert (reply.sizes.tolist(), reply.values.shape) == ([0, 0], (2, 2))


def test_samples_of_long_ago_are_found_by_their_intervals(tmp_path: Path) -> None:
    diary = Diary({at: samples([0] * (at + 1)) for at in range(5)})
    for at in range(5):
        reply = answer(tmp_path, diary, probe(at, blocks=(None, (0,), (0, 2), (9,), ())))

    # The window is of two rounds. An interval is a round; that of round 0 counts as the first, and so does round 1.
    assert reply.sizes.tolist() == [9, 3, 7, 0, 0]
    assert reply.values.shape == (5, 0)


def test_a_device_throws_away_what_it_need_not_remember(tmp_path: Path) -> None:
    diary = Diary({at: samples([0]) for at in range(6)})
    for at in range(6):
        reply = answer(tmp_path, diary, probe(at, blocks=((0, 1, 2, 3, 4),)), replace(RULE, memory_rounds=1))

    assert reply.sizes.tolist() == [3]  # two rounds of the window, and one more


def test_models_count_as_they_would_serve_if_that_is_asked(tmp_path: Path) -> None:
    corrected = replace(WORK, serving=Serving(correction="prior", smoothing=1.0))
    ways: dict[str, Any] = {"layout": extend_layout(TRAINER.layout, 2), "work": corrected}
    plain, served = (
        answer(
            tmp_path,
            Diary({0: samples([1, 1, 1])}),
            replace(probe(0, append_even_mix(ZEROS, 2), corrected=one), **ways),
        )
        for one in (False, True)
    )

    assert plain.values[0, 0] == pytest.approx(np.log(2))
    assert served.values[0, 0] == pytest.approx(-np.log(3.5 / 4), rel=1e-5)  # of 4 labels, one as the model has it


@pytest.mark.parametrize("correction", ["prior", "predicted"])
def test_without_samples_of_its_own_a_device_takes_a_model_as_it_is(correction: str, tmp_path: Path) -> None:
    """All that it has left the window: of its label mix it knows nothing."""
    order = replace(
        probe(5, np.append(ZEROS, [np.float32(0.9), np.float32(0.1)]), corrected=True, blocks=((0,),)),
        layout=extend_layout(TRAINER.layout, 2),
        work=replace(WORK, serving=Serving(correction=correction, smoothing=1.0)),
    )
    reply = answer(tmp_path, Diary({5: samples([1, 1, 1], rounds=[0, 0, 0])}), order)

    assert reply.sizes.tolist() == [3]
    assert reply.values[0, 0] == pytest.approx(np.log(2))


def test_a_model_that_diverged_is_worse_than_any(tmp_path: Path) -> None:
    broken = np.full(6, np.nan, dtype=np.float32)

    assert answer(tmp_path, Diary({0: samples([0, 1])}), probe(0, broken, ZEROS)).values[0, 0] == np.inf


def own_code(diary: Diary, embed: Any = None) -> OwnCode:
    def evaluate(model: Tensors, given: Samples) -> Scored:
        first = float(next(iter(model.values())).ravel()[0])
        return Scored(len(given), 0, 20.0 - first)

    return OwnCode(load_data=diary.load, train=lambda model, *_: Fitted(model, 1, 0.5), evaluate=evaluate, embed=embed)


def test_the_users_own_evaluate_judges_models_where_she_has_one(tmp_path: Path) -> None:
    diary = Diary({0: samples([0, 1])})
    own = own_code(diary)

    assert answer(tmp_path, diary, probe(0, ZEROS, TENS), own=own).values.tolist() == [[20.0, 10.0]]
    assert answer(tmp_path, diary, probe(0, ZEROS, wanted="accuracies"), own=own).values.tolist() == [[0.0]]
    pytest.importorskip("flwr", reason="the flower extra is not installed")
    chosen = device(tmp_path, diary, own=own).answer(train(0, plan=one_job(np.stack([ZEROS, TENS]), chooses=True)))
    assert isinstance(chosen, TrainReply)
    assert (chosen.updates.start.tolist(), chosen.updates.models.tolist()) == ([1], [TENS.tolist()])


def test_embed_says_how_models_of_her_own_would_serve(tmp_path: Path) -> None:
    diary, seen = Diary({0: samples([1, 1, 1])}), set[str]()

    def embed(model: Tensors, given: Samples) -> Embedded:
        seen.update(model)
        return Embedded(np.zeros((len(given), 1)), np.zeros((len(given), 2)))

    order = replace(
        probe(0, append_even_mix(ZEROS, 2), corrected=True),
        layout=extend_layout(TRAINER.layout, 2),
        work=replace(WORK, serving=Serving(correction="prior", smoothing=1.0)),
    )

    assert answer(tmp_path, diary, order, own=own_code(diary, embed=embed)).values[0, 0] == pytest.approx(
        -np.log(3.5 / 4), rel=1e-5
    )
    assert seen == {"weight", "bias"}, "the mix that models carry is none of her business"
    with pytest.raises(InputError, match=r"train without embed; give embed.* leave serving\.correction"):
        answer(tmp_path, diary, order, own=own_code(diary))
