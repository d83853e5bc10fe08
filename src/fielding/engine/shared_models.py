"""Where the frozen model comes from that all clients see their samples with."""

from pathlib import Path

from fielding._typing import Models
from fielding.config.keys import CoordinatorSection
from fielding.errors import CheckpointError, InputError, OptionError
from fielding.records.model_file import read_model
from fielding.training.layout import Layout

POOL, GLOBAL = "pool", "global"
"""Trained on samples that the server holds out; the mean of all models after some rounds. Else it is a file."""


def file_model(section: CoordinatorSection, layout: Layout) -> Models:
    """Return the shared model of the file that a config names, or raise :class:`OptionError`.

    Parameters
    ----------
    section
        Of a config.
    layout
        What its numbers have to mean.

    Returns
    -------
    float32, shape ``(n_numbers,)``.
    """
    try:
        return read_model(Path(section.shared_model).expanduser(), layout)
    except (InputError, CheckpointError) as error:
        raise OptionError(f"coordinator.shared_model: {error}") from None
