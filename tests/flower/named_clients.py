"""The embedded simulator with clients that have other names: those of the nodes of a deployment."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fielding._typing import ClientId
from fielding.config.keys import Config
from fielding.simulation import assembly
from fielding.simulation.experiment import run
from fielding.traces.schedule import sort_schedule
from fielding.traces.sources import Dealt, deal_samples


def run_named(config: Config | Mapping[str, Any], out: Path, names: Sequence[ClientId]) -> Path:
    """Run the simulator, the clients of a scenario known by these names, and return the run folder."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(assembly, "deal_samples", lambda *some, **more: named(deal_samples(*some, **more), names))
        run(config, out, page=False)
    return out


def named(dealt: Dealt, names: Sequence[ClientId]) -> Dealt:
    """Return the same samples of clients with these names, in whose order they stand, as on any trace with names."""
    schedule = dealt.schedule
    order = np.array(sorted(range(len(names)), key=lambda at: names[at]))
    place = np.argsort(order)
    renamed = sort_schedule(
        tuple(names[at] for at in order.tolist()),
        schedule.n_intervals,
        columns=(place[schedule.client], schedule.interval, schedule.sample, schedule.y, schedule.look),
        looks=schedule.looks,
        concepts=None if schedule.concepts is None else schedule.concepts[:, order],
    )
    return replace(dealt, schedule=renamed)
