"""An experiment as Python users meet it: what they are told while it runs, and of what there is not."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from fielding import compare
from fielding.engine.runner import Watch
from fielding.errors import InputError, OptionError
from fielding.reporting.report_page import report_page
from fielding.simulation.assembly import Own
from fielding.simulation.experiment import Result, Start, Watching, run
from tests.simulation.run_cases import left_behind, small_pool, small_trace, table


@pytest.fixture(scope="module")
def result() -> Result:
    return run(table(rounds=2), own=Own(samples=small_pool()))


def test_a_figure_that_there_is_not_is_told_with_the_nearest(result: Result) -> None:
    with pytest.raises(OptionError, match=r"^unknown figure 'acuracy'; did you mean 'accuracy'\? Known: accuracy, "):
        result.column("acuracy")

    assert result.column("accuracy")[0] == [0, 1]


def test_ids_that_are_numbers_are_said_to_be_numbers(result: Result) -> None:
    for ask in (result.model_of, result.cluster_of):
        with pytest.raises(InputError, match="there is no client '7'; the ids are whole numbers, for example 0"):
            ask("7")

    assert result.model_of(7)


def test_ids_that_are_texts_are_not_said_to_be_numbers() -> None:
    config: dict[str, Any] = {**table(rounds=1), "trace": {"interval": "1d", "gap": 2, "window": 4}}
    told = run(config, own=Own(samples=small_trace()))

    with pytest.raises(InputError, match="there is no client 7; there are 8 others"):
        told.cluster_of(7)


def test_phases_and_participants_are_told_and_change_nothing(tmp_path: Path) -> None:
    phases: list[str] = []
    trained: list[tuple[int, int]] = []
    watching = Watching(on_phase=phases.append, on_trained=lambda done, total: trained.append((done, total)))
    own = Own(samples=small_pool())

    run(table(rounds=2), tmp_path / "watched", own=own, watch=watching, page=False)
    run(table(rounds=2), tmp_path / "alone", own=own, page=False)

    assert phases == ["reading digits", "training"]
    assert trained[-1][0] == trained[-1][1]
    assert left_behind(tmp_path / "watched") == left_behind(tmp_path / "alone")


@pytest.mark.parametrize("watch", [lambda _row: None, lambda _row: 0, [].append])
def test_a_callback_that_returns_nothing_stops_nothing(watch: Watch) -> None:
    assert run(table(rounds=3), own=Own(samples=small_pool()), watch=watch).summary is not None


def test_a_progress_bar_takes_no_callback_away() -> None:
    notes: list[str] = []
    table_of_many = table(rounds=1, training={"participants": 1000})
    run(table_of_many, own=Own(samples=small_pool()), watch=Watching(on_note=notes.append), progress=True)

    assert any("participants is 1000" in note for note in notes)


@pytest.mark.parametrize(
    ("options", "n_lines"),
    [({}, 2), ({"progress": False}, 0), ({"watch": lambda _row: True}, 0)],
    ids=["unasked", "unwanted", "watched"],
)
def test_long_runs_off_a_terminal_tell_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], options: dict[str, Any], n_lines: int
) -> None:
    monkeypatch.setattr("fielding.simulation.experiment.UNASKED_EVERY_S", 0.0)  # else after half a minute
    run(table(rounds=2), own=Own(samples=small_pool()), **options)

    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("round ")]
    assert [line.split(",")[0] for line in lines] == ["round 1 of 2", "round 2 of 2"][:n_lines]


def test_short_runs_off_a_terminal_tell_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    run(table(rounds=1, training={"participants": 1000}), own=Own(samples=small_pool()))
    compare(table(rounds=1), ["global"], seeds=1, own=Own(samples=small_pool()), jobs=1)

    assert "round" not in capsys.readouterr().err


def test_a_callback_that_returns_false_stops_the_run() -> None:
    stopped = run(table(rounds=3), own=Own(samples=small_pool()), watch=lambda _row: False)

    assert stopped.summary is None
    assert len(stopped.rounds) == 1


def test_the_page_of_a_finished_run_tells_of_a_finished_run(tmp_path: Path) -> None:
    run(table(rounds=2), tmp_path / "own", own=Own(samples=small_pool()))
    written = (tmp_path / "own" / "report.html").read_text()

    assert written == report_page([tmp_path / "own"])
    assert "so far" not in written.split("<body")[1].split("<script")[0]


def test_a_representation_of_ones_own_needs_nothing_else() -> None:
    def counts(_x: object, y: npt.NDArray[np.int64], n_classes: int) -> npt.NDArray[np.float64]:
        return np.bincount(y, minlength=n_classes).astype(np.float64)

    result = run(table(rounds=3), own=Own(samples=small_pool(), represent=counts))

    assert result.rounds[0]["n_reports"] == len(result.checkpoint.client_ids)


def test_a_module_of_ones_own_is_called_by_its_name_and_torch_by_its_words() -> None:
    torch = pytest.importorskip("torch")

    def two_layers(input_shape: tuple[int, ...], n_classes: int) -> Any:
        return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(7, 5), torch.nn.Linear(5, n_classes))

    with pytest.raises(
        OptionError, match=r"model .*two_layers fails .*mat1 and mat2 shapes cannot be multiplied \(.*7x5\)"
    ):
        run(table(rounds=2), own=Own(samples=small_pool(), model=two_layers))


def test_python_users_are_told_what_to_write_in_python(tmp_path: Path) -> None:
    own = Own(samples=small_pool())
    run(table(rounds=2), tmp_path, own=own, page=False)

    with pytest.raises(InputError, match=r"continue it with Start\(resume=True\) or name another folder$"):
        run(table(rounds=2), tmp_path, own=own)
    with pytest.raises(InputError, match=r"seed was 1, now it is 2: all random choices"):
        run(table(rounds=2, seed=2), tmp_path, own=own, start=Start(resume=True))


@pytest.mark.parametrize("is_there", [False, True])
def test_a_run_that_cannot_be_prepared_leaves_the_folder_as_it_was(tmp_path: Path, is_there: bool) -> None:
    out = tmp_path / "runs" / "deep"
    if is_there:
        out.mkdir(parents=True)
        (out / "notes.txt").write_text("mine")

    with pytest.raises(InputError):
        run(table(trace={"share": 7}), out, own=Own(samples=small_pool()))

    assert [path.name for path in tmp_path.iterdir()] == (["runs"] if is_there else [])
    assert not is_there or (out / "notes.txt").read_text() == "mine"
