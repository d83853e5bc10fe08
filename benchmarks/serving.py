"""What experts cost a client: many clients together, one by one, and the forward pass that they need anyway."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import TypeVar

import numpy as np

from benchmarks.timing import in_turns
from fielding.runtime.experts import EXPERTS, expert_names
from fielding.serving.experts import N_WAVES, Said, Seen, Window, served, waves
from fielding.serving.weights import Stack
from fielding.training.numpy_models import Dense
from fielding.training.numpy_trainer import NumpyTrainer

N_INPUTS, N_HIDDEN, N_CLASSES, N_HEADS = 784, 64, 10, 11
"""A network of 50,890 numbers, its ten clusters and the head for all."""
SeenOrWindow = TypeVar("SeenOrWindow", bound=Seen)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One contender on one size of window: ms a client, against the forward pass, slowest over fastest turn."""

    n_window: int
    contender: str
    ms_a_client: float
    times_the_pass: float
    spread: float
    largest_difference: float  # to many clients together, of any share


def read_all(window: Window, asked: Seen) -> Stack:
    """Return what all experts say of the samples that are asked about, shape ``(n_experts, n_clients, n, n_classes)``.

    As clients do it, but for the weights.
    """
    base, said = served(window, asked), list[Said]()
    for name in expert_names("auto", is_corrected=True, has_heads=True):
        said.append(EXPERTS[name](window, asked, base))
        base = said[-1] if name == "heads" else base
    return np.stack([one.asked for one in said])


def draw_clients(n_clients: int, n_window: int, seed: int = 1) -> tuple[Window, Seen]:
    """Return windows of clients and as many samples that they are asked about."""
    rng = np.random.default_rng(seed)
    shape = (n_clients, n_window)

    def seen() -> dict[str, Stack]:
        return {
            "features": rng.normal(size=(*shape, N_HIDDEN)),
            "scores": rng.normal(size=(n_clients, N_HEADS, n_window, N_CLASSES)),
            "offsets": np.zeros((n_clients, N_HEADS, 1, N_CLASSES)),
            "waves": waves(rng.normal(size=(*shape, N_WAVES)), np.full(n_clients, 6.0 * N_WAVES)),
        }

    def windows(own: dict[str, Stack]) -> Window:
        past = own["waves"].swapaxes(1, 2) @ np.concatenate([own["waves"], np.eye(N_CLASSES)[labels]], axis=2)
        return Window(**own, labels=labels, is_sample=np.ones(shape, dtype=np.bool_), past=past)

    labels = rng.integers(0, N_CLASSES, size=shape)
    return windows(seen()), Seen(**seen())


def some_clients(stack: SeenOrWindow, rows: slice) -> SeenOrWindow:
    """Return what is seen of some of the clients."""
    return replace(stack, **{one.name: getattr(stack, one.name)[rows] for one in fields(stack)})


def compare_serving(
    n_clients: int, n_window: int, *, repeat: int, on_turn: Callable[[int], None] = lambda _n: None
) -> list[Row]:
    """Time the experts of some clients together and one by one, and the forward pass of as many samples."""
    window, asked = draw_clients(n_clients, n_window)
    trainer = NumpyTrainer(Dense(n_inputs=N_INPUTS, n_hidden=N_HIDDEN, n_classes=N_CLASSES))
    model = trainer.initial_model(1)
    inputs = np.random.default_rng(2).normal(size=(2 * n_window, N_INPUTS)).astype(np.float32)

    def one_by_one() -> Stack:
        found = []
        for at in range(n_clients):
            rows = slice(at, at + 1)
            found.append(read_all(some_clients(window, rows), some_clients(asked, rows)))
        return np.concatenate(found, axis=1)

    def forward() -> Stack:
        return np.stack([trainer.features(model, inputs)[1] for _ in range(n_clients)]).astype(np.float64)

    timed = in_turns(
        {"together": lambda: read_all(window, asked), "one by one": one_by_one, "forward pass": forward},
        repeat,
        on_turn,
    )
    bound = timed["forward pass"].median
    return [
        Row(
            n_window=n_window,
            contender=name,
            ms_a_client=1000.0 * one.median / n_clients,
            times_the_pass=one.median / bound,
            spread=one.spread,
            largest_difference=0.0
            if name == "forward pass"
            else float(np.abs(one.result - timed["together"].result).max()),
        )
        for name, one in timed.items()
    ]
