import numpy as np
import pytest

from fielding.client.drift import drift_test as evidence_module
from fielding.client.drift.drift_test import Evidence, apply_in_chunks


def evidence_of(n_clients: int) -> Evidence:
    rows = np.arange(1, n_clients + 1)[:, np.newaxis] * np.ones((1, 2), dtype=np.int64)
    return Evidence(
        reported=rows,
        current=rows,
        fresh=rows,
        before=rows,
        age=np.arange(n_clients),
        arrived=np.arange(n_clients),
        is_mixed=np.arange(n_clients) % 2 == 0,
    )


def test_client_without_samples_then_or_now_is_not_comparable() -> None:
    evidence = Evidence(
        reported=np.array([[1, 0], [0, 0], [1, 0], [0, 0]]),
        current=np.array([[0, 1], [0, 1], [0, 0], [0, 0]]),
        fresh=np.zeros((4, 2), dtype=np.int64),
        before=np.zeros((4, 2), dtype=np.int64),
        age=np.zeros(4, dtype=np.int64),
        arrived=np.zeros(4, dtype=np.int64),
        is_mixed=np.zeros(4, dtype=np.bool_),
    )

    assert evidence.comparable().tolist() == [True, False, False, False]


def test_judge_sees_few_clients_at_a_time_and_only_comparable_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence_module, "CHUNK", 2)
    evidence = evidence_of(5)
    evidence.reported[3] = 0
    seen: list[list[int]] = []

    def judge(chunk: Evidence) -> np.ndarray:
        seen.append(chunk.age.tolist())
        return chunk.age >= 2

    assert apply_in_chunks(evidence, judge).tolist() == [False, False, True, False, True]
    assert seen == [[0, 1], [2], [4]]


def test_rows_of_evidence_keep_what_belongs_together() -> None:
    part = evidence_of(4).rows(np.array([3, 1]))

    assert part.age.tolist() == [3, 1]
    assert part.current.tolist() == part.reported.tolist() == part.fresh.tolist() == [[4, 4], [2, 2]]
    assert part.arrived.tolist() == [3, 1]
