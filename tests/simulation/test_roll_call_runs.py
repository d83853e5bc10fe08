"""Clients with few samples whose labels change their meaning: what the default reports is worth as much as all."""

import numpy as np
from sklearn.datasets import load_digits

from fielding import Own, Trace, run
from fielding.rng import stream

N_CLIENTS, N_MEANINGS, N_INTERVALS, PER_INTERVAL, CHANGE_AT = 60, 3, 24, 15, 14


def planted_trace(seed: int) -> Trace:
    """Return digits whose meanings differ by client, and half way for half of them; windows hold 48 to train on."""
    rng, digits = stream(seed, "planted"), load_digits()
    meanings = np.stack([np.arange(10), *(rng.permutation(10) for _ in range(N_MEANINGS - 1))])
    client = np.repeat(np.arange(N_CLIENTS), N_INTERVALS * PER_INTERVAL)
    interval = np.tile(np.repeat(np.arange(N_INTERVALS), PER_INTERVAL), N_CLIENTS)
    changes = rng.permutation(N_CLIENTS) < N_CLIENTS // 2
    concept = (client % N_MEANINGS + (changes[client] & (interval >= CHANGE_AT))) % N_MEANINGS
    shares = np.linspace(1.0, 4.0, 10) / 25.0
    digit = rng.choice(10, size=client.size, p=shares)
    picked = np.zeros(client.size, dtype=np.int64)
    for one in range(10):
        at = np.flatnonzero(digit == one)
        picked[at] = rng.choice(np.flatnonzero(digits.target == one), size=at.size)
    x = digits.data[picked] / 16.0 + rng.normal(scale=0.3, size=(client.size, 64))
    return Trace(
        client_ids=tuple(range(N_CLIENTS)),
        client=client.astype(np.int32),
        time=3600.0 * (interval + rng.uniform(size=client.size)),
        y=meanings[concept, digit].astype(np.int32),
        classes=tuple(str(one) for one in range(10)),
        x=x.astype(np.float32),
    )


def outcome(detector: str, seed: int) -> tuple[float, int]:
    """Return the final accuracy, and how many reports were sent."""
    config = {
        "seed": seed,
        "rounds": 4 * (N_INTERVALS - 4),
        "trace": {"interval": "1h", "gap": 4, "window": 16},
        "model": {"hidden": 32},
        "training": {"participants": 24, "learning_rate": 0.2},
        "coordinator": {"detector": detector},
    }
    summary = run(config, own=Own(samples=planted_trace(seed)), page=False).summary or {}
    return float(str(summary["final_accuracy"])), int(str(summary["n_reports"]))


def test_the_default_keeps_nine_tenths_of_the_gain_with_a_third_of_the_reports() -> None:
    found = {
        name: np.mean([outcome(name, seed) for seed in range(1, 5)], axis=0) for name in ("any-change", "chi2", "never")
    }

    gain = found["any-change"][0] - found["never"][0]
    assert gain > 0.15
    assert found["chi2"][0] >= found["never"][0] + 0.9 * gain
    assert found["chi2"][1] <= found["any-change"][1] / 3
