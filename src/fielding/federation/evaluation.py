"""Stage 12: how well clients are served, per client and overall."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from fielding._typing import Counts, Json, Vector


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClientScores:
    """How well each client's model does on its own test samples.

    Parameters
    ----------
    clients
        Indices of the clients that were tested, rising, shape ``(n_tested,)``.
    n_test
        Test samples of each, at least 1.
    correct
        How many of them were classified rightly.
    loss
        Mean loss over them.
    also
        How the same clients fare on the same samples if more is done to the model that serves them, by name:
        ``"corrected"`` to their own label mix, ``"tuned"`` on their own samples. Empty unless that was asked for.
    """

    clients: Counts
    n_test: Counts
    correct: Counts
    loss: Vector
    also: Mapping[str, "ClientScores"] = field(default_factory=dict)

    @property
    def accuracy(self) -> Vector:
        """Share of test samples that were right, shape ``(n_tested,)``."""
        return np.asarray(self.correct / self.n_test)

    def summary(self) -> dict[str, Json]:
        """Return accuracy over clients and over samples, that of the worst tenth of the clients, and the mean loss.

        Examples
        --------
        >>> scores = ClientScores(clients=np.array([0, 1]), n_test=np.array([1, 3]), correct=np.array([1, 0]),
        ...                       loss=np.array([0.0, 2.0]))
        >>> scores.summary()
        {'accuracy': 0.5, 'accuracy_weighted': 0.25, 'worst_decile': 0.0, 'test_loss': 1.0, 'n_tested': 2}
        """
        if not self.clients.size:
            return dict.fromkeys(("accuracy", "accuracy_weighted", "worst_decile", "test_loss"), None) | {"n_tested": 0}
        accuracy = np.sort(self.accuracy)
        loss = float(self.loss.mean())
        return {
            "accuracy": float(accuracy.mean()),
            "accuracy_weighted": float(self.correct.sum() / self.n_test.sum()),
            "worst_decile": float(accuracy[: -(-accuracy.size // 10)].mean()),
            "test_loss": loss if np.isfinite(loss) else None,
            "n_tested": int(self.clients.size),
        }
