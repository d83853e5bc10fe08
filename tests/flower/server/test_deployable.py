"""What only a simulator can do is refused, and nothing that a user did not write."""

import pytest

from fielding._typing import Json
from fielding.config.presets import PRESETS
from fielding.config.reader import config_from
from fielding.errors import OptionError
from fielding.flower.server.deployment import check_deployable, deployed_config, describing_on_devices


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"method": {"name": "oracle"}}, "method.name is 'oracle', which knows the true concepts"),
        ({"trace": {"liars": 0.2}}, "trace.liars is 0.2, which works in the simulator alone; leave it out"),
        ({"clock": {"availability": "a.csv"}}, "clock.availability is 'a.csv', which works in the simulator alone"),
        ({"checkpoint": {"every": 2}}, "checkpoint.every is 2, but a deployment commits each round"),
    ],
)
def test_what_nobody_tells_a_device_to_do_is_refused(table: dict[str, Json], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        check_deployable(config_from(table))


@pytest.mark.parametrize("representation", ["label", "auto", "class-means"])
@pytest.mark.parametrize("preset", [None, *PRESETS])
def test_presets_and_representations_ask_for_nothing_that_is_refused(preset: str | None, representation: str) -> None:
    config = deployed_config({"preset": preset, "coordinator": {"representation": representation, "detector": None}})
    check_deployable(config)
    assert describing_on_devices(config).needs_model == (representation != "label")
    if representation != "label":
        assert config.coordinator.shared_model == "global"


@pytest.mark.parametrize("coordinator", [{"representation": "my:own"}, {"detector": "joint", "pseudo": 3}])
def test_what_cannot_be_described_is_left_to_whoever_describes(coordinator: dict[str, Json]) -> None:
    assert deployed_config({"coordinator": coordinator}).coordinator.shared_model is None


@pytest.mark.parametrize("checkpoint", [{}, {"every": 1}])
def test_a_commit_each_round_may_be_asked_for(checkpoint: dict[str, Json]) -> None:
    check_deployable(config_from({"checkpoint": checkpoint}))
