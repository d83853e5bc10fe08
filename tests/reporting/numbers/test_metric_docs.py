"""Every figure of a comparison is defined in docs/metrics.md, and nothing else is."""

import re
from pathlib import Path

from fielding.reporting.numbers.comparison import compare_groups
from fielding.reporting.numbers.groups import gather_runs
from fielding.reporting.numbers.run_metrics import TIMINGS
from tests.reporting.run_folders import compared

PAGE = Path(__file__).resolve().parents[3] / "docs" / "metrics.md"
ROW = re.compile(r"^- (`.*?):", re.MULTILINE | re.DOTALL)


def test_every_figure_is_defined_and_every_definition_has_a_figure(tmp_path: Path) -> None:
    defined = {name for cell in ROW.findall(PAGE.read_text()) for name in re.findall(r"`(\w+)`", cell)}

    summary = compare_groups(gather_runs([compared(tmp_path, {"global": {1: [0.5, 0.5]}})]))

    figures = summary["methods"]["global"]  # type: ignore[call-overload, index]
    plain = {name for name in figures if not name.endswith(("_corrected", "_tuned"))}  # type: ignore[union-attr]
    assert defined == (plain - {"n_seeds", "reference", "target_of"}) | set(TIMINGS)
