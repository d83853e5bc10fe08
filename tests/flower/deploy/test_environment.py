"""What processes of a federation find around them, and what is missing before they are started."""

import site
import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import pytest

from fielding import _version
from fielding.errors import OptionError
from fielding.flower.deploy import environment
from fielding.flower.deploy.environment import check_installation, clean_environment, program
from fielding.flower.deploy.federation import LocalFederation
from fielding.flower.device.client_app import client_app

needs_flower = pytest.mark.skipif(
    find_spec("flwr") is None, reason="flwr is not installed; run: pip install 'fielding[flower]'"
)


def test_nothing_of_the_users_environment_gets_in_and_flower_stays_quiet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PYTHONPATH", "FLWR_HOME", "HTTPS_PROXY", "SECRET"):
        monkeypatch.setenv(name, "the user's own")

    made = clean_environment(tmp_path, {"MINE": "1"})

    assert "the user's own" not in made.values()
    assert made["FLWR_HOME"] == str(tmp_path / "flwr")
    assert made["MINE"] == "1"
    assert {made["FLWR_TELEMETRY_ENABLED"], made["FLWR_DISABLE_UPDATE_CHECK"]} == {"0", "1"}
    assert made["FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION"] == "1"


def test_packages_in_the_users_own_home_are_still_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "ENABLE_USER_SITE", True)
    monkeypatch.setattr(site, "getuserbase", lambda: "/users/own")
    assert clean_environment(tmp_path)["PYTHONUSERBASE"] == "/users/own"

    monkeypatch.setattr(site, "ENABLE_USER_SITE", False)
    assert "PYTHONUSERBASE" not in clean_environment(tmp_path)


def test_a_program_that_is_missing_is_named_with_the_command_that_brings_it() -> None:
    with pytest.raises(OptionError, match=r"^no program flower-none beside .*; run: pip install 'fielding\[flower\]'"):
        program("flower-none")


def test_programs_of_another_version_are_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda _name: "2.0.1")

    with pytest.raises(OptionError, match=r"flwr is 2\.0\.1, but fielding works with flwr>="):
        program("flower-superlink")


@needs_flower
def test_an_installation_that_is_whole_is_taken(tmp_path: Path) -> None:
    check_installation(tmp_path / "not there")


@needs_flower
def test_a_fielding_that_processes_would_not_find_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "fielding" / "__init__.py"
    other.parent.mkdir()
    other.write_text("")
    monkeypatch.setattr(_version, "__file__", str(other))

    with pytest.raises(
        OptionError, match=r"do not see PYTHONPATH: .* finds .*, but this fielding is in .*; install it"
    ):
        check_installation(tmp_path)


@needs_flower
def test_what_comes_with_flower_may_be_missing_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(OptionError, match="cryptography is not installed"):
        check_installation(tmp_path)

    monkeypatch.undo()
    monkeypatch.setattr(environment, "PROGRAMS", ("flower-none",))
    with pytest.raises(OptionError, match="no program flower-none"):
        check_installation(tmp_path)


@needs_flower
def test_apps_and_federations_say_which_version_they_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fielding.flower.server.server_app import server_app

    monkeypatch.setattr(metadata, "version", lambda _name: "1.20.0")

    for make in (
        server_app,
        lambda: client_app(load_data=lambda _node, _round: None),
        lambda: check_installation(tmp_path),
    ):
        with pytest.raises(
            OptionError, match=r"^flwr is 1\.20\.0, but fielding works with flwr>=1\.41,<1\.43; run: pip "
        ):
            make()
    with pytest.raises(OptionError, match=r"^flwr is 1\.20\.0"), LocalFederation(tmp_path / "federation", 1):
        pass
