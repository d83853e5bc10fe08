"""What `import fielding` costs others: nothing heavy, nothing from the network."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import fielding

HEAVY = (
    "matplotlib",
    "mlflow",
    "msgspec",
    "plotly",
    "pydantic",
    "rich",
    "scipy",
    "sklearn",
    "starlette",
    "tensorboard",
    "torch",
    "typer",
)

# Runs in a new process: this one has long loaded everything.
PROBE = """
import json, sys

def no_network(event, arguments):
    if event.startswith("socket.") or event in ("subprocess.Popen", "urllib.Request"):
        raise SystemExit(f"import fielding does {event}{arguments}")

sys.addaudithook(no_network)
import fielding
print(json.dumps(sorted(sys.modules)))
"""


# The same after reading a config, and after running one.
READ_PROBE = """
import json, sys
from pathlib import Path
from fielding.config.reader import read_config

read_config(Path(sys.argv[1]))
print(json.dumps(sorted(sys.modules)))
"""
RUN_PROBE = """
import json, sys
from fielding.cli import main

try:
    main()
except SystemExit as stopped:
    assert not stopped.code
print(json.dumps(sorted(sys.modules)))
"""
CONFIG = """
rounds = 2
trace = {{clients = 8, gap = 2, window = 4}}
training = {{participants = 4, local_steps = 2}}
model = {{name = "softmax"}}
method = {{name = "{method}"}}
"""


def modules_of(probe: str, *arguments: str | Path) -> set[str]:
    """Return the modules that a new process prints at its end."""
    done = subprocess.run(
        [sys.executable, "-c", probe, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    """Return the modules that a new process holds after ``import fielding``, with the network shut."""
    return modules_of(PROBE)


@pytest.mark.parametrize("package", HEAVY)
def test_import_leaves_the_heavy_packages_alone(package: str, loaded: set[str]) -> None:
    assert [name for name in loaded if name.split(".")[0] == package] == []


def test_import_loads_the_door_alone_and_every_name_behind_it_when_it_is_asked_for(loaded: set[str]) -> None:
    assert {name for name in loaded if name.startswith("fielding")} <= {"fielding", "fielding._version"}
    assert all(hasattr(fielding, name) for name in fielding.__all__)


def test_the_front_door_lists_a_handful_of_names() -> None:
    """So few that the list can be read; each is tested with all other ``__all__`` in test_house."""
    assert 8 <= len(fielding.__all__) <= 26


def test_the_front_door_tells_its_version() -> None:
    from fielding._version import __version__

    assert fielding.__version__ == __version__


@pytest.mark.parametrize("name", ["no_such_name", "numpy_"])
def test_an_unknown_name_is_an_attribute_error(name: str) -> None:
    with pytest.raises(AttributeError, match=name):
        getattr(fielding, name)


def test_reading_a_config_imports_no_part_that_it_could_name(tmp_path: Path, loaded: set[str]) -> None:
    (tmp_path / "config.toml").write_text(CONFIG.format(method="ifca"))

    found = {name for name in modules_of(READ_PROBE, tmp_path / "config.toml") - loaded if name.startswith("fielding.")}

    allowed = ("fielding.config", "fielding.distance", "fielding.errors", "fielding._")
    assert {name for name in found if not name.startswith(allowed)} == set()


@pytest.mark.parametrize("method", ["fielding", "global", "ifca"])
def test_running_a_numpy_config_imports_no_other_method_nor_any_other_engine(method: str, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(CONFIG.format(method=method))

    found = modules_of(RUN_PROBE, "run", tmp_path / "config.toml", "--out", tmp_path / "run", "--quiet")

    assert found & modules_with("method") == {places()["method"][method].partition(":")[0]}
    assert {name for name in found if name.startswith("fielding.flower")} == set()
    assert {name.split(".")[0] for name in found} & {"flwr", "torch"} == set()
    for family in ("selection", "pace", "scenario", "data set"):
        assert len(found & modules_with(family)) == 1


@cache
def places() -> dict[str, dict[str, str]]:
    """Return where parts are, whatever this process has looked up by now."""
    code = "import json\nfrom fielding.config.parts import PLACES\nprint(json.dumps(PLACES))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found: dict[str, dict[str, str]] = json.loads(done.stdout)
    return found


def modules_with(family: str) -> set[str]:
    """Return the modules that hold the parts of a family."""
    return {place.partition(":")[0] for place in places()[family].values()}


DEVICE_PROBE = """
import json, sys
import fielding.flower.client_side
print(json.dumps(sorted(sys.modules)))
"""
MOST_DEVICE_MODULES = 90
SERVER_SIDE = (
    "methods",
    "coordinator",
    "traces",
    "engine",
    "simulation",
    "config.keys",
    "config.reader",
    "flower.server",
)


def test_a_device_loads_little_of_fielding_since_flower_starts_a_process_for_every_message() -> None:
    own = {name for name in modules_of(DEVICE_PROBE) if name.split(".")[0] == "fielding"}

    assert len(own) < MOST_DEVICE_MODULES
    assert [name for name in own if name.removeprefix("fielding.").startswith(SERVER_SIDE)] == []
