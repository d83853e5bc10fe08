"""The workloads of the simulator's benchmark, and what people write first for them.

A workload is what participants of a round train on, and with which model. The plain loop trains one participant after
the other with PyTorch; the bound trains one model on one large batch.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fielding._typing import Codes, Counts, Features, Models
from fielding.rng import client_key, stream
from fielding.runtime.train import draw_batches
from fielding.traces.histograms import WindowPlan
from fielding.traces.pool import Pool
from fielding.traces.schedule import sort_schedule
from fielding.traces.sliding import SlidingWindows
from fielding.training.layout import Layout
from fielding.training.trainer import LocalWork, Sgd, Trainer

if TYPE_CHECKING:
    import torch

LEARNING_RATE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A round of local training.

    Parameters
    ----------
    name
        W1, W2 or W3 of the docs.
    model
        Name of the model.
    shape
        Of a sample.
    n_clients, n_participants, n_steps
        Clients with 100 samples each, those that train in a round, and their local steps of 20 samples.
    loop_threads
        Threads of the plain loop that it is compared with.
    """

    name: str
    model: str
    shape: tuple[int, ...]
    n_clients: int
    n_participants: int
    n_steps: int
    loop_threads: int
    n_samples: int = 100
    batch_size: int = 20
    n_classes: int = 10


WORKLOADS = {
    "w1": Workload(name="w1", model="mlp", shape=(100,), n_clients=1000, n_participants=50, n_steps=20, loop_threads=1),
    "w2": Workload(
        name="w2", model="cnn", shape=(28, 28), n_clients=300, n_participants=20, n_steps=20, loop_threads=1
    ),
    "w3": Workload(
        name="w3", model="resnet18", shape=(32, 32, 3), n_clients=20, n_participants=4, n_steps=5, loop_threads=2
    ),
}
"""By name: a small network, a small convolutional one, a large one."""


def workload_pool(workload: Workload) -> Pool:
    """Return random samples around a center per class, so that there is something to learn."""
    rng = stream(3, "bench-simulator")
    n_rows = workload.n_clients * workload.n_samples
    y = rng.integers(0, workload.n_classes, n_rows).astype(np.int32)
    centers = rng.standard_normal((workload.n_classes, *workload.shape)).astype(np.float32)
    x = rng.standard_normal((n_rows, *workload.shape)).astype(np.float32) + centers[y]
    return Pool(x=x, y=y, classes=tuple(f"class {one}" for one in range(workload.n_classes)))


def workload_windows(workload: Workload) -> SlidingWindows:
    """Return windows in which every client holds its own samples, trained and tested ones together 100."""
    pool = workload_pool(workload)
    client = np.repeat(np.arange(workload.n_clients), workload.n_samples)
    nothing = np.zeros(client.size)
    columns = (client, nothing, np.arange(client.size), pool.y, nothing)
    schedule = sort_schedule(tuple(range(workload.n_clients)), 1, columns=columns)
    return SlidingWindows(pool, schedule, WindowPlan(gap=1, window=1))


def workload_round(workload: Workload, windows: SlidingWindows, trainer: Trainer, round_index: int) -> LocalWork:
    """Return the local work of a round."""
    participants = participants_of(workload, round_index)
    keys = np.array([client_key(int(client)) for client in participants], dtype=np.uint64)
    return LocalWork(
        models=trainer.initial_model(1)[np.newaxis],
        start=np.zeros(participants.size, dtype=np.int64),
        draws=draw_batches(
            windows.training(0),
            participants,
            keys=keys,
            moment=(1, round_index),
            shape=(workload.n_steps, workload.batch_size),
        ),
        gather=windows.gather,
        sgd=Sgd(learning_rate=LEARNING_RATE),
    )


def participants_of(workload: Workload, round_index: int) -> Counts:
    """Return who trains in a round."""
    rng = stream(3, "bench-participants", round_index)
    return np.sort(rng.choice(workload.n_clients, workload.n_participants, replace=False))


def plain_module(workload: Workload) -> "torch.nn.Module":
    """Return the module of a workload, made by the same functions as ours."""
    from torch import nn

    if workload.model == "mlp":
        return nn.Sequential(nn.Linear(workload.shape[0], 64), nn.ReLU(), nn.Linear(64, workload.n_classes))
    from fielding.training.torch_models import MODULES, module_shape

    made = MODULES[workload.model](input_shape=module_shape(workload.shape), n_classes=workload.n_classes)
    if not isinstance(made, nn.Module):
        raise TypeError(f"{workload.model} is no module")
    return made


def plain_loop(work: LocalWork, module: "torch.nn.Module", layout: Layout) -> Models:
    """Train every participant by itself with ``torch.optim.SGD``; return their models."""
    import torch

    trained = np.empty((work.start.size, work.models.shape[1]), dtype=np.float32)
    module.train()
    for at, start in enumerate(work.start.tolist()):
        load_model(module, layout, work.models[start])
        optimizer = torch.optim.SGD(module.parameters(), lr=work.sgd.learning_rate)
        for rows in work.draws[at]:
            _step(module, optimizer, work.gather(rows))
        trained[at] = _stored(module, layout)
    return trained


def large_batches(work: LocalWork, module: "torch.nn.Module", layout: Layout) -> Models:
    """Train one model on the batches of all participants at once: as many samples, no separate models."""
    import torch

    module.train()
    load_model(module, layout, work.models[0])
    optimizer = torch.optim.SGD(module.parameters(), lr=work.sgd.learning_rate)
    for step in range(work.draws.shape[1]):
        _step(module, optimizer, work.gather(work.draws[:, step].ravel()))
    return _stored(module, layout)


def _step(module: "torch.nn.Module", optimizer: "torch.optim.Optimizer", batch: tuple[Features, Codes]) -> None:
    import torch

    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(module(as_tensor(batch[0])), torch.from_numpy(batch[1]).long())
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()


def plain_predictions(x: Features, module: "torch.nn.Module") -> npt.NDArray[np.int64]:
    """Return the most likely class of each sample."""
    import torch

    module.eval()
    with torch.inference_mode():
        return np.asarray(module(as_tensor(x)).argmax(dim=1).numpy())


def as_tensor(x: Features) -> "torch.Tensor":
    """Return samples as PyTorch wants them: channels before height and width."""
    import torch

    tensor = torch.from_numpy(x)
    if x.ndim == 3:
        return tensor[:, None]
    return tensor.permute(0, 3, 1, 2).contiguous() if x.ndim == 4 else tensor


def load_model(module: "torch.nn.Module", layout: Layout, model: Models) -> None:
    """Copy a flat model into a module."""
    import torch

    state = module.state_dict()
    with torch.no_grad():
        for name, tensor in layout.tensors(model).items():
            state[name].copy_(torch.from_numpy(np.ascontiguousarray(tensor)))


def _stored(module: "torch.nn.Module", layout: Layout) -> Models:
    state = module.state_dict()
    return layout.flat({name: state[name].detach().numpy() for name in layout.names})
