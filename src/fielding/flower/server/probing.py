"""Questions to clients beside training, in one exchange: who can be reached answers, and pays for it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from fielding._typing import Counts, Matrix, Models
from fielding.flower.server.contacts import Contacts
from fielding.flower.server.exchange import Task
from fielding.flower.server.order_book import OrderBook
from fielding.flower.wire.orders import Block, ProbeReply, Wanted


def _no_models() -> Models:
    return np.empty((0, 0), dtype=np.float32)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Question:
    """How models do on the samples of some clients, or how many of these there are.

    Parameters
    ----------
    wanted
        What is asked.
    clients
        Who is asked, shape ``(n_asked,)``; a client may be asked several times, and gets one order all the same.
    blocks
        Per question, the intervals whose samples count; None for the window.
    models
        What it is about, float32, shape ``(n_models, n_numbers)``.
    corrected, aside
        As of ``ProbeOrder``.
    """

    wanted: Wanted
    clients: Counts
    blocks: Sequence[Counts] | None
    models: Models = field(default_factory=_no_models)
    corrected: bool = False
    aside: bool = False

    def block(self, at: int) -> Block:
        """Return the intervals of a question."""
        return None if self.blocks is None else tuple(self.blocks[at].tolist())

    def of_client(self) -> dict[int, list[int]]:
        """Return the questions to each client."""
        found: dict[int, list[int]] = {}
        for at, client in enumerate(self.clients.tolist()):
            found.setdefault(client, []).append(at)
        return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answers:
    """What clients said.

    Parameters
    ----------
    sizes
        How many samples each question is about, shape ``(n_asked,)``; 0 where there was no answer.
    values
        Losses or shares, shape ``(n_asked, n_models)``; NaN where there was no answer, or there are no such samples.
    """

    sizes: Counts
    values: Matrix


def asked(question: Question, contacts: Contacts, orders: OrderBook, *, round_index: int) -> Answers:
    """Send a question to all whom it is for, and return the answers; equal models travel once.

    Parameters
    ----------
    question
        What is asked.
    contacts
        Where clients are; they are charged.
    orders
        How orders are worded.
    round_index
        The round.
    """
    distinct, place = distinct_rows(question.models)
    models = question.models[distinct]  # one piece of memory, so that it is written once
    sizes = np.zeros(question.clients.size, dtype=np.int64)
    values = np.full((question.clients.size, question.models.shape[0]), np.nan)
    whose, tasks = [], []
    for client, own in question.of_client().items():
        address = contacts.address(client)
        if address is not None:
            order = orders.probe(
                question.wanted,
                models,
                blocks=tuple(question.block(at) for at in own),
                client=contacts.client_ids[client],
                round_index=round_index,
                confirmed=int(contacts.inbox.confirmed[client]),
                corrected=question.corrected,
                aside=question.aside,
            )
            whose.append(own)
            tasks.append(Task(address=address, order=order))
    for own, task, one in zip(whose, tasks, contacts.send(tasks).settled, strict=True):
        contacts.take_in(task, one)
        if one.reason is None and isinstance(one.answer, ProbeReply):
            sizes[own] = one.answer.sizes
            if question.models.size:
                has_samples = one.answer.sizes[:, np.newaxis] > 0
                values[own] = np.where(has_samples, one.answer.values[:, place], np.nan)
    contacts.take_late()
    return Answers(sizes=sizes, values=values)


def distinct_rows(models: Models) -> tuple[Counts, Counts]:
    """Return the first row of each kind of equal models, and for every model its place among these.

    Examples
    --------
    >>> first, place = distinct_rows(np.array([[1, 2], [3, 4], [1, 2]], dtype=np.float32))
    >>> first.tolist(), place.tolist()
    ([0, 1], [0, 1, 0])
    """
    seen: dict[bytes, int] = {}
    place = [seen.setdefault(model.tobytes(), len(seen)) for model in models]
    _, first = np.unique(np.array(place, dtype=np.int64), return_index=True)
    return first.astype(np.int64), np.array(place, dtype=np.int64)
