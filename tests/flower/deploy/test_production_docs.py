"""The pages about deployments: unit files that say what they must, options that Flower has, settings that we have."""

import configparser
import json
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from fielding.flower.deploy import flwr_calls
from fielding.flower.deploy.environment import clean_environment, program
from fielding.flower.server.server_app import KEYS

DOCS = Path(__file__).resolve().parents[3] / "docs"
PRODUCTION = (DOCS / "flower-production.md").read_text(encoding="utf-8")
FLOWER = (DOCS / "flower.md").read_text(encoding="utf-8")
QUIET = ("FLWR_TELEMETRY_ENABLED=0", "FLWR_DISABLE_UPDATE_CHECK=1", "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1")

needs_flower = pytest.mark.skipif(
    find_spec("flwr") is None, reason="flwr is not installed; run: pip install 'fielding[flower]'"
)


def units() -> dict[str, dict[str, str]]:
    """Return the unit files that the page names, by their names: each key with its values, one below the other."""
    found = {}
    for name in sorted(set(re.findall(r"deploy/([\w-]+)\.service", PRODUCTION))):
        text = (DOCS.parent / "deploy" / f"{name}.service").read_text(encoding="utf-8")
        lines = [line.strip() for line in text.replace("\\\n", " ").splitlines()]
        gathered: dict[str, str] = {}
        for line in lines:
            key, equals, value = line.partition("=")
            if equals:
                gathered[key] = f"{gathered[key]}\n{value}" if key in gathered else value
        found[name] = gathered
        parser = configparser.ConfigParser(strict=False, interpolation=None)
        parser.read_string("\n".join(lines))
        assert parser.sections() == ["Unit", "Service", "Install"]
    return found


def commands(text: str, program_name: str) -> list[list[str]]:
    """Return the calls of a program in blocks of a page, as words; comments are left out."""
    blocks = "\n".join(line[4:] for line in text.replace("\\\n", " ").splitlines() if line.startswith("    "))
    calls = re.findall(rf"^{program_name} .*$", blocks, re.MULTILINE)
    return [shlex.split(call, comments=True)[1:] for call in calls]


def test_there_is_a_unit_for_everything_that_has_to_run() -> None:
    assert sorted(units()) == ["fielding-run", "flower-superlink", "flower-supernode"]


@pytest.mark.parametrize("name", ["flower-superlink", "flower-supernode"])
def test_units_come_back_for_ever_and_keep_flower_quiet(name: str) -> None:
    unit = units()[name]

    assert unit["Restart"] == "always"
    assert unit["StartLimitIntervalSec"] == "0"  # a killed node is refused for a minute
    assert set(QUIET) <= set(unit["Environment"].split())
    assert unit["ExecStart"].startswith(f"/opt/fielding/bin/{name} ")
    assert "--insecure" not in unit["ExecStart"]


def test_a_run_that_failed_by_itself_is_not_begun_again() -> None:
    unit = units()["fielding-run"]

    assert (unit["Restart"], unit["RestartPreventExitStatus"]) == ("on-failure", "1")
    assert "/keep_running.py " in unit["ExecStart"]


def test_the_settings_of_an_app_are_those_that_the_server_knows() -> None:
    listed = FLOWER[FLOWER.index("- `out`:") :].partition("\n\n")[0]

    assert sorted(re.findall(r"^- `([\w-]+)`", listed, re.MULTILINE)) == sorted(KEYS)


@needs_flower
def test_flower_has_the_options_that_the_pages_name(tmp_path: Path) -> None:
    called = [words for page in (PRODUCTION, FLOWER) for words in commands(page, "flwr")]
    verbs = sorted({tuple(words[: 2 if words[0] == "supernode" else 1]) for words in called})
    helped = subprocess.run(
        [sys.executable, "-P", str(Path(flwr_calls.__file__))],
        input=json.dumps([[*verb, "--help"] for verb in verbs]),
        env={**clean_environment(tmp_path), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=True,
    )
    texts = {verb: one["out"] for verb, one in zip(verbs, json.loads(helped.stdout), strict=True)}

    assert {("run",), ("list",), ("log",), ("stop",), ("supernode", "register"), ("supernode", "unregister")} <= set(
        verbs
    )
    for words in called:
        text = texts[tuple(words[: 2 if words[0] == "supernode" else 1])]
        assert [word for word in words if re.match(r"--?[a-z]", word) and word not in text] == []


@needs_flower
@pytest.mark.parametrize("name", ["flower-superlink", "flower-supernode"])
def test_flowers_processes_have_the_options_that_the_units_name(name: str, tmp_path: Path) -> None:
    words = shlex.split(units()[name]["ExecStart"])
    text = subprocess.run(
        [program(name), "--help"], env=clean_environment(tmp_path), capture_output=True, text=True, check=True
    ).stdout

    options = [word for word in words if word.startswith("--")]
    assert len(options) > 4
    assert [option for option in options if f"{option} " not in text and f"{option}\n" not in text] == []
