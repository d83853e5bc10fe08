"""Which model clients see their samples with if the config does not say, and what is told of its skill."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from fielding.cli.app import app
from fielding.config.reader import config_from
from fielding.simulation.assembly import Own, assemble
from fielding.simulation.experiment import Result, Start, run
from fielding.simulation.reports import Skill
from fielding.traces.trace import Trace, write_trace

AUTO = {"representation": "auto", "shared_rounds": 2}
HOUR = 3600.0


def trace(*, is_noise: bool = False) -> Trace:
    """Return 8 clients, 12 hours, 10 samples an hour of two classes that lie apart, or cannot be told apart."""
    rng = np.random.default_rng(1)
    client, hour, _ = (one.ravel() for one in np.indices((8, 12, 10)))
    y = rng.integers(2, size=client.size)
    x = rng.normal(size=(client.size, 4)) + (0.0 if is_noise else 3.0) * y[:, np.newaxis]
    return Trace(
        client_ids=tuple(range(8)),
        client=client.astype(np.int32),
        time=HOUR * hour,
        y=y.astype(np.int32),
        classes=("a", "b"),
        x=x.astype(np.float32),
    )


def table(**coordinator: Any) -> dict[str, Any]:
    return {
        "rounds": 6,
        "trace": {"interval": "1h", "gap": 2, "window": 4},
        "training": {"participants": 4},
        "coordinator": {**AUTO, **coordinator},
    }


def run_on(samples: Trace, out: Path | None = None, **coordinator: Any) -> Result:
    return run(table(**coordinator), out, own=Own(samples=samples), page=False)


def chosen(config: dict[str, Any], samples: Trace | None = None) -> tuple[str | None, int]:
    """Return which model is shared, and how many samples clients have of the trace."""
    simulation = assemble(config_from(config), Own(samples=samples), n_workers=1)
    simulation.clients.close()
    return simulation.config.coordinator.shared_model, simulation.dealt.schedule.y.size


def test_on_a_natural_trace_it_is_the_global_model_and_nothing_is_held_out() -> None:
    assert chosen(table(), trace()) == ("global", trace().n_rows)


def test_a_file_of_the_users_own_is_a_natural_trace(tmp_path: Path) -> None:
    write_trace(trace(), tmp_path / "own.npz")
    config = table()

    config["trace"]["file"] = str(tmp_path / "own.npz")

    assert chosen(config)[0] == "global"


@pytest.mark.parametrize("samples", [None, trace()], ids=["pool", "trace"])
def test_where_a_scenario_deals_it_is_trained_on_samples_whose_labels_are_true(samples: Trace | None) -> None:
    config = {"rounds": 6, "trace": {"scenario": "static", "clients": 8, "gap": 2, "window": 4}}

    assert chosen({**config, "coordinator": {"representation": "class-means"}}, samples)[0] == "pool"
    assert chosen({**config, "coordinator": {"representation": "auto"}}, samples)[0] == "global", "no samples at all"


def test_what_the_config_says_is_obeyed() -> None:
    config = {**table(), "coordinator": {"representation": "auto", "shared_model": "pool"}}

    shared_model, n_left = chosen(config, trace())

    assert shared_model == "pool"
    assert n_left < trace().n_rows


def test_the_paper_has_a_pool_on_any_trace_but_auto_is_not_the_papers() -> None:
    config = table()
    del config["coordinator"]["shared_rounds"]

    class_means = {**config, "preset": "paper", "coordinator": {"representation": "class-means"}}
    assert chosen(class_means, trace())[0] == "pool"
    assert chosen({**config, "preset": "paper"}, trace())[0] == "global"


def test_where_none_is_needed_none_is_chosen() -> None:
    assert chosen({**table(), "coordinator": {}}, trace()) == (None, trace().n_rows)


def test_what_was_chosen_is_written_down_and_a_run_can_be_resumed(tmp_path: Path) -> None:
    whole = run_on(trace(), tmp_path / "whole")
    samples, part = Own(samples=trace()), tmp_path / "part"
    run(table(), part, own=samples, watch=lambda row: int(str(row["round"])) < 3, page=False)
    resumed = run(table(), part, own=samples, start=Start(resume=True), page=False)

    assert json.loads((part / "manifest.json").read_text())["shared_model"] == "global"
    again = run(part / "config.toml", part, own=samples, start=Start(resume=True), page=False)
    assert again.rounds == resumed.rounds
    assert (part / "rounds.jsonl").read_bytes() == (tmp_path / "whole" / "rounds.jsonl").read_bytes()
    assert resumed.notes == whole.notes


def test_skill_is_told_once_when_the_model_comes() -> None:
    rows = run_on(trace()).rounds

    (row,) = [row for row in rows if "shared_accuracy" in row]
    assert row["round"] == 1  # after two rounds
    assert float(str(row["shared_accuracy"])) > 0.8
    assert 0.5 <= float(str(row["shared_baseline"])) < 0.7
    assert "note" not in row


@pytest.mark.parametrize("shared_model", ["pool", "global"])
def test_a_model_that_cannot_learn_is_told_on_the_command_line_and_on_the_page(
    shared_model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_trace(trace(is_noise=True), tmp_path / "noise.npz")
    (tmp_path / "a.toml").write_text(
        'rounds = 4\n[trace]\nfile = "noise.npz"\ninterval = "1h"\ngap = 2\nwindow = 4\n'
        f'[training]\nparticipants = 4\n[coordinator]\nrepresentation = "auto"\nshared_model = "{shared_model}"\n'
        + ("shared_rounds = 1\n" if shared_model == "global" else "")
    )

    shown = CliRunner().invoke(app, ["run", "a.toml", "--out", "run", "--quiet"])

    assert shown.exit_code == 0
    (line,) = [one for one in shown.stderr.splitlines() if "shared model" in one]
    assert line.startswith("note: the shared model gets ")
    rows = [json.loads(line) for line in Path("run/rounds.jsonl").read_text().splitlines()]
    (note,) = [row["note"] for row in rows if "note" in row]
    assert note.split(";")[0] in Path("run/report.html").read_text()


@given(labels=st.lists(st.integers(0, 4), min_size=1, max_size=60), said=st.integers(0, 4), is_natural=st.booleans())
def test_always_saying_the_same_is_no_skill(labels: list[int], said: int, *, is_natural: bool) -> None:
    skill = Skill.of(np.full(len(labels), said), np.array(labels))

    assert skill.accuracy <= skill.baseline
    for shared_model in ("pool", "global", "mine.safetensors"):
        assert skill.note(shared_model, is_natural=is_natural) is not None


@pytest.mark.parametrize(
    ("accuracy", "shared_model", "is_natural", "words"),
    [
        (0.15, "pool", False, "trace.held_out"),
        (0.15, "global", True, "coordinator.shared_rounds"),
        (0.15, "mine.safetensors", True, "a better model"),
        (0.4, "pool", True, "may contradict each other"),
        (0.4, "pool", False, None),
        (0.4, "global", True, None),
        (0.6, "pool", True, None),
    ],
)
def test_a_note_names_what_may_help(accuracy: float, shared_model: str, *, is_natural: bool, words: str | None) -> None:
    note = Skill(accuracy=accuracy, baseline=0.125, n_samples=1000).note(shared_model, is_natural=is_natural)

    assert (note is None) if words is None else (note is not None and words in note)


def test_a_few_samples_prove_no_skill() -> None:
    few, many = (Skill(accuracy=0.4, baseline=0.3, n_samples=n_samples) for n_samples in (40, 400))

    assert few.note("global", is_natural=True) is not None
    assert many.note("global", is_natural=True) is None
