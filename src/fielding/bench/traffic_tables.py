"""The costs of contenders on Flower's nodes as tables for people."""

from collections.abc import Mapping, Sequence
from typing import Any

from fielding.reporting.formatting import digits

COST_HEADS = (
    "contender",
    "numbers",
    "exchanges at the start",
    "exchanges to train",
    "exchanges to test",
    "messages to train",
    "messages to describe",
    "bytes to nodes",
    "bytes from nodes",
    "own bytes to nodes",
    "own bytes from nodes",
    "own bytes without tests",
    "seconds a round",
    "slowest / fastest",
)
RATIO_HEADS = (
    "held against",
    "numbers",
    "more exchanges at the start",
    "more exchanges a round",
    "bytes",
    "own bytes",
    "own bytes without tests",
    "seconds a round",
    "no exchange and < 1 % of bytes more",
)


def cost_rows(costs: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return a table of costs, heads first.

    Parameters
    ----------
    costs
        Records of :class:`~fielding.bench.traffic.Cost`.
    """
    rows = [list(COST_HEADS)]
    for cost in costs:
        counts = [cost[name] for name in ("n_before", "n_training", "n_tests", "n_trained", "n_described")]
        sizes = [cost[name] for name in ("flower_down", "flower_up", "own_down", "own_up")]
        untested = cost["untested_down"] + cost["untested_up"]
        rows.append(
            [
                str(cost["contender"]),
                digits(cost["n_numbers"], 0),
                *[digits(one, 0) for one in (*counts, *sizes, untested)],
                digits(cost["round_s"], 2),
                digits(cost["spread"], 2),
            ]
        )
    return rows


def ratio_rows(ratios: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return a table of ratios, heads first.

    Parameters
    ----------
    ratios
        Records of :class:`~fielding.bench.traffic.Ratio`.
    """
    rows = [list(RATIO_HEADS)]
    for ratio in ratios:
        shares = [ratio[name] for name in ("flower_bytes", "own_bytes", "untested_bytes")]
        rows.append(
            [
                f"{ratio['contender']} / {ratio['against']}",
                digits(ratio["n_numbers"], 0),
                digits(ratio["more_before"], 0),
                digits(ratio["more_exchanges"], 2),
                *[digits(one, 4) for one in shares],
                digits(ratio["round_s"], 2),
                "yes" if ratio["holds"] else "no",
            ]
        )
    return rows
