"""Modules as users bring them, good and bad; imported by name in the tests of the PyTorch trainer."""

import torch
from torch import nn


def normalised(*, input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Return a network with BatchNorm, for images or vectors."""
    n_inputs = int(torch.Size(input_shape).numel())
    return nn.Sequential(nn.Flatten(), nn.Linear(n_inputs, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, n_classes))


def convolved(*, input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Return a network with a convolution and BatchNorm."""
    return nn.Sequential(
        nn.Conv2d(input_shape[0], 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(16, n_classes),
    )


def dropped(*, input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Return a network with dropout."""
    n_inputs = int(torch.Size(input_shape).numel())
    return nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(n_inputs, n_classes))


def noisy(*, input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Return a network of each kind of layer: a convolution, BatchNorm and dropout."""
    return nn.Sequential(convolved(input_shape=input_shape, n_classes=8), nn.Dropout(0.5), nn.Linear(8, n_classes))


class Noise(nn.Module):
    """Adds noise to features, if a sample asks for it."""

    def __init__(self, above: float, *, always: bool = False) -> None:
        super().__init__()
        self._above, self._always = above, always

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add noise in training, or always, if the features are large enough."""
        is_noisy = (self.training or self._always) and bool(x.abs().max() > self._above)
        return x + torch.randn_like(x) if is_noisy else x


def noisy_unless_zero(*, input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Return a network that draws numbers in training, but not for zeros."""
    n_inputs = int(torch.Size(input_shape).numel())
    return nn.Sequential(nn.Flatten(), Noise(0.0), nn.Linear(n_inputs, n_classes))


def rarely_noisy(*, input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Return a network that draws numbers for large features only."""
    n_inputs = int(torch.Size(input_shape).numel())
    return nn.Sequential(nn.Flatten(), Noise(10.0, always=True), nn.Linear(n_inputs, n_classes))


def always_noisy(*, input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Return a network that draws numbers when it is tested, too."""
    n_inputs = int(torch.Size(input_shape).numel())
    return nn.Sequential(nn.Flatten(), Noise(0.0, always=True), nn.Linear(n_inputs, n_classes))


class Tied(nn.Module):
    """Two layers that share a matrix."""

    def __init__(self, n_inputs: int, n_classes: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(n_inputs, n_inputs), nn.Linear(n_inputs, n_inputs)
        self.second.weight = self.first.weight
        self.last = nn.Linear(n_inputs, n_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return scores."""
        scores: torch.Tensor = self.last(self.second(self.first(x.flatten(1)).relu()))
        return scores


def tied(*, input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Return a network in which one matrix has two names."""
    return Tied(int(torch.Size(input_shape).numel()), n_classes)


class Headed(nn.Module):
    """A network that keeps its last layer first."""

    def __init__(self, n_inputs: int, n_classes: int) -> None:
        super().__init__()
        self.head = nn.Linear(6, n_classes)
        self.body = nn.Linear(n_inputs, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return scores."""
        scores: torch.Tensor = self.head(self.body(x.flatten(1)).relu())
        return scores


def headed(*, input_shape: tuple[int, ...], n_classes: int) -> Headed:
    """Return a network whose layers are not made in the order in which they run."""
    return Headed(int(torch.Size(input_shape).numel()), n_classes)


def hidden_layer(*, input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Return the network that dense trainers call ``mlp``, with 5 hidden units, for vectors."""
    return nn.Sequential(nn.Linear(input_shape[0], 5), nn.ReLU(), nn.Linear(5, n_classes))


def without_linear(*, input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Return a network of convolutions alone."""
    return nn.Sequential(nn.Conv2d(input_shape[0], n_classes, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())


class Pixelwise(nn.Module):
    """A dense layer on each pixel, as if pixels were samples; scores are averaged over the image."""

    def __init__(self, channels: int, n_classes: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, 2, 1)
        self.last = nn.Linear(2, n_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return scores."""
        pixels = self.first(x).permute(0, 2, 3, 1).reshape(-1, 2)
        scores: torch.Tensor = self.last(pixels).view(x.shape[0], -1, self.last.out_features).mean(dim=1)
        return scores


def pixelwise(*, input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Return a network whose last layer sees more rows than there are samples."""
    return Pixelwise(input_shape[0], n_classes)


class Moody(nn.Linear):
    """A layer that works as asked for when it is tested, and otherwise in training."""

    def __init__(self, n_inputs: int, n_classes: int, mood: str) -> None:
        super().__init__(n_inputs, n_classes)
        self._mood = mood

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return scores, unless in training."""
        scores = super().forward(x)
        if not self.training:
            return scores
        if self._mood == "fails":
            raise RuntimeError("not\nin training")
        return scores.detach() if self._mood == "detached" else scores[:, 1:]


def fails_in_training(*, input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Return a module that raises in training."""
    return Moody(input_shape[0], n_classes, "fails")


def detached_in_training(*, input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Return a module whose scores cannot be traced back."""
    return Moody(input_shape[0], n_classes, "detached")


def narrower_in_training(*, input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Return a module with a class too few in training."""
    return Moody(input_shape[0], n_classes, "narrower")


class Detached(nn.Linear):
    """A layer whose scores cannot be traced back when it is tested."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return scores."""
        scores = super().forward(x)
        return scores if self.training else scores.detach()


def detached_when_tested(*, input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Return a module that can be trained, and has no gradient otherwise."""
    return nn.Sequential(nn.Flatten(), Detached(int(torch.Size(input_shape).numel()), n_classes))


def of_indices(*, input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Return a network whose features are rows of a table; only whole numbers from 0 to 4 will do."""

    class Table(nn.Embedding):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            rows: torch.Tensor = super().forward(x.long()).mean(dim=1)
            return rows

    return nn.Sequential(Table(5, 6), nn.Linear(6, n_classes))


def lazy(*, input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Return a network that learns its input size from the first batch."""
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(n_classes))


def counting(*, input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Return a network whose BatchNorm averages over all batches seen, so that its counter matters."""
    n_inputs = int(torch.Size(input_shape).numel())
    return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(n_inputs, momentum=None), nn.Linear(n_inputs, n_classes))


def half_frozen(*, input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Return a network whose first layer takes no gradients."""
    n_inputs = int(torch.Size(input_shape).numel())
    first = nn.Linear(n_inputs, 8).requires_grad_(False)
    return nn.Sequential(nn.Flatten(), first, nn.ReLU(), nn.Linear(8, n_classes))


def all_frozen(*, input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Return a network that cannot be trained."""
    return half_frozen(input_shape=input_shape, n_classes=n_classes).requires_grad_(False)


def one_class_too_many(*, input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Return a network with the wrong number of scores."""
    return normalised(input_shape=input_shape, n_classes=n_classes + 1)


def two_outputs(*, input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Return a module that returns no tensor."""

    class Two(nn.Linear):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:  # type: ignore[override]
            return x, x

    return Two(1, n_classes)


def of_another_size(*, input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Return a network that other samples would suit."""
    return nn.Linear(99, n_classes)


def not_a_module(*, input_shape: tuple[int, ...], n_classes: int) -> str:
    """Return something else."""
    return "a module"


def of_other_words(shape: tuple[int, ...]) -> nn.Module:
    """Take other arguments than those that are given."""
    return nn.Linear(shape[0], 2)


NOT_A_FUNCTION = 3
