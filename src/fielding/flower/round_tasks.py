"""Who is sent what in an exchange: jobs of a plan, questions to all others, and tests."""

import numpy as np

from fielding._typing import Counts, Models
from fielding.federation.clients import TrainingPlan
from fielding.flower.contacts import Contacts
from fielding.flower.order_book import OrderBook
from fielding.flower.orders import NO_REPORT
from fielding.flower.tasks import Task


def job_tasks(plan: TrainingPlan, contacts: Contacts, orders: OrderBook, *, round_index: int) -> dict[int, Task]:
    """Return the task of each job of a plan whose client can be reached."""
    found: dict[int, Task] = {}
    for job, client in enumerate(plan.clients.tolist()):
        address = contacts.address(client)
        if address is not None:
            order = orders.train(
                plan,
                job,
                client=contacts.client_ids[client],
                round_index=round_index,
                confirmed=int(contacts.inbox.confirmed[client]),
            )
            found[job] = Task(address=address, order=order, group=int(plan.groups[job]))
    return found


def question_tasks(plan: TrainingPlan, contacts: Contacts, orders: OrderBook, *, round_index: int) -> list[Task]:
    """Return what those are asked who do not train: what is new, if somebody wants to know."""
    others, inbox, hears = contacts.free(), contacts.inbox, contacts.hears
    others[plan.clients] = False
    if hears == "nobody":
        others &= inbox.n_samples == 0  # else they would never train again
    elif hears in ("first", "participants"):
        others &= (inbox.n_samples == 0) | (inbox.confirmed == NO_REPORT)
    return [
        Task(address=address, order=orders.describe(round_index, confirmed=int(inbox.confirmed[client])))
        for client in np.flatnonzero(others).tolist()
        if (address := contacts.address(client)) is not None
    ]


def evaluation_tasks(
    models: Models, row: Counts, contacts: Contacts, orders: OrderBook, *, round_index: int
) -> dict[int, Task]:
    """Return the test of every client that can be reached, by client; ``row``: which of the models serves each."""
    found: dict[int, Task] = {}
    for client in np.flatnonzero(contacts.free()).tolist():
        address = contacts.address(client)
        if address is not None:
            order = orders.evaluate(
                models[int(row[client])], client=contacts.client_ids[client], round_index=round_index
            )
            found[client] = Task(address=address, order=order)
    return found
