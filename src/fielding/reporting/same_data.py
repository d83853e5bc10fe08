"""Whether runs that are held against each other were made on the same data, and by the same version."""

import json
from collections.abc import Container, Iterable, Sequence
from dataclasses import replace

from fielding._typing import Json
from fielding.reporting.run_record import FAILED, FINISHED, RunRecord

OTHER_DATA = "made on other data than"
"""How the problem of a run begins that cannot be held against others."""


def with_equal_data(named: Sequence[tuple[str, RunRecord]], references: Container[str]) -> list[tuple[str, RunRecord]]:
    """Return runs with their names; those that ended on other data than the reference on the same seed have failed.

    Data must be equal where the seed, the section ``[trace]`` of the config and the number of rounds are. Where no
    reference has ended, the first run that has counts instead. A run that does not tell its data is left as it is.

    Parameters
    ----------
    named
        Each run with the name of its group.
    references
        Names of the groups that others are held against.
    """
    anchors: dict[str, tuple[str, Json]] = {}
    for name, run in sorted(named, key=lambda one: one[0] not in references):
        if run.state == FINISHED and run.manifest.get("data_blake2b") is not None:
            anchors.setdefault(_deal(run), (name, run.manifest["data_blake2b"]))
    return [(name, _checked(run, *anchors.get(_deal(run), (name, None)))) for name, run in named]


def _deal(run: RunRecord) -> str:
    """Return what data follow from."""
    return json.dumps([run.seed, run.n_expected, run.config.get("trace")], sort_keys=True)


def _checked(run: RunRecord, anchor: str, wanted: Json) -> RunRecord:
    digest = run.manifest.get("data_blake2b")
    if run.state != FINISHED or wanted is None or digest is None or digest == wanted:
        return run
    problem = (
        f"{OTHER_DATA} {anchor} on seed {run.seed} (digests {str(digest)[:8]} and {str(wanted)[:8]}), so it does not "
        "count; delete the folder of the run on the wrong data and run it again"
    )
    return replace(run, state=FAILED, problems=(problem, *run.problems))


def version_words(runs: Iterable[RunRecord]) -> str:
    """Return a sentence if runs are of several versions of Fielding, else nothing."""
    found = sorted({str(version) for run in runs if (version := run.manifest.get("fielding")) is not None})
    if len(found) < 2:
        return ""
    return f"Runs are of several versions of Fielding ({', '.join(found)}): differences may come from that."
