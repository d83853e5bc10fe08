"""Run folders whose files somebody ruined: every command says so in a line, or does without them."""

import shutil
from pathlib import Path

import pytest

from fielding.records.run_folder import CLIENTS, EVENTS, MANIFEST, ROUNDS, SUMMARY
from fielding.records.run_folder import CONFIG as CONFIG_FILE
from tests.cli.in_process import CONFIG, Command
from tests.records.pipes import needs_pipes, no_waiting, put_pipe

NESTED = "[" * 200_000 + "\n"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run that ended."""
    from fielding.config.reader import read_config
    from fielding.simulation.experiment import run

    folder = tmp_path_factory.mktemp("finished")
    (folder / "small.toml").write_text(CONFIG)
    run(read_config(folder / "small.toml"), folder / "out", page=False)
    return folder


@pytest.mark.parametrize("words", [("report",), ("show",), ("run", "small.toml", "--resume", "--no-page", "--out")])
@pytest.mark.parametrize("name", [MANIFEST, SUMMARY, ROUNDS, EVENTS, CLIENTS])
def test_brackets_in_brackets_end_no_command_with_a_traceback(
    finished: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    words: tuple[str, ...],
) -> None:
    folder = Path(shutil.copytree(finished, tmp_path / "copy"))
    monkeypatch.chdir(folder)
    (folder / "out" / name).write_text(NESTED)
    command = Command(monkeypatch, capsys)

    code = command(*words, "out")

    assert code in (0, 1, 2)
    assert "Traceback" not in command.err
    assert "RecursionError" not in command.out + command.err
    assert not code or command.err.startswith("error: ")


@needs_pipes
def test_a_config_that_is_a_pipe_in_the_folder_of_a_run_is_not_waited_for(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(finished, tmp_path / "copy"))
    put_pipe(folder / "out" / CONFIG_FILE)

    with no_waiting():
        said = Command(monkeypatch, capsys).refuses("run", folder / "out", "--resume")

    assert said.endswith("config.toml: it is no file\n")
