"""Optional packages: there, missing, or broken."""

import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from fielding import _extras
from fielding._extras import EXTRAS, TESTED, check_version, require
from fielding.errors import OptionError


def test_a_missing_package_is_named_with_the_command_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, EXTRAS["torch"], None)

    with pytest.raises(
        OptionError, match=r"^torch is not installed; run: pip install 'fielding\[torch\]' \(in a clone: "
    ):
        require("torch")


def test_a_package_that_is_there_is_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_extras, "EXTRAS", {"sample": "json"})

    assert require("sample") is sys.modules["json"]


def test_a_package_that_lacks_another_tells_its_own_story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "halfway_installed.py").write_text("import no_such_dependency\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(_extras, "EXTRAS", {"sample": "halfway_installed"})

    with pytest.raises(ModuleNotFoundError, match="no_such_dependency"):
        require("sample")


@pytest.mark.parametrize("version", ["1.20.0", "1.40.9", "1.43.0", "1.43.0rc1", "2.0", "0.9.dev1"])
def test_a_version_that_we_do_not_know_is_named_with_those_that_we_do(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "version", lambda _name: version)

    with pytest.raises(OptionError) as refused:
        require("flower")

    assert str(refused.value) == (
        f"flwr is {version}, but fielding works with flwr>=1.41,<1.43; "
        "run: pip install 'fielding[flower]' (in a clone: pip install -e '.[flower]')"
    )


@pytest.mark.parametrize("version", ["1.41", "1.41.0", "1.42.7.post1"])
def test_versions_that_were_tried_are_taken(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda _name: version)

    check_version("flower")


def test_another_package_of_an_extra_is_asked_for_with_the_same_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)

    with pytest.raises(OptionError, match=r"^cryptography is not installed; run: pip install 'fielding\[flower\]'"):
        require("flower", "cryptography")


def test_the_versions_are_those_that_the_package_asks_for() -> None:
    project = Path(__file__).resolve().parent.parent / "pyproject.toml"
    extras = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["optional-dependencies"]

    for package, (first, beyond) in TESTED.items():
        wanted = [
            re.sub(r"\[.*\]", "", line) for lines in extras.values() for line in lines if line.startswith(package)
        ]
        assert set(wanted) == {f"{package}>={first},<{beyond}"}
