"""Runs of a comparison as forks of the process that wants them, for tests of what comes of them."""

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from fielding.comparing import sweep

FORKING = "from tests.comparing.forked import forking; from fielding.cli import main\nwith forking(): main()"
"""The command line with runs that are forked, for ``tests.cli.invoke.fielding``."""


@contextmanager
def forking() -> Iterator[None]:
    """Fork runs; started anew, as they are for users, each imports for a second before it begins.

    Not for tests of what runs bring along: a fork has all of it already.
    """
    with pytest.MonkeyPatch.context() as patch:
        fork = multiprocessing.get_context("fork")
        patch.setattr(sweep, "multiprocessing", SimpleNamespace(get_context=lambda _name: fork))
        patch.setattr(
            sweep, "faulthandler", SimpleNamespace(enable=lambda: None)
        )  # it wants a standard error with a number
        yield


@pytest.fixture(scope="module")
def forked_runs() -> Iterator[None]:
    """Fork all runs of comparisons of a file."""
    with forking():
        yield
