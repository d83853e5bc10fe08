"""A trace of one's own: real clients, real times, features and labels; here thermometers whose seasons differ.

The same works from a file: write the arrays with numpy.savez (client, time, y, x, classes) or name the columns of a CSV
file in the config's [trace] section.
"""

import numpy as np

from fielding import Own, Trace, run

DAY = 86_400.0
N_CLIENTS, N_DAYS, PER_DAY = 24, 60, 12


def thermometers() -> Trace:
    """Return two months of readings: half of the clients live in the south, where summer is winter; two move."""
    rng = np.random.default_rng(5)
    client = np.repeat(np.arange(N_CLIENTS), N_DAYS * PER_DAY)
    day = np.tile(np.repeat(np.arange(N_DAYS), PER_DAY), N_CLIENTS)
    in_south = (client % 2 == 1) ^ ((client < 2) & (day >= 40))
    temperature = rng.uniform(-10.0, 35.0, client.size)
    # What counts as a warm day depends on where one lives, and so does how often there is one.
    warm = temperature > np.where(in_south, 22.0, 12.0)
    rare = np.where(in_south, 0.35, 1.0)
    keep = ~warm | (rng.random(client.size) < rare)
    return Trace(
        client_ids=tuple(f"thermometer {at}" for at in range(N_CLIENTS)),
        client=client[keep].astype(np.int32),
        time=day[keep] * DAY + rng.uniform(0.0, DAY, int(keep.sum())),
        y=warm[keep].astype(np.int32),
        classes=("cold", "warm"),
        x=np.stack([temperature[keep] / 10.0, np.ones(int(keep.sum()))], axis=1).astype(np.float32),
    )


def main() -> None:
    """Train on it: a day of real time is an arrival of data every 2 rounds, and windows show 10 days."""
    config = {
        "rounds": 90,
        "trace": {"interval": "1d", "gap": 2, "window": 20},
        "training": {"participants": 8},
        "model": {"hidden": 8},
    }
    result = run(config, own=Own(samples=thermometers()))
    summary = result.summary or {}
    print(f"accuracy {summary['final_accuracy']:.3f}, on the day to come {summary['final_next_accuracy']:.3f}")
    print(f"{summary['n_clusters_last']} clusters, {summary['moves']} moves, {summary['n_reports']} reports")
    for name in ("thermometer 0", "thermometer 1", "thermometer 2"):
        print(f"{name} is in cluster {result.cluster_of(name)}")


if __name__ == "__main__":
    main()
