"""Drift as the frozen shared model's predictions count it: no label needed, or given the label."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fielding._typing import Counts, Vector
from fielding.client.drift.drift_test import CHUNK, Batch, check_pair
from fielding.client.drift.pearson import Pearson, gamma_p_values, pearson_or_zero
from fielding.client.report import row_chunks
from fielding.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRate:
    """Drift is a higher error rate on fresh samples than on the reference: Fisher's exact test, one-sided.

    Errors are those made before the model saw the samples, or the reference would look too easy. A model that is still
    being trained errs less and less: that is never drift here, but it hides some.
    """

    def p_values(self, reference: Batch, fresh: Batch) -> Vector:
        """Return how probable so many errors among the fresh samples are; raise unless errors are 0 or 1."""
        check_pair(reference, fresh)
        n_then, errors_then = _count_errors(reference)
        n_now, errors_now = _count_errors(fresh)
        answers = np.ones(n_now.size)
        tested = (n_then > 0) & (n_now > 0) & (errors_now > 0)
        if tested.any():
            # Here and not above: scipy.stats takes most of a second to import.
            from scipy.stats import hypergeom

            total, wrong = n_then + n_now, errors_then + errors_now
            answers[tested] = hypergeom.sf(errors_now[tested] - 1, total[tested], wrong[tested], n_now[tested])
        return answers


def _count_errors(batch: Batch) -> tuple[Counts, Counts]:
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
    """

    def p_values(self, reference: Batch, fresh: Batch) -> Vector:
        """Return how probable so different predictions are, shape ``(n_clients,)``; unknown ones are left out."""
        no_strata = [np.zeros(batch.predicted.size, dtype=np.int64) for batch in (reference, fresh)]
        return gamma_p_values(_sum_strata(reference, fresh, strata=no_strata))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfusionTest:
    """Drift is another mix of predicted labels given the true one: of looks or of meanings, not of the label mix.

    Each label that both samples have gives a Pearson statistic with its exact moments; these are summed over labels,
    as are the means and variances, and the sum is compared with one gamma distribution.
    """

    def p_values(self, reference: Batch, fresh: Batch) -> Vector:
        """Return how probable so different confusions are, shape ``(n_clients,)``; unlabelled samples are left out."""
        return gamma_p_values(_sum_strata(reference, fresh, strata=[reference.labels, fresh.labels]))


def _sum_strata(reference: Batch, fresh: Batch, *, strata: list[Counts]) -> Pearson:
    """Return the statistic of predicted labels and its moments, summed over the strata of each client."""
    parts = list(rows_of_counts(reference, fresh, strata=strata))
    owner = np.concatenate([np.zeros(0, dtype=np.int64), *(owners for owners, _ in parts)])
    tables = [table for _, table in parts]

    def total(columns: list[Vector]) -> Vector:
        stacked = np.concatenate([np.zeros(0), *columns])
        return np.bincount(owner, weights=stacked, minlength=fresh.sizes.size).astype(np.float64)

    return Pearson(
        statistic=total([table.statistic for table in tables]),
        mean=total([table.mean for table in tables]),
        variance=total([table.variance for table in tables]),
    )


def rows_of_counts(reference: Batch, fresh: Batch, *, strata: list[Counts]) -> Iterator[tuple[Counts, Pearson]]:
    """Yield, for a bounded number of strata at a time, whose they are and Pearson's statistic of predicted labels.

    ``strata``: of each reference and of each fresh sample, below ``n_classes``; -1 for samples to leave out.
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
        wanted, tables = common[part], []
        for rows, predicted in cells:
            at = np.searchsorted(wanted, rows)
            inside = (at < wanted.size) & (wanted[np.minimum(at, wanted.size - 1)] == rows)
            counted = np.bincount(at[inside] * n_classes + predicted[inside], minlength=wanted.size * n_classes)
            tables.append(counted.reshape(wanted.size, n_classes))
        yield wanted // n_classes, pearson_or_zero(tables[1], tables[0])
