"""What Oort writes down of clients after a round: utility, time, and that they were tried."""

import numpy as np

from fielding._typing import Counts, Vector
from fielding.federation.selection.feedback import Feedback
from fielding.federation.selection.memory import Memory
from fielding.federation.selection.scoring import utilities


def learn_clients(feedback: Feedback, memory: Memory) -> Vector:
    """Write down a round of training, and return how useful exploited clients were.

    Exploited is who answered and had been tried in an earlier round.

    Returns
    -------
    The mean utility of the exploited, one for each of ``feedback.trained_clusters``; 0 where there were none.
    """
    worth = utilities(feedback.n_samples, feedback.square_loss, feedback.n_train_samples)
    was_tried = memory.clients["times"][feedback.clients] > 0
    exploited = _means_by_cluster(feedback.clusters[was_tried], worth[was_tried], feedback.trained_clusters)
    _learn_answers(feedback, worth, memory)
    _learn_stragglers(feedback, worth, memory)
    _learn_failures(feedback, memory)
    return np.nan_to_num(exploited)


def _means_by_cluster(clusters: Counts, values: Vector, rows: Counts) -> Vector:
    """Return the mean of the values of each row, NaN where there are none."""
    at = np.searchsorted(rows, clusters)
    heads = np.bincount(at, minlength=rows.size)
    sums = np.bincount(at, weights=values, minlength=rows.size)
    return np.asarray(np.divide(sums, heads, out=np.full(rows.size, np.nan), where=heads > 0))


def _learn_answers(feedback: Feedback, worth: Vector, memory: Memory) -> None:
    """Write down who answered; of a client with several answers the mean utility and the longest time."""
    clients, at = np.unique(feedback.clients, return_inverse=True)
    known = memory.clients
    known["utility"][clients] = np.bincount(at, weights=worth, minlength=clients.size) / np.bincount(at)
    known["n_samples"][feedback.clients] = feedback.n_samples
    _learn_participation(clients, feedback, memory)
    longest(known["seconds"], feedback.clients, feedback.seconds)


def _learn_stragglers(feedback: Feedback, worth: Vector, memory: Memory) -> None:
    """Write down who was too slow: tried, and worth what is usual in its cluster; else in all; else what it was."""
    is_late = ~np.isin(feedback.stragglers, feedback.clients)
    late, rows = feedback.stragglers[is_late], feedback.trained_clusters
    stragglers, first = np.unique(late, return_index=True)
    by_cluster = _means_by_cluster(feedback.clusters, worth, rows)
    usual = by_cluster[np.searchsorted(rows, feedback.straggler_clusters[is_late][first])]
    if worth.size:
        usual = np.where(np.isnan(usual), worth.mean(), usual)
    utility = memory.clients["utility"]
    utility[stragglers] = np.where(np.isnan(usual), utility[stragglers], usual)
    _learn_participation(stragglers, feedback, memory)
    longest(memory.clients["seconds"], late, feedback.straggler_seconds[is_late])


def _learn_failures(feedback: Feedback, memory: Memory) -> None:
    """Write down who sent no model: tried, and worth nothing; else it would be explored for ever."""
    failed = np.setdiff1d(feedback.failed, np.concatenate([feedback.clients, feedback.stragglers]))
    memory.clients["utility"][failed] = 0.0
    _learn_participation(failed, feedback, memory)


def _learn_participation(clients: Counts, feedback: Feedback, memory: Memory) -> None:
    memory.clients["last_round"][clients] = feedback.round_index + 1
    memory.clients["times"][clients] += 1


def longest(column: Vector, clients: Counts, seconds: Vector) -> None:
    """Write the longest of each client's new times into a column; other clients keep theirs."""
    column[clients] = -np.inf
    np.maximum.at(column, clients, seconds)
