"""Runs of a comparison as forks of the process of the tests, for tests of what comes of them."""

import multiprocessing
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from fielding.comparing import sweep


@pytest.fixture(scope="module")
def forked_runs() -> Iterator[None]:
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
