"""What a page calls the time and the samples of runs on real devices, which nobody simulated."""

import json
from pathlib import Path

import pytest

from fielding.records.run_folder import MANIFEST
from fielding.reporting.charts.curves import draw_accuracy
from fielding.reporting.numbers.groups import gather_runs
from fielding.reporting.numbers.run_record import read_run
from fielding.reporting.report_page import report_lead, run_cards
from tests.reporting.run_folders import round_rows, run_folder


@pytest.mark.parametrize(
    ("engine", "time", "is_told"),
    [("flower", "time", True), (None, "simulated time", False)],
    ids=["nodes", "simulator"],
)
def test_times_of_real_devices_are_not_called_simulated(
    tmp_path: Path, engine: str | None, time: str, is_told: bool
) -> None:
    folder = run_folder(tmp_path / "run", round_rows([0.1, 0.2, 0.3]))
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps(manifest | ({} if engine is None else {"engine": engine})))

    found = gather_runs([folder])

    assert time in {card.name for card in run_cards(read_run(folder))}
    assert [section.title for section in draw_accuracy(found)][1] == f"Accuracy over {time}"
    assert ("on real devices;" in report_lead(found)) == is_told
