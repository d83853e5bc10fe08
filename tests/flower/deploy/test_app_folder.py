"""What is found wrong with an app before anything is started for it."""

import json
from pathlib import Path

import pytest

from fielding import _version
from fielding.errors import InputError, OptionError, OutputError
from fielding.flower.deploy.app_folder import AppFolder, check_writable, read_app, shipped_app

APP = """
[tool.flwr.app.components]
serverapp = "mine.server:app"
clientapp = "mine.client:app"
[tool.flwr.app.config]
out = "run"
rounds = 6
min-nodes = 4
"""


def app_in(folder: Path, text: str = APP) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "pyproject.toml").write_text(text)
    return folder


def test_an_app_is_read_with_its_settings(tmp_path: Path) -> None:
    app = read_app(app_in(tmp_path))

    assert app.path == tmp_path
    assert app.config == {"out": "run", "rounds": 6, "min-nodes": 4}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[tool", "cannot read .*pyproject.toml: "),
        ("[project]\nname = 'x'", r"has no \[tool.flwr.app\]; name the folder of a Flower app"),
        ("tool = 3", r"has no \[tool.flwr.app\]"),
        (APP.replace("serverapp", "server"), r"names no serverapp under \[tool.flwr.app.components\]; give one as"),
        (APP.replace("client:app", "client"), "names no clientapp"),
    ],
)
def test_what_is_no_app_is_refused_in_one_line(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words) as refused:
        read_app(app_in(tmp_path, text))

    assert "\n" not in str(refused.value)


def test_a_folder_without_an_app_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere holds no pyproject.toml; name the folder of a Flower app"):
        read_app(tmp_path / "nowhere")


def test_an_app_waits_for_no_more_nodes_than_there_are() -> None:
    app = AppFolder(path=Path("app"), config={"out": "", "rounds": 6, "min-nodes": 4})

    assert app.overrides(Path("/runs"), n_nodes=2) == {"out": "/runs", "min-nodes": 2}
    assert app.overrides(Path("/runs"), n_nodes=4, rounds=9) == {"out": "/runs", "rounds": 9}


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({}, "has no out under .tool.flwr.app.config., so it cannot be set to '/runs'; put one there"),
        ({"out": ""}, "has no rounds under"),
        ({"out": "", "rounds": 3}, "has no min-nodes under .*, so it cannot be set to 1"),  # 2 unless it says
    ],
)
def test_settings_that_an_app_does_not_have_cannot_be_set(config: dict[str, object], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        AppFolder(path=Path("app"), config=config).overrides(Path("/runs"), n_nodes=1, rounds=9)


@pytest.mark.parametrize(
    ("config", "rounds", "words"),
    [
        ({"rounds": 6, "seed": 1}, 3, r"cannot resume .*run: rounds was 6, now it is 3: 4 are done"),
        ({"rounds": 6, "seed": 2}, None, "seed was 2, now it is 1: all random choices"),
    ],
)
def test_a_run_of_another_config_is_told(
    config: dict[str, int], rounds: int | None, words: str, tmp_path: Path
) -> None:
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    (tmp_path / "run" / "checkpoints" / "00000003.ckpt").touch()
    (tmp_path / "run" / "manifest.json").write_text(json.dumps({"config": config, "engine": "flower"}))
    app = AppFolder(path=Path("app"), config={"rounds": 6, "seed": 1})

    with pytest.raises(InputError, match=words):
        app.check_run(tmp_path / "run", rounds)


def test_a_run_of_the_same_config_and_an_empty_folder_are_gone_on_with(tmp_path: Path) -> None:
    app = AppFolder(path=Path("app"), config={"rounds": 6, "shape": "8,8"})
    (tmp_path / "manifest.json").write_text(json.dumps({"config": {"rounds": 6, "seed": 5}}))

    app.check_run(tmp_path, None)
    app.check_run(tmp_path / "nothing", 3)
    assert not app.is_complete(tmp_path, None)
    (tmp_path / "summary.json").write_text("{}")
    assert app.is_complete(tmp_path, None)
    assert app.is_complete(tmp_path, 6)
    assert not app.is_complete(tmp_path, 8), "it can go on"


def test_the_example_is_an_app() -> None:
    assert {"out", "rounds", "min-nodes"} <= set(read_app(shipped_app()).config)


def test_the_example_of_an_installed_package_is_inside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_version, "__file__", str(tmp_path / "fielding" / "__init__.py"))
    with pytest.raises(InputError, match=r"the example app did not come with .*; name the folder .* with --app"):
        shipped_app()
    inside = tmp_path / "fielding" / "flower" / "example"
    inside.mkdir(parents=True)
    app_in(inside)

    assert shipped_app() == inside


def test_a_folder_that_cannot_be_written_is_told_and_nothing_is_left_in_one_that_can(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"cannot write into .*file: File exists; name another folder"):
        check_writable(tmp_path / "file")

    check_writable(tmp_path / "new")
    assert list((tmp_path / "new").iterdir()) == []
