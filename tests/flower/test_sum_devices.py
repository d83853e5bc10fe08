"""Devices of which only noised sums are heard: as in the simulator where noise is the same, and never a report."""

import os
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from fielding._typing import Json
from fielding.client.privacy.geometric import repeatable_words
from fielding.client.privacy.ledger import LEDGER, read_ledger
from fielding.client.privacy.sums import GRID, step_parts
from fielding.engine import plugins
from fielding.errors import InputError, OptionError
from fielding.federation.noised_sums import NoisedSums
from fielding.rng import stream

pytest.importorskip("flwr", reason="the flower extra is not installed")

from fielding.flower.device.rule import rule_from
from fielding.flower.server import deployment
from fielding.flower.server.clients import FlowerClients
from fielding.flower.server.device_rule import device_record
from fielding.flower.server.exchange import _check_answer
from fielding.flower.wire.orders import DescribeReply, ProbeOrder, ProbeReply, Refusal, TrainReply
from tests.flower.device_wire import Deployed, deployed_config
from tests.flower.devices import RULE, Diary, describe, device, samples
from tests.flower.same_runs import assert_stops_do_no_harm, crash_after, deployed_as_simulated
from tests.simulation.run_cases import Table, table

PRIVATE: dict[str, Json] = {"mode": "client", "epsilon": 900}
STEADY = Diary({at: samples([0, 1, 1, 1]) for at in range(20)})
SILENT = replace(RULE, is_silent=True)


def private_table(**sections: Json) -> Table:
    training: dict[str, Json] = {"participants": 16}
    return {**table(**{"privacy": PRIVATE, "training": training, **sections}), "coordinator": {}}


@pytest.fixture(autouse=True)
def _few_clients_and_noise_of_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _file: None)
    monkeypatch.setattr(plugins, "LEAST_CLIENTS", 12)
    words = lambda at: repeatable_words(stream(1, "privacy sums", at))  # noqa: E731
    monkeypatch.setattr(deployment, "NoisedSums", partial(NoisedSums, words_of=words))


def about(wanted: str, centers: list[list[float]], **given: object) -> ProbeOrder:
    rows = np.array(centers, dtype=np.float32)
    order = ProbeOrder(run_id=describe(0).run_id, round_index=0, seed=0, wanted=wanted, models=rows, sets=(len(rows),))  # type: ignore[arg-type]
    return replace(order, **given)  # type: ignore[arg-type]


def test_devices_group_as_the_simulator_says_where_noise_is_the_same(tmp_path: Path) -> None:
    deployed = deployed_as_simulated(deployed_config(private_table(rounds=8)), tmp_path)

    spent = [read_ledger(folder / LEDGER).spendings for folder in (deployed.out, tmp_path / "simulated")]
    assert [(one.round_index, one.epsilon) for one in spent[0]] == [(one.round_index, one.epsilon) for one in spent[1]]


def test_a_server_that_stops_and_goes_on_spends_no_more(tmp_path: Path) -> None:
    assert_stops_do_no_harm(deployed_config(private_table(rounds=8)), tmp_path)

    rounds = [one.round_index for one in read_ledger(next((tmp_path / "two").rglob(LEDGER))).spendings]
    assert rounds == sorted(set(rounds))


def test_a_round_that_is_gone_through_again_after_a_crash_is_spent_again_and_the_run_ends_all_the_same(
    tmp_path: Path,
) -> None:
    deployed = Deployed(deployed_config(private_table(rounds=8)), tmp_path)
    crash_after(deployed, 2)

    assert deployed.run() is not None

    found = read_ledger(deployed.out / LEDGER)
    assert [one.round_index for one in found.spendings][:5] == [0, 1, 2, 2, 3]
    assert len(found.spendings) == found.rules[-1]["releases"]  # the last sum was refused: centers stayed


def test_a_device_never_reports_and_says_no_more_than_its_part_of_a_sum(tmp_path: Path) -> None:
    one = device(tmp_path, STEADY, SILENT)
    for at in range(3):
        reply = one.answer(describe(at))
        assert isinstance(reply, DescribeReply)
        assert reply.report is None

    centers = [[1.0, 0.0], [0.0, 1.0]]
    added = one.answer(about("step", centers, round_index=2))
    assert isinstance(added, ProbeReply)
    assert added.sizes.tolist() == [1]  # not how many samples there are
    counts = np.array([[1, 3]])
    share = added.values[0] / GRID
    assert share.tolist() == (step_parts(counts, np.array(centers))[0] / GRID).tolist()
    asked = one.answer(about("cluster", centers, round_index=2))
    assert isinstance(asked, ProbeReply)
    assert asked.values.tolist() == [[1.0]]
    said = {
        int(reply.values[0, 0])
        for _ in range(60)
        if isinstance(reply := one.answer(about("cluster", centers, round_index=2, id_epsilon=0.1)), ProbeReply)
    }
    assert said == {0, 1}


def test_a_device_in_another_mode_answers_no_sums(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="sums are asked for, but not by"):
        device(tmp_path, STEADY, RULE).answer(about("step", [[1.0, 0.0, 0.0]]))


def test_what_no_client_can_add_does_not_count() -> None:
    order = about("step", [[1.0, 0.0], [0.0, 1.0]])

    def answer(*values: float) -> object:
        return _check_answer(order, ProbeReply(sizes=np.array([1]), values=np.array([values])))

    assert isinstance(answer(100, 0, 50, 0, 0, 0), ProbeReply)
    for bad in ((GRID, 0, 0, 0, 0, 0), (0.5, 0, 0, 0, 0, 0), (np.inf, 0, 0, 0, 0, 0)):
        assert isinstance(answer(*bad), Refusal)
    other = about("cluster", [[1.0, 0.0], [0.0, 1.0]])
    found = _check_answer(other, ProbeReply(sizes=np.array([1]), values=np.array([[2.0]])))
    assert isinstance(found, Refusal)


def test_the_rule_travels_and_older_devices_refuse_it() -> None:
    record = device_record(deployed_config(private_table()), classes=4)

    assert record["privacy"] == {"mode": "client"}
    assert rule_from(record).is_silent
    assert rule_from(record).privacy is None


def test_few_devices_are_refused_on_flower_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "LEAST_CLIENTS", 1000)

    with pytest.raises(OptionError, match="there are 12 clients"):
        Deployed(deployed_config(private_table()), tmp_path).run()


def test_training_replies_carry_no_report(tmp_path: Path) -> None:
    run = Deployed(deployed_config(private_table(rounds=4)), tmp_path)
    heard: list[object] = []
    original = FlowerClients._exchange

    def listen(self: object, tasks: object, wanted: object = None) -> object:
        settled = original(self, tasks, wanted)  # type: ignore[arg-type]
        heard.extend(one.answer for one in settled[0])
        return settled

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FlowerClients, "_exchange", listen)
        run.run()
    replies = [one for one in heard if isinstance(one, (TrainReply, DescribeReply))]
    assert any(isinstance(one, TrainReply) for one in replies)
    assert all(one.report is None for one in replies)
