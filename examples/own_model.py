"""A model of one's own: any torch module, made by a function that is told the shape of a sample and the classes.

A config can name such a function, too: [model] factory = "own_model:build". Needs pip install 'fielding[torch]'.
"""

from torch import nn

from fielding import Own, run


def build(*, input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Return a small convolutional network; images come with their channels first."""
    channels, height, width = input_shape
    return nn.Sequential(
        nn.Conv2d(channels, 8, kernel_size=3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * (height // 2) * (width // 2), n_classes),
    )


def main() -> None:
    """Train it on digits whose clients move between places, and load the model of a client into a module."""
    config = {
        "rounds": 20,
        "trace": {"clients": 24, "samples": 60, "gap": 10, "window": 10},
        "training": {"participants": 8},
    }
    result = run(config, own=Own(model=build))
    rounds, accuracy = result.column("accuracy")
    print("accuracy", {at: round(value, 3) for at, value in zip(rounds, accuracy, strict=True)})

    import torch

    module = build(input_shape=(1, 8, 8), n_classes=10)
    state = {name: torch.from_numpy(tensor) for name, tensor in result.model_of(3).items()}
    print("client 3's model:", module.load_state_dict(state, strict=False))


if __name__ == "__main__":
    main()
