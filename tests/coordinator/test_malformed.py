"""A hundred thousand malformed reports: each is refused with a reason, none changes anything."""

import copy
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from fielding.client.report import ClientReport, ReportBatch
from fielding.coordinator import Coordinator, Policy
from fielding.coordinator.snapshot import Snapshot, snapshot
from fielding.errors import ReportError

N_REPORTS = 100_000
N_CHUNKS = 4
WIDTH = 6


class Deceiver:
    """Claims to be an array and is none."""

    def __array__(self, *_arguments: object, **_named: object) -> np.ndarray:
        raise ValueError("no array here")


def good_row(rng: np.random.Generator) -> np.ndarray:
    return rng.multinomial(20, np.full(WIDTH, 1.0 / WIDTH)) / 20.0


def poisoned(rng: np.random.Generator) -> np.ndarray:
    row = good_row(rng)
    row[rng.integers(WIDTH)] = rng.choice([np.nan, np.inf, -np.inf, 1e308, -1e308, -1e-3, -5.0, 2.0, 3.5e38])
    return row


def random_bytes(rng: np.random.Generator) -> np.ndarray:
    """Eight random bytes a number: any pattern of bits, subnormal and signalling ones included."""
    return np.frombuffer(rng.bytes(8 * WIDTH), dtype=np.float64)


def mutated(rng: np.random.Generator) -> np.ndarray:
    """A good row with one high bit flipped: the exponent or the sign of a share that is not nothing."""
    row = good_row(rng)
    bits = row.view(np.uint64)
    at = int(rng.choice(np.flatnonzero(row)))
    bits[at] ^= np.uint64(1) << np.uint64(rng.integers(54, 64))
    return row


Maker = Callable[[np.random.Generator], object]
BAD_ROWS: dict[str, Maker] = {
    "poisoned": poisoned,
    "random bytes": random_bytes,
    "mutated": mutated,
    "scaled": lambda rng: good_row(rng) * rng.choice([0.5, 0.99, 1.01, 20.0, 1e6, -1.0]),
    "wrong length": lambda rng: np.full(n := int(rng.choice([1, 2, 5, 7, 8, 100])), 1.0 / n),
    "empty": lambda _rng: np.zeros(0),
    "scalar": lambda rng: float(rng.random()),
    "matrix": lambda rng: np.tile(good_row(rng), (2, 1)),
    "deep": lambda rng: [[[good_row(rng).tolist()]]],
    "ragged": lambda _rng: [0.5, [0.25, 0.25]],
    "texts": lambda rng: [str(share) for share in good_row(rng)],
    "objects": lambda rng: np.array([*good_row(rng)[:-1], None], dtype=object),
    "complex": lambda rng: good_row(rng) + 0j,
    "truth values": lambda rng: good_row(rng) > 0.1,
    "dates": lambda _rng: np.zeros(WIDTH, dtype="datetime64[s]"),
    "nothing": lambda _rng: None,
    "a mapping": lambda _rng: {"a": 1.0},
    "bytes": lambda rng: rng.bytes(24),
    "a deceiver": lambda _rng: Deceiver(),
}
BAD_IDS: dict[str, Maker] = {
    "long": lambda rng: "x" * int(rng.integers(1025, 5000)),
    "empty": lambda _rng: "",
    "control": lambda rng: f"c{chr(int(rng.integers(0, 32)))}",
    "number": lambda rng: int(rng.integers(100)),
    "float": lambda rng: float(rng.random()),
    "huge": lambda _rng: 10**5000,
    "nothing": lambda _rng: None,
    "bytes": lambda rng: rng.bytes(4),
    "list": lambda _rng: ["c01"],
    "truth": lambda _rng: True,
    "surrogate": lambda _rng: "a\ud800",
}


@pytest.mark.filterwarnings("ignore:overflow encountered", "ignore:invalid value")
@pytest.mark.parametrize("chunk", [0, *(pytest.param(at, marks=pytest.mark.slow) for at in range(1, N_CHUNKS))])
def test_every_malformed_report_is_refused_and_nothing_changes(chunk: int) -> None:
    rng = np.random.default_rng([9, chunk])
    coordinator = running_coordinator()
    before = copy.deepcopy(snapshot(coordinator))
    refused: Counter[str] = Counter()
    for number in range(N_REPORTS // N_CHUNKS):
        name, report = malformed_report(rng)
        with pytest.raises(ReportError) as caught:
            coordinator.receive(report)
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 400
        refused[name] += 1
        if number % 5000 == 0:
            assert_unchanged(before, coordinator)

    assert_unchanged(before, coordinator)
    assert set(refused) == {*BAD_ROWS, *(f"{name} id" for name in BAD_IDS)}


def running_coordinator() -> Coordinator:
    rng = np.random.default_rng(4)
    coordinator = Coordinator(Policy(seed=1))
    ids = [f"c{number:02d}" for number in range(20)]
    coordinator.update(ReportBatch(client_ids=ids, representations=np.array([good_row(rng) for _ in ids])))
    return coordinator


def malformed_report(rng: np.random.Generator) -> tuple[str, ClientReport]:
    if rng.random() < 0.75:
        name = str(rng.choice(sorted(BAD_ROWS)))
        row: object = BAD_ROWS[name](rng)
        client_id: object = f"c{rng.integers(30):02d}"
    else:
        name = str(rng.choice(sorted(BAD_IDS)))
        row, client_id = good_row(rng), BAD_IDS[name](rng)
        name = f"{name} id"
    return name, ClientReport(client_id=client_id, representation=row)  # type: ignore[arg-type]


def assert_unchanged(before: Snapshot, coordinator: Coordinator) -> None:
    after = snapshot(coordinator)
    assert before.values == after.values
    for name, array in before.arrays.items():
        assert array.tobytes() == after.arrays[name].tobytes()


def test_a_batch_with_one_bad_row_changes_nothing() -> None:
    rng = np.random.default_rng(5)
    coordinator = running_coordinator()
    before = copy.deepcopy(snapshot(coordinator))
    for _ in range(500):
        rows = np.array([good_row(rng) for _ in range(10)])
        rows[rng.integers(10)] = poisoned(rng)
        with pytest.raises(ReportError, match=r"row \d"):
            coordinator.update(ReportBatch(client_ids=[f"c{one}" for one in range(10)], representations=rows))

    assert_unchanged(before, coordinator)
