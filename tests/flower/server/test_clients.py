"""The door over an exchange: one push per round, and clients that join, die, send nonsense or meet a new server."""

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from fielding._typing import Json
from fielding.errors import InputError, OptionError
from fielding.flower.server.roster import key_id
from fielding.flower.wire.orders import EvaluateOrder
from fielding.records.run_checkpoint import load_run
from fielding.records.run_folder import CLIENTS, EVENTS, MEMBERSHIPS, ROUNDS, newest_checkpoint
from fielding.reporting.report_page import report_page
from tests.simulation.run_cases import N_ROUNDS, table

pytest.importorskip("flwr", reason="the flower extra is not installed")

from tests.flower.device_wire import FIRST_ADDRESS, Deployed, accuracies, decisions, deployed_config, lines

N_CLIENTS = 12
EVALUATED = (0, 3, 7, 11)


class Killed(BaseException):
    """Stops a server as a signal does."""


@pytest.fixture(name="whole", scope="module")
def _whole(tmp_path_factory: pytest.TempPathFactory) -> Deployed:
    deployed = Deployed(deployed_config(table()), tmp_path_factory.mktemp("whole"))
    assert deployed.run() is not None
    return deployed


def numbers(folder: Path, name: str) -> list[int]:
    return [int(str(line.get(name, 0))) for line in lines(folder, ROUNDS)]


def address(client: int) -> int:
    return FIRST_ADDRESS + N_CLIENTS - client


# ---- exchanges -----------------------------------------------------------------------------------------------------


def test_a_round_is_one_push_and_so_is_an_evaluation_and_the_start(whole: Deployed) -> None:
    assert len(whole.wire.pushes) == 1 + N_ROUNDS + len(EVALUATED)


def test_the_push_of_a_round_trains_the_chosen_and_asks_all_others_what_is_new(whole: Deployed) -> None:
    for push in whole.wire.pushes:
        verbs = [order.verb for _, order in push]
        assert len({at for at, _ in push}) == len(push) == N_CLIENTS
        assert set(verbs) in ({"train", "describe"}, {"describe"}, {"evaluate"})
    assert [order.verb for _, order in whole.wire.pushes[1]].count("train") == 8


def test_every_client_tests_the_model_of_its_own_cluster(whole: Deployed) -> None:
    found = load_run(newest_checkpoint(whole.out))
    tests = [push for push in whole.wire.pushes if push[0][1].verb == "evaluate"][-1]

    assert len(tests) == N_CLIENTS
    assert np.unique(found.membership).size > 1
    for at, order in tests:
        assert isinstance(order, EvaluateOrder)
        client = found.client_ids.index(order.work.client)
        assert at == address(client)
        assert np.array_equal(order.model, found.models[found.membership[client]])


def test_with_one_model_for_everybody_nobody_is_asked_for_reports(tmp_path: Path) -> None:
    deployed = Deployed(deployed_config(table(rounds=3, method={"name": "global"})), tmp_path)
    deployed.run()
    assert {order.verb for push in deployed.wire.pushes[1:] for _, order in push} == {"train", "evaluate"}


def test_costs_are_the_bytes_of_messages(whole: Deployed) -> None:
    for row in lines(whole.out, ROUNDS):
        assert int(str(row["bytes_down"])) > 8 * 4 * 600  # 8 models go out, of more than 600 numbers
        assert int(str(row["bytes_up"])) > 8 * 4 * 600


def test_the_folder_of_a_deployment_makes_a_report(whole: Deployed) -> None:
    assert "accuracy" in report_page([whole.out])
    assert all(line["measured_heterogeneity"] is None for line in lines(whole.out, ROUNDS) if "accuracy" in line)


# ---- nodes ---------------------------------------------------------------------------------------------------------


def test_clients_are_known_by_their_keys_where_they_have_some(whole: Deployed, tmp_path: Path) -> None:
    deployed = Deployed(deployed_config(table()), tmp_path, with_keys=True)
    deployed.run()
    changed = lines(deployed.out, MEMBERSHIPS)[0]["changed"]
    assert isinstance(changed, list)
    assert all(len(str(pair[0])) == 64 for pair in changed if isinstance(pair, list))
    assert numbers(deployed.out, "n_reports") == numbers(whole.out, "n_reports")


def test_a_node_that_joins_has_no_cluster_until_its_first_report_acts(tmp_path: Path) -> None:
    deployed = Deployed(deployed_config(table()), tmp_path, with_keys=True)
    late = address(5)
    deployed.wire.hidden.add(late)

    def watch(row: Mapping[str, Json]) -> bool:
        if row["round"] == 3:
            deployed.wire.hidden.clear()
        return True

    deployed.run(watch=watch, min_nodes=N_CLIENTS - 1)
    joined = {line["round"]: line["joined"] for line in lines(deployed.out, EVENTS) if line["joined"]}
    first, second = sorted(joined.items(), key=lambda pair: int(str(pair[0])))
    assert (first[0], len(list(first[1]))) == (0, N_CLIENTS - 1)  # type: ignore[arg-type]
    assert (second[0], len(list(second[1]))) == (5, 1)  # type: ignore[arg-type]
    tested = {line["round"]: len(list(line["client"])) for line in lines(deployed.out, CLIENTS)}  # type: ignore[arg-type]
    assert (tested[3], tested[7]) == (N_CLIENTS - 1, N_CLIENTS)
    orders = [len(push) for push in deployed.wire.pushes]
    assert sorted(set(orders)) == [N_CLIENTS - 1, N_CLIENTS]
    assert len(orders) == 1 + N_ROUNDS + len(EVALUATED)  # nobody is asked twice


def late_joiner(method: dict[str, Json], folder: Path, *, with_keys: bool) -> Deployed:
    """Return a run that one of the nodes joined after round 3."""
    deployed = Deployed(deployed_config(table(rounds=8, method=method)), folder, with_keys=with_keys)
    deployed.wire.hidden.add(address(5))

    def watch(row: Mapping[str, Json]) -> bool:
        if row["round"] == 3:
            deployed.wire.hidden.clear()
        return True

    assert deployed.run(watch=watch, min_nodes=N_CLIENTS - 1) is not None
    return deployed


@pytest.mark.parametrize("with_keys", [True, False])
def test_who_comes_too_late_for_a_method_that_cannot_grow_is_left_out_and_told(
    with_keys: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    deployed = late_joiner({"name": "fedac"}, tmp_path, with_keys=with_keys)
    told = [one.getMessage() for one in caplog.records if "came after the start" in one.getMessage()]
    assert [one.startswith("1 nodes came after the start and are left out") for one in told] == [True]
    asked = [order.verb for push in deployed.wire.pushes for at, order in push if at == address(5)]
    assert asked == ([] if with_keys else ["describe"])  # without keys it has to say who it is, once
    assert len(lines(deployed.out, ROUNDS)) == 8


@pytest.mark.parametrize("method", [{"name": "ifca", "k": 2}, {"name": "cfl"}, {"name": "local"}])
def test_methods_that_ask_clients_more_take_in_joiners_all_the_same(method: dict[str, Json], tmp_path: Path) -> None:
    deployed = late_joiner(method, tmp_path, with_keys=True)
    trained = [order.verb for push in deployed.wire.pushes for at, order in push if at == address(5)].count("train")
    assert trained >= 2
    tested = {line["round"]: len(list(line["client"])) for line in lines(deployed.out, CLIENTS)}  # type: ignore[arg-type]
    assert (tested[3], tested[7]) == (N_CLIENTS - 1, N_CLIENTS)


def test_a_node_that_sends_nan_counts_for_nothing_but_its_reports(whole: Deployed, tmp_path: Path) -> None:
    deployed = Deployed(deployed_config(table()), tmp_path)
    deployed.wire.sick.add(address(2))
    deployed.run()
    failed = [line["failed"] for line in lines(deployed.out, ROUNDS) if line.get("n_failed")]
    assert failed
    assert all(one == [2] for one in failed)
    first = next(at for at, line in enumerate(lines(deployed.out, ROUNDS)) if line.get("n_failed"))
    assert numbers(deployed.out, "n_reports")[: first + 2] == numbers(whole.out, "n_reports")[: first + 2]
    assert all(np.isfinite(one) for one in accuracies(deployed.out).values())


ALL: dict[str, Json] = {"budget": "all"}  # all are asked in every round, and waited for


def test_a_dead_node_costs_one_deadline_and_is_then_left_alone(tmp_path: Path) -> None:
    deployed = Deployed(deployed_config(table(reports=ALL)), tmp_path)

    def watch(row: Mapping[str, Json]) -> bool:
        if row["round"] == 4:
            deployed.wire.dead.add(address(0))
        return True

    assert deployed.run(watch=watch) is not None
    asked = [address(0) in [at for at, _ in push] for push in deployed.wire.pushes]
    first_dead = 1 + 5 + 2  # the start, five rounds and two evaluations went before
    assert asked == [True] * (first_dead + 1) + [False] * (len(asked) - first_dead - 1)
    assert numbers(deployed.out, "n_asked")[5:] == [8] * 7


def test_a_slow_node_is_left_alone_until_it_answers_and_what_it_reports_still_acts(tmp_path: Path) -> None:
    deployed = Deployed(deployed_config(table(reports=ALL)), tmp_path, with_keys=True)
    deployed.wire.slow.add(address(4))
    deployed.run()
    joined = {line["round"]: line["joined"] for line in lines(deployed.out, EVENTS) if line["joined"]}
    slow_id = key_id(f"-----BEGIN {address(4)}".encode())
    assert joined[1] == [slow_id]
    asked = [address(4) in [at for at, _ in push] for push in deployed.wire.pushes]
    assert asked[:3] == [True, False, True]
    assert not any(one and following for one, following in pairwise(asked))
    acted = [list(line["reported"]).count(slow_id) for line in lines(deployed.out, EVENTS)]  # type: ignore[arg-type]
    assert sum(acted) >= 2
    assert max(acted) == 1


def test_with_a_budget_a_dead_node_is_asked_once_in_vain_and_costs_one_deadline(tmp_path: Path) -> None:
    deployed = Deployed(deployed_config(table()), tmp_path)

    def watch(row: Mapping[str, Json]) -> bool:
        if row["round"] == 4:
            deployed.wire.dead.add(address(0))
        return True

    assert deployed.run(watch=watch) is not None
    verbs = [order.verb for push in deployed.wire.pushes[8:] for at, order in push if at == address(0)]
    assert len(verbs) <= 2, "a question that is not waited for, and an order that is"
    assert verbs.count("describe") <= 1


def test_with_a_budget_what_a_slow_node_reports_acts_when_it_came(tmp_path: Path) -> None:
    deployed = Deployed(deployed_config(table()), tmp_path, with_keys=True)
    deployed.wire.slow.add(address(4))
    deployed.run()
    slow_id = key_id(f"-----BEGIN {address(4)}".encode())
    acted = [list(line["reported"]).count(slow_id) for line in lines(deployed.out, EVENTS)]  # type: ignore[arg-type]
    assert sum(acted) >= 2
    assert max(acted) == 1


def test_a_node_that_says_late_who_it_is_joins_later_and_is_not_asked_again(tmp_path: Path) -> None:
    deployed = Deployed(deployed_config(table(rounds=4)), tmp_path)
    deployed.wire.slow.add(address(4))

    def watch(_row: Mapping[str, Json]) -> bool:
        deployed.wire.slow.clear()
        return True

    deployed.run(watch=watch)
    places = {line["round"]: line["changed"] for line in lines(deployed.out, MEMBERSHIPS)}
    assert [4, -1] in list(places[1])  # type: ignore[arg-type]
    assert len(deployed.wire.pushes) == 1 + 4 + 2
    asked = [address(4) in [at for at, _ in push] for push in deployed.wire.pushes]
    assert asked == [True, False, False] + [True] * (len(asked) - 3)


def test_too_few_nodes_end_the_run_with_what_to_do(tmp_path: Path) -> None:
    deployed = Deployed(deployed_config(table()), tmp_path)
    with pytest.raises(InputError, match=r"12 nodes could be reached within 0\.2 s, 13 are wanted; start more nodes"):
        deployed.run(min_nodes=13)


# ---- a new server --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("last", "is_clean"), [(4, True), (0, False), (4, False), (10, False)])
def test_a_run_that_was_stopped_goes_on_as_if_nothing_had_happened(
    last: int, is_clean: bool, whole: Deployed, tmp_path: Path
) -> None:
    deployed = Deployed(deployed_config(table()), tmp_path)
    if is_clean:
        assert deployed.run(watch=lambda row: row["round"] != last) is None
    else:
        n_pushes = 1 + last + 2 + sum(one <= last for one in EVALUATED)
        deployed.wire.on_push = lambda: _kill_at(deployed, n_pushes)
        with pytest.raises(Killed):
            deployed.run()
        for at, order in deployed.wire.pushes[-1]:  # the devices do their work all the same
            deployed.wire.devices[at].answer(order)
    deployed.restarted()
    assert deployed.run() is not None

    assert lines(deployed.out, MEMBERSHIPS) == lines(whole.out, MEMBERSHIPS)
    assert decisions(deployed.out) == decisions(whole.out)
    assert accuracies(deployed.out) == pytest.approx(accuracies(whole.out), abs=1e-6)
    assert [line["round"] for line in lines(deployed.out, ROUNDS)] == list(range(N_ROUNDS))


def _kill_at(deployed: Deployed, n_pushes: int) -> None:
    if len(deployed.wire.pushes) == n_pushes:
        raise Killed


def test_clients_with_keys_need_not_say_again_who_they_are(tmp_path: Path) -> None:
    deployed = Deployed(deployed_config(table()), tmp_path, with_keys=True)
    assert deployed.run(watch=lambda row: row["round"] != 5) is None
    n_pushes = len(deployed.wire.pushes)
    deployed.restarted()
    deployed.wire.hidden.add(address(3))  # gone for good, and nobody waits for it
    assert deployed.run() is not None
    assert n_pushes + len(deployed.wire.pushes) == 1 + N_ROUNDS + len(EVALUATED)
    assert numbers(deployed.out, "n_asked") == [8] * N_ROUNDS


def test_keys_cannot_take_the_place_of_partitions(tmp_path: Path) -> None:
    config = deployed_config(table(rounds=4))
    Deployed(config, tmp_path).run(watch=lambda row: row["round"] != 1)
    with pytest.raises(InputError, match="clients of this run are known by partition, those that are there now by key"):
        Deployed(config, tmp_path, with_keys=True).run()


def test_time_goes_on_where_it_stopped(tmp_path: Path) -> None:
    deployed = Deployed(deployed_config(table(rounds=4)), tmp_path)
    deployed.run(watch=lambda row: row["round"] != 1)
    deployed.restarted()
    deployed.run()
    times = [float(str(line["time_s"])) for line in lines(deployed.out, ROUNDS)]
    assert times == sorted(times)
    assert times[0] > 0


def test_a_complete_run_that_is_started_again_asks_nobody(tmp_path: Path) -> None:
    deployed = Deployed(deployed_config(table(rounds=2)), tmp_path)
    first = deployed.run()
    deployed.restarted()
    assert deployed.run() == first
    assert deployed.wire.pushes == []


# ---- what a deployment cannot do -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"method": {"name": "oracle"}}, "method.name is 'oracle', which knows the true concepts"),
        ({"method": {"name": "ifca", "k": 0}}, "method: k is 0; give a whole number"),
        ({"training": {"moon": 1.0}, "model": {"name": "softmax"}}, "training.moon is 1, but contrast needs a hidden"),
        ({"trace": {"liars": 0.1}}, "trace.liars is 0.1, which works in the simulator alone; leave it out"),
    ],
)
def test_what_no_order_can_say_is_refused_before_a_node_is_asked(
    section: dict[str, Json], message: str, tmp_path: Path
) -> None:
    deployed = Deployed(deployed_config(table()), tmp_path)
    config = deployed_config(table(**section))
    with pytest.raises(OptionError, match=message):
        deployed.run_with(config)
    assert deployed.wire.pushes == []
    assert not deployed.out.exists()
