"""What people write first: one participant after the other, a plain PyTorch loop. And the bound: one large batch."""

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fielding._typing import Codes, Features, Models
from fielding.bench.workloads import Workload
from fielding.training.layout import Layout
from fielding.training.trainer import LocalWork

if TYPE_CHECKING:
    import torch


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
