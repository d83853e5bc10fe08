"""Orders and replies as Flower's records, both ways: what is written where.

=============  =============================================================================================
an order       ``config`` (ConfigRecord), and ``arrays`` (ArrayRecord) with the models that it is about: ``model``,
               and behind it ``model-1``, ``model-2`` if there are several; ``anchor`` to be pulled toward
a train reply  ``arrays`` with ``model``, or ``part`` if only some numbers were wanted; ``metrics`` (MetricRecord), and
               ``report`` (ConfigRecord) if there is one
a description  ``about`` (ConfigRecord), and ``report`` if there is one
a test         ``metrics`` (MetricRecord)
a probe        ``answers`` (ConfigRecord)
=============  =============================================================================================

A model is one flat vector in NumPy's file format, so that Flower's own mods can work on it; a representation is a few
bytes in the report, since every further array costs a call. A server reads replies of clients that it cannot trust:
whatever is not as it should be becomes a :class:`~fielding.flower.wire.replies.Refusal`.
"""

from fielding.flower.wire.order_messages import PROTOCOL, order_from, order_records
from fielding.flower.wire.orders import Verb
from fielding.flower.wire.reply_messages import reply_from, reply_records

__all__ = ["MESSAGE_TYPES", "PROTOCOL", "order_from", "order_records", "reply_from", "reply_records"]

MESSAGE_TYPES: dict[Verb, str] = {
    "train": "train",
    "describe": "query.describe",
    "evaluate": "evaluate",
    "probe": "query.probe",
}
"""What Flower calls each verb."""
