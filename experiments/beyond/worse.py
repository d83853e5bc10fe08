"""What would have served clients better: one plain model for all, or one of their experts alone."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fielding._typing import ClientId, Counts
from fielding.reporting.numbers.run_record import read_run
from fielding.reporting.numbers.run_summary import final_evaluations, final_mean

MARGIN = 0.01
"""A client that lacks more accuracy than this is served worse."""
ERRORS = 2.0
"""It is clearly served worse if the lack is as many standard errors, as if the two tests were of other samples."""
ROUNDING = 1e-9  # a lack of one point sharp is a little more or less in floating point


def share_worse(ours: Path, plain: Path) -> tuple[float, float]:
    """Return the share of clients that a run serves worse, and clearly worse, than another run's models as they are.

    A client has few test samples, so that of two equal models either is better for a good third of the clients by
    chance: only a lack that is clear says something of a client.

    Parameters
    ----------
    ours
        Folder of a run whose clients are served by experts.
    plain
        Folder of the run of the global model on the same seed. Clients that were tested in both count.
    """
    served, unserved = final_counts(ours, "served"), final_counts(plain, "")
    both = [client for client in served if client in unserved]
    (right, n), (others, _) = (np.array([one[client] for client in both]).T for one in (served, unserved))
    lack, share = (others - right) / n, (others + right) / (2.0 * n)
    is_worse = lack > MARGIN + ROUNDING
    is_clear = is_worse & (lack >= ERRORS * np.sqrt(2.0 * share * (1.0 - share) / n))
    return float(is_worse.mean()), float(is_clear.mean())


def final_counts(folder: Path, how: str) -> dict[ClientId, Counts]:
    """Return how many test samples each client gets right and has, over the final evaluations together.

    ``how``: ``"served"``, or ``""`` for models as they are. Clients without test samples are left out.
    """
    run = read_run(folder)
    final = {row["round"] for row in final_evaluations(run.rounds)}
    found: dict[ClientId, Counts] = {}
    for test in run.tests():
        if test.round_index in final:
            right = test.otherwise[how] if how else test.correct
            for client, *counts in zip(test.client_ids, right.tolist(), test.n_test.tolist(), strict=True):
                if counts[1]:
                    found[client] = found.get(client, np.zeros(2, dtype=np.int64)) + counts
    return found


def experts_alone(folder: Path) -> dict[str, dict[str, float]]:
    """Return the final accuracy of a run by score, if clients were served by one expert alone, by the expert's name."""
    rounds, found = read_run(folder).rounds, dict[str, dict[str, float]]()
    for score, key in (("window", "expert_accuracy"), ("next", "next_expert_accuracy")):
        flat = [{**row, **one} if isinstance(one := row.get(key), Mapping) else row for row in rounds]
        names = {name for row in rounds if isinstance(one := row.get(key), Mapping) for name in one}
        finals = {name: final_mean(flat, name) for name in sorted(names)}
        found[score] = {name: value for name, value in finals.items() if value is not None}
    return found
