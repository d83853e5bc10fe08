"""Optional packages: there, missing, or broken."""

import sys
from pathlib import Path

import pytest

from fielding import _extras
from fielding._extras import EXTRAS, require
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
