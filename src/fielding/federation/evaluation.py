"""Stage 12: how well clients are served, per client and overall."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Json, Mask, Matrix, Vector


def adjusted_rand_index(first: npt.ArrayLike, second: npt.ArrayLike) -> float:
    """Return the adjusted Rand index of two groupings: 1 if they agree, about 0 if they are unrelated.

    ``first``, ``second``: a group per client, whole numbers, shape ``(n_clients,)``. Two groupings that both say
    nothing (all in one, or all apart) agree.

    Examples
    --------
    >>> adjusted_rand_index([0, 0, 1, 1], [5, 5, 3, 3])
    1.0
    >>> round(adjusted_rand_index([0, 0, 1, 1], [0, 0, 0, 1]), 4)
    0.0
    """
    rows, row_of = np.unique(first, return_inverse=True)
    columns, column_of = np.unique(second, return_inverse=True)
    counts = np.bincount(row_of * columns.size + column_of, minlength=rows.size * columns.size)
    table = counts.reshape(rows.size, columns.size).astype(np.float64)
    together, in_rows, in_columns = _pairs(table), _pairs(table.sum(axis=1)), _pairs(table.sum(axis=0))
    all_pairs = _pairs(np.array([table.sum()]))
    expected = in_rows * in_columns / all_pairs if all_pairs else 0.0
    most = (in_rows + in_columns) / 2.0
    return 1.0 if most == expected else float((together - expected) / (most - expected))


SCORES = ("window", "newest", "next")
"""What models are tested on: test samples of the window, those of its newest interval, and samples of the interval to
come that no client has trained on."""
TREATMENTS = ("corrected", "tuned", "served")
"""What clients may do to the model that serves them and be tested on beside it: scores shifted to their own label mix,
steps of their own, experts weighed by evidence. :attr:`ClientScores.also` has them by these names."""
WORST = 10  # the worst tenth is one in so many clients, rounded up


def mean_of_worst_tenth(accuracy: Vector) -> float:
    """Return the mean over the tenth of the clients with the lowest accuracy, rounded up to whole clients.

    ``accuracy``: of each client, shape ``(n_clients,)``, at least one, none NaN.

    Examples
    --------
    >>> mean_of_worst_tenth(np.array([0.5, 0.25, 1.0])), mean_of_worst_tenth(np.arange(11.0))
    (0.25, 0.5)
    """
    n_worst = -(-accuracy.size // WORST)
    return float(np.partition(accuracy, n_worst - 1)[:n_worst].mean())


def _pairs(counts: Matrix) -> float:
    return float((counts * (counts - 1.0) / 2.0).sum())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClientScores:
    """How well each client's model does on its own test samples."""

    clients: Counts  # indices of the clients that were tested, rising, shape (n_tested,)
    n_test: Counts  # test samples of each, at least 1
    correct: Counts  # how many of them were classified rightly
    loss: Vector  # mean loss over them
    # How the same clients fare on the same samples if more is done to the model that serves them, by the names of
    # TREATMENTS. Empty unless that was asked for.
    also: Mapping[str, "ClientScores"] = field(default_factory=dict)
    # By the name of each expert, how much each of these clients believes it, shares that sum to 1; and, also of the
    # mixture that the window makes of them, the last log loss on samples before their labels came (NaN: none came yet),
    # and how many of the test samples it alone gets right. Empty unless clients have experts.
    expert_weights: Mapping[str, Vector] = field(default_factory=dict)
    expert_losses: Mapping[str, Vector] = field(default_factory=dict)
    expert_correct: Mapping[str, Counts] = field(default_factory=dict)
    # By the name of each metric of the user's own, its value for each of these clients; NaN where it has none.
    metrics: Mapping[str, Vector] = field(default_factory=dict)
    # Of how many clients these are a random sample; None: they are all that could be tested.
    n_of: int | None = None

    @property
    def accuracy(self) -> Vector:
        """Share of test samples that were right, shape ``(n_tested,)``."""
        return np.asarray(self.correct / self.n_test)

    def some(self, which: Mask) -> "ClientScores":
        """Return the scores of some of these clients, without what is done to their models and by experts."""
        return ClientScores(
            clients=self.clients[which],
            n_test=self.n_test[which],
            correct=self.correct[which],
            loss=self.loss[which],
            metrics={name: values[which] for name, values in self.metrics.items()},
        )

    def _sampling_error(self) -> dict[str, Json]:
        """Return what is to be known of a sample; nothing if all clients were tested."""
        if self.n_of is None:
            return {}
        return {"n_testable": self.n_of, "accuracy_ci95": sample_half_width(self.accuracy, self.n_of)}

    def summary(self) -> dict[str, Json]:
        """Return accuracy over clients and over samples, that of the worst tenth of the clients, and the mean loss.

        Also the mean over clients of each metric of the user's own, as ``metric/NAME``; None if no client has it. Of a
        sample of the clients also of how many, and half the width of the 95 % interval of the mean accuracy of all.

        Examples
        --------
        >>> scores = ClientScores(clients=np.array([0, 1]), n_test=np.array([1, 3]), correct=np.array([1, 0]),
        ...                       loss=np.array([0.0, 2.0]))
        >>> scores.summary()
        {'accuracy': 0.5, 'accuracy_weighted': 0.25, 'worst_decile': 0.0, 'test_loss': 1.0, 'n_tested': 2}
        """
        if not self.clients.size:
            names = (
                "accuracy",
                "accuracy_weighted",
                "worst_decile",
                "test_loss",
                *(f"metric/{one}" for one in self.metrics),
            )
            return dict.fromkeys(names, None) | {"n_tested": 0} | self._sampling_error()
        accuracy = self.accuracy
        loss = float(self.loss.mean())
        return {
            "accuracy": float(accuracy.mean()),
            "accuracy_weighted": float(self.correct.sum() / self.n_test.sum()),
            "worst_decile": mean_of_worst_tenth(accuracy),
            "test_loss": loss if np.isfinite(loss) else None,
            "n_tested": int(self.clients.size),
            **self._sampling_error(),
            **{f"metric/{name}": finite_mean(values) for name, values in self.metrics.items()},
        }


def sample_half_width(values: Vector, n_of: int) -> float | None:
    """Return half the width of the 95 % interval of the mean of ``n_of`` values, by a random sample of them.

    Student's t on the sample's spread, with the correction for a finite population: 0 if all are there. None of fewer
    than two.

    Examples
    --------
    >>> half = sample_half_width(np.array([0.5, 0.7, 0.9, 0.7]), 16)
    >>> round(half, 4), sample_half_width(np.array([0.5, 0.7]), 2)  # 3.182 * 0.1633 / 2 * sqrt(12 / 16)
    (0.225, 0.0)
    """
    n_drawn = values.size
    if n_drawn < 2:
        return 0.0 if n_drawn >= n_of else None
    # Here and not above: scipy costs more than all of Fielding to import.
    from scipy.special import stdtrit

    missing = max(0.0, 1.0 - n_drawn / max(n_of, 1))
    return float(stdtrit(n_drawn - 1, 0.975) * values.std(ddof=1) / np.sqrt(n_drawn) * np.sqrt(missing))


def finite_mean(values: Vector) -> float | None:
    """Return the mean of the numbers that are finite; None if none is."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else None


_NONE: Counts = np.empty(0, dtype=np.int64)
NO_SCORES = ClientScores(clients=_NONE, n_test=_NONE, correct=_NONE, loss=np.empty(0))  # no client was tested
