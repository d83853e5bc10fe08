from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fielding.errors import OptionError
from fielding.methods.global_model import GlobalModel
from fielding.methods.ifca import Ifca, ifca_reports_from, least_share
from fielding.simulation.assembly import Own
from fielding.simulation.clients import SimulatedClients
from fielding.simulation.experiment import run
from tests.methods.plane import (
    BATCH_SIZE,
    MODEL_BYTES,
    N_STEPS,
    Away,
    agreement,
    plane_clients,
    plane_windows,
    run_rounds,
    seconds_for,
    setting_of,
)
from tests.simulation.run_cases import (
    crash_and_resume,
    left_behind,
    small_pool,
    stop_and_resume,
    table,
    write_availability,
)

GROUPS = np.array([[0, 0, 0, 1, 1, 1, 0, 1]] * 4)
SWITCHED = np.array([[0, 0, 0, 1, 1, 1, 0, 1]] + [[1, 0, 0, 1, 1, 1, 0, 1]] * 3)


def ifca_of(clients: SimulatedClients, *, participants: int = 4, **options: Any) -> Ifca:
    return Ifca(setting_of(clients, participants=participants), **options)


def total(clients: SimulatedClients, figure: str, category: str) -> float:
    sums = clients.ledger.totals()[figure]
    assert isinstance(sums, dict)
    return float(str(sums[category]))


def test_planted_groups_are_found() -> None:
    clients = plane_clients(plane_windows(GROUPS))
    method = ifca_of(clients, k=2)
    run_rounds(clients, method, range(15))

    assert agreement(clients, method) == 1.0
    truth = clients.concepts()
    assert truth is not None
    scores = clients.scores(method.models, method.membership().astype(np.int64))["window"]
    assert scores.correct.sum() / scores.n_test.sum() > 0.9


@pytest.mark.parametrize("init", ["restart", "random", "shared-backbone"])
def test_one_model_is_federated_averaging_bit_for_bit(init: str) -> None:
    one, other = plane_clients(plane_windows(SWITCHED)), plane_clients(plane_windows(SWITCHED))
    ifca, everybody = ifca_of(one, k=1, init=init), GlobalModel(setting_of(other))

    run_rounds(one, ifca, range(12), every=3)
    run_rounds(other, everybody, range(12), every=3)

    assert ifca.models.tobytes() == everybody.models.tobytes()
    assert (ifca.membership() == everybody.membership()).all()
    assert one.ledger.totals() == other.ledger.totals()
    assert one.now_s == other.now_s


def test_costs_are_those_of_the_table() -> None:
    clients = plane_clients(plane_windows(GROUPS, gap=20))
    method = ifca_of(clients, k=3, init="random", participants=4)
    n_rounds, k, m = 6, 3, 4
    sizes = clients.windows.training(0).sizes
    asked = [done.plan.clients for done in run_rounds(clients, method, range(n_rounds))]

    # Base is M models down and up; the choice adds K - 1 models down, an index up and K n forward samples.
    assert total(clients, "bytes_down", "model") == n_rounds * k * m * MODEL_BYTES
    assert total(clients, "bytes_up", "model") == n_rounds * m * (MODEL_BYTES + 4)
    one_up = MODEL_BYTES + 4
    expected = sum(
        seconds_for(fwd=k * int(sizes[client]), train=N_STEPS * BATCH_SIZE, n_bytes=k * MODEL_BYTES + one_up)
        for who in asked
        for client in who.tolist()
    )
    assert total(clients, "client_seconds", "model") == pytest.approx(expected)
    # The one evaluation, after the first round: whoever was not asked yet chooses, K models and K n forward each.
    choosers = np.setdiff1d(np.arange(8), asked[0])
    assert total(clients, "bytes_down", "probe") == choosers.size * k * MODEL_BYTES
    assert total(clients, "bytes_up", "probe") == choosers.size * k * 4
    probing = sum(seconds_for(fwd=k * int(sizes[one]), n_bytes=k * MODEL_BYTES + 4 * k) for one in choosers.tolist())
    assert total(clients, "client_seconds", "probe") == pytest.approx(probing)


def test_a_restart_pays_for_every_try_and_ends_with_models_that_all_attract_somebody() -> None:
    clients = plane_clients(plane_windows(GROUPS))
    method = ifca_of(clients, k=2, participants=8)
    clients.begin(0)
    first = method.models.copy()
    plan = method.plan(clients)

    n_tries, left = divmod(total(clients, "bytes_down", "probe"), 8 * 2 * MODEL_BYTES)
    assert left == 0
    assert 1 <= n_tries <= 20
    assert (n_tries == 1) == (method.models.tobytes() == first.tobytes())
    chosen = np.argmin(clients.losses(plan.clients, method.models), axis=1)
    assert np.bincount(chosen, minlength=2).min() >= 0.35 * 8
    spent = total(clients, "bytes_down", "probe")
    method.plan(clients)
    assert total(clients, "bytes_down", "probe") == spent, "it starts once"


def test_whoever_measured_the_models_of_a_restart_neither_gets_nor_measures_them_again() -> None:
    clients = plane_clients(plane_windows(GROUPS, gap=20))
    method = ifca_of(clients, k=2, participants=8)
    first, second = run_rounds(clients, method, range(2), every=100)

    assert (
        first.updates.start.tolist() == np.argmin(clients.losses(first.updates.clients, first.plan.models), 1).tolist()
    )
    assert (method.membership() >= 0).all()
    # In the first round, everybody got the models with the question, and answered it; in the second it is asked anew.
    assert total(clients, "bytes_down", "model") == 8 * 2 * MODEL_BYTES
    assert total(clients, "bytes_up", "model") == 8 * MODEL_BYTES + 8 * (MODEL_BYTES + 4)
    sizes = clients.windows.training(0).sizes
    n_bytes = 8 * MODEL_BYTES + 8 * (2 * MODEL_BYTES + MODEL_BYTES + 4)
    seconds = seconds_for(fwd=2 * int(sizes.sum()), train=2 * 8 * N_STEPS * BATCH_SIZE, n_bytes=n_bytes)
    assert total(clients, "client_seconds", "model") == pytest.approx(seconds)
    assert second.plan.chooses


def test_a_restart_that_cannot_succeed_keeps_the_best_try() -> None:
    alike = plane_windows(np.zeros((2, 8), dtype=np.int64))  # nothing to tell clients apart by
    clients = plane_clients(alike)
    method = ifca_of(clients, k=2, participants=8, tries=3, min_share=0.5)
    clients.begin(0)
    tried = [method._draw_models(attempt) for attempt in range(3)]
    shares = []
    for models in tried:
        chosen = np.argmin(clients.losses(np.arange(8), models), axis=1)
        shares.append(np.bincount(chosen, minlength=2).min())
    before = total(clients, "bytes_down", "probe")
    method.plan(clients)

    assert max(shares) < 4, "the case is not worth testing"
    assert total(clients, "bytes_down", "probe") - before == 3 * 8 * 2 * MODEL_BYTES
    assert method.models.tobytes() == tried[int(np.argmax(shares))].tobytes()


def test_a_restart_with_fewer_participants_than_models_asks_nobody() -> None:
    clients = plane_clients(plane_windows(GROUPS))
    method = ifca_of(clients, k=5, participants=4)
    clients.begin(0)
    method.plan(clients)

    assert total(clients, "bytes_down", "probe") == 0


def test_first_models_differ_and_one_is_that_of_the_run() -> None:
    clients = plane_clients(plane_windows(GROUPS))
    models = ifca_of(clients, k=4, init="random").models

    assert np.unique(models, axis=0).shape == (4, 6)
    assert (models[0] == clients.trainer.initial_model(1)).all()


def test_a_shared_backbone_differs_in_the_last_layer_alone_and_warms_up_on_a_partition() -> None:
    clients = plane_clients(plane_windows(GROUPS, gap=30))
    narrow = replace(setting_of(clients), n_parameters=5, n_head=2)
    method = Ifca(narrow, k=2, init="shared-backbone", warm_up=3)
    models = method.models

    assert (models[0, [0, 1, 2, 5]] == models[1, [0, 1, 2, 5]]).all()
    assert (models[0, [3, 4]] != models[1, [3, 4]]).all()
    partition = method.membership()
    assert set(partition.tolist()) == {0, 1}
    warming = [*run_rounds(clients, method, range(2), every=1), *run_rounds(clients, method, [2])]
    for done in warming:
        assert not done.plan.chooses
        assert (done.plan.start == partition[done.plan.clients]).all()
    assert [bool(done.scores) for done in warming] == [True, True, False]
    assert total(clients, "bytes_down", "all") == 3 * 4 * MODEL_BYTES, "the partition costs nothing"
    (after,) = run_rounds(clients, method, [3])
    assert after.plan.chooses
    assert (method.membership()[after.updates.clients] == after.updates.start).all()


def test_drifted_clients_choose_again_at_the_event_and_pay_for_it() -> None:
    script = {5: [0]}
    clients = plane_clients(plane_windows(SWITCHED), script=script)
    method = ifca_of(clients, k=2, reassess="drifted", participants=8)
    run_rounds(clients, method, range(5))
    assert method.membership()[0] != method.membership()[3]
    before = total(clients, "bytes_down", "probe")
    reports = clients.begin(5)
    method.adapt(reports, clients)

    assert total(clients, "bytes_down", "probe") - before == 2 * MODEL_BYTES
    assert method.membership()[0] == method.membership()[3]


def test_whoever_chose_at_the_event_is_not_sent_the_models_again_for_training() -> None:
    clients = plane_clients(plane_windows(SWITCHED), script={5: [0]})
    method = ifca_of(clients, k=2, reassess="drifted", participants=8)
    run_rounds(clients, method, range(5))
    before = {one: total(clients, "bytes_down", one) for one in ("model", "probe")}
    run_rounds(clients, method, [5])

    assert total(clients, "bytes_down", "probe") - before["probe"] == 2 * MODEL_BYTES
    assert total(clients, "bytes_down", "model") - before["model"] == 7 * 2 * MODEL_BYTES


def test_before_an_evaluation_those_choose_that_did_not_in_this_round() -> None:
    clients = plane_clients(plane_windows(SWITCHED))
    method = ifca_of(clients, k=2, participants=3)
    run_rounds(clients, method, range(4), every=100)
    before = total(clients, "bytes_down", "probe")
    (done,) = run_rounds(clients, method, [4], every=1)

    assert done.scores is not None
    assert total(clients, "bytes_down", "probe") - before == (8 - 3) * 2 * MODEL_BYTES
    others = np.setdiff1d(np.arange(8), done.updates.clients)
    assert (method.membership()[others] == np.argmin(clients.losses(others, method.models), axis=1)).all()


def test_the_first_reports_are_no_drift() -> None:
    clients = plane_clients(plane_windows(GROUPS), script={})
    method = ifca_of(clients, k=2, reassess="drifted")
    reports = clients.begin(0)
    method.adapt(reports, clients)

    assert len(reports.client_ids) == 8
    assert total(clients, "bytes_down", "probe") == 0


def test_clients_that_are_not_asked_keep_their_choice_unless_all_choose_before_evaluations() -> None:
    kept, anew = plane_clients(plane_windows(SWITCHED)), plane_clients(plane_windows(SWITCHED))
    lazy, eager = ifca_of(kept, k=2, participants=8, reassess="participants"), ifca_of(anew, k=2, participants=8)
    for clients, method in ((kept, lazy), (anew, eager)):
        run_rounds(clients, method, range(5))
        clients.begin(5)
        method.place(clients)

    assert lazy.membership()[0] == lazy.membership()[1]
    assert eager.membership()[0] == eager.membership()[3]


def test_labels_of_test_samples_change_no_choice() -> None:
    right, wrong = plane_windows(SWITCHED), plane_windows(SWITCHED, wrong_tests=True)
    found = []
    for windows in (right, wrong):
        clients = plane_clients(windows)
        method = ifca_of(clients, k=2, reassess="evaluated")
        done = run_rounds(clients, method, range(8), every=2)
        scores = [one.scores["window"].correct.sum() for one in done if one.scores]
        found.append((method.membership().tolist(), method.models.tobytes(), scores))

    assert found[0][:2] == found[1][:2]
    assert found[0][2] != found[1][2], "the test labels do not differ"


def test_a_client_that_cannot_be_reached_has_no_choice_until_it_can() -> None:
    clients = plane_clients(plane_windows(GROUPS), availability=Away([2], until_s=4.0))
    method = ifca_of(clients, k=2, participants=7)
    run_rounds(clients, method, [0], every=1)
    assert clients.now_s < 4.0
    assert method.membership()[2] == -1
    run_rounds(clients, method, range(1, 12), every=1)

    assert clients.now_s > 4.0
    assert agreement(clients, method) == 1.0


def test_a_round_without_answers_changes_nothing() -> None:
    clients = plane_clients(plane_windows(GROUPS), availability=Away(range(8), until_s=1e9))
    method = ifca_of(clients, k=2)
    before = method.models.copy()
    run_rounds(clients, method, range(2), every=1)

    assert method.models.tobytes() == before.tobytes()
    assert (method.membership() == -1).all()


@pytest.mark.parametrize("at", [1, 4, 6])
@pytest.mark.parametrize("init", ["restart", "shared-backbone"])
def test_a_snapshot_goes_on_exactly_like_the_original(at: int, init: str) -> None:
    options: dict[str, Any] = {"k": 2, "init": init, "warm_up": 5, "reassess": "drifted"}
    script = {5: [0, 1], 7: [4]}
    one, other = (plane_clients(plane_windows(SWITCHED), script=script) for _ in range(2))
    first, second = ifca_of(one, **options), ifca_of(other, **options)
    run_rounds(one, first, range(at))
    run_rounds(other, second, range(at))
    values, arrays = first.snapshot()
    restored = ifca_of(other, **options)
    restored.restore(values, {name: array.copy() for name, array in arrays.items()})
    run_rounds(one, first, range(at, 10))
    run_rounds(other, restored, range(at, 10))

    assert first.models.tobytes() == restored.models.tobytes()
    assert (first.membership() == restored.membership()).all()
    assert one.ledger.totals() == other.ledger.totals()


@pytest.mark.parametrize("options", [{}, {"init": "shared-backbone", "warm_up": 4}, {"reassess": "drifted"}])
@pytest.mark.parametrize("is_away", [False, True])
def test_a_run_that_is_stopped_goes_on_bit_for_bit(tmp_path: Path, options: dict[str, Any], is_away: bool) -> None:
    config = table(method={"name": "ifca", "k": 2, **options})
    if is_away:
        config["clock"] = {"availability": str(write_availability(tmp_path / "availability.csv", 12))}
        config["coordinator"] = {"detector": "any-change", "reports": "with-training"}
    own = Own(samples=small_pool())
    run(config, tmp_path / "whole", own=own, page=False)
    stop_and_resume(config, tmp_path / "stopped", [1, 5, 8], own)
    crash_and_resume(config, tmp_path / "crashed", [3, 7], own)

    assert left_behind(tmp_path / "stopped") == left_behind(tmp_path / "whole")
    assert left_behind(tmp_path / "crashed") == left_behind(tmp_path / "whole")


def test_flags_are_heard_only_where_drifted_clients_choose() -> None:
    assert ifca_reports_from({"reassess": "drifted"}, 5) == "flags"
    assert ifca_reports_from({}, 5) == "nobody"
    assert (least_share(2), least_share(4)) == (0.35, 0.1)


@pytest.mark.parametrize(
    "options",
    [
        {"k": 0},
        {"k": 2.0},
        {"init": "often"},
        {"reassess": "never"},
        {"min_share": 0.6, "k": 2},
        {"tries": 0},
        {"warm_up": -1},
    ],
)
def test_options_out_of_range_are_named(options: dict[str, Any]) -> None:
    clients = plane_clients(plane_windows(GROUPS))
    name = next(iter(options))
    with pytest.raises(OptionError, match=name):
        ifca_of(clients, **options)


@pytest.mark.parametrize("init", ["restart", "random", "shared-backbone"])
def test_with_a_shared_body_only_heads_are_drawn(init: str) -> None:
    clients = plane_clients(plane_windows(GROUPS))
    plain = setting_of(clients)
    setting = replace(plain, n_head=2, parts=replace(plain.parts, n_shared=4))

    models = Ifca(setting, k=3, init=init).models

    assert (models[:, :4] == setting.initial[:4]).all(), "a mean of random bodies would be no body"
    assert np.unique(models[:, 4:], axis=0).shape[0] == 3
