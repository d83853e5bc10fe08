"""What an app for plain Flower has, too: a network, its training and its test. Nothing here knows of Fielding."""

import torch
from torch import nn
from torch.utils.data import DataLoader

Batches = DataLoader[tuple[torch.Tensor, ...]]


class Net(nn.Module):
    """A small convolutional network for images of 8 x 8 pixels, with BatchNorm and its counters."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.out = nn.Linear(8 * 4 * 4, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return scores of classes, shape ``(n_samples, 10)``."""
        seen = nn.functional.max_pool2d(torch.relu(self.norm(self.conv(x))), 2)
        return torch.as_tensor(self.out(seen.flatten(1)))


def train(net: Net, batches: Batches, *, epochs: int, lr: float) -> float:
    """Train with Adam, and return the mean loss."""
    net.train()
    optimizer, total = torch.optim.Adam(net.parameters(), lr=lr), 0.0
    for _ in range(epochs):
        for x, y in batches:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            total += loss.item() / (epochs * len(batches))
    return total


def test(net: Net, batches: Batches) -> tuple[float, float]:
    """Return mean loss and accuracy."""
    net.eval()
    loss, correct, n_tested = 0.0, 0, 0
    with torch.no_grad():
        for x, y in batches:
            scores = net(x)
            loss += nn.functional.cross_entropy(scores, y, reduction="sum").item()
            correct += int((scores.argmax(1) == y).sum())
            n_tested += len(y)
    return loss / n_tested, correct / n_tested
