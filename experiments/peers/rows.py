"""What is compared: methods with their variants, the knobs that are tuned for each, and what they combine with."""

from dataclasses import dataclass, field

from experiments.peers.grounds import Ground, Table, merged
from fielding._typing import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of a result table.

    Parameters
    ----------
    settings
        What differs from all others: sections of a config.
    knobs
        Settings to choose among on the validation trace, the default first; at most ``BUDGET`` of them.
    like
        The row whose choice counts here, too; variants of a method are not tuned apart.
    needs_truth
        Whether it can only be run where true concepts are known.
    in_large
        What else differs where federations are too large to have everybody in every round.
    """

    settings: Table
    knobs: tuple[Table, ...] = ()
    like: str | None = None
    needs_truth: bool = False
    in_large: Table = field(default_factory=dict)


BUDGET = 4
"""Runs on the validation trace that every method gets."""


def _method(name: str, **options: Json) -> Table:
    return {"method": {"name": name, **options}}


def _choices(section: str, key: str, values: tuple[Json, ...]) -> tuple[Table, ...]:
    return tuple({section: {key: value}} for value in values)


_TAU = _choices("coordinator", "tau", (1 / 3, 1 / 6, 1 / 2, 1.0))
_K_MAX = _choices("coordinator", "k_max", (10, 2, 3, 4))
_DELTA = _choices("method", "delta", (0.1, 0.05, 0.2, 0.4))
_SAMPLED: Table = {"method": {"participation": "sampled"}}

ROWS: dict[str, Row] = {
    "global": Row(settings=_method("global")),
    "local": Row(settings=_method("local")),
    "static": Row(settings=_method("static"), knobs=_K_MAX),
    "moves": Row(settings=_method("moves"), knobs=_K_MAX),
    "always": Row(settings=_method("always"), knobs=_K_MAX),
    "selected": Row(settings=_method("selected"), like="fielding, tau tuned"),
    "fielding": Row(settings=_method("fielding")),
    "fielding, tau tuned": Row(settings=_method("fielding"), knobs=_TAU),
    "fielding+": Row(
        settings={**_method("fielding"), "coordinator": {"metric": "hellinger", "detector": "chi2"}},
        like="fielding, tau tuned",
    ),
    "oracle": Row(settings=_method("oracle"), needs_truth=True),
    "ifca": Row(settings=_method("ifca"), knobs=_choices("method", "k", (4, 2, 3, 6))),
    "ifca, drifted re-assess": Row(settings=_method("ifca", reassess="drifted"), like="ifca"),
    "flexcfl": Row(settings=_method("flexcfl"), knobs=_choices("method", "k", (5, 2, 3, 8))),
    "flexcfl, original test": Row(settings=_method("flexcfl", detector="original"), like="flexcfl"),
    "auxo": Row(settings=_method("auxo"), knobs=_choices("method", "epsilon", (0.01, 0.05, 0.1, 0.2))),
    "auxo, forced splits": Row(settings=_method("auxo", split="forced"), like="auxo"),
    "auxo, original rule": Row(settings=_method("auxo", split="original"), like="auxo"),
    "feddrift": Row(settings=_method("feddrift"), knobs=_DELTA, in_large=_SAMPLED),
    "feddrift-eager": Row(settings=_method("feddrift-eager"), knobs=_DELTA, in_large=_SAMPLED),
    "fedac (reconstructed)": Row(settings=_method("fedac"), knobs=_choices("method", "clusters", (4, 2, 3, 6))),
    "cfl": Row(
        settings=_method("cfl"),
        knobs=_choices("method", "start_after", (20, 5, 10, 40)),
        in_large=_SAMPLED,
    ),
    "flash (server half)": Row(settings=_method("flash"), knobs=_choices("method", "eta", (0.01, 0.003, 0.03, 0.1))),
}
"""The comparison of methods, by what a row is called."""

PARTNERS: dict[str, Table] = {
    "uniform, mean": {},
    "Oort": {"selection": {"name": "oort"}},
    "nearest": {"selection": {"name": "nearest"}},
    "PyramidFL": {"selection": {"name": "pyramidfl"}},
    "FedYogi": {"aggregation": {"name": "fedyogi"}},
    "q-FedAvg": {"aggregation": {"name": "q-fedavg"}},
    "median": {"aggregation": {"name": "median"}},
    "Adaptive-FedAvg": {"pace": {"name": "adaptive"}},
    "Master-FL": {"pace": {"name": "master-fl"}},
    "MOON": {"training": {"moon": 1.0}},
    "CDA-FedAvg": {"training": {"rehearsal": True}},
}
"""What methods combine with; authors' defaults, nothing tuned."""


def folder_name(row: str) -> str:
    """Return what a row is called on disk."""
    return "".join(letter if letter.isalnum() or letter == "+" else "-" for letter in row)


def rows_on(ground: Ground) -> dict[str, Row]:
    """Return the rows that can be run on a ground."""
    return {name: row for name, row in ROWS.items() if ground.has_truth or not row.needs_truth}


def settings_of(row: Row, ground: Ground) -> Table:
    """Return what a row differs by on a ground."""
    return row.settings if ground.is_small else merged(row.settings, row.in_large)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Knobs that were chosen for rows on a ground."""

    by_row: dict[str, Table] = field(default_factory=dict)

    def of(self, name: str) -> Table:
        """Return the choice of a row, or of the row that it goes with; nothing if it has no knobs."""
        return self.by_row.get(ROWS[name].like or name, {})
