"""What runs on every node: where its samples come from. Windows, drift tests, training and tests are Fielding's.

A real device reads its own sensor or table here. This one plays a device: the digits that come with scikit-learn are
dealt to clients in two places with different labels and different views of them, and some clients move. It is the
dealing of `fielding run` for the same trace section.
"""

import numpy as np

from fielding._typing import Json
from fielding.flower.client_side import client_app
from fielding.flower.samples import DeviceNode, Samples
from fielding.traces.catalog import digits
from fielding.traces.catalog.entry import DEFAULT_OPENING
from fielding.traces.histograms import WindowPlan
from fielding.traces.natural import needed_intervals
from fielding.traces.scenarios import DealRequest, scenario_named

OPTIONS = ("places", "alpha", "share")


def load_data(node: DeviceNode, round_index: int) -> Samples:
    """Return what came after the round up to which this node has its samples; at first all that there is."""
    config = node.config
    plan = WindowPlan(gap=_whole(config["trace.gap"]), window=_whole(config["trace.window"]))
    pool = digits.load(node.folder, DEFAULT_OPENING)
    request = DealRequest(
        n_clients=_whole(config["trace.clients"]),
        n_intervals=needed_intervals(round_index + 1, plan),
        n_first=plan.n_first,
        samples_per_interval=_whole(config["trace.samples"]),
    )
    scenario = scenario_named(str(config["trace.scenario"]), {name: config[f"trace.{name}"] for name in OPTIONS})
    schedule = scenario.deal(pool, request, seed=_whole(config["seed"]))
    arrival = (schedule.interval.astype(np.int64) + 1) * plan.gap - plan.lead
    is_mine = schedule.client == (node.partition or 0) % request.n_clients
    is_new = arrival > (-plan.lead if node.since is None else node.since)
    rows = np.flatnonzero(is_mine & is_new & (arrival <= round_index))
    x = pool.features(schedule.sample[rows])
    for at, look in enumerate(schedule.looks):
        seen = schedule.look[rows] == at
        x[seen] = look.apply(x[seen])
    return Samples(x, schedule.y[rows], is_test=pool.is_test()[schedule.sample[rows]], rounds=arrival[rows])


def _whole(value: Json) -> int:
    if not isinstance(value, int):
        raise TypeError(f"{value!r} in the run config must be a whole number")
    return value


app = client_app(load_data=load_data)
