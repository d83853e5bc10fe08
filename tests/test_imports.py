"""What `import fielding` costs others: nothing heavy, nothing from the network."""

import json
import subprocess
import sys

import pytest

import fielding

HEAVY = (
    "matplotlib",
    "mlflow",
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


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    """Return the modules that a new process holds after ``import fielding``, with the network shut."""
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


@pytest.mark.parametrize("package", HEAVY)
def test_import_leaves_the_heavy_packages_alone(package: str, loaded: set[str]) -> None:
    assert [name for name in loaded if name.split(".")[0] == package] == []


def test_import_loads_fielding_and_numpy(loaded: set[str]) -> None:
    assert {"fielding", "numpy"} <= loaded


def test_the_front_door_lists_a_handful_of_names() -> None:
    """About 15, so that the list can be read; each is tested with all other ``__all__`` in test_house."""
    assert 8 <= len(fielding.__all__) <= 25


def test_the_front_door_tells_its_version() -> None:
    from fielding._version import __version__

    assert fielding.__version__ == __version__


@pytest.mark.parametrize("name", ["no_such_name", "numpy_"])
def test_an_unknown_name_is_an_attribute_error(name: str) -> None:
    with pytest.raises(AttributeError, match=name):
        getattr(fielding, name)
