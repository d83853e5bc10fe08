"""A planted problem with a known answer, as a natural trace: few samples of many clients, three meanings, one change.

``python -m experiments.planted planted.npz`` writes it; ``tests/experiments/test_planted.py`` says which methods have
to solve it. All clients see handwritten digits, and call them by one of three names each: as they are, or three or six
further on. Half way, half of the clients change to the next meaning. One model cannot serve all, a client alone has too
few samples, and one model per meaning is right on 92 to 94 % of them.

``python -m experiments.planted reports`` measures what the default label test is worth where meanings shuffle the names
of digits, so that label mixes hardly differ: drifts that are hard to see.
"""

from argparse import ArgumentParser
from pathlib import Path

import numpy as np

from experiments.tables import markdown
from fielding.rng import stream
from fielding.simulation.assembly import Own
from fielding.simulation.experiment import run
from fielding.traces.catalog import open_source
from fielding.traces.pool import Pool
from fielding.traces.trace import Trace, write_trace

N_CLIENTS, N_MEANINGS, N_CLASSES = 60, 3, 10
STEP = 3  # how far meanings shift the names of digits
N_INTERVALS, CHANGE_AT, PER_INTERVAL = 24, 14, 15
"""Hours, the hour from which on half of the clients mean something else, and samples of a client in an hour."""
NOISE = 0.25  # of each pixel, which runs from 0 to 1: without it, a client alone would do
MOST_FREQUENT = 4.0
"""How much more often the last digit comes than the first: meanings then differ in label mixes, too, by 0.56 in L1."""


def planted_trace(*, seed: int, is_shuffled: bool = False) -> Trace:
    """Return the trace; it knows the true meaning of every sample as its concept.

    Meanings shift the names of digits, or shuffle them (``is_shuffled``): label mixes then differ by L1 0.26 to 0.51.
    """
    rng, digits = stream(seed, "planted"), open_source("digits")
    if not isinstance(digits, Pool):
        raise TypeError("digits are a pool")
    shape = (N_CLIENTS, N_INTERVALS, PER_INTERVAL)
    client, interval, _ = (one.ravel() for one in np.indices(shape))
    has_changed = (rng.permutation(N_CLIENTS) < N_CLIENTS // 2)[client] & (interval >= CHANGE_AT)
    concept = (client + has_changed) % N_MEANINGS
    names = (np.arange(N_CLASSES) + STEP * np.arange(N_MEANINGS)[:, None]) % N_CLASSES
    if is_shuffled:
        names[1:] = rng.permuted(names[1:], axis=1)
    shares = np.linspace(1.0, MOST_FREQUENT, N_CLASSES)
    digit = rng.choice(N_CLASSES, size=client.size, p=shares / shares.sum())
    # Each sample is a blend of two images of its digit: there are not enough digits to give every one out once.
    images = [digits.features(np.flatnonzero(digits.y == one)) for one in range(N_CLASSES)]
    x = np.empty((client.size, *digits.shape), dtype=np.float32)
    for one, mine in enumerate(images):
        rows = np.flatnonzero(digit == one)
        first, second = mine[rng.integers(len(mine), size=(2, rows.size))]
        weight = rng.uniform(size=(rows.size, 1, 1))
        x[rows] = weight * first + (1.0 - weight) * second
    return Trace(
        client_ids=tuple(range(N_CLIENTS)),
        client=client.astype(np.int32),
        time=3600.0 * (interval + rng.uniform(size=client.size)),
        y=names[concept, digit].astype(np.int32),
        classes=digits.classes,
        x=x + NOISE * rng.standard_normal(size=x.shape, dtype=np.float32),
        concept=concept.astype(np.int32),
    )


def outcome(detector: str, seed: int) -> tuple[float, int]:
    """Return the final accuracy of label clusters under a drift test, and how many reports were sent."""
    config = {
        "seed": seed,
        "rounds": 4 * (N_INTERVALS - 4),
        "trace": {"interval": "1h", "gap": 4, "window": 16},
        "model": {"hidden": 32},
        "training": {"participants": 24, "learning_rate": 0.2},
        "coordinator": {"detector": detector},
    }
    summary = run(config, own=Own(samples=planted_trace(seed=seed, is_shuffled=True)), page=False).summary or {}
    return float(str(summary["final_accuracy"])), int(str(summary["n_reports"]))


def reports_table(seeds: range) -> list[list[str]]:
    """Return what drift tests are worth where drifts are hard to see, heads first."""
    found = {name: np.mean([outcome(name, seed) for seed in seeds], axis=0) for name in ("any-change", "chi2", "never")}
    (top, most), (low, _) = found["any-change"], found["never"]
    return [
        ["reports", "accuracy", "reports sent", "of the gain", "of the reports"],
        *(
            [name, f"{value:.3f}", f"{sent:.0f}", f"{(value - low) / (top - low):.0%}", f"{sent / most:.0%}"]
            for name, (value, sent) in found.items()
        ),
    ]


def _main() -> None:
    parser = ArgumentParser(description="Write the planted problem as a trace file, or measure reports on it.")
    parser.add_argument("path", help="the file, .npz; or reports, to measure what reports are worth")
    parser.add_argument("--seed", type=int, default=1, help="of the file; the first of 32 for reports")
    asked = parser.parse_args()
    if asked.path == "reports":
        print(markdown(reports_table(range(asked.seed, asked.seed + 32))))
    else:
        write_trace(planted_trace(seed=asked.seed), Path(asked.path))


if __name__ == "__main__":
    _main()
