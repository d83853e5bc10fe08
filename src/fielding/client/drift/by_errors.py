"""Drift as the model that a client is served feels it: more errors on fresh samples, by Fisher's exact test."""

from dataclasses import dataclass

import numpy as np

from fielding._typing import Counts, Vector
from fielding.client.drift.batch import Batch, check_pair
from fielding.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRate:
    """Drift is a higher error rate on fresh samples than on the reference: Fisher's exact test, one-sided.

    Samples are judged before the model saw them, or the reference would look too easy. A model that is still being
    trained errs less and less: that is never drift here, but it hides some.

    Examples
    --------
    >>> def served(*errors):
    ...     n = len(errors)
    ...     return Batch(
    ...         sizes=np.array([n]),
    ...         n_classes=2,
    ...         labels=np.zeros(n, dtype=int),
    ...         predicted=np.zeros(n, dtype=int),
    ...         features=np.zeros((n, 0), dtype=np.float32),
    ...         errors=np.array(errors, dtype=float),
    ...     )
    >>> ErrorRate().p_values(served(0, 0, 0), served(1, 1, 1)).round(3).tolist()
    [0.05]
    """

    def p_values(self, reference: Batch, fresh: Batch) -> Vector:
        """Return how probable so many errors among the fresh samples are, shape ``(n_clients,)``.

        Raises
        ------
        InputError
            If errors are neither 0 nor 1; losses are for ``page-hinkley``, ``adwin`` and ``kswin``.
        """
        check_pair(reference, fresh)
        n_then, errors_then = error_counts(reference)
        n_now, errors_now = error_counts(fresh)
        answers = np.ones(n_now.size)
        told = (n_then > 0) & (n_now > 0) & (errors_now > 0)
        if told.any():
            # Here and not above: scipy.stats takes most of a second to import.
            from scipy.stats import hypergeom

            total, wrong = n_then + n_now, errors_then + errors_now
            answers[told] = hypergeom.sf(errors_now[told] - 1, total[told], wrong[told], n_now[told])
        return answers


def error_counts(batch: Batch) -> tuple[Counts, Counts]:
    """Return how many labelled samples each client has and how many errors, both shape ``(n_clients,)``."""
    known = batch.labels >= 0
    errors = batch.errors[known]
    if not np.isin(errors, (0.0, 1.0)).all():
        raise InputError("errors are neither 0 nor 1; give those, or judge losses with page-hinkley, adwin or kswin")
    owners, n_clients = batch.owners[known], batch.sizes.size
    wrong = np.bincount(owners[errors > 0], minlength=n_clients)
    return np.bincount(owners, minlength=n_clients), wrong
