from pathlib import Path
from xml.etree import ElementTree

import pytest

from experiments import privacy
from experiments.privacy import auc, main


def test_an_attacker_sees_all_of_exact_reports_and_less_of_noised_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(privacy, "GRID", (("exact", 0), ("global", 0), (0.5, 1)))

    main(["digits", "--seeds", "1", "--rounds", "4"])

    printed = capsys.readouterr().out
    exact, one_model, noised = ([cell.strip() for cell in line.split("|")[1:-1]] for line in printed.splitlines()[2:5])
    assert exact[-2:] == ["1.00", "1.00"]
    assert exact[4] == "1.00"
    assert one_model[-2:] == ["", ""]
    assert 0.4 < float(noised[-1]) < 0.8
    assert float(noised[4]) < 1.0
    (tmp_path / "page.md").write_text(f"# Page\n\n## digits: few\n\n{printed}")
    main(["chart", "--page", str(tmp_path / "page.md"), "--svg", str(tmp_path / "chart.svg")])
    assert ElementTree.parse(tmp_path / "chart.svg").getroot().tag.endswith("svg")
    assert "digits</text>" in (tmp_path / "chart.svg").read_text()


def test_values_that_tell_nothing_are_a_guess() -> None:
    assert auc([1.0, 1.0], [1.0, 1.0, 1.0]) == 0.5
    assert auc([2.0], [1.0]) == 1.0
