"""A round of federated averaging in Apple's pfl, of as many clients as you like: seconds and memory.

    python -m experiments.pfl_round [--clients 10000] [--rounds 12]

Workload W1, as in ``experiments.flower_round``: 50 clients take 20 steps of 20 of their 100 samples. pfl 0.6 asks
for other versions than ours, so it is laid beside them: ``pip install --no-deps --target FOLDER pfl prv_accountant
multiprocess dill``, and FOLDER into PYTHONPATH.
"""

import argparse
import importlib
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.workloads import LEARNING_RATE, WORKLOADS, Workload, plain_module, workload_windows


def network_of(workload: Workload, weighted: Any) -> Any:
    """Return the model of the workload as pfl wants it: with the methods ``loss`` and ``metrics``."""
    import torch

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = plain_module(workload)

        def loss(self, inputs: torch.Tensor, targets: torch.Tensor, is_eval: bool = False) -> torch.Tensor:  # noqa: ARG002
            return torch.nn.functional.cross_entropy(self.inner(inputs), targets)

        def metrics(self, inputs: torch.Tensor, targets: torch.Tensor) -> dict[str, Any]:
            with torch.no_grad():
                return {"loss": weighted(float(self.loss(inputs, targets)) * len(targets), len(targets))}

    return Network()


def round_ends(workload: Workload, n_rounds: int) -> list[float]:
    """Return when each round was done."""
    import torch

    def part(module: str, name: str) -> Any:
        return getattr(importlib.import_module(f"pfl.{module}"), name)

    torch.set_num_threads(1)
    windows = workload_windows(workload)
    x, y = windows.gather(np.arange(workload.n_clients * workload.n_samples))
    labels, dataset_kind = y.astype(np.int64), part("data.dataset", "Dataset")
    network = network_of(workload, part("metrics", "Weighted"))

    def samples_of(client: int) -> Any:
        rows = slice(client * workload.n_samples, (client + 1) * workload.n_samples)
        return dataset_kind((torch.from_numpy(x[rows]), torch.from_numpy(labels[rows])), user_id=str(client))

    sampler = part("data.sampling", "get_user_sampler")("random", list(range(workload.n_clients)))
    dataset = part("data.federated_dataset", "FederatedDataset")(samples_of, sampler)
    model = part("model.pytorch", "PyTorchModel")(
        model=network,
        local_optimizer_create=torch.optim.SGD,
        central_optimizer=torch.optim.SGD(network.parameters(), lr=1.0),
    )
    ends: list[float] = []

    def after(_self: Any, *_arguments: Any, **_options: Any) -> tuple[bool, Any]:
        ends.append(time.perf_counter())
        return False, part("metrics", "Metrics")()

    clock = type("Clock", (part("callback.base", "TrainingProcessCallback"),), {"after_central_iteration": after})()
    part("algorithm.federated_averaging", "FederatedAveraging")().run(
        algorithm_params=part("algorithm.base", "NNAlgorithmParams")(
            central_num_iterations=n_rounds,
            evaluation_frequency=10**9,
            train_cohort_size=workload.n_participants,
            val_cohort_size=0,
        ),
        backend=part("aggregate.simulate", "SimulatedBackend")(training_data=dataset, val_data=None),
        model=model,
        model_train_params=part("hyperparam", "NNTrainHyperParams")(
            local_num_epochs=workload.n_steps * workload.batch_size // workload.n_samples,
            local_learning_rate=LEARNING_RATE,
            local_batch_size=workload.batch_size,
        ),
        model_eval_params=None,
        callbacks=[clock],
    )
    return ends


def main() -> None:
    """Measure and print a line."""
    import resource

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=12, choices=range(4, 101), metavar="4..100")
    options = parser.parse_args()
    begun = time.perf_counter()
    ends = round_ends(replace(WORKLOADS["w1"], n_clients=options.clients), options.rounds)
    seconds = np.diff(ends)[1:].tolist()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(
        f"pfl, {options.clients} clients: {1e3 * statistics.median(seconds):.0f} ms a round, "
        f"{ends[0] - begun:.1f} s to the end of the first, {peak} MB at most"
    )


if __name__ == "__main__":
    main()
