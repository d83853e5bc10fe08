from pathlib import Path

import pytest

from fielding.config.keys import Config
from fielding.config.reader import read_config
from fielding.traces.catalog import CATALOG

FOLDER = Path(__file__).parents[2] / "experiments" / "paper"
# Table 1 of the paper: clients, rounds between arrivals. Table 2: rounds, learning rate, batch, steps, participants.
TABLES = {
    "fmow": (302, 2, 2000, 0.05, 20, 20, 50),
    "cityscapes": (217, 30, 200, 0.001, 20, 20, 20),
    "waymo": (212, 20, 100, 0.001, 20, 20, 20),
    "open-images": (5078, 50, 400, 0.05, 20, 20, 200),
}
MODELS = {"fmow": "resnet18", "cityscapes": "resnet18", "waymo": "vit-b16", "open-images": "shufflenet-v2"}


def config_of(name: str) -> Config:
    return read_config(FOLDER / f"{name}.toml")


def test_there_is_a_config_for_every_row_of_the_tables() -> None:
    assert {path.stem for path in FOLDER.glob("*.toml")} == set(TABLES)


@pytest.mark.parametrize("name", TABLES)
def test_settings_are_those_of_the_two_tables(name: str) -> None:
    config = config_of(name)
    training, trace = config.training, config.trace

    assert (
        trace.clients,
        trace.gap,
        config.rounds,
        training.learning_rate,
        training.batch_size,
        training.local_steps,
        training.participants,
    ) == TABLES[name]


@pytest.mark.parametrize("name", TABLES)
def test_everything_else_is_the_published_method(name: str) -> None:
    config = config_of(name)

    assert config.preset == "paper"
    assert config.trace.window == 100
    assert config.model.name == MODELS[name]
    assert config.training.prox == 0.1
    assert (config.coordinator.representation, config.coordinator.metric) == ("label", "l1")
    assert config.coordinator.tau == pytest.approx(1 / 3, abs=1e-3)


@pytest.mark.parametrize("name", TABLES)
def test_data_are_known_and_arrive_as_the_data_set_says(name: str) -> None:
    config = config_of(name)
    entry = CATALOG[config.trace.name]

    assert entry.n_clients == config.trace.clients
    assert entry.defaults is not None
    assert entry.defaults.interval == config.trace.interval


@pytest.mark.parametrize("name", ["cityscapes", "waymo", "open-images"])
def test_ten_intervals_last_for_the_start_and_all_rounds(name: str) -> None:
    config = config_of(name)

    assert 10 * config.trace.gap - int(config.trace.window) == config.rounds
