"""Messages lost, doubled, late and out of order, nodes that crash, a server killed again and again (QUALITY.md R16)."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from fielding.flower.deploy.federation import LocalFederation
from fielding.flower.deploy.flower_program import Value
from fielding.flower.deploy.processes import Process
from fielding.records.run_folder import EVENTS, ROUNDS, SUMMARY
from tests.flower.chaotic_proxy import ChaoticProxy, Faults
from tests.flower.real_runs import APP, committed, here, n_rounds, needs_flwr, wait_until

pytest.importorskip("flwr", reason="the flower extra is not installed")

from tests.flower.chaos import CALM, DEADLINE_S, Chaos, Odds, run_chaos
from tests.flower.device_wire import lines


def reporters(chaos: Chaos) -> Counter[str]:
    """Return how often the reports of each client acted."""
    found: Counter[str] = Counter()
    for event in lines(chaos.out, EVENTS):
        assert isinstance(event["reported"], list)
        found.update(map(str, event["reported"]))
    return found


def assert_sound(chaos: Chaos, *, rounds: int, n_restarts: int) -> None:
    rows = lines(chaos.out, ROUNDS)
    assert chaos.problems == []
    assert chaos.n_restarts == n_restarts
    assert [row["round"] for row in rows] == list(range(rounds))
    assert all(row["bytes_down"] or row["bytes_up"] for row in rows), "a round was spent on nothing"
    assert chaos.longest_s <= DEADLINE_S + 1e-6
    assert all(chaos.network.happened[what] for what in ("request_lost", "response_lost", "cut", "doubled", "crash"))


@pytest.mark.parametrize("seed", [5])
def test_every_update_that_was_answered_in_time_counts_once_whatever_happens_on_the_way(
    tmp_path: Path, seed: int
) -> None:
    chaos = run_chaos(tmp_path, rounds=24, seed=seed, odds=Odds(), n_restarts=4)

    assert_sound(chaos, rounds=24, n_restarts=4)
    assert sum(chaos.counted.values()) > 20
    assert max(reporters(chaos).values()) <= 2  # at the start, and after the one drift that any of them has


def test_no_round_is_spent_on_nothing_where_most_answers_are_lost_or_late(tmp_path: Path) -> None:
    chaos = run_chaos(tmp_path, rounds=8, seed=2, odds=Odds(), n_restarts=0, deadline_s=DEADLINE_S / 2)

    assert chaos.problems == []
    assert all(row["bytes_down"] or row["bytes_up"] for row in lines(chaos.out, ROUNDS))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_after_200_rounds_of_chaos_and_20_restarts_all_is_as_in_a_calm_run(tmp_path: Path, seed: int) -> None:
    calm = run_chaos(tmp_path / "calm", rounds=200, seed=seed, odds=CALM, n_restarts=0)
    # Once all have told of themselves: who could not at the start joins the nearest cluster, and groups may be others.
    chaos = run_chaos(tmp_path / "chaos", rounds=200, seed=seed, odds=Odds(first_push=2), n_restarts=20)

    assert_sound(chaos, rounds=200, n_restarts=20)
    assert calm.problems == []
    assert chaos.clusters() == calm.clusters()
    assert reporters(chaos) == reporters(calm)
    assert chaos.accuracy() == calm.accuracy() == 1.0


class ProxiedFederation(LocalFederation):
    """A real federation whose nodes reach their SuperLink through a proxy."""

    proxy: ChaoticProxy | None = None

    def _launch_node(self, number: int) -> Process:
        link = self._started_link
        if self.proxy is None:
            self.proxy = ChaoticProxy(link.port, seed=16).__enter__()
        self._link = replace(link, port=self.proxy.port)
        try:
            return super()._launch_node(number)
        finally:
            self._link = link

    def stop(self) -> None:
        super().stop()
        if self.proxy is not None:
            self.proxy.__exit__(None, None, None)


@pytest.mark.slow
@needs_flwr
def test_real_nodes_behind_a_network_that_loses_cuts_and_delays_requests_lose_no_round(tmp_path: Path) -> None:
    out, rounds, n_nodes = tmp_path / "run", 5, 3
    config: dict[str, Value] = {"out": str(out), "rounds": rounds, "min-nodes": n_nodes, "deadline": 90.0}
    federation = ProxiedFederation(
        tmp_path / "federation",
        n_nodes,
        environment=here(),
        node_config={"script-dir": str(tmp_path), "script": "0:AAB"},
    )
    with federation:
        assert federation.proxy is not None
        # A message takes some 20 requests, each tried again until it is answered: with a quarter of requests and
        # answers lost and 2 s of delay, one message takes minutes.
        federation.proxy.faults = Faults(request_lost=0.1, response_lost=0.1, cut=0.05, delay_s=0.5)
        federation.run_app(APP, config)
        wait_until(lambda: n_rounds(out) >= 2, "two rounds", within_s=1800.0)
        federation.kill_server_apps()
        known = committed(out)
        federation.run_app(APP, config)
        wait_until((out / SUMMARY).exists, "the end", within_s=1800.0)
        happened = federation.proxy.happened

    rows = lines(out, ROUNDS)
    assert known.lost_in(out) == []
    assert [row["round"] for row in rows] == list(range(rounds))
    assert {row["n_failed"] for row in rows} == {0}
    assert all(row["n_participants"] for row in rows)
    assert all(happened[what] for what in ("request_lost", "response_lost", "cut")), happened
