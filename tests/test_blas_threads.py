from threading import get_ident

import numpy as np
import pytest
from threadpoolctl import threadpool_info  # type: ignore[import-untyped]

from fielding import blas_threads as threads
from fielding.blas_threads import in_threads, n_threads


def blas_threads() -> list[int]:
    return [int(pool["num_threads"]) for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_results_come_in_the_order_of_the_items(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "n_threads", lambda: 4)

    assert in_threads(lambda size: int(np.ones((size, size)).sum()), [300, 1, 200, 2]) == [90_000, 1, 40_000, 4]
    assert in_threads(lambda size: size, []) == []


def test_one_thread_is_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "n_threads", lambda: 1)

    assert in_threads(lambda _: get_ident(), [1, 2]) == [get_ident()] * 2


def test_an_error_in_a_thread_reaches_the_caller_and_frees_the_matrix_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "n_threads", lambda: 2)
    before = blas_threads()

    with pytest.raises(ZeroDivisionError):
        in_threads(lambda number: 1 // number, [1, 0])

    assert blas_threads() == before


def test_the_matrix_library_keeps_to_one_thread_meanwhile_also_when_nested() -> None:
    before = blas_threads()

    inside = in_threads(lambda _: in_threads(lambda _: blas_threads(), [0])[0], [0, 1])

    assert {size for sizes in inside for size in sizes} == {1}
    assert blas_threads() == before


def test_there_is_at_least_one_thread() -> None:
    assert n_threads() >= 1
