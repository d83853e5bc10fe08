"""What is compared: methods with their variants, the knobs that are tuned for each, and what they combine with."""

from dataclasses import dataclass, field

from experiments.peers.benchmarks import Benchmark
from fielding._typing import Json

Settings = dict[str, Json]
"""Values by dotted config key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """A key to choose a value for: a ladder of values, from low to high, and the one that the search starts from.

    Ladders are long on purpose: a best value at the end of what was tried is tried further.
    """

    key: str
    ladder: tuple[Json, ...]
    start: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of a result table.

    Parameters
    ----------
    settings
        What differs from all others.
    knobs
        What is chosen on the validation trace.
    like
        The row whose choice counts here, too: variants and ablations of a method are not tuned apart.
    runs_of
        The row whose runs these are, scored in another way; none of its own then.
    served
        Which models are scored: as they come (``""``), ``"corrected"`` to each client's label mix, or ``"tuned"`` by
        steps of its own.
    needs_truth
        Whether it can be run only where true concepts are known.
    in_large
        What differs, too, where not everybody can be asked.
    """

    settings: Settings = field(default_factory=dict)
    knobs: tuple[Knob, ...] = ()
    like: str | None = None
    runs_of: str | None = None
    served: str = ""
    needs_truth: bool = False
    in_large: Settings = field(default_factory=dict)


RATE = Knob(
    key="training.learning_rate",
    ladder=(0.0004, 0.0008, 0.0016, 0.003125, 0.00625, 0.0125, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2),
    start=0.05,
)
SERVER_RATE = Knob(
    key="aggregation.eta",
    ladder=(0.0039, 0.0078, 0.0156, 0.03125, 0.0625, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
    start=1.0,
)
BOTH_RATES = (RATE, SERVER_RATE)
"""What everybody's speed of learning is tuned by: of clients and of the server. They come first: at a rate at which a
model does not learn, other knobs mean nothing."""
_DELTA = Knob(key="method.delta", ladder=(0.0125, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8), start=0.1)
_STEP = Knob(key="method.step_rounds", ladder=(1, 10, 20, 40, 80), start=1)
_SAMPLED: Settings = {"method.participation": "sampled"}


def _clusters(key: str, start: int) -> Knob:
    return Knob(key=key, ladder=(1, 2, 3, 4, 5, 6, 8, 10, 14, 20), start=start)


ROWS: dict[str, Row] = {
    "global": Row(settings={"method.name": "global"}, knobs=BOTH_RATES),
    "global, corrected": Row(runs_of="global", served="corrected"),
    "global, fine-tuned": Row(
        settings={"method.name": "global", "serving.correction": "none"},
        knobs=(*BOTH_RATES, Knob(key="serving.fine_tune", ladder=(1, 2, 5, 10, 20, 40, 80, 160), start=10)),
        served="tuned",
    ),
    "FedAvgM": Row(settings={"method.name": "global", "aggregation.name": "fedavgm"}, knobs=BOTH_RATES),
    "flash (server half)": Row(
        settings={"method.name": "flash"},
        knobs=(
            RATE,
            Knob(
                key="method.eta", ladder=(0.00003, 0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0), start=0.01
            ),
        ),
    ),
    "flash, corrected": Row(runs_of="flash (server half)", served="corrected"),
    "local": Row(settings={"method.name": "local"}, knobs=(RATE,)),
    "local, equal compute": Row(settings={"method.name": "local", "method.budget": "participants"}, knobs=(RATE,)),
    "static": Row(settings={"method.name": "static"}, knobs=BOTH_RATES),
    "moves": Row(settings={"method.name": "moves"}, like="fielding"),
    "always": Row(settings={"method.name": "always"}, like="fielding"),
    "selected": Row(settings={"method.name": "selected"}, like="fielding"),
    "fielding": Row(settings={"method.name": "fielding"}, knobs=BOTH_RATES),
    "fielding, corrected": Row(runs_of="fielding", served="corrected"),
    "fielding, tau tuned": Row(
        settings={"method.name": "fielding"},
        knobs=(
            *BOTH_RATES,
            Knob(key="coordinator.tau", ladder=(1 / 24, 1 / 12, 1 / 6, 1 / 3, 1 / 2, 1.0, 2.0, 4.0), start=1 / 3),
        ),
    ),
    "fielding+": Row(
        settings={"method.name": "fielding", "coordinator.metric": "hellinger", "coordinator.detector": None},
        like="fielding",
    ),
    "fielding+, corrected": Row(runs_of="fielding+", served="corrected"),
    "fielding with Flash": Row(
        settings={"method.name": "fielding", "aggregation.name": "flash"},
        knobs=(
            RATE,
            Knob(
                key="aggregation.eta",
                ladder=(0.00003, 0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0),
                start=0.01,
            ),
        ),
    ),
    "oracle": Row(settings={"method.name": "oracle"}, knobs=BOTH_RATES, needs_truth=True),
    "ifca": Row(settings={"method.name": "ifca"}, knobs=(*BOTH_RATES, _clusters("method.k", 4))),
    "ifca, participants choose": Row(settings={"method.name": "ifca", "method.reassess": "participants"}, like="ifca"),
    "flexcfl": Row(settings={"method.name": "flexcfl"}, knobs=(*BOTH_RATES, _clusters("method.k", 5))),
    "flexcfl, original test": Row(settings={"method.name": "flexcfl", "method.detector": "original"}, like="flexcfl"),
    "auxo": Row(
        settings={"method.name": "auxo"},
        knobs=(
            *BOTH_RATES,
            Knob(key="method.epsilon", ladder=(0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0), start=0.01),
        ),
    ),
    "auxo, forced splits": Row(settings={"method.name": "auxo", "method.split": "forced"}, like="auxo"),
    "feddrift": Row(settings={"method.name": "feddrift"}, knobs=(*BOTH_RATES, _DELTA, _STEP), in_large=_SAMPLED),
    "feddrift-eager": Row(
        settings={"method.name": "feddrift-eager"}, knobs=(*BOTH_RATES, _DELTA, _STEP), in_large=_SAMPLED
    ),
    "fedac (reconstructed)": Row(
        settings={"method.name": "fedac"}, knobs=(*BOTH_RATES, _clusters("method.clusters", 4))
    ),
    "cfl": Row(
        settings={"method.name": "cfl"},
        knobs=(
            *BOTH_RATES,
            Knob(key="method.eps1_share", ladder=(0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0), start=0.3),
            Knob(key="method.eps2_share", ladder=(0.1, 0.2, 0.4, 0.6, 0.8, 1.0), start=0.6),
        ),
        in_large=_SAMPLED,
    ),
}
"""The comparison of methods, by what a row is called."""

PARTNERS: dict[str, Settings] = {
    "uniform, mean": {},
    "Oort": {"selection.name": "oort"},
    "nearest": {"selection.name": "nearest"},
    "PyramidFL": {"selection.name": "pyramidfl"},
    "FedYogi": {"aggregation.name": "fedyogi", "aggregation.eta": None},
    "q-FedAvg": {"aggregation.name": "q-fedavg", "aggregation.eta": None},
    "median": {"aggregation.name": "median", "aggregation.eta": None},
    "Adaptive-FedAvg": {"pace.name": "adaptive"},
    "Master-FL": {"pace.name": "master-fl"},
    "MOON": {"training.moon": 1.0},
    "CDA-FedAvg": {"training.rehearsal": True},
}
"""What methods combine with; authors' defaults, nothing tuned."""


def rows_on(benchmark: Benchmark) -> dict[str, Row]:
    """Return the rows that can be run on a benchmark."""
    return {name: row for name, row in ROWS.items() if benchmark.has_truth or not row.needs_truth}


def settings_of(row: Row, benchmark: Benchmark) -> Settings:
    """Return what a row differs by on a benchmark."""
    return row.settings if benchmark.is_small else {**row.settings, **row.in_large}
