"""What dp-accounting says, from a process of its own: the logging that it brings closes the streams of its process."""

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import TypeAlias

Case: TypeAlias = tuple[float, float, int, Sequence[float] | None, float]
"""Sampling rate, noise multiplier, number of steps, orders (None: its own), delta."""

_CODE = """
import json, sys
import dp_accounting as dp
from dp_accounting.rdp import RdpAccountant
found = []
for rate, noise, n_steps, orders, delta in json.load(sys.stdin):
    accountant = RdpAccountant(orders)
    event = dp.GaussianDpEvent(noise)
    accountant.compose(event if rate == 1.0 else dp.PoissonSampledDpEvent(rate, event), n_steps)
    found.append([accountant.get_epsilon(delta), dp.get_epsilon_gaussian(noise / n_steps ** 0.5, delta)])
print(json.dumps(found))
"""


def known_epsilons(cases: Sequence[Case]) -> dict[Case, tuple[float, float]]:
    """Return the epsilon of each case by Renyi divergences, and the exact one of its Gaussian without sampling."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _CODE],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    return {case: (by_orders, exact) for case, (by_orders, exact) in zip(cases, found, strict=True)}
