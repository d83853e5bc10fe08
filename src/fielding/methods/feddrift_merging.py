"""Merging: models that do as well on each other's data as on their own are one concept, and become one model."""

from dataclasses import dataclass

import numpy as np

from fielding._typing import Counts, Mask, Matrix
from fielding.coordinator.clustering.labels import in_order_of_appearance
from fielding.federation.clients import Clients
from fielding.methods.feddrift_state import DriftState

MOST_PROBED = 5
"""Clients that are asked about the data of a model, where not everybody takes part."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Merging:
    """How models merge in one round.

    Parameters
    ----------
    threshold
        Largest distance of models that become one.
    is_sampled
        Whether only a few holders of each model's data are asked.
    held
        Who was sent all models in this round and has them still, shape ``(n_clients,)``.
    """

    threshold: float
    is_sampled: bool
    held: Mask


def merge_models(state: DriftState, clients: Clients, merging: Merging) -> int:
    """Merge models that agree, and return how many models are new averages.

    Parameters
    ----------
    state
        Models, owners and members; changed.
    clients
        Whoever holds data of a model measures all others on them.
    merging
        How.
    """
    named, askable = state.named, clients.askable()
    rows = np.flatnonzero(named.released <= state.blocks.newest)
    owning = [askable & state.blocks.owning(model) for model in named.ids[rows].tolist()]
    holders = [_some(one, clients) if merging.is_sampled else np.flatnonzero(one) for one in owning]
    cluster = np.repeat(np.arange(rows.size), [one.size for one in holders])
    if np.unique(cluster).size < 2:
        return 0
    who = np.concatenate(holders)
    models = named.ids[rows[cluster]].tolist()
    asked = [state.blocks.of(client, model) for client, model in zip(who.tolist(), models, strict=True)]
    sizes = clients.block_sizes(who, asked)
    accuracies = clients.accuracies(who, named.cluster_models.models[rows], blocks=asked, held=merging.held[who])
    pooled = pooled_accuracies(accuracies, cluster, sizes)
    known = np.flatnonzero(~np.isnan(np.diag(pooled)))
    joined = linked(concept_distances(pooled[np.ix_(known, known)]), merging.threshold)
    leader = np.arange(named.n_models)
    for group in np.unique(joined).tolist():
        own = rows[known[joined == group]]
        leader[own] = own.min()
    return state.unite(leader)


def _some(is_holder: Mask, clients: Clients) -> Counts:
    """Return a few clients, drawn at random."""
    holders = np.flatnonzero(is_holder)
    order = np.argsort(clients.draws("merge", holders), kind="stable")
    return np.sort(holders[order[:MOST_PROBED]])


def pooled_accuracies(accuracies: Matrix, cluster: Counts, n_samples: Counts) -> Matrix:
    """Return the accuracy of each model on the pooled data of each cluster.

    Parameters
    ----------
    accuracies
        Of each model on each answer's blocks, shape ``(n_answers, n_models)``; NaN where there was no answer.
    cluster
        Whose blocks each answer is about, a model's row, shape ``(n_answers,)``.
    n_samples
        How many samples it is about, its weight, same shape; one about none is no answer.

    Returns
    -------
    Shape ``(n_models, n_models)``, the model by the cluster; NaN in the column of a cluster without answers.

    Examples
    --------
    >>> accuracies = np.array([[1.0, 0.5], [0.4, 0.5], [np.nan, np.nan]])
    >>> pooled_accuracies(accuracies, np.array([0, 0, 1]), np.array([2, 1, 1]))
    array([[0.8, nan],
           [0.5, nan]])
    """
    n_models = accuracies.shape[1]
    pooled = np.full((n_models, n_models), np.nan)
    answered = ~np.isnan(accuracies).any(axis=1) & (n_samples > 0)
    for row in np.unique(cluster[answered]).tolist():
        own = answered & (cluster == row)
        pooled[:, row] = np.average(accuracies[own], axis=0, weights=n_samples[own])
    return pooled


def concept_distances(pooled: Matrix) -> Matrix:
    """Return how far models are from being one concept: the larger loss of accuracy of either on the other's data.

    Parameters
    ----------
    pooled
        As :func:`pooled_accuracies` gives it, without NaN.

    Examples
    --------
    >>> concept_distances(np.array([[0.9, 0.5], [0.8, 0.7]])).round(6).tolist()
    [[0.0, 0.4], [0.4, 0.0]]
    """
    lost = np.diag(pooled)[:, np.newaxis] - pooled
    return np.maximum(np.maximum(lost, lost.T), 0.0)


def linked(distances: Matrix, threshold: float) -> Counts:
    """Return the group of each model under complete linkage, numbered in the order of first members.

    Two groups become one as long as no two of their members are farther apart than the threshold.

    Parameters
    ----------
    distances
        Symmetric, zero on the diagonal, shape ``(n_models, n_models)``.
    threshold
        Largest distance within a group; 1e-9 more is not more.

    Examples
    --------
    >>> apart = np.array([[0.0, 0.05, 0.3], [0.05, 0.0, 0.2], [0.3, 0.2, 0.0]])
    >>> linked(apart, 0.1).tolist(), linked(apart, 0.25).tolist(), linked(apart, 0.3).tolist()
    ([0, 0, 1], [0, 0, 1], [0, 0, 0])
    """
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    if distances.shape[0] < 2:
        return np.zeros(distances.shape[0], dtype=np.int64)
    tree = linkage(squareform(distances, checks=False), method="complete")
    labels = fcluster(tree, t=threshold + 1e-9, criterion="distance")
    return in_order_of_appearance(labels).astype(np.int64)
