"""FedDrift goes on from a snapshot, and runs of it after a stop or a crash, as if nothing had happened."""

from pathlib import Path
from typing import Any

import pytest

from fielding._typing import Json
from fielding.simulation.assembly import Own
from fielding.simulation.experiment import run
from tests.methods.drifting import GAP, STAGGERED, drift_of
from tests.methods.plane import (
    plane_clients,
    plane_windows,
    run_rounds,
)
from tests.rotation import some_of
from tests.simulation.run_cases import (
    crash_and_resume,
    left_behind,
    small_pool,
    stop_and_resume,
    table,
    write_availability,
)


@pytest.mark.parametrize("at", [1, 3 * GAP, 3 * GAP + 1, 4 * GAP])
@pytest.mark.parametrize("options", [{}, {"participation": "sampled", "memory": "all"}])
def test_a_snapshot_goes_on_exactly_like_the_original(at: int, options: dict[str, Any]) -> None:
    script = {3 * GAP: [0, 1, 2], 4 * GAP: [0, 1, 2, 3]}
    one, other = (plane_clients(plane_windows(STAGGERED), script=script) for _ in range(2))
    first, second = drift_of(one, **options), drift_of(other, **options)
    run_rounds(one, first, range(at))
    run_rounds(other, second, range(at))
    values, arrays = first.snapshot()
    restored = drift_of(other, **options)
    restored.restore(values, {name: array.copy() for name, array in arrays.items()})
    run_rounds(one, first, range(at, 28))
    run_rounds(other, restored, range(at, 28))

    assert len(first.cluster_ids()) > 1
    assert first.models.tobytes() == restored.models.tobytes()
    assert (first.membership() == restored.membership()).all()
    assert first.cluster_ids() == restored.cluster_ids()
    assert one.ledger.totals() == other.ledger.totals()


@pytest.mark.parametrize(
    "method",
    some_of(
        [
            {"name": "feddrift", "start": "each"},
            {"name": "feddrift-eager", "delta": 0.05},
            {"name": "feddrift", "participation": "sampled", "delta": 0.05},
            {"name": "feddrift", "start": "each", "memory": "window"},
        ],
        2,
    ),
)
@pytest.mark.parametrize("is_away", [False, True])
def test_a_run_that_is_stopped_goes_on_bit_for_bit(tmp_path: Path, method: dict[str, Json], is_away: bool) -> None:
    config = table(method=method)
    if is_away:
        config["clock"] = {"availability": str(write_availability(tmp_path / "availability.csv", 12))}
        config["coordinator"] = {"detector": "any-change", "reports": "with-training"}
    own = Own(samples=small_pool())
    whole = run(config, tmp_path / "whole", own=own, page=False)
    stop_and_resume(config, tmp_path / "stopped", [1, 4, 8], own)
    crash_and_resume(config, tmp_path / "crashed", [3, 7], own)

    assert is_away or len(whole.checkpoint.cluster_ids) > 1
    assert left_behind(tmp_path / "stopped") == left_behind(tmp_path / "whole")
    assert left_behind(tmp_path / "crashed") == left_behind(tmp_path / "whole")
