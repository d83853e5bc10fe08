"""Drift as the frozen shared model's predictions count it: no label needed, or given the label."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fielding._typing import Counts, Vector
from fielding.client.drift.chi2 import Pearson, gamma_p_values, told_pearson
from fielding.client.drift.drift_test import CHUNK, Batch, check_pair
from fielding.client.report import row_chunks
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Bbsd:
    """Drift is another mix of predicted labels; needs no labels ("black-box shift detection", Lipton et al. 2018).

    The test of :class:`~fielding.client.drift.Chi2`, on predicted labels. It sees a change of the label mix and most
    changes of the inputs, but not a change of what the same inputs are called.

    Examples
    --------
    >>> def takes_for(*predicted):
    ...     n = len(predicted)
    ...     return Batch(
    ...         sizes=np.array([n]),
    ...         n_classes=2,
    ...         labels=np.full(n, -1),
    ...         predicted=np.array(predicted),
    ...         features=np.zeros((n, 0), dtype=np.float32),
    ...         errors=np.zeros(n),
    ...     )
    >>> Bbsd().p_values(takes_for(0, 0, 0, 0, 0, 0), takes_for(1, 1, 1, 1, 1, 1)).round(3).tolist()
    [0.001]
    """

    def p_values(self, reference: Batch, fresh: Batch) -> Vector:
        """Return how probable so different predictions are, shape ``(n_clients,)``; unknown ones are left out."""
        no_strata = [np.zeros(batch.predicted.size, dtype=np.int64) for batch in (reference, fresh)]
        return gamma_p_values(_summed(reference, fresh, strata=no_strata))


@dataclass(frozen=True, slots=True, kw_only=True)
class Confusion:
    """Drift is another mix of predicted labels given the true one: of looks or of meanings, not of the label mix.

    Each label that both samples have gives a Pearson statistic with its exact moments; these are summed over labels,
    as are the means and variances, and one gamma distribution judges the sum.
    """

    def p_values(self, reference: Batch, fresh: Batch) -> Vector:
        """Return how probable so different confusions are, shape ``(n_clients,)``; unlabelled samples are left out."""
        return gamma_p_values(_summed(reference, fresh, strata=[reference.labels, fresh.labels]))


def _summed(reference: Batch, fresh: Batch, *, strata: list[Counts]) -> Pearson:
    """Return the statistic of predicted labels and its moments, summed over the strata of each client."""
    clients, tables = [], []
    for owners, table in rows_of_counts(reference, fresh, strata=strata):
        clients.append(owners)
        tables.append(table)
    owner = np.concatenate(clients) if clients else np.zeros(0, dtype=np.int64)

    def total(parts: list[Vector]) -> Vector:
        stacked = np.concatenate(parts) if parts else np.zeros(0)
        return np.bincount(owner, weights=stacked, minlength=fresh.sizes.size).astype(np.float64)

    return Pearson(
        statistic=total([table.statistic for table in tables]),
        mean=total([table.mean for table in tables]),
        variance=total([table.variance for table in tables]),
    )


def rows_of_counts(reference: Batch, fresh: Batch, *, strata: list[Counts]) -> Iterator[tuple[Counts, Pearson]]:
    """Yield, for a bounded number of strata at a time, whose they are and Pearson's statistic of predicted labels.

    Parameters
    ----------
    strata
        Stratum of each reference and of each fresh sample, below ``n_classes``; -1 for samples to leave out.
    """
    check_pair(reference, fresh)
    n_classes = fresh.n_classes
    cells = []
    for batch, stratum in zip((reference, fresh), strata, strict=True):
        known = (stratum >= 0) & (batch.predicted >= 0)
        cells.append((batch.owners[known] * n_classes + stratum[known], batch.predicted[known]))
    # Only strata that both have samples of: clients x labels x predictions would not fit in memory.
    common = np.intersect1d(cells[0][0], cells[1][0])
    for part in row_chunks(common.size, CHUNK):
        tables = [_counted(rows, predicted, common[part], n_classes) for rows, predicted in cells]
        yield common[part] // n_classes, told_pearson(tables[1], tables[0])


def _counted(rows: Counts, predicted: Counts, wanted: Counts, n_classes: int) -> Counts:
    """Return how often each label was predicted in each of the wanted rows, shape ``(n_wanted, n_classes)``."""
    at = np.searchsorted(wanted, rows)
    inside = (at < wanted.size) & (wanted[np.minimum(at, wanted.size - 1)] == rows)
    cells = at[inside] * n_classes + predicted[inside]
    return np.bincount(cells, minlength=wanted.size * n_classes).reshape(wanted.size, n_classes)
