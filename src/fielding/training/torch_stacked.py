"""Local training of dense models in PyTorch, all participants of a chunk together, without autograd.

The same formulas as in :mod:`fielding.training.numpy_models`, on any device. Arrays are copied into tensors, never
shared: PyTorch aligns its own memory, and products of aligned numbers round the same way every time.
"""

import numpy as np
import numpy.typing as npt
import torch

from fielding._typing import Codes, Features, Mask, Models
from fielding.training.batches import check_work, mini_batches, summarize_training
from fielding.training.layout import Layout
from fielding.training.numpy_models import Dense, from_work_order, hidden_contrast, pull_in_work_order, to_work_order
from fielding.training.torch_contrast import StackedTorchContrast
from fielding.training.torch_trainer import TORCH_THREADS, Descent
from fielding.training.trainer import LocalWork, Scores, Trained, TrainingPath


class StackedTorchTrainer:
    """Trains softmax regression or one-hidden-layer networks by batched matrix products."""

    def __init__(self, dense: Dense, *, path: TrainingPath, device: torch.device) -> None:
        self._dense = dense
        self.layout: Layout = dense.layout
        self.path: TrainingPath = path
        self._device = device

    def initial_model(self, seed: int) -> Models:
        """Return the same first model as the NumPy trainer."""
        return self._dense.initial_model(seed)

    def train(self, work: LocalWork) -> Trained:
        """Do the local steps of some participants, all together."""
        check_work(work, layout=self.layout, n_classes=self._dense.n_classes)
        n_participants, n_steps, batch_size = work.draws.shape
        with TORCH_THREADS.limited_to(self.path.n_threads), torch.inference_mode():
            start = to_work_order(self._dense, work.models[work.start])
            weights = torch.tensor(start, device=self._device)
            asked, contrast, offsets, rates, pull = hidden_contrast(self._dense, work), None, None, None, None
            if asked is not None:
                contrast = StackedTorchContrast(self._dense, work, asked, device=self._device)
            if work.offsets is not None:
                offsets = torch.tensor(work.offsets[:, None], dtype=torch.float32, device=self._device)
            if work.rate_factors is not None:
                factors = work.sgd.learning_rate * work.rate_factors[:, None]
                rates = torch.tensor(factors, dtype=torch.float32, device=self._device)
            if work.pull is not None:
                anchors, strength = pull_in_work_order(self._dense, work.pull)
                pull = (torch.tensor(anchors, device=self._device), torch.tensor(strength, device=self._device))
            network = _Network(self._dense, weights, contrast=contrast, offsets=offsets)
            descent = Descent(work.sgd, weights, rates=rates, pull=pull)
            losses = torch.empty((n_steps, n_participants, batch_size), device=self._device)
            for step, (x, y) in enumerate(mini_batches(work, sample_size=self._dense.n_inputs)):
                features = torch.tensor(x, device=self._device).view(n_participants, batch_size, -1)
                labels = torch.tensor(y, dtype=torch.int64, device=self._device)
                if work.private is None:
                    losses[step] = network.backpropagate(features, labels)
                else:
                    counts = torch.tensor(work.private.is_drawn[:, step], device=self._device)
                    losses[step] = network.backpropagate(features, labels, work.private.clip, counts)
                    network.gradient.add_(torch.tensor(work.private.draw_noise(weights.shape[1]), device=self._device))
                    batch = torch.tensor(work.private.batch[:, None], dtype=torch.float32, device=self._device)
                    network.gradient.div_(batch)
                descent.step(weights, network.gradient)
            models, found = weights.cpu().numpy(), losses.cpu().numpy()
        return summarize_training(from_work_order(self._dense, models), found)

    def scores(self, model: Models, x: Features, y: Codes) -> tuple[npt.NDArray[np.float32], Mask]:
        """Return the loss of each sample, shape ``(n_samples,)``, and whether its most likely class is right."""
        with TORCH_THREADS.limited_to(self.path.n_threads), torch.inference_mode():
            _, scores = self._forward(model, x)
            labels = torch.tensor(y, dtype=torch.int64, device=self._device)
            losses = torch.nn.functional.cross_entropy(scores, labels, reduction="none")
            is_right = scores.cpu().numpy().argmax(axis=1) == y
            return losses.cpu().numpy(), np.asarray(is_right)

    def features(self, model: Models, x: Features) -> tuple[npt.NDArray[np.float32], Scores]:
        """Return the hidden activations, without a hidden layer the flattened samples, and the scores of classes."""
        with TORCH_THREADS.limited_to(self.path.n_threads), torch.inference_mode():
            active, scores = self._forward(model, x)
            return active.cpu().numpy(), scores.cpu().numpy()

    def gradient(self, model: Models, x: Features, y: Codes) -> Models:
        """Return the gradient of the summed loss by the parameters, shape ``(n_parameters,)``."""
        if not y.size:
            return np.zeros(self.layout.size, dtype=np.float32)
        with TORCH_THREADS.limited_to(self.path.n_threads), torch.inference_mode():
            weights = torch.tensor(to_work_order(self._dense, model[None]), device=self._device)
            network = _Network(self._dense, weights)
            features = torch.tensor(x, device=self._device).reshape(1, y.size, -1)
            network.backpropagate(features, torch.tensor(y[None], dtype=torch.int64, device=self._device))
            # Gradients come out as those of the mean.
            found = network.gradient.mul_(float(y.size)).cpu().numpy()
        return from_work_order(self._dense, found).reshape(-1)

    def _forward(self, model: Models, x: Features) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what goes into the last layer, shape ``(n_samples, width)``, and what comes out of it."""
        tensors = [torch.tensor(part, device=self._device) for part in self.layout.tensors(model).values()]
        active = torch.tensor(x, device=self._device).reshape(x.shape[0], self._dense.n_inputs)
        if self._dense.n_hidden:
            active = torch.nn.functional.linear(active, tensors[0], tensors[1]).relu_()
        return active, torch.nn.functional.linear(active, tensors[-2], tensors[-1])


class _Network:
    """Weights of some participants, shape ``(n_participants, n_numbers)``, hidden weights with a row per input."""

    def __init__(
        self,
        dense: Dense,
        weights: torch.Tensor,
        *,
        contrast: StackedTorchContrast | None = None,
        offsets: torch.Tensor | None = None,
    ) -> None:
        self._contrast = contrast
        self._offsets = offsets
        self.gradient = torch.empty_like(weights)
        self._has_hidden = dense.n_hidden > 0
        self._weights = _views(dense, weights)
        self._gradients = _views(dense, self.gradient)

    def backpropagate(
        self, x: torch.Tensor, y: torch.Tensor, clip: float | None = None, counts: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Write the gradients of the mean losses; return the losses, shape ``(n_participants, batch_size)``.

        ``clip``: length that the gradient of each sample is cut down to; those that count are then summed.
        """
        bias, weight = self._weights[-1], self._weights[-2]
        active = torch.baddbmm(self._weights[1], x, self._weights[0]).relu_() if self._has_hidden else x
        scores = torch.baddbmm(bias, active, weight.mT)
        losses, back = _cross_entropy(scores if self._offsets is None else scores.add_(self._offsets), y)
        deep = back
        if self._has_hidden:
            deep = torch.bmm(back, weight)
            if self._contrast is not None:
                deep += self._contrast.gradient(x, active)
            deep = torch.ops.aten.threshold_backward(deep, active, 0)
        if clip is not None:
            back, deep = self._clipped(x, active, back * y.shape[1], deep * y.shape[1], clip, counts)
        # Copied, not written with out=: that takes twice the time on views.
        self._gradients[-2].copy_(torch.bmm(back.mT, active))
        torch.sum(back, 1, keepdim=True, out=self._gradients[-1])
        if self._has_hidden:
            self._gradients[0].copy_(torch.bmm(x.mT, deep))
            torch.sum(deep, 1, keepdim=True, out=self._gradients[1])
        return losses

    def _clipped(
        self,
        x: torch.Tensor,
        active: torch.Tensor,
        back: torch.Tensor,
        deep: torch.Tensor,
        clip: float,
        counts: torch.Tensor | None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return gradients by the scores and by hidden units, of samples whose gradients are cut down."""

        def squares(vectors: torch.Tensor) -> torch.Tensor:
            return vectors.square().sum(dim=2)

        # As in NumPy: a sample's gradient by a layer is an outer product.
        lengths = squares(back) * (squares(active) + 1.0)
        if self._has_hidden:
            lengths = lengths + squares(deep) * (squares(x) + 1.0)
        factors = (clip / lengths.clamp_min(1e-30).sqrt()).clamp_max(1.0)
        factors = torch.where(lengths.isfinite(), factors, 0.0)[:, :, None]
        if counts is not None:
            factors = factors * counts[:, :, None]
        return back.nan_to_num(0.0, 0.0, 0.0) * factors, deep.nan_to_num(0.0, 0.0, 0.0) * factors


def _cross_entropy(scores: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the losses, and the gradient of each participant's mean loss with respect to its scores.

    One row per class, as PyTorch is slow on many short rows.
    """
    right = y.reshape(1, -1)
    logarithms = torch.log_softmax(scores.view(right.shape[1], -1).T.contiguous(), dim=0)
    losses = logarithms.gather(0, right).neg_().view(y.shape)
    shares = logarithms.exp_()
    shares.scatter_add_(0, right, torch.full((1, 1), -1.0, device=scores.device).expand_as(right))
    return losses, shares.mul_(1.0 / y.shape[1]).T.contiguous().view(scores.shape)


def _views(dense: Dense, rows: torch.Tensor) -> list[torch.Tensor]:
    """Return the tensors within rows of numbers: weights stacked, biases of shape ``(n, 1, width)``."""
    shapes = [(1, size[0]) if len(size) == 1 else size for size in dense.layout.shapes]
    if dense.n_hidden:
        shapes[0] = (dense.n_inputs, dense.n_hidden)
    parts = torch.split(rows, list(dense.layout.sizes), dim=1)
    return [part.view(rows.shape[0], *shape) for part, shape in zip(parts, shapes, strict=True)]
