"""Local training of any PyTorch module, one participant after the other."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from threading import Lock

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn import functional

from fielding import blas_threads
from fielding._typing import Codes, Features, Mask, Models
from fielding.errors import OptionError, echo, error_words
from fielding.training.batches import check_work, mini_batches, summarize_training
from fielding.training.layout import Layout
from fielding.training.torch_contrast import FeatureTap, ModuleContrast, push_between
from fielding.training.torch_module import Blueprint, Replica, Replicas, layout_of, tensors_of
from fielding.training.trainer import LocalWork, PrivateSteps, Scores, Sgd, Trained, TrainingPath


def device_named(name: str) -> torch.device:
    """Return a device that is there, such as ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or ``"mps"``, or raise."""
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise OptionError(f"device is {echo(name)}; give cpu, cuda, cuda:<number> or mps") from error
    if device.type not in ("cpu", "cuda", "mps"):
        raise OptionError(f"device is {echo(name)}; give cpu, cuda, cuda:<number> or mps")
    n_devices = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}[
        device.type
    ]
    if (device.index or 0) >= n_devices:
        raise OptionError(f"device {echo(name)} is not available here ({n_devices} of that kind); use cpu")
    return device


class TorchThreads:
    """Holds PyTorch to a number of threads from the first entry to the last exit, whichever threads they are in.

    The number belongs partly to the calling thread and partly to the process, so it is set at every entry and
    given back at the last exit only. Entries that overlap must ask for the same number.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._depth = 0
        self._before = 1

    @contextmanager
    def limited_to(self, n_threads: int) -> Iterator[None]:
        """Use so many threads per operation within the block."""
        with self._lock:
            self._depth += 1
            before = torch.get_num_threads()
            if self._depth == 1:
                self._before = before
            if before != n_threads:
                torch.set_num_threads(n_threads)
        try:
            yield
        finally:
            with self._lock:
                self._depth -= 1
                if self._depth == 0 and torch.get_num_threads() != self._before:
                    torch.set_num_threads(self._before)


TORCH_THREADS = TorchThreads()  # with TORCH_THREADS.limited_to(1): around work that several threads do at once


class Descent:
    """Steps of :class:`~fielding.training.trainer.Sgd` on a tensor of any shape, in place.

    FedProx pulls toward ``weights`` as they are now; ``pull``: other weights, and the strength on each number.
    ``rates``, to be multiplied with weights, replace that of the rule. An ``optimizer`` of the weights takes the steps
    itself; what pulls is added to the gradient that it sees.
    """

    def __init__(
        self,
        sgd: Sgd,
        weights: torch.Tensor,
        *,
        rates: torch.Tensor | None = None,
        pull: tuple[torch.Tensor, torch.Tensor] | None = None,
        optimizer: torch.optim.Optimizer | None = None,
    ) -> None:
        self._sgd, self._optimizer = sgd, optimizer
        self._rates = rates
        self._pull = None if pull is None else (pull[1], pull[0] * pull[1])
        self._anchor = weights.clone() if sgd.prox else None
        self._velocity: torch.Tensor | None = None

    def step(self, weights: torch.Tensor, gradient: torch.Tensor) -> None:
        """Move the weights; the gradient is used up."""
        sgd = self._sgd
        if sgd.weight_decay or sgd.prox:
            gradient.add_(weights, alpha=sgd.weight_decay + sgd.prox)
        if self._anchor is not None:
            gradient.add_(self._anchor, alpha=-sgd.prox)
        if self._pull is not None:
            strength, offset = self._pull
            gradient.addcmul_(weights, strength).sub_(offset)
        if self._optimizer is not None:
            self._optimizer.step()
            return
        if sgd.momentum:
            if self._velocity is None:
                self._velocity = gradient.clone()
            else:
                self._velocity.mul_(sgd.momentum).add_(gradient)
            gradient = self._velocity
        if self._rates is None:
            weights.add_(gradient, alpha=-sgd.learning_rate)
        else:
            weights.addcmul_(gradient, self._rates, value=-1.0)


ALONE_FROM = 20_000_000  # models of at least so many numbers are trained one at a time: two would need twice the memory
MOST_THREADS, THREADS_FROM = 2, 1_000_000  # steps of smaller models are so short that threads wait more than they work
_EVAL_NUMBERS = 100_000
_SMALLEST_EVAL_CHUNK, _LARGEST_EVAL_CHUNK = 8, 128
_PRIVATE_NUMBERS = 20_000_000  # gradients of samples that are held at a time, in numbers
_REPRESENTATION = "a representation on a shared model"
_GENERATOR = Lock()  # held while a module draws: PyTorch has one generator for all threads and trainers


def sequential_path(layout: Layout, input_shape: tuple[int, ...], *, is_random: bool) -> TrainingPath:
    """Return how a module of this size is trained fastest; see ``docs/models.md`` for the measurements.

    PyTorch has one generator for all threads, so a module that draws random numbers is trained one participant at a
    time.
    """
    is_alone = layout.size >= (THREADS_FROM if is_random else ALONE_FROM)
    eval_chunk = _EVAL_NUMBERS // int(np.prod(input_shape, dtype=np.int64))
    return TrainingPath(
        name="sequential",
        chunk=1,
        n_threads=min(MOST_THREADS, blas_threads.n_threads()) if is_alone else 1,
        eval_chunk=max(_SMALLEST_EVAL_CHUNK, min(_LARGEST_EVAL_CHUNK, eval_chunk)),
    )


def _fresh_seed(private: PrivateSteps) -> bytes:
    """Return what seeds random layers: fresh numbers, since draws would tell them which samples take part."""
    return private.normals[0](1).tobytes()


class TorchTrainer:
    """Trains a module with autograd and hand-written SGD; images have their channels last in memory.

    On a CPU results repeat bit for bit, whatever the number of workers. Random layers are seeded per participant by
    its samples, and by the labels when scores are taken.

    ``loss(scores, labels)``, of the user's own, returns the mean loss of some samples, a scalar tensor, in place of
    cross-entropy; it is asked about one sample at a time where losses of samples are wanted.
    ``optimizer(parameters, learning_rate)`` returns a ``torch.optim.Optimizer`` that takes the steps of a participant
    in a round, in place of SGD; FedProx and other pulls are in the gradients that it sees.
    """

    def __init__(
        self,
        blueprint: Blueprint,
        *,
        device: torch.device,
        loss: Callable[..., object] | None = None,
        optimizer: Callable[..., object] | None = None,
    ) -> None:
        self._blueprint, self._loss, self._optimizer = blueprint, loss, optimizer
        self._device = device
        module = blueprint.build(seed=0)
        self.layout: Layout = layout_of(module)
        self._is_random = blueprint.draws_numbers(module)
        self.path: TrainingPath = sequential_path(self.layout, blueprint.input_shape, is_random=self._is_random)
        self._replicas = Replicas(module, self.layout, device=device)

    def with_path(self, path: TrainingPath) -> "TorchTrainer":
        """Return the same trainer on another path, for example the one that an earlier run recorded."""
        other = copy(self)
        other.path = path
        return other

    def initial_model(self, seed: int) -> Models:
        """Return the model as its factory makes it under a seed."""
        tensors = tensors_of(self._blueprint.build(seed)).values()
        return np.concatenate([tensor.detach().numpy().reshape(-1) for tensor in tensors])

    def train(self, work: LocalWork) -> Trained:
        """Do the local steps of some participants, one after the other."""
        check_work(work, layout=self.layout, n_classes=self._blueprint.n_classes)
        if work.private is not None:
            self._check_private()
        n_participants, n_steps, batch_size = work.draws.shape
        models = np.empty((n_participants, self.layout.size), dtype=np.float32)
        losses = np.empty((n_steps, n_participants, batch_size), dtype=np.float32)
        with TORCH_THREADS.limited_to(self.path.n_threads), self._replicas.borrow() as replica:
            for row in range(n_participants):
                own = work.part(slice(row, row + 1))
                with self._seed_by(own.draws.tobytes() if own.private is None else _fresh_seed(own.private)):
                    losses[:, row] = self._descend(replica, own)
                models[row] = replica.model()
                if own.private is not None:  # what is no parameter carries no noise
                    models[row, self.layout.parameter_size :] = work.models[
                        work.start[row], self.layout.parameter_size :
                    ]
        return summarize_training(models, losses)

    def scores(self, model: Models, x: Features, y: Codes) -> tuple[npt.NDArray[np.float32], Mask]:
        """Return the loss of each sample, shape ``(n_samples,)``, and whether its most likely class is right."""
        with self._borrow_for_test(model, y.tobytes()) as replica, torch.inference_mode():
            scores = replica.module(self._input(x))
            losses = self._sample_losses(scores, self._labels(y))
            is_right = scores.cpu().numpy().argmax(axis=1) == y
            return losses.cpu().numpy(), np.asarray(is_right)

    def features(self, model: Models, x: Features) -> tuple[npt.NDArray[np.float32], Scores]:
        """Return what goes into the last ``torch.nn.Linear`` that runs, flattened, and the scores of the classes.

        Raises if the module has no such layer, or it does not get a row or more per sample.
        """
        with self._borrow_for_test(model, x.tobytes() if self._is_random else b"") as replica, torch.inference_mode():
            with FeatureTap(replica.module, name=self._blueprint.name, wanted_by=_REPRESENTATION) as tap:
                scores = replica.module(self._input(x))
                found = tap.features(x.shape[0])
            return found.cpu().numpy(), scores.cpu().numpy()

    def gradient(self, model: Models, x: Features, y: Codes) -> Models:
        """Return the gradient of the summed loss by the parameters, shape ``(n_parameters,)``, as when tested."""
        with self._borrow_for_test(model, y.tobytes()) as replica, torch.enable_grad():
            scores = replica.module(self._input(x))
            if not scores.requires_grad:
                raise OptionError(
                    f"model {self._blueprint.name} returns scores without gradients when tested; do not detach them"
                )
            if self._loss is None:
                summed = functional.cross_entropy(scores, self._labels(y), reduction="sum")
            else:
                summed = self._mean_loss(scores, self._labels(y)) * len(y)
            summed.backward()  # type: ignore[no-untyped-call]
            return replica.gradient_of_model()

    @contextmanager
    def _borrow_for_test(self, model: Models, content: bytes) -> Iterator[Replica]:
        """Lend a replica of a model as it is tested; random layers are seeded by the content."""
        with TORCH_THREADS.limited_to(self.path.n_threads), self._replicas.borrow() as replica:
            replica.load(model)
            replica.module.eval()
            with self._seed_by(content):
                yield replica

    def _descend(self, replica: Replica, work: LocalWork) -> npt.NDArray[np.float32]:
        """Train one participant; return its losses, shape ``(n_steps, batch_size)``."""
        losses = torch.empty(work.draws.shape[1:], device=self._device)
        with self._contrast(replica, work) as contrast:
            replica.load(work.models[work.start[0]])
            replica.module.train()
            sgd, pull, offsets = work.sgd, None, None
            if work.rate_factors is not None:
                sgd = replace(sgd, learning_rate=sgd.learning_rate * float(work.rate_factors[0]))
            if work.pull is not None:
                anchor = replica.arrange(work.pull.anchors[work.pull.row[0]])
                pull = (anchor, replica.arrange(work.pull.strength))
            descent = Descent(sgd, replica.parameters, pull=pull, optimizer=self._own_optimizer(replica, sgd))
            if work.offsets is not None:
                offsets = torch.tensor(work.offsets[0], dtype=torch.float32, device=self._device)
            for step, (x, y) in enumerate(self._batches(work)):
                if work.private is not None:
                    losses[step] = self._private_gradient(replica, x[0], y[0], work.private, step)
                    with torch.no_grad():
                        descent.step(replica.parameters, replica.gradient)
                        replica.gradient.zero_()
                    continue
                with torch.enable_grad():
                    scores, labels = self._forward(replica, x[0]), self._labels(y[0])
                    shifted = scores if offsets is None else scores + offsets
                    if self._loss is None:
                        step_losses = functional.cross_entropy(shifted, labels, reduction="none")
                        loss = step_losses.mean() if contrast is None else contrast.loss(step_losses, step=step)
                    else:
                        loss = step_losses = self._mean_loss(shifted, labels)
                    loss.backward()  # type: ignore[no-untyped-call]
                with torch.no_grad():
                    losses[step] = step_losses
                    descent.step(replica.parameters, replica.gradient)
                    replica.gradient.zero_()
        return np.asarray(losses.cpu().numpy())

    def _check_private(self) -> None:
        """Raise if a part of the module keeps sums over samples, to which no noise is added."""
        for name, part in self._blueprint.build(seed=0).named_modules():
            if isinstance(part, nn.modules.batchnorm._BatchNorm) or getattr(part, "track_running_stats", False):
                raise OptionError(
                    f"model {self._blueprint.name} has {type(part).__name__} ({name or 'itself'}), which mixes "
                    "samples; private training looks at each by itself: take GroupNorm or LayerNorm in its place"
                )

    def _private_gradient(
        self, replica: Replica, x: Features, y: Codes, private: PrivateSteps, step: int
    ) -> torch.Tensor:
        """Write the noised gradient of one participant's step; return the losses of its places."""
        module = replica.module
        trained = {name: one.detach() for name, one in module.named_parameters() if one.requires_grad}
        fixed = {name: one.detach() for name, one in module.named_parameters() if not one.requires_grad}
        fixed |= {name: one.clone() for name, one in module.named_buffers()}

        def loss_of(
            parameters: dict[str, torch.Tensor], sample: torch.Tensor, label: torch.Tensor
        ) -> tuple[torch.Tensor, torch.Tensor]:
            scores = torch.func.functional_call(module, ({**parameters, **fixed},), (sample.unsqueeze(0),))
            loss = self._mean_loss(scores, label.unsqueeze(0))
            return loss, loss

        by_sample = torch.func.vmap(
            torch.func.grad(loss_of, has_aux=True), in_dims=(None, 0, 0), randomness="different"
        )
        features, labels = self._input(x), self._labels(y)
        counts = torch.tensor(private.is_drawn[0, step], device=self._device)
        at_once, found = max(1, _PRIVATE_NUMBERS // max(1, replica.parameters.numel())), []
        slopes = {name: one.grad for name, one in module.named_parameters() if one.grad is not None}
        for first in range(0, len(y), at_once):
            part = slice(first, first + at_once)
            try:
                gradients, losses = by_sample(trained, features[part], labels[part])
            except (RuntimeError, ValueError) as error:
                raise OptionError(
                    f"model {self._blueprint.name} gives no gradient of one sample at a time, which private training "
                    f"needs: {error_words(error)}"
                ) from error
            squares = sum(one.reshape(len(losses), -1).square().sum(dim=1) for one in gradients.values())
            factors = (private.clip / torch.as_tensor(squares).clamp_min(1e-30).sqrt()).clamp_max(1.0)
            factors = torch.where(torch.as_tensor(squares).isfinite(), factors, 0.0) * counts[part]
            for name, one in gradients.items():
                slopes[name].add_(torch.einsum("n,n...->...", factors, one.nan_to_num(0.0, 0.0, 0.0)))
            found.append(losses.detach())
        noise = torch.tensor(private.draw_noise(replica.parameters.numel())[0], device=self._device)
        replica.gradient.add_(noise).div_(float(private.batch[0]))
        return torch.cat(found)

    def _mean_loss(self, scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return what the user's own loss says of some samples, or raise if that is no scalar."""
        if self._loss is None:
            return functional.cross_entropy(scores, labels)
        loss = self._loss(scores, labels)
        if not isinstance(loss, torch.Tensor) or loss.ndim:
            got = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, torch.Tensor) else echo(loss)
            raise OptionError(f"training.loss gave {got}; return the mean loss of the samples, a scalar tensor")
        return loss

    def _sample_losses(self, scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the loss of each sample, shape ``(n_samples,)``."""
        if self._loss is None or not len(labels):
            return functional.cross_entropy(scores, labels, reduction="none")
        alone = [self._mean_loss(scores[at : at + 1], labels[at : at + 1]) for at in range(len(labels))]
        return torch.stack(alone).float()

    def _own_optimizer(self, replica: Replica, sgd: Sgd) -> torch.optim.Optimizer | None:
        """Return the optimizer of the user's own for one participant, None if SGD takes the steps."""
        if self._optimizer is None:
            return None
        parameters = [one for one in replica.module.parameters() if one.requires_grad]
        optimizer = self._optimizer(parameters, sgd.learning_rate)
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise OptionError(f"training.optimizer gave {echo(optimizer)}; return a torch.optim.Optimizer")
        return optimizer

    def _batches(self, work: LocalWork) -> Iterator[tuple[Features, Codes]]:
        return mini_batches(work, sample_size=int(np.prod(self._blueprint.input_shape, dtype=np.int64)))

    @contextmanager
    def _contrast(self, replica: Replica, work: LocalWork) -> Iterator[ModuleContrast | None]:
        """Lend the contrastive part of one participant's loss, if it is asked for; the replica is written to."""
        if work.contrast is None:
            yield None
            return
        with FeatureTap(replica.module, name=self._blueprint.name) as tap:
            push = None
            if work.contrast.matters:
                models = (work.contrast.previous[0], work.models[work.start[0]])
                push = push_between(*(self._features(replica, work, tap, model=model) for model in models))
            yield ModuleContrast(work.contrast, tap, push=push)

    def _features(self, replica: Replica, work: LocalWork, tap: FeatureTap, *, model: Models) -> torch.Tensor:
        """Return the features of all batches under a model as it is tested, shape ``(n_steps, batch_size, width)``."""
        replica.load(model)
        replica.module.eval()
        found = []
        with torch.no_grad():
            for x, _ in self._batches(work):
                replica.module(self._input(x[0]))
                found.append(tap.features(x.shape[1]))
        return torch.stack(found)

    def _forward(self, replica: Replica, x: Features) -> torch.Tensor:
        try:
            scores: torch.Tensor = replica.module(self._input(x))
        except ValueError as error:  # BatchNorm refuses a batch of one
            raise OptionError(
                f"model {self._blueprint.name} cannot train on batches of {x.shape[0]}: {error}"
            ) from error
        return scores

    def _input(self, x: Features) -> torch.Tensor:
        """Return features as the module wants them: an aligned copy, so that rounding repeats; channels moved first."""
        features = torch.tensor(x, device=self._device)
        if features.ndim == 3:
            features = features.unsqueeze(3)
        return features.permute(0, 3, 1, 2) if features.ndim == 4 else features

    def _labels(self, y: Codes) -> torch.Tensor:
        return torch.tensor(y, dtype=torch.int64, device=self._device)

    @contextmanager
    def _seed_by(self, content: bytes) -> Iterator[None]:
        """Seed PyTorch's generators by what is worked on, if the module uses them.

        Raises if the module uses them although it did not when it was tried: then results would not repeat.
        """
        if not self._is_random:
            before = self._generator_states()
            yield
            if not all(map(torch.equal, before, self._generator_states())):
                raise OptionError(
                    f"random numbers were drawn while model {self._blueprint.name} worked, which drew none when it was "
                    "tried, so results would not repeat; let it always draw, for example torch.rand(1) first in forward"
                )
            return
        devices = [self._device] if self._device.type == "cuda" else []
        seed = int.from_bytes(hashlib.blake2b(content, digest_size=7).digest(), "big")
        with _GENERATOR, torch.random.fork_rng(devices=devices):
            torch.manual_seed(seed)
            yield

    def _generator_states(self) -> list[torch.Tensor]:
        states = [torch.get_rng_state()]
        return [*states, torch.cuda.get_rng_state(self._device)] if self._device.type == "cuda" else states
