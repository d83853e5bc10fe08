"""From a model's name to the trainer that trains it."""

import sys
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from inspect import Parameter, signature
from math import prod

from fielding._extras import require
from fielding.config.parts import TRAINERS, imported_function
from fielding.errors import FieldingError, OptionError, echo, error_words, unknown_name
from fielding.training.numpy_models import HIDDEN, Dense
from fielding.training.numpy_trainer import NumpyTrainer, stacked_path
from fielding.training.trainer import Trainer, TrainingPath

DENSE = ("mlp", "softmax")  # models that both trainers know
TORCH_ONLY = ("cnn", "resnet18", "shufflenet-v2", "vit-b16")  # models that need PyTorch


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """Which model to train on what, and how.

    Parameters
    ----------
    name
        One of ``DENSE`` and ``TORCH_ONLY``, or ``"module:function"``, a function of the user's own that is called as
        ``function(input_shape=..., n_classes=...)`` and returns a ``torch.nn.Module``.
    factory
        That function itself, in place of its name; then ``name`` serves in messages only.
    input_shape
        Shape of one sample as the pool holds it; images are ``(height, width)`` or ``(height, width, channels)``.
    path
        How to train, as an earlier run recorded it; None for the rule of the trainer.
    n_threads
        Threads per operation in place of what the rule says; None for the rule. Several calls run at once only with 1.
    loss, optimizer
        In place of cross-entropy and SGD, for modules; see :class:`~fielding.training.torch_trainer.TorchTrainer`.
    """

    name: str
    factory: Callable[..., object] | None = None
    input_shape: tuple[int, ...]
    n_classes: int
    trainer: str = "numpy"
    device: str = "cpu"
    hidden: int = HIDDEN
    path: TrainingPath | None = None
    n_threads: int | None = None
    loss: Callable[..., object] | None = None
    optimizer: Callable[..., object] | None = None


def trainer_for(model: ModelRequest) -> Trainer:
    """Return the trainer of a model, or raise :class:`OptionError` if it cannot be trained here.

    Examples
    --------
    >>> trainer = trainer_for(ModelRequest(name="mlp", input_shape=(8, 8), n_classes=10))
    >>> trainer.layout.names, trainer.layout.size
    (('0.weight', '0.bias', '2.weight', '2.bias'), 4810)
    """
    _check_request(model)
    hidden = model.hidden if model.name == "mlp" else 0
    is_dense = model.name in DENSE and model.factory is None
    dense = Dense(n_inputs=prod(model.input_shape), n_hidden=hidden, n_classes=model.n_classes)
    if model.trainer == "numpy":
        return NumpyTrainer(dense, _choose_path(model, stacked_path(dense)))
    require("torch")
    from fielding.training.torch_models import MODULES, module_shape
    from fielding.training.torch_module import Blueprint
    from fielding.training.torch_stacked import StackedTorchTrainer
    from fielding.training.torch_trainer import TorchTrainer, device_named

    device = device_named(model.device)
    if is_dense:
        return StackedTorchTrainer(dense, path=_choose_path(model, stacked_path(dense)), device=device)
    blueprint = Blueprint(
        factory=model.factory or MODULES.get(model.name) or imported_function(model.name, key="model.factory"),
        name=model.name,
        input_shape=module_shape(model.input_shape),
        n_classes=model.n_classes,
    )
    trainer = TorchTrainer(blueprint, device=device, loss=model.loss, optimizer=model.optimizer)
    return trainer.with_path(_choose_path(model, trainer.path))


def call_factory(factory: Callable[..., object], *, name: str, input_shape: tuple[int, ...], n_classes: int) -> object:
    """Return what a factory makes, given the arguments that it takes; of a module, a copy.

    ``name`` is for messages: OptionError if the factory fails.
    """
    if not isinstance(factory, type) and callable(getattr(factory, "state_dict", None)):
        return deepcopy(factory)
    given = {"input_shape": input_shape, "n_classes": n_classes}
    try:
        try:
            parameters = signature(factory).parameters.values()
        except (TypeError, ValueError):  # it does not tell
            return factory(**given)
        takes_all = any(one.kind is Parameter.VAR_KEYWORD for one in parameters)
        taken = {one.name for one in parameters if one.kind is not Parameter.POSITIONAL_ONLY}
        return factory(**{key: value for key, value in given.items() if takes_all or key in taken})
    except FieldingError:
        raise
    except Exception as error:
        call = f"factory(input_shape={input_shape}, n_classes={n_classes})"
        raise OptionError(f"model {name} failed when called as {call}: {error_words(error)}") from error


def make_model(name: str, *, input_shape: tuple[int, ...], n_classes: int, seed: int) -> object:
    """Return what a factory of the user's own makes for code of the user's own: whatever that takes for a model.

    ``name``: as ``model.factory`` names it. What it draws from PyTorch's generator follows from the seed.
    """
    factory = imported_function(name, key="model.factory")

    def make() -> object:
        return call_factory(factory, name=name, input_shape=input_shape, n_classes=n_classes)

    made = None if "torch" in sys.modules else make()
    if "torch" not in sys.modules:
        return made
    from fielding.training.torch_module import draw_by

    with draw_by(seed):  # once more if the factory itself loaded it
        return make()


def _check_request(model: ModelRequest) -> None:
    if model.trainer not in TRAINERS:
        raise unknown_name("trainer", model.trainer, TRAINERS)
    is_own = model.factory is not None or ":" in model.name
    if not is_own and model.name not in DENSE + TORCH_ONLY:
        raise unknown_name("model", model.name, (*DENSE, *TORCH_ONLY, "module:function"))
    if model.trainer == "numpy" and (is_own or model.name not in DENSE):
        raise OptionError(
            f'model {echo(model.name)} needs PyTorch; set training.trainer = "torch", or use mlp or softmax'
        )
    if model.trainer == "numpy" and model.device != "cpu":
        raise OptionError(
            f'device {echo(model.device)} needs PyTorch; set training.trainer = "torch", or device = "cpu"'
        )
    if not model.input_shape or any(size < 1 for size in model.input_shape):
        raise OptionError(f"samples have shape {model.input_shape}; each needs at least one feature")
    if model.n_classes < 1:
        raise OptionError(f"n_classes is {model.n_classes}; at least 1 is needed")
    if model.name == "mlp" and model.hidden < 1:
        raise OptionError(f"hidden is {echo(model.hidden)}; give at least 1, or use model softmax")


def _choose_path(model: ModelRequest, rule: TrainingPath) -> TrainingPath:
    """Return the recorded path, else the rule's, with the threads that were asked for."""
    path = rule if model.path is None else model.path
    if path.name != rule.name:
        raise OptionError(f"path is {echo(path.name)}; model {model.name} is trained {rule.name}")
    path = replace(path, n_threads=path.n_threads if model.n_threads is None else model.n_threads)
    if min(path.chunk, path.n_threads, path.eval_chunk) < 1:
        raise OptionError(f"path is {path.record()}; chunk, n_threads and eval_chunk must be at least 1")
    if model.trainer == "numpy" and path.n_threads != 1:
        raise OptionError(f"n_threads is {path.n_threads}; the NumPy trainer uses 1 per call and several calls at once")
    return path
