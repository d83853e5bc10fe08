"""A recorded stream of client reports: what `replay` feeds to a coordinator, step by step."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fielding._typing import ClientId, Counts, Floats
from fielding.client.report import ReportBatch
from fielding.distance import Kind
from fielding.errors import InputError
from fielding.traces.csv_table import sort_ids
from fielding.traces.npz_file import Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReportStream:
    """Reports of many clients over many steps; iterating gives ``(step, batch)`` in rising order of steps.

    Parameters
    ----------
    client
        Who reports, as a position in ``client_ids``, shape ``(n_rows,)``.
    step
        When, shape ``(n_rows,)``; the first step is START, and rows of one step need not stand together.
    representations
        What, shape ``(n_rows, n_features)``; a row of zeros says that the client went silent.

    Examples
    --------
    >>> stream = ReportStream(kind="histogram", client_ids=("a", "b"), client=np.array([0, 1, 0]),
    ...                       step=np.array([0, 0, 5]), representations=np.eye(3, 2))
    >>> [(step, batch.client_ids) for step, batch in stream]
    [(0, ['a', 'b']), (5, ['a'])]
    """

    kind: Kind
    client_ids: tuple[ClientId, ...]
    client: Array
    step: Counts
    representations: Floats
    features: tuple[str, ...] = ()

    @property
    def n_rows(self) -> int:
        """How many reports there are."""
        return int(self.step.shape[0])

    def steps(self) -> Counts:
        """Return the distinct steps, rising."""
        return np.unique(self.step)

    def __len__(self) -> int:
        return int(self.steps().size)

    def __iter__(self) -> Iterator[tuple[int, ReportBatch]]:
        # Rows that are in order already are handed on as views: a million reports are not copied.
        in_order = bool((self.step[1:] >= self.step[:-1]).all())
        order = None if in_order else np.argsort(self.step, kind="stable")
        sorted_steps = self.step if order is None else self.step[order]
        starts = np.flatnonzero(np.diff(sorted_steps, prepend=sorted_steps[:1] - 1))
        for start, stop in pairwise([*starts.tolist(), self.n_rows]):
            rows = slice(start, stop) if order is None else order[start:stop]
            batch = ReportBatch(
                client_ids=[self.client_ids[code] for code in self.client[rows].tolist()],
                representations=self.representations[rows],
            )
            yield int(sorted_steps[start]), batch


def gather_reports(
    reports: Iterable[tuple[int, ReportBatch]], *, kind: Kind, features: tuple[str, ...] = ()
) -> ReportStream:
    """Return reports that come one step after the other as one stream in memory, or raise if there is none.

    Those of a shorter class list are padded with zeros.
    """
    steps: list[Counts] = []
    ids: list[ClientId] = []
    rows: list[Floats] = []
    for step, batch in reports:
        steps.append(np.full(len(batch.client_ids), step, dtype=np.int64))
        ids.extend(batch.client_ids)
        rows.append(batch.representations)
    if not ids:
        raise InputError("there is no report at all; at least one client must have data")
    width = max(one.shape[1] for one in rows)
    for at, one in enumerate(rows):
        if one.shape[1] < width:
            rows[at] = np.concatenate([one, np.zeros((one.shape[0], width - one.shape[1]), dtype=one.dtype)], axis=1)
    distinct = list(dict.fromkeys(ids))
    place = {client_id: at for at, client_id in enumerate(distinct)}
    codes = np.fromiter((place[client_id] for client_id in ids), dtype=np.int32, count=len(ids))
    client_ids, client = sort_ids(distinct, codes)
    return ReportStream(
        kind=kind,
        client_ids=tuple(client_ids),
        client=client,
        step=np.concatenate(steps),
        representations=np.concatenate(rows).astype(np.float32, copy=False),
        features=features,
    )
