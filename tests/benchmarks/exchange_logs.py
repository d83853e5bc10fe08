"""Logs of exchanges and costs made by hand, whose figures can be checked by hand."""

from typing import Any

from benchmarks.traffic import Cost


def push(at_s: float, size: int, **messages: int) -> dict[str, Any]:
    kinds = {kind: size * n for kind, n in messages.items()}
    return {"at_s": at_s, "what": "push", "messages": messages, "bytes": kinds}


def replies(kind: str, n: int, size: int) -> list[dict[str, Any]]:
    return [{"at_s": 0.0, "what": "reply", "kind": kind, "bytes": size, "is_good": True}] * n


END = {"at_s": 99.0, "what": "end"}
# Two nodes, four rounds: a start, a test after the first and the last round, one node that only describes in round 2.
LOG = [
    push(0.0, 10, query=2),
    *replies("query", 2, 5),
    push(3.0, 100, train=2),
    *replies("train", 2, 90),
    push(9.0, 80, evaluate=2),
    *replies("evaluate", 2, 7),
    push(12.0, 100, train=2),
    *replies("train", 2, 90),
    push(14.0, 100, train=1, query=1),
    *replies("train", 1, 90),
    *replies("query", 1, 5),
    push(17.5, 100, train=2),
    *replies("train", 2, 90),
    push(30.0, 80, evaluate=2),
    *replies("evaluate", 2, 7),
    END,
]


def cost(name: str, **changes: Any) -> Cost:
    numbers = {"n_before": 0, "n_training": 6, "n_tests": 3, "n_trained": 24, "n_described": 0}
    sizes = {"flower_down": 600.0, "flower_up": 400.0, "own_down": 500.0, "own_up": 300.0}
    parts = {"untested_down": 250.0, "untested_up": 150.0, "round_s": 5.0, "spread": 1.5}
    return Cost(**{"contender": name, "n_numbers": 4810, **numbers, **sizes, **parts, **changes})
