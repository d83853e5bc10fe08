"""Embed the coordinator in a service of your own: reports in, groups and mixing weights out.

    python examples/embed_coordinator.py

The service owns the models (here: rows of a small matrix). The coordinator never sees them; after each decision it says
how to mix them. A checkpoint after each round makes a crash harmless.
"""

import tempfile
from pathlib import Path

import numpy as np

from fielding import Chi2, Coordinator, Monitor, Policy, load_coordinator, save_coordinator
from fielding.client import Window
from fielding.rng import stream

N_CLIENTS, N_LABELS, N_ROUNDS = 40, 5, 30


def main() -> None:
    """Run a few rounds in which a quarter of the devices moves to a new place."""
    rng = stream(1, "example")
    places = rng.dirichlet(np.full(N_LABELS, 0.4), size=3)
    place_of = np.arange(N_CLIENTS) % 3
    # On the devices: one monitor each. It reports when its data moved, and is silent otherwise.
    devices = [
        Monitor(f"phone-{at:02d}", N_LABELS, drift_test=Chi2(), window=Window(max_rounds=5)) for at in range(N_CLIENTS)
    ]
    # On the server: a coordinator, and the models that it knows nothing about.
    coordinator = Coordinator(Policy(seed=1))
    models = np.zeros((1, 8))
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Path(folder) / "coordinator.ckpt"
        for round_index in range(N_ROUNDS):
            if round_index == 15:
                place_of[::4] = (place_of[::4] + 1) % 3
            for device, place in zip(devices, place_of, strict=True):
                labels = rng.choice(N_LABELS, size=20, p=places[place])
                report = device.observe(labels, round_index)
                if report is not None:
                    coordinator.receive(report)
            decision = coordinator.decide(round_index)
            models = decision.mixing @ models  # a warm start for every cluster; the identity if nothing changed
            save_coordinator(coordinator, checkpoint)
            if decision.reported:
                print(
                    f"round {round_index:2d}: {len(decision.reported):2d} reported, {len(decision.moved):2d} moved, "
                    f"{decision.n_live} clusters{', re-clustered' if decision.reclustered else ''}"
                )
        survivor = load_coordinator(checkpoint)  # what a restarted server would do
    print(f"phone-00 is served by the model of cluster {survivor.cluster_of('phone-00')}; models: {models.shape[0]}")


if __name__ == "__main__":
    main()
