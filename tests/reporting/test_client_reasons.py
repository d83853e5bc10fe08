"""Why a client is where it is: told from the logs alone, and equal to what the coordinator did."""

from pathlib import Path

import numpy as np
import pytest

from fielding._typing import Json
from fielding.coordinator.assignment import Clusters
from fielding.coordinator.decision import Decision
from fielding.coordinator.policy import Policy, policy_from
from fielding.errors import InputError
from fielding.methods.fielding import Fielding
from fielding.records.run_checkpoint import load_run
from fielding.records.run_folder import newest_checkpoint
from fielding.reporting.client_reasons import Why, client_ids, cluster_changes, explain_client, follow_client
from fielding.reporting.numbers.run_record import read_run
from fielding.simulation.assembly import Own
from fielding.simulation.experiment import run
from tests.reporting.charts.inside_runs import LABELS, MIXES, PEOPLE, changed, inside_run, write_log
from tests.simulation.run_cases import small_pool, table


def small_run(folder: Path, **sections: Json) -> Path:
    run(table(**sections), folder, own=Own(samples=small_pool()), page=False)
    return folder


def with_rules(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Path:
    """Write the run of ann, bob, cid and dan, as if it had a checkpoint with the rules of the paper."""
    inside_run(folder)
    monkeypatch.setattr("fielding.reporting.client_reasons._read_policy", lambda _run: Policy())
    return folder


def numbers(why: Why, name: str) -> list[dict[str, Json]]:
    found = why.record[name]
    assert isinstance(found, list)
    return [dict(one) for one in found if isinstance(one, dict)]


@pytest.mark.parametrize(
    "sections",
    [
        {"rounds": 40, "coordinator": {"tau": 0.2}},
        {"rounds": 40, "coordinator": {"tau": 0.4, "reference": "last-global"}},
        {"rounds": 40, "method": {"name": "moves"}, "coordinator": {"metric": "hellinger"}},
        {"rounds": 40, "method": {"name": "fielding", "guard": True}},
    ],
    ids=["fielding", "since the last grouping", "moves", "guarded"],
)
def test_centers_shifts_and_moves_are_those_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sections: dict[str, Json]
) -> None:
    stood: dict[int, Clusters | None] = {}
    decide = Fielding.adapt

    def note(method: Fielding, reports: object, clients: object) -> Decision | None:
        before = method.coordinator.clusters
        decision = decide(method, reports, clients)  # type: ignore[arg-type]
        stood[clients.round_index] = before  # type: ignore[attr-defined]
        return decision

    monkeypatch.setattr(Fielding, "adapt", note)
    found = read_run(small_run(tmp_path / "run", **sections))
    state = load_run(newest_checkpoint(tmp_path / "run"))
    inner = state.values["coordinator"]
    assert isinstance(inner, dict)
    policy = policy_from(inner["policy"])  # type: ignore[arg-type]
    n_shifts = 0
    for client in client_ids(found):
        for step in follow_client(found, client, policy):
            before = stood[step.round_index]
            if before is not None:
                assert tuple(step.before) == before.ids
                np.testing.assert_allclose(np.stack(list(step.before.values())), before.centers, atol=1e-12)
            shift = step.event["shift"]
            if isinstance(shift, float) and step.shifts:
                n_shifts += 1
                assert min(abs(shift - one) for one in step.shifts.values()) < 1e-9
            listed = step.event["moved"]
            assert isinstance(listed, list)
            if step.nearest is not None and step.cluster >= 0 and "guard" not in step.event:
                assert (step.nearest != step.cluster) == (client in listed)
    assert n_shifts


def test_a_move_is_told_with_the_distances_that_decided_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    why = explain_client(with_rules(monkeypatch, tmp_path / "run"), "bob", 4)

    # From (0.6, 0.4, 0) to (0, 0.2, 0.8); centers (0.7, 0.3, 0) and (0, 0.2, 0.8).
    assert why.record["report_change"] == pytest.approx(1.6)
    assert [one["feature"] for one in numbers(why, "largest_changes")] == ["owl", "cat", "dog"]
    near = numbers(why, "distances")
    assert [(one["cluster"], one["clients"]) for one in near] == [(0, 2), (1, 2)]
    assert [one["old_report"] for one in near] == pytest.approx([0.2, 1.6])
    assert [one["new_report"] for one in near] == pytest.approx([1.6, 0.0], abs=1e-6)
    assert (why.record["outcome"], why.record["nearest"], why.record["reclustered"]) == ("moved", 1, False)
    assert (why.record["cluster_before"], why.record["cluster_after"]) == (0, 1)
    assert "It moved from cluster 0 to cluster 1: the center of 1 is the nearest to what it reported" in repr(why)
    assert "owl 0.000 -> 0.800" in why.text
    assert "went 0.125; up to 0.500 is allowed" in why.text


def test_a_regrouping_is_told_with_what_fired_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    why = explain_client(with_rules(monkeypatch, tmp_path / "run"), "cid", 8)

    assert (why.record["outcome"], why.record["n_clusters_before"], why.record["n_clusters_after"]) == (
        "re-clustered",
        2,
        3,
    )
    assert "All clients were grouped anew: the center that moved most" in why.text
    assert "It came from cluster 1 into cluster 2; 1 of the 2 others of its cluster before" in why.text
    assert "silhouettes by number of clusters: 2: 0.250, 3: 0.500" in why.text


def test_a_client_that_did_not_report_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = with_rules(monkeypatch, tmp_path / "run")

    kept = explain_client(folder, "ann", 8)
    assert kept.record["outcome"] == "kept"
    assert "It did not report: its drift test saw no drift, or it could not be reached." in kept.text
    assert "It stayed in cluster 0" in kept.text
    quiet = explain_client(folder, "bob", 5)
    assert "no samples arrived since its last report. It has reported nothing since round 4." in quiet.text
    assert "outcome" not in quiet.record


def test_going_silent_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MIXES, 4, [None, [0.0, 0.0, 0.0], None, None])
    folder = with_rules(monkeypatch, tmp_path / "run")
    places = [(0, dict(zip(PEOPLE, (0, 0, 1, 1), strict=True))), (8, {"cid": 2, "dan": 2})]
    write_log(folder, "memberships", [changed(at, now) for at, now in places])  # type: ignore[arg-type]

    why = explain_client(folder, "bob", 4)

    assert (why.record["outcome"], why.record["silent"]) == ("silent", True)
    assert "no samples any more" in why.text
    assert LABELS[0] not in why.text


def test_a_history_holds_reports_changes_and_scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    why = explain_client(with_rules(monkeypatch, tmp_path / "run"), "bob")

    assert why.text.splitlines() == [
        "client bob: cluster 1 after round 9 (fielding)",
        "reported in 2 rounds: 0, 4",
        "round 0: the first clusters were made; it came into cluster 0",
        "round 4: moved from cluster 0 (1.600 away) to cluster 1, the nearest to its report (0.000)",
        "round 8: all were grouped anew: 2 -> 3 clusters; it stayed in cluster 1",
        "true concept (no method sees it): 0 from round 0, 1 from round 4",
        "accuracy on its window, by round: 0: 0.500, 9: 0.750",
        "served in round 9 by the model of cluster 1",
        "ask for round 8 to see why, with the distances to all centers",
    ]
    assert why.record["reports"] == [0, 4]
    assert [one["outcome"] for one in numbers(why, "clusters")] == ["started", "moved", "kept"]


def test_a_method_without_reasons_says_so_in_a_line(tmp_path: Path) -> None:
    folder = small_run(tmp_path / "run", method={"name": "ifca"})
    whole = explain_client(folder, 5)
    changes = numbers(whole, "clusters")

    why = explain_client(folder, 5, 3)

    assert changes[0]["why"] == f"came into cluster {changes[0]['to']}"
    assert "The method ifca writes down no reasons: the logs hold who was where" in why.text
    assert "metric" not in why.record


def test_without_a_checkpoint_the_rules_are_not_known(tmp_path: Path) -> None:
    inside_run(tmp_path / "run")

    assert "Nothing is committed yet" in explain_client(tmp_path / "run", "bob", 4).text


def test_experts_and_corrections_are_what_a_client_is_served_by(tmp_path: Path) -> None:
    corrected = small_run(tmp_path / "corrected", serving={"correction": "prior"})
    mixed = small_run(tmp_path / "experts", serving={"experts": "auto"})

    assert str(numbers(explain_client(corrected, 3), "evaluations")[-1]["served_by"]).endswith(", corrected")
    last = numbers(explain_client(mixed, 3), "evaluations")[-1]
    assert str(last["served_by"]).startswith("its experts, with the model of cluster ")
    believed = last["experts"]
    assert isinstance(believed, dict)
    assert sum(float(str(one)) for one in believed.values()) == pytest.approx(1.0, abs=1e-4)


def test_unknown_clients_and_rounds_are_refused(tmp_path: Path) -> None:
    inside_run(tmp_path / "run")

    with pytest.raises(InputError, match="no such client in this run: 'bab'; did you mean 'bob'"):
        explain_client(tmp_path / "run", "bab")
    with pytest.raises(InputError, match="there is no round 77 in this run; it has rounds 0 to 9"):
        explain_client(tmp_path / "run", "bob", 77)


def test_damaged_events_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = with_rules(monkeypatch, tmp_path / "run")
    log = folder / "events.jsonl"
    log.write_text(log.read_text().replace('"round": 8,', '"round": "x",'))

    assert [one["round"] for one in cluster_changes(read_run(folder), "bob")] == [0, 4]
