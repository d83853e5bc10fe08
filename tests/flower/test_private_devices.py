"""Private reports of devices: the same as in the simulator where noise is the same, and spent before it is sent."""

import json
import os
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from fielding._typing import Json
from fielding.client.privacy.counts import STEPS
from fielding.client.privacy.geometric import repeatable_words
from fielding.client.privacy.ledger import LEDGER, LedgerFile, read_ledger
from fielding.client.privacy.rule import PrivacyRule, gaussian_rule
from fielding.client.representation.embedding import Embedding
from fielding.client.representation.gradient import HeadGradient
from fielding.client.representation.representation import Representation
from fielding.engine.plugins import privacy_of
from fielding.engine.report_rule import report_rule_of
from fielding.errors import InputError, OptionError
from fielding.records.report_file import read_reports
from fielding.records.run_checkpoint import load_run
from fielding.records.run_folder import CHECKPOINTS, REPORTS, ROUNDS
from fielding.rng import stream

pytest.importorskip("flwr", reason="the flower extra is not installed")

from fielding.flower.device.device import Device
from fielding.flower.device.own_code import OwnCode
from fielding.flower.device.rule import rule_from
from fielding.flower.device.state import STATE
from fielding.flower.server.deployment import set_up_run
from fielding.flower.server.device_rule import device_record
from fielding.flower.wire.orders import DescribeReply, Report, SharedView
from fielding.runtime.own_code import DeviceNode
from tests.flower.device_wire import Deployed, deployed_config, deployment_of, lines, simulation_of
from tests.flower.devices import RULE, TRAINER, WORK, Diary, describe, device, samples
from tests.flower.same_runs import assert_stops_do_no_harm, crash_after, deployed_as_simulated
from tests.simulation.run_cases import Crash, Table, table

PRIVACY = PrivacyRule(epsilon=Fraction(1), reports=1, window=2)
PRIVATE: dict[str, Json] = {"mode": "record", "epsilon": 4, "reports_per_window": 2}
STEADY = Diary({at: samples([0, 1, 1]) for at in range(30)})


def private_table(**sections: Json) -> Table:
    return {**table(privacy=PRIVATE, **sections), "coordinator": sections.get("coordinator", {})}


@pytest.mark.parametrize(
    "sections",
    [
        {},
        {"coordinator": {"representation": "soft-confusion", "shared_model": "global", "shared_rounds": 2}},
        {"coordinator": {"representation": "embedding", "shared_model": "global", "shared_rounds": 2}},
        {"coordinator": {"representation": "head-gradient", "shared_model": "global", "shared_rounds": 2}},
    ],
    ids=["label", "soft-confusion", "embedding", "head-gradient"],
)
def test_devices_report_as_the_simulator_says_where_noise_is_the_same(
    sections: dict[str, Json], tmp_path: Path
) -> None:
    deployed = deployed_as_simulated(deployed_config(private_table(**sections)), tmp_path)

    told, wanted = (reports_in(folder) for folder in (deployed.out, tmp_path / "simulated"))
    assert told.keys() == wanted.keys()
    for key, vector in told.items():  # models see samples as they do there but for a last digit, which may be a step
        np.testing.assert_allclose(vector, wanted[key], rtol=0, atol=1 / STEPS, err_msg=str(key))
    simulated = read_ledger(tmp_path / "simulated" / LEDGER).spendings
    ledgers = {at: read_ledger(next((tmp_path / f"device-{at}").glob(f"*.{LEDGER}"))).spendings for at in range(12)}
    for client, spendings in ledgers.items():
        ours = [(one.round_index, one.epsilon, one.next_round) for one in spendings]
        assert ours == [(one.round_index, one.epsilon, one.next_round) for one in simulated if one.client == client]


def reports_in(folder: Path) -> dict[tuple[int, object], np.ndarray]:
    """Return what clients reported in a run, by round and client."""
    return {
        (step, client): vector
        for path in sorted((folder / REPORTS).iterdir())
        for step, batch in read_reports(path, "vector")
        for client, vector in zip(batch.client_ids, batch.representations, strict=True)
    }


def test_a_server_that_stops_and_goes_on_costs_no_budget(tmp_path: Path) -> None:
    section: dict[str, Json] = {"representation": "embedding", "shared_model": "global", "shared_rounds": 2}
    assert_stops_do_no_harm(deployed_config(private_table(coordinator=section)), tmp_path)


def ledger_of(folder: Path) -> LedgerFile:
    return read_ledger(next(folder.glob(f"*.{LEDGER}")))


def report_of(one: Device, round_index: int, confirmed: int = 0) -> Report | None:
    reply = one.answer(describe(round_index, confirmed))
    assert isinstance(reply, DescribeReply)
    return reply.report


def test_a_device_draws_noise_that_nobody_can_repeat_and_reports_by_turns(tmp_path: Path) -> None:
    rule = replace(RULE, privacy=PRIVACY)
    first, other = (report_of(device(tmp_path / name, STEADY, rule), 0) for name in ("one", "other"))
    assert first is not None
    assert other is not None
    seen = {first.representation.tobytes(), other.representation.tobytes()}
    seen |= {
        one.representation.tobytes()
        for at in range(10)
        if (one := report_of(device(tmp_path / f"more-{at}", STEADY, rule), 0)) is not None
    }
    assert len(seen) > 2

    rounds: list[int] = []
    for at in range(1, 12):
        told = report_of(device(tmp_path / "one", STEADY, rule), at, confirmed=1 + len(rounds))
        rounds += [] if told is None else [at]

    assert [one.round_index for one in ledger_of(tmp_path / "one").spendings] == [0, *rounds]
    assert rounds[0] in (2, 3)
    assert (np.diff(rounds) == 2).all()


def test_a_lost_report_goes_out_again_as_it_was(tmp_path: Path) -> None:
    rule = replace(RULE, privacy=PrivacyRule(epsilon=Fraction(1), reports=1, window=9), max_rounds=9)

    told = [report_of(device(tmp_path, STEADY, rule), at) for at in range(6)]

    assert all(one is not None for one in told)
    assert len({one.representation.tobytes() for one in told if one is not None}) == 1
    assert len(ledger_of(tmp_path).spendings) == 1


def test_what_was_spent_stays_spent_though_the_state_or_the_whole_run_is_gone(tmp_path: Path) -> None:
    rule = replace(RULE, privacy=PrivacyRule(epsilon=Fraction(1), reports=1, window=9), max_rounds=9)
    assert report_of(device(tmp_path, STEADY, rule), 0) is not None
    for path in tmp_path.glob(f"*/{STATE}"):
        path.unlink()

    assert report_of(device(tmp_path, STEADY, rule), 1) is None
    device(tmp_path, STEADY, rule).answer(replace(describe(2), asks="end"))
    assert report_of(device(tmp_path, STEADY, rule), 3) is None
    assert len(ledger_of(tmp_path).spendings) == 1


def test_a_device_without_samples_says_so_and_spends_nothing(tmp_path: Path) -> None:
    rule, diary = replace(RULE, privacy=PRIVACY), Diary({0: samples([0, 1])})
    first = report_of(device(tmp_path, diary, rule), 0)
    later = report_of(device(tmp_path, diary, rule), 2, confirmed=1)

    assert first is not None
    assert first.n_samples == 2
    assert later is not None
    assert later.is_silent
    assert len(ledger_of(tmp_path).spendings) == 1


def test_noise_can_be_given_to_a_device_for_tests(tmp_path: Path) -> None:
    rule = replace(RULE, privacy=PRIVACY)

    def told(folder: Path) -> Report | None:
        node = DeviceNode(partition=None, config={}, folder=folder)
        one = Device(
            node,
            rule,
            OwnCode(load_data=STEADY.load),
            noise_of=lambda _me, at: repeatable_words(stream(1, "test", at)),
        )
        return report_of(one, 0)

    first, second = told(tmp_path / "one"), told(tmp_path / "two")
    assert first is not None
    assert second is not None
    assert first.representation.tolist() == second.representation.tolist()


def test_vectors_of_ones_own_are_refused_on_the_server_and_on_the_device(tmp_path: Path) -> None:
    config = deployed_config(private_table())
    with pytest.raises(OptionError, match="of one's own is not proven"):
        device_record(config, classes=4, own_vectors=True)

    own = OwnCode(load_data=STEADY.load, describe=lambda _samples, _n: np.ones(2))
    with pytest.raises(InputError, match="client_app has describe, but reports are to be private"):
        device(tmp_path, STEADY, replace(RULE, privacy=PRIVACY), own).answer(describe(0))


def test_orders_carry_the_rule_and_one_that_came_damaged_is_refused() -> None:
    record = device_record(deployed_config(private_table()), classes=4)
    assert record["privacy"] == {"epsilon": "4", "reports": 2, "window": 6}
    assert rule_from(record).privacy == PrivacyRule(epsilon=Fraction(4), reports=2, window=6)
    assert "privacy" not in device_record(deployed_config(table()), classes=4)

    with pytest.raises(InputError, match="the rule of private reports"):
        rule_from({**record, "privacy": {"epsilon": "0", "reports": 2, "window": 6}})


SAMPLE: dict[str, Json] = {"training": "sample", "training_epsilon": 4.0, "trainings_per_window": 2}
CLIENT: dict[str, Json] = {"training": "client", "training_epsilon": 900.0, "sampling_rate": 0.5}


def trained_privately(section: dict[str, Json]) -> Table:
    return {**table(privacy=section, method={"name": "global"}), "coordinator": {}}


@pytest.mark.usefixtures("_no_waiting_for_the_disk")
def test_devices_train_in_private_as_the_simulator_says_where_noise_is_the_same(tmp_path: Path) -> None:
    deployed_as_simulated(deployed_config(trained_privately(SAMPLE)), tmp_path)

    simulated = read_ledger(tmp_path / "simulated" / LEDGER).of("training").spendings
    assert simulated
    for client in range(12):
        path = next((tmp_path / f"device-{client}").glob(f"*.{LEDGER}"), None)
        spendings = [] if path is None else read_ledger(path).of("training").spendings
        wanted = [one.round_index for one in simulated if one.client == client]
        assert [one.round_index for one in spendings] == wanted


@pytest.mark.usefixtures("_no_waiting_for_the_disk")
def test_a_server_adds_noise_to_what_devices_send_and_writes_it_down_first(tmp_path: Path) -> None:
    deployed = Deployed(deployed_config(trained_privately(CLIENT)), tmp_path)
    crash_after(deployed, 3)

    assert deployed.run() is not None

    found = read_ledger(deployed.out / LEDGER)
    assert found.kinds() == ["models"]
    # Round 3 was released twice, with other noise, and spent twice: nothing is left for the last round.
    assert [one.round_index for one in found.spendings] == [0, 1, 2, 3, *range(3, 11)]
    assert [row["round"] for row in lines(deployed.out, ROUNDS)] == list(range(12))
    before, last = (load_run(path).models for path in sorted((deployed.out / CHECKPOINTS).iterdir()))
    np.testing.assert_array_equal(before, last)


# ---- sums with Gaussian noise ----------------------------------------------------------------------------------------

GAUSSIAN = gaussian_rule(epsilon=Fraction(2), delta=Fraction(1, 10**5), reports=1, window=9)
SUMMED = pytest.mark.parametrize("representation", [Embedding(), HeadGradient()], ids=["embedding", "head-gradient"])
MODEL = np.array([1.0, -1.0, 0.5, 0.0, 0.1, -0.1], dtype=np.float32)
SHARED = SharedView(key="ab", model=MODEL, layout=TRAINER.layout, work=WORK)


def summing(folder: Path, representation: Representation, rule: PrivacyRule = GAUSSIAN) -> Device:
    """Return a device as a new process has it, which reports sums of what the shared model sees."""
    own = replace(RULE, privacy=rule, max_rounds=9, representation=representation, needs_model=True)
    return device(folder, STEADY, own)


def sums_of(one: Device, round_index: int, confirmed: int = 0, shared: SharedView = SHARED) -> Report | None:
    reply = one.answer(replace(describe(round_index, confirmed), shared=shared))
    assert isinstance(reply, DescribeReply)
    return reply.report


@SUMMED
def test_sums_are_whole_steps_with_noise_that_nobody_can_repeat(representation: Representation, tmp_path: Path) -> None:
    told = [sums_of(summing(tmp_path / name, representation), 0) for name in ("one", "other")]

    tallies = [one.tally for one in told if one is not None and one.tally is not None]
    assert len(tallies) == 2
    assert all((tally * STEPS == np.rint(tally * STEPS)).all() for tally in tallies)
    assert (tallies[0] != tallies[1]).all()
    assert ledger_of(tmp_path / "one").most_spent() == {"device": pytest.approx(2.0, abs=0.01)}


@SUMMED
def test_sums_that_were_lost_go_out_again_as_they_were_from_any_process(
    representation: Representation, tmp_path: Path
) -> None:
    first = sums_of(summing(tmp_path, representation), 0)
    again = [sums_of(summing(tmp_path, representation), at) for at in (0, 0, 1, 2)]
    assert first is not None
    assert first.tally is not None
    reference = replace(SHARED, key="ab.cd", model=None, layout=None, work=None, reference=first.tally)

    later = sums_of(summing(tmp_path, representation), 3, shared=reference)

    for one in again:
        assert one is not None
        assert one.tally is not None
        assert one.tally.tolist() == first.tally.tolist()
    assert later is not None
    assert later.representation.tolist() == (first.tally / first.n_samples).astype(np.float32).tolist()
    assert [one.round_index for one in ledger_of(tmp_path).spendings] == [0]


@SUMMED
def test_a_device_killed_at_any_byte_of_its_ledger_or_right_after_tells_no_more(
    representation: Representation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sums_of(summing(tmp_path / "whole", representation), 0) is not None
    (whole,) = (tmp_path / "whole").glob(f"*.{LEDGER}")
    size, real = whole.stat().st_size, os.write
    for n_bytes in (0, 1, size // 2, size - 30, size - 1, size):

        def write(handle: int, data: bytes, n_bytes: int = n_bytes) -> int:
            real(handle, bytes(data)[:n_bytes])
            raise Crash

        folder = tmp_path / str(n_bytes)
        monkeypatch.setattr(os, "write", write)
        with pytest.raises(Crash):
            sums_of(summing(folder, representation), 0)
        monkeypatch.setattr(os, "write", real)
        told: dict[bytes, int] = {}
        for at in range(1, 22):  # each in a new process
            one = sums_of(summing(folder, representation), at)
            if one is not None and one.tally is not None:
                told.setdefault(one.tally.tobytes(), at)

        # Whatever of the line is there counts as a report that was sent.
        spent = [one.round_index for one in ledger_of(folder).spendings]
        assert all([one for one in spent if at - 9 < one <= at] == [at] for at in told.values())
        assert (min(told.values()) == 1) is (n_bytes == 0)


def test_a_device_that_dies_before_it_has_saved_its_sums_makes_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_given: object) -> None:
        raise Crash

    monkeypatch.setattr("fielding.flower.device.device.write_state", die)
    with pytest.raises(Crash):
        sums_of(summing(tmp_path, Embedding()), 0)
    monkeypatch.undo()

    assert [sums_of(summing(tmp_path, Embedding()), at) for at in range(9)] == [None] * 9
    assert len(ledger_of(tmp_path).spendings) == 1


def test_sums_with_another_noise_are_refused_since_they_cannot_be_added_up(tmp_path: Path) -> None:
    sums_of(summing(tmp_path, Embedding()), 0)
    other = gaussian_rule(epsilon=Fraction(3), delta=Fraction(1, 10**5), reports=1, window=9)

    with pytest.raises(OptionError, match="has a budget of report with another noise"):
        sums_of(summing(tmp_path, Embedding(), other), 9)
    assert len(ledger_of(tmp_path).spendings) == 1


def test_orders_carry_the_rule_of_sums_and_devices_check_its_noise() -> None:
    section: dict[str, Json] = {"representation": "head-gradient", "shared_model": "global", "shared_rounds": 2}
    config = deployed_config(private_table(coordinator=section))
    record = json.loads(json.dumps(device_record(config, classes=4)))

    rule = rule_from(record)

    assert rule.privacy == privacy_of(config, report_rule_of(config.coordinator, is_own=False, seed=config.seed))
    assert rule.needs_model
    assert set(record["privacy"]) == {"gaussian"}  # older devices look for an epsilon here, and refuse
    record["privacy"]["gaussian"]["noise"] /= 2
    with pytest.raises(InputError, match="the rule of private reports"):
        rule_from(record)


def test_a_last_layer_too_long_for_sums_is_refused_before_the_run() -> None:
    plain = deployed_config(private_table(model={"hidden": 1100}))
    section = replace(plain.coordinator, representation="head-gradient", shared_model="global", options={"dims": 1000})
    deployment = replace(deployment_of(simulation_of(plain)), config=replace(plain, coordinator=section))

    refused = r"coordinator\.representation: vectors of 11010 numbers cannot be projected to 1000: give fewer dims"
    with pytest.raises(OptionError, match=refused):
        set_up_run(deployment, deployment.config, run_id="run")
    with pytest.raises(OptionError, match=refused):
        simulation_of(deployment.config)
