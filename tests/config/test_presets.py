"""The preset of the published method says what METHODS.md says, and leaves nothing of it to the defaults."""

from dataclasses import fields

import pytest

from fielding.config.keys import Config, CoordinatorSection
from fielding.config.presets import PRESETS
from fielding.config.reader import config_from

PAPER = PRESETS["paper"]


def test_the_paper_names_every_key_of_the_coordinator() -> None:
    keys = {field.name for field in fields(CoordinatorSection)} - {"options"}

    # Label histograms need no shared model; other representations have the paper's, of its number of epochs.
    assert set(PAPER["coordinator"]) == keys - {"shared_rounds"}


def test_the_paper_reports_and_regroups_as_published() -> None:
    coordinator = config_from({"preset": "paper"}).coordinator

    assert coordinator == CoordinatorSection(
        representation="label",
        shared_model="pool",
        shared_epochs=300,
        metric="l1",
        detector="any-change",
        trigger="center-shift",
        tau=1 / 3,
        reference="previous",
        noise_floor=False,
        delta_step=0.1,
        partitioner="kmeans",
        k_max=10,
        k_choice="silhouette",
        participants_per_cluster=4,
        hysteresis=0.0,
        warm_start=False,
        robust=False,
        inherit="average",
        reports="before-round",
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("prox", 0.1),
        ("momentum", 0.9),
        ("weight_decay", 5e-4),
        ("lr_decay", 0.98),
        ("lr_every", 10),
        ("lr_floor", 5e-5),
        ("weighted", False),
    ],
)
def test_the_paper_trains_with_the_optimizer_of_fedscale(key: str, value: float) -> None:
    assert PAPER["training"][key] == value
    assert getattr(config_from({"preset": "paper"}).training, key) == value


def test_the_paper_selects_uniformly_and_averages_plainly() -> None:
    config = config_from({"preset": "paper"})

    assert (config.selection.name, config.aggregation.name, config.clock.overcommit) == ("uniform", "mean", 1.3)


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_changes_something_and_names_only_what_exists(preset: str) -> None:
    assert config_from({"preset": preset}) != config_from({})
    for section, values in PRESETS[preset].items():
        known = {field.name for field in fields(getattr(Config(), section))}
        assert values.keys() <= known
