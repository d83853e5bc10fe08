"""FedDrift where not everybody takes part."""

import numpy as np

from fielding.methods.feddrift import UNOWNED, feddrift_reports_from
from tests.methods.drifting import (
    AT_ONCE,
    CALM,
    GAP,
    N_CLIENTS,
    check_blocks,
    drift_of,
    total,
)
from tests.methods.plane import (
    MODEL_BYTES,
    Absent,
    agreement,
    plane_clients,
    plane_windows,
    run_rounds,
)


def test_sampled_asks_only_participants_and_who_reports_and_everybody_once() -> None:
    script = {at * GAP: [0, 1, 2] for at in (3, 4)}
    clients = plane_clients(plane_windows(AT_ONCE), script=script)
    method = drift_of(clients, participation="sampled", participants=3, memory="all")
    done = run_rounds(clients, method, range(3 * GAP))

    assert all(one.updates.clients.size == 3 for one in done)
    assert total(clients, "bytes_down", "model") == 3 * GAP * 3 * MODEL_BYTES
    # At the first arrival everybody is tested, so that there is something to compare with when it drifts.
    assert total(clients, "bytes_down", "probe") == N_CLIENTS * MODEL_BYTES
    assert np.isfinite(method.state.score).all()
    assert method.cluster_ids() == (0,)
    run_rounds(clients, method, [3 * GAP])
    assert total(clients, "bytes_down", "probe") == (N_CLIENTS + 3) * MODEL_BYTES
    assert len(method.cluster_ids()) == 4
    run_rounds(clients, method, range(3 * GAP + 1, 40))
    assert len(method.cluster_ids()) == 2
    assert agreement(clients, method) == 1.0
    check_blocks(method)


def test_sampled_compares_with_the_score_of_the_last_test() -> None:
    clients = plane_clients(plane_windows(AT_ONCE), script={3 * GAP: [0, 1, 2]})
    method = drift_of(clients, participation="sampled", participants=6)
    run_rounds(clients, method, range(3 * GAP))
    method.state.score[:3] = [0.9, 0.0, np.nan]
    run_rounds(clients, method, [3 * GAP])

    # All three are served badly now; the second was before, and nothing is known of the third.
    assert method.membership().tolist() == [1, 0, 0, 0, 0, 0]
    assert (method.state.score[:3] < 0.3).all()


def test_sampled_participants_are_drawn_from_all_clients() -> None:
    concepts = np.array([[int(interval >= 2 and client == 0) for client in range(N_CLIENTS)] for interval in range(8)])
    clients = plane_clients(plane_windows(concepts), script={GAP: [0], 2 * GAP: [0]})
    method = drift_of(clients, participation="sampled", participants=2)
    run_rounds(clients, method, range(2 * GAP))
    n_alone = 0
    for at in range(2 * GAP, 7 * GAP):
        (done,) = run_rounds(clients, method, [at])
        expected = np.sort(np.argsort(clients.draws("select", np.arange(N_CLIENTS)))[:2])
        assert sorted(set(done.plan.clients.tolist())) == expected.tolist()
        assert done.plan.start.tolist() == sorted(method.membership()[expected].tolist())
        n_alone += 0 in expected

    assert method.membership().tolist() == [1, 0, 0, 0, 0, 0]
    assert 0 < n_alone < 5 * GAP, "a model with one client is not trained in every round"


def test_sampled_gives_blocks_that_came_while_a_client_was_away_to_its_model() -> None:
    absent = Absent()
    clients = plane_clients(plane_windows(CALM, n_visible=2), script={}, availability=absent)
    method = drift_of(clients, participation="sampled", participants=N_CLIENTS)
    run_rounds(clients, method, range(1))
    absent.who = [2]
    run_rounds(clients, method, range(1, GAP + 2))
    assert method.state.blocks.owner[:, 2].tolist() == [0, 0, UNOWNED]
    absent.who = []
    (done,) = run_rounds(clients, method, [GAP + 2])

    assert method.state.blocks.owner[:, 2].tolist() == [0, 0, 0]
    assert done.plan.blocks is not None
    assert done.plan.blocks[done.plan.clients.tolist().index(2)].tolist() == [1, 2]


def test_sampled_merging_asks_at_most_five_of_a_cluster() -> None:
    concepts = np.array([[int(interval >= 2 and client < 2) for client in range(12)] for interval in range(4)])
    clients = plane_clients(plane_windows(concepts), script={GAP: [0, 1], 2 * GAP: [0, 1]})
    method = drift_of(clients, participation="sampled", participants=12)
    run_rounds(clients, method, range(3 * GAP))
    assert len(method.cluster_ids()) == 3
    before = total(clients, "bytes_down", "probe")
    run_rounds(clients, method, [3 * GAP])

    assert len(method.cluster_ids()) == 2
    assert total(clients, "bytes_down", "probe") - before == (5 + 1 + 1) * 3 * MODEL_BYTES


def test_many_clients_are_sampled_by_default() -> None:
    assert feddrift_reports_from({}, 200) == "nobody"
    assert feddrift_reports_from({}, 201) == "flags"
    assert feddrift_reports_from({"participation": "all"}, 201) == "nobody"
    assert feddrift_reports_from({"participation": "sampled"}, 2) == "flags"
