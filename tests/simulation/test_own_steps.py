"""Losses and optimizers of the user's own, in Fielding's own steps of torch modules."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fielding import Own, Result, run
from fielding.errors import InputError, OptionError
from tests.rotation import some_of
from tests.simulation.run_cases import image_pool, left_behind, small_pool, stop_and_resume, table

torch = pytest.importorskip("torch", reason="torch is not installed; run: pip install 'fielding[torch]'")
functional = torch.nn.functional


def build(*, input_shape: tuple[int, ...], n_classes: int) -> Any:
    n_inputs = int(np.prod(input_shape))
    layers = torch.nn.Linear(n_inputs, 6), torch.nn.ReLU(), torch.nn.Linear(6, n_classes)
    return torch.nn.Sequential(torch.nn.Flatten(), *layers)


def cross_entropy(scores: Any, labels: Any) -> Any:
    return functional.cross_entropy(scores, labels)


def sgd(parameters: Any, learning_rate: float) -> Any:
    return torch.optim.SGD(parameters, lr=learning_rate)


def adam(parameters: Any, learning_rate: float) -> Any:
    return torch.optim.Adam(parameters, lr=learning_rate)


def margin(scores: Any, labels: Any) -> Any:
    return functional.multi_margin_loss(scores, labels)


def ran(config: dict[str, Any], out: Path | None = None, **parts: Any) -> Result:
    return run(config, out, own=Own(**{"samples": small_pool(), "model": build, **parts}), page=False)


@pytest.mark.parametrize(
    "sections",
    some_of(
        [
            {},
            {"training": {"balanced": True, "lr_decay": 0.5, "lr_every": 3}},
            {"training": {"rehearsal": True}, "serving": {"fine_tune": 2}},
            {"method": {"name": "ifca"}},
            {"method": {"name": "fedac"}},
            {
                "coordinator": {
                    "representation": "gradient",
                    "detector": "ks",
                    "layer": "full",
                    "shared_model": "global",
                }
            },
        ],
        2,
    ),
    ids=["fielding", "balanced", "rehearsal", "ifca", "fedac", "gradient"],
)
def test_cross_entropy_and_sgd_of_ones_own_are_fieldings(sections: dict[str, Any]) -> None:
    config = table(**sections)
    plain, mine = ran(config), ran(config, loss=cross_entropy, optimizer=sgd)

    assert mine.checkpoint.membership.tolist() == plain.checkpoint.membership.tolist()
    np.testing.assert_allclose(mine.checkpoint.models, plain.checkpoint.models, rtol=0, atol=2e-5)
    for name in ("accuracy", "test_loss", "next_accuracy", "train_loss"):
        np.testing.assert_allclose(mine.column(name)[1], plain.column(name)[1], rtol=1e-4, err_msg=name)


def test_kernels_of_convolutions_take_steps_too() -> None:
    config = table(rounds=3, training={"trainer": "torch", "participants": 4}, model={"name": "cnn"})
    parts: dict[str, Any] = {"samples": image_pool(), "model": None}
    plain, mine = ran(config, **parts), ran(config, loss=cross_entropy, optimizer=sgd, **parts)

    np.testing.assert_allclose(mine.checkpoint.models, plain.checkpoint.models, rtol=0, atol=2e-5)


def test_runs_are_equal_whatever_the_workers_and_stops(tmp_path: Path) -> None:
    parts: dict[str, Any] = {"loss": margin, "optimizer": adam}
    ran({**table(), "workers": 1}, tmp_path / "one", **parts)
    ran({**table(), "workers": 3}, tmp_path / "three", **parts)
    stop_and_resume(table(), tmp_path / "stopped", [2, 7], Own(samples=small_pool(), model=build, **parts))

    whole = left_behind(tmp_path / "one")
    assert left_behind(tmp_path / "three") == whole
    assert left_behind(tmp_path / "stopped") == whole


def test_another_loss_is_what_is_lowered_and_told() -> None:
    config = table(rounds=30, method={"name": "global"}, training={"learning_rate": 0.02})
    result = ran(config, loss=margin, optimizer=adam)
    losses = result.column("test_loss")[1]

    assert losses[-1] < losses[0] < 1.5, "the margin loss of a new model is about 1"
    assert result.column("accuracy")[1][-1] > 0.4, "one in four would be chance"


@pytest.mark.parametrize(
    ("sections", "parts", "message"),
    [
        ({}, {"model": None, "loss": margin}, "training.loss is .* but model mlp is not trained as a PyTorch module"),
        ({"training": {"moon": 1.0}}, {"loss": margin}, "training.moon builds on cross-entropy"),
        ({"serving": {"correction": "prior"}}, {"loss": margin}, "serving.correction builds on cross-entropy"),
        ({"serving": {"experts": ["local"]}}, {"loss": margin}, "serving.experts builds on cross-entropy"),
        (
            {"training": {"momentum": 0.5}},
            {"optimizer": adam},
            "training.momentum is 0.5, but training.optimizer takes",
        ),
        ({}, {"loss": lambda scores, _labels: scores.mean(dim=1)}, r"training.loss gave a tensor of shape \(5,\)"),
        ({}, {"loss": lambda *_: 3.0}, "training.loss gave 3.0; return the mean loss"),
        (
            {},
            {"loss": lambda scores, _labels: scores.detach().mean()},
            "a step on training.batch_size = 5 samples fails",
        ),
        ({}, {"optimizer": lambda *_: None}, "training.optimizer gave None; return a torch.optim.Optimizer"),
        ({"own": {"train": "m:f"}}, {"loss": margin}, "there is no module 'm'"),
    ],
)
def test_what_cannot_be_is_told_before_anything_is_written(
    sections: dict[str, Any], parts: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message) as told:
        ran(table(**sections), tmp_path / "run", **parts)
    assert "\n" not in str(told.value)
    assert not (tmp_path / "run").exists()


def test_a_loop_of_ones_own_needs_no_loss() -> None:
    from tests.simulation.test_own_code import own

    with pytest.raises(OptionError, match=r"training.loss is .* but own.train replaces Fielding's steps"):
        run(table(rounds=1), own=own(loss=margin))
