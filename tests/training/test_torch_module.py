"""Modules of the user's own: found, built, looked at."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from fielding.config.parts import imported_function  # noqa: E402
from fielding.errors import OptionError  # noqa: E402
from fielding.training.factory import ModelRequest, trainer_for  # noqa: E402
from fielding.training.torch_module import Blueprint, layout_of  # noqa: E402

HERE = "tests.training.modules"


def request(function: str) -> ModelRequest:
    return ModelRequest(name=f"{HERE}:{function}", input_shape=(4,), n_classes=3, trainer="torch")


def blueprint(function: str) -> Blueprint:
    factory = imported_function(f"{HERE}:{function}", key="model.factory")
    return Blueprint(factory=factory, name=function, input_shape=(4,), n_classes=3)


def built(function: str, seed: int = 0) -> Any:
    return blueprint(function).build(seed)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("one_class_too_many", r"returns \(2, 4\) for 2 samples; it must return \(2, 3\)"),
        ("two_outputs", r"it must return \(2, 3\)"),
        ("of_another_size", r"fails on features of shape \(2, 4\): RuntimeError"),
        ("not_a_module", "returned 'a module'; it must return a torch.nn.Module"),
        ("of_other_words", r"failed when called as factory\(input_shape=\(4,\), n_classes=3\): TypeError"),
        ("all_frozen", "nothing to train"),
        ("fails_in_training", r"fails in training on features of shape \(2, 4\): RuntimeError: not"),
        ("narrower_in_training", r"returns \(2, 2\) in training for 2 samples; it must return \(2, 3\)"),
        ("detached_in_training", "returns scores without gradients"),
        ("no_such_function", "has no 'no_such_function'"),
        ("NOT_A_FUNCTION", "name a function or a class"),
    ],
)
def test_a_module_that_cannot_work_is_refused_before_training(function: str, words: str) -> None:
    with pytest.raises(OptionError, match=words) as refusal:
        trainer_for(request(function))

    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("no_such_package.models:build", "no module 'no_such_package'; .* PYTHONPATH"),
        (":build", "model.factory is ':build'; a function of your own"),
        ("models:", "model.factory is 'models:'; a function of your own"),
    ],
)
def test_a_function_that_is_not_there_is_named(path: str, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        imported_function(path, key="model.factory")


def test_a_module_that_fails_at_import_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_models.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(OptionError, match="broken_models fails at import: division by zero"):
        imported_function("broken_models:build", key="model.factory")


def test_parameters_come_before_buffers_and_counters_stay_out() -> None:
    layout = layout_of(built("normalised"))

    assert layout.names[layout.n_parameters :] == ("2.running_mean", "2.running_var")
    assert layout.names[: layout.n_parameters] == (
        *("1.weight", "1.bias", "2.weight", "2.bias"),
        *("4.weight", "4.bias"),
    )


def test_frozen_parameters_ride_along() -> None:
    layout = layout_of(built("half_frozen"))

    assert layout.names == ("3.weight", "3.bias", "1.weight", "1.bias")
    assert layout.n_parameters == 2


def test_buffers_outside_the_state_dict_stay_out() -> None:
    module = built("normalised")
    module.register_buffer("kept", torch.zeros(2))
    module.register_buffer("table", torch.zeros(2), persistent=False)

    assert layout_of(module).names[-3:] == ("kept", "2.running_mean", "2.running_var")


def test_lazy_layers_learn_their_sizes() -> None:
    assert layout_of(built("lazy")).shapes == ((3, 4), (3,))


@pytest.mark.parametrize(
    ("function", "draws"),
    [
        *(("dropped", True), ("noisy_unless_zero", True), ("always_noisy", True)),
        *(("normalised", False), ("rarely_noisy", False), ("of_indices", False)),
    ],
)
def test_modules_that_draw_numbers_are_recognised(function: str, draws: bool) -> None:
    assert blueprint(function).draws_numbers(built(function)) is draws


def test_building_and_trying_leave_the_global_generator_alone() -> None:
    before = torch.get_rng_state()

    blueprint("dropped").draws_numbers(built("dropped"))

    assert torch.equal(before, torch.get_rng_state())


def test_trying_leaves_the_module_alone() -> None:
    module = built("normalised")
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}

    blueprint("normalised").draws_numbers(module)

    assert all(torch.equal(tensor, module.state_dict()[name]) for name, tensor in before.items())


def test_the_vector_of_batchnorm_fits_the_state_dict_strictly() -> None:
    trainer = trainer_for(request("normalised"))
    module = built("normalised", seed=5)
    tensors = trainer.layout.tensors(trainer.initial_model(1))

    module.load_state_dict({name: torch.tensor(tensor) for name, tensor in tensors.items()})

    assert torch.equal(module.state_dict()["4.weight"], built("normalised", seed=1).state_dict()["4.weight"])


def test_shared_tensors_are_in_the_vector_once_and_fit_the_state_dict_loosely() -> None:
    trainer = trainer_for(request("tied"))
    module = built("tied", seed=5)
    tensors = trainer.layout.tensors(trainer.initial_model(1))

    found = module.load_state_dict({name: torch.tensor(tensor) for name, tensor in tensors.items()}, strict=False)

    assert (found.missing_keys, found.unexpected_keys) == (["second.weight"], [])
    assert torch.equal(module.second.weight, built("tied", seed=1).second.weight)


def test_the_seed_decides_the_first_weights() -> None:
    first, again, other = (built("normalised", seed).state_dict()["1.weight"] for seed in (1, 1, 2))

    assert torch.equal(first, again)
    assert not torch.equal(first, other)
