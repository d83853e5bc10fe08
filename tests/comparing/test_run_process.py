"""A process that has a run to do tells more than how it ended."""

import json
from multiprocessing import Pipe
from pathlib import Path

from fielding.comparing import sweep as run_process
from fielding.simulation.experiment import run
from tests.simulation.breaking import SMALL


def test_what_users_should_know_of_a_run_is_told_before_its_end(tmp_path: Path) -> None:
    run(SMALL, tmp_path / "a", page=False)
    manifest = json.loads((tmp_path / "a" / "manifest.json").read_text())
    (tmp_path / "a" / "manifest.json").write_text(json.dumps({**manifest, "fielding": "0.0.1"}))
    ours, theirs = Pipe(duplex=False)

    outcome = run_process._outcome(run_process._Teller(theirs), SMALL, tmp_path / "a", None, None)
    theirs.close()

    said = []
    while ours.poll():
        try:
            said.append(ours.recv())
        except EOFError:
            break
    notes = [word["note"] for word in said if "note" in word]
    assert len(notes) == 1
    assert notes[0].startswith("fielding was '0.0.1', now it is ")
    assert outcome["summary"]["n_rounds"] == 3


def test_a_note_that_nobody_hears_stops_nothing() -> None:
    ours, theirs = Pipe(duplex=False)
    ours.close()

    run_process._Teller(theirs).note("gone")

    theirs.close()
