"""What it costs a client that drifted to describe its window: seconds on this machine, simulated seconds, bytes."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import TypeVar

import numpy as np

from experiments.representations.finding import REPRESENTED
from experiments.representations.tasks import Table
from experiments.representations.viewing import representation_called
from fielding._typing import Codes, Features, Matrix, Models
from fielding.client.representation.representation import Effort, Representation, Seen
from fielding.federation.ledger import Costs
from fielding.runtime.observe import LookingCosts
from fielding.simulation.clock import seconds_of
from fielding.simulation.costs import BYTES_PER_NUMBER
from fielding.simulation.hardware import SYNTHETIC, Devices
from fielding.training.factory import ModelRequest, trainer_for
from fielding.training.trainer import Trainer

Answer = TypeVar("Answer")
N_SAMPLES, N_CLASSES = 100, 10
BASELINE = "gradient"
HALF = 0.5
DESCRIBED = (*REPRESENTED, "gradient, full, not projected")
_SMALL = ModelRequest(name="mlp", input_shape=(28, 28), n_classes=N_CLASSES)
_LARGE = ModelRequest(name="resnet18", input_shape=(32, 32, 3), n_classes=N_CLASSES, trainer="torch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What is measured: a model, how many windows are described in one go, how often, and what tables call it."""

    title: str
    request: ModelRequest
    n_windows: int = 1
    n_repeats: int


SETTINGS = {
    "small": Setting(title="MLP with 64 hidden units", request=_SMALL, n_repeats=50),
    "small-fleet": Setting(
        title="the same, 100 clients described in one go as in the simulator",
        request=_SMALL,
        n_windows=100,
        n_repeats=7,
    ),
    "resnet18": Setting(title="ResNet-18, images of 32x32x3", request=_LARGE, n_repeats=5),
}
"""By name."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Windows:
    """Windows of one or more clients, all of the same size, and the model that they are described with.

    Parameters
    ----------
    trainer, model
        The model.
    x, y
        Samples and labels, those of a client together.
    n_clients
        How many clients they belong to.
    """

    trainer: Trainer
    model: Models
    x: Features
    y: Codes
    n_clients: int

    @property
    def n_samples(self) -> int:
        """How many samples a window has."""
        return self.y.size // self.n_clients

    def unseen(self) -> Seen:
        """Return the labels alone."""
        layout = self.trainer.layout
        return Seen(
            labels=self.y.astype(np.int64),
            features=np.zeros((self.y.size, 0), dtype=np.float32),
            scores=np.zeros((self.y.size, N_CLASSES), dtype=np.float32),
            sizes=np.full(self.n_clients, self.n_samples),
            n_head=sum(layout.sizes[layout.n_parameters - 2 : layout.n_parameters]),
        )

    def forward(self) -> Seen:
        """Put all samples through the model."""
        chunk = self.trainer.path.eval_chunk
        done = [self.trainer.features(self.model, self.x[at : at + chunk]) for at in range(0, self.y.size, chunk)]
        features, scores = (np.concatenate(parts) for parts in zip(*done, strict=True))
        return replace(self.unseen(), features=features, scores=scores)

    def backward(self) -> Seen:
        """Put all samples through the model and back, client by client."""
        chunk, found = self.trainer.path.eval_chunk, np.zeros((self.n_clients, self.trainer.layout.parameter_size))
        for client in range(self.n_clients):
            stop = (client + 1) * self.n_samples
            for at in range(client * self.n_samples, stop, chunk):
                rows = slice(at, min(at + chunk, stop))
                found[client] += self.trainer.gradient(self.model, self.x[rows], self.y[rows])
        return replace(self.unseen(), gradients=lambda: found)


def windows_of(setting: Setting, n_samples: int = N_SAMPLES) -> Windows:
    """Return windows of noise: what they cost does not depend on what they show."""
    trainer, rng, total = trainer_for(setting.request), np.random.default_rng(1), n_samples * setting.n_windows
    return Windows(
        trainer=trainer,
        model=trainer.initial_model(1),
        x=rng.random((total, *setting.request.input_shape), dtype=np.float32),
        y=rng.integers(0, N_CLASSES, total).astype(np.int32),
        n_clients=setting.n_windows,
    )


def measured(windows: Windows, names: Sequence[str], *, n_repeats: int) -> dict[str, Table]:
    """Return what each representation costs a client, by its name.

    A pass is the same for all that need it, so it is timed once a repeat, forward and backward in turn, and so is what
    each representation makes of it; seconds are medians over repeats.

    Parameters
    ----------
    windows
        The windows; of several clients, figures are per client.
    names
        Representations, by what tables call them.
    n_repeats
        How often, after once that is not counted.
    """
    passes: dict[Effort, Callable[[], Seen]] = {
        "none": windows.unseen,
        "forward": windows.forward,
        "backward": windows.backward,
    }
    made = {name: representation_called(name, seed=1) for name in names}
    taken: dict[str, list[float]] = {name: [] for name in (*passes, *names)}
    lengths: dict[str, int] = {}
    for _ in range(1 + n_repeats):
        seen = {effort: _timed(go, taken[effort]) for effort, go in passes.items()}
        for name, one in made.items():
            lengths[name] = _timed(partial(described, one, seen[one.effort]), taken[name]).shape[1]
    return {
        name: {
            "effort": one.effort,
            "pass_s": median(taken[one.effort][1:]) / windows.n_clients if one.effort != "none" else 0.0,
            "after_s": median(taken[name][1:]) / windows.n_clients,
            "bytes_up": BYTES_PER_NUMBER * lengths[name],
            "simulated_s": simulated_seconds(one.effort, lengths[name], n_samples=windows.n_samples),
        }
        for name, one in made.items()
    }


def _timed(go: Callable[[], Answer], taken: list[float]) -> Answer:
    begun = time.perf_counter()
    answer = go()
    taken.append(time.perf_counter() - begun)
    return answer


def described(representation: Representation, seen: Seen) -> Matrix:
    """Return what a client reports of what was seen."""
    tallies = representation.tally(seen)
    return np.asarray(representation.vectors(tallies, tallies.sum(axis=0)))


def simulated_seconds(effort: Effort, n_numbers: int, *, n_samples: int) -> float:
    """Return what the ledger charges the median device for describing a window of new samples and reporting it."""
    looked = LookingCosts.at(np.array([n_samples]), effort)
    costs = Costs(
        up_bytes=BYTES_PER_NUMBER * n_numbers,
        forward_samples=int(looked.forward.sum()),
        train_samples=int(looked.backward.sum()),
    )
    device = Devices(ms_per_sample=np.array([SYNTHETIC.median_ms]), kbps=np.array([SYNTHETIC.median_kbps]))
    return float(seconds_of(device, np.array([0]), costs)[0])


def table(found: Mapping[str, Table]) -> list[list[str]]:
    """Return the costs of one setting as cells, heads first; ratios are to the gradient."""
    head = ["representation", "pass", "ms for the pass", "ms after it", "of the gradient's"]
    lines = [[*head, "s, simulated", "of the gradient's", "bytes up"]]
    base, base_simulated = seconds(found[BASELINE]), _number(found[BASELINE], "simulated_s")
    for name, one in found.items():
        simulated = _number(one, "simulated_s")
        lines.append(
            [
                name,
                str(one["effort"]),
                f"{1000 * _number(one, 'pass_s'):.3f}",
                f"{1000 * _number(one, 'after_s'):.3f}",
                f"{seconds(one) / base:.2f}",
                f"{simulated:.2f}",
                f"{simulated / base_simulated:.2f}",
                f"{int(_number(one, 'bytes_up')):,}",
            ]
        )
    return lines


def verdict(found: Mapping[str, Table]) -> str:
    """Return in a line whether all forward-only representations cost less than half of the gradient; if not, which."""
    base = seconds(found[BASELINE])
    ratios = {name: seconds(one) / base for name, one in found.items() if one["effort"] == "forward"}
    dear = [f"{name} ({ratio:.2f})" for name, ratio in ratios.items() if ratio >= HALF]
    forward = next(_number(one, "pass_s") for one in found.values() if one["effort"] == "forward")
    passes = f"The pass alone costs {forward / _number(found[BASELINE], 'pass_s'):.2f} of the gradient's."
    if dear:
        return f"Not below half of the gradient: {', '.join(dear)}. {passes}"
    most = max(ratios.values())
    return f"All forward-only representations cost less than half of the gradient (at most {most:.2f}). {passes}"


def seconds(one: Table) -> float:
    """Return what a representation took on this machine, the pass included."""
    return _number(one, "pass_s") + _number(one, "after_s")


def _number(one: Table, figure: str) -> float:
    return float(str(one[figure]))
