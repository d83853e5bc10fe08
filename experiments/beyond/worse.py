"""Which clients would have been served better by one plain model for all."""

from pathlib import Path

import numpy as np

from fielding._typing import ClientId
from fielding.reporting.numbers.run_record import read_run
from fielding.reporting.numbers.run_summary import final_evaluations

MARGIN = 0.01
"""A client that lacks more accuracy than this is served worse."""
ROUNDING = 1e-9  # a lack of one point sharp is a little more or less in floating point


def share_worse(ours: Path, plain: Path) -> float:
    """Return the share of clients that a run serves worse than another run's models would, as they are.

    Parameters
    ----------
    ours
        Folder of a run whose clients are served by experts.
    plain
        Folder of the run of the global model on the same seed. Clients that were tested in both count.
    """
    served, unserved = client_accuracies(ours, "served"), client_accuracies(plain, "")
    lacks = [unserved[client] - served[client] for client in served if client in unserved]
    return float(np.mean(np.array(lacks) > MARGIN + ROUNDING))


def client_accuracies(folder: Path, how: str) -> dict[ClientId, float]:
    """Return the accuracy of each client, mean over the final evaluations in which it had test samples.

    ``how``: ``"served"``, or ``""`` for models as they are.
    """
    run = read_run(folder)
    final = {row["round"] for row in final_evaluations(run.rounds)}
    found: dict[ClientId, list[float]] = {}
    for test in run.tests():
        if test.round_index in final:
            for client, accuracy in zip(test.client_ids, test.accuracy(how).tolist(), strict=True):
                if not np.isnan(accuracy):
                    found.setdefault(client, []).append(accuracy)
    return {client: float(np.mean(values)) for client, values in found.items()}
