"""Accuracy over simulated time: every client counts with the last evaluation that its own cluster was done with."""

import numpy as np

from fielding._typing import Vector
from fielding.federation.evaluation import TREATMENTS
from fielding.reporting.numbers.run_record import RunRecord, column

PER_CLIENT = {"accuracy": "", **{f"{how}_accuracy": how for how in TREATMENTS}}
"""Figures of ``rounds.jsonl`` that are means over clients, and what :meth:`ClientTests.accuracy` calls them."""


def progress(run: RunRecord, name: str = "accuracy") -> tuple[Vector, Vector]:
    """Return a figure of ``rounds.jsonl`` over simulated seconds: moments, rising, and values that hold until the next.

    While clusters go on by themselves (``clock.barrier = "event"``), the accuracy of a moment is the mean over clients,
    each with the last evaluation that its cluster had finished by then; it begins when all clusters have finished the
    first. Other figures count when all clusters have finished the evaluation, and so does a client that is not tested
    any more. Where clusters wait for each other, there is nothing between the evaluations.
    """
    time_s, values = column(run.rounds, "time_s"), column(run.rounds, name)
    known = np.flatnonzero(np.isfinite(time_s) & np.isfinite(values))
    known = known[np.argsort(time_s[known], kind="stable")]
    ends, values = time_s[known], values[known]
    if name not in PER_CLIENT or not any("first_time_s" in row for row in run.rounds):
        return ends, values
    tests = {one.round_index: one for one in run.tests()}
    found = [tests.get(int(str(run.rounds[at]["round"]))) for at in known.tolist()]
    how = PER_CLIENT[name]
    clients = dict.fromkeys(client for one in found if one for client in one.client_ids)
    if not clients or any(one is None or (how and how not in one.otherwise) for one in found):
        return ends, values  # of damaged logs
    position = {client: at for at, client in enumerate(clients)}

    # By evaluation and client: its accuracy, NaN if it was not tested, and when its cluster had finished.
    accuracy = np.full((ends.size, len(position)), np.nan)
    done_s = np.repeat(ends[:, np.newaxis], len(position), axis=1)
    for at, one in enumerate(found):
        if one is not None:
            own = [position[client] for client in one.client_ids]
            accuracy[at, own] = one.accuracy(how)
            if one.done_s is not None and at:
                done_s[at, own] = np.clip(np.nan_to_num(one.done_s, nan=ends[at]), ends[0], ends[at])

    done_s = np.maximum.accumulate(done_s, axis=0)  # a client that moved never counts with an older one

    # Each finished evaluation of a client changes the sum over clients, and perhaps how many there are.
    is_tested = np.isfinite(accuracy)
    more = np.diff(np.where(is_tested, accuracy, 0.0), axis=0, prepend=0.0)
    more_clients = np.diff(is_tested.astype(np.int64), axis=0, prepend=0)
    order = np.argsort(done_s, axis=None, kind="stable")  # ties: by evaluation
    when = done_s.ravel()[order]
    is_last = np.append(np.diff(when) > 0.0, np.ones(min(1, when.size), dtype=np.bool_))
    counts = np.cumsum(more_clients.ravel()[order])[is_last]
    sums, moments = np.cumsum(more.ravel()[order])[is_last], when[is_last]
    curve = np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)

    # Where all clients are at the same evaluation, its own figure counts, to the last digit.
    reached, following = done_s.max(axis=1), np.append(done_s[1:].min(axis=1), np.inf)
    together = following > reached
    curve[np.searchsorted(moments, reached[together])] = values[together]
    is_known = np.isfinite(curve)
    return moments[is_known], curve[is_known]
