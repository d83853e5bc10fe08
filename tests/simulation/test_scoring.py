"""Clients scored in several ways at once."""

import numpy as np
from fielding.simulation.scoring import NO_SAMPLES, scored_ways

from fielding._typing import Counts, Models
from fielding.traces.sliding import Ranges
from fielding.training.head import Judged


def test_every_way_keeps_clients_and_their_samples_apart() -> None:
    ranges = Ranges(start=np.array([0, 1, 3]), stop=np.array([1, 3, 6]), entries=np.arange(6))

    def judge(model: Models, rows: Counts) -> tuple[Judged, Judged]:
        if not rows.size:
            return NO_SAMPLES, NO_SAMPLES
        losses = (rows + model[0]).astype(np.float32)
        return (losses, losses > 3), (-losses, losses < 3)

    models = np.array([[0.0], [9.0], [10.0]], dtype=np.float32)
    first, second = scored_ways(models, np.array([2, 0, 0]), ranges=ranges, tested=np.array([0, 2]), judge=judge)

    assert first.clients.tolist() == second.clients.tolist() == [0, 2]
    assert (first.loss.tolist(), second.loss.tolist()) == ([10.0, 4.0], [-10.0, -4.0])
    assert (first.correct.tolist(), second.correct.tolist()) == ([1, 2], [0, 0])
    assert first.n_test.tolist() == [1, 3]
