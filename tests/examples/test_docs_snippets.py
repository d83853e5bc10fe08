"""Parts of one's own that the docs show work as they stand: by a config, from Python, and under the checks."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest

import fielding
from fielding.conformance.method_checks import check_method
from fielding.errors import OptionError
from fielding.records.run_folder import ROUNDS
from fielding.simulation.assembly import Own
from tests.cli.in_process import CONFIG, Command
from tests.simulation.run_cases import small_pool, table

DOCS = Path(__file__).resolve().parents[2] / "docs"
SHOWN = {"aggregation": ("aggregation.md", "Halfway"), "selection": ("selection.md", "EveryOther")}


def shown_class(page: str, name: str) -> str:
    """Return the snippet of a page that defines a class."""
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), flags=re.DOTALL)
    return next(one for one in blocks if f"class {name}" in one)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    text = "\n".join(shown_class(page, name) for page, name in (*SHOWN.values(), ("own-method.md", "MedianModel")))
    (tmp_path / "shown_parts.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "shown_parts", raising=False)
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_the_method_that_sets_models_passes_the_checks() -> None:
    check_method("shown_parts:MedianModel", {"step": 0.5})
    with pytest.raises(OptionError, match="step is 7; give a number above 0"):
        check_method("shown_parts:MedianModel", {"step": 7})


@pytest.mark.parametrize(("section", "name"), [(section, name) for section, (_, name) in SHOWN.items()])
def test_a_part_is_named_in_a_config(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], section: str, name: str
) -> None:
    command = Command(monkeypatch, capsys)
    (folder / "mine.toml").write_text(
        f'{CONFIG.replace("participants = 8", "participants = 4")}[{section}]\nname = "shown_parts:{name}"\n'
    )

    assert command("run", "mine.toml", "--out", "own", "--no-page") == 0
    assert command("run", "mine.toml", "--out", "usual", "--no-page", "--set", f"{section}.name={usual(section)}") == 0

    assert Path("own", ROUNDS).read_bytes() != Path("usual", ROUNDS).read_bytes()
    assert f"shown_parts:{name}" in Path("own/config.toml").read_text()
    nearest = command.refuses("run", "mine.toml", "--set", f"{section}.name=shown_parts:{name[:-1]}")
    assert f"did you mean {name!r}?" in nearest
    lacking = command.refuses("run", "mine.toml", "--set", f"{section}.name=shown_parts:MedianModel")
    assert "missing 1 required positional argument: 'setting'" in lacking


def usual(section: str) -> str:
    return {"aggregation": "mean", "selection": "uniform"}[section]


def test_a_part_is_a_class_in_python(folder: Path) -> None:
    space: dict[str, Any] = {}
    exec(shown_class("aggregation.md", "Halfway"), space)

    def rounds(**aggregation: Any) -> list[dict[str, Any]]:
        own = Own(samples=small_pool())
        return list(fielding.run({**table(), "aggregation": aggregation}, own=own).rounds)

    slow, slower = rounds(name=space["Halfway"]), rounds(name=space["Halfway"], step=0.1)
    assert slow != slower
    import shown_parts  # type: ignore[import-not-found]

    assert rounds(name=shown_parts.Halfway) == slow
    with pytest.raises(OptionError, match="did you mean 'step'"):
        rounds(name=space["Halfway"], stepp=0.1)
    with pytest.raises(OptionError, match="has no combine, memory, needs_start_loss"):
        rounds(name=type("Empty", (), {}))
    assert folder.exists()


@pytest.mark.usefixtures("folder")
def test_a_part_of_ones_own_is_resumed_and_compared(tmp_path: Path) -> None:
    own, config = Own(samples=small_pool()), {**table(), "aggregation": {"name": "shown_parts:Halfway"}}
    whole = fielding.run(config, own=own)
    start = fielding.Start(resume=True)
    fielding.run(config, tmp_path / "cut", own=own, watch=lambda row: row["round"] != 4, page=False)

    resumed = fielding.run(config, tmp_path / "cut", own=own, start=start, page=False)

    assert resumed.rounds == whole.rounds
