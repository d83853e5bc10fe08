"""Models corrected to clients' label mixes: what they are tested with, what it costs, and what methods may ask."""

import numpy as np
import pytest
from fielding.simulation.availability import AlwaysAvailable
from fielding.simulation.serving import Serving

from fielding.conformance.watched_clients import WatchedClients
from fielding.errors import OptionError
from fielding.federation.evaluation import ClientScores
from fielding.serving.correction import PREDICTED_SMOOTHING
from fielding.simulation import serving as serving_module
from fielding.simulation.clients import SimulatedClients
from fielding.traces.histograms import WindowPlan
from tests.simulation.keeping import plan_for
from tests.simulation.run_cases import Sample, planted_windows
from tests.simulation.serving_cases import (
    EVERYONE,
    PREDICTED,
    PRIOR,
    labelled,
    mixed_trainer,
    model,
    serving_clients,
)


def accuracy(scores: ClientScores) -> list[float]:
    return list(scores.accuracy.tolist())


def spent(clients: SimulatedClients) -> list[float]:
    return list(clients.ledger.client_seconds("probe").tolist())


# ---- evaluations -----------------------------------------------------------------------------------------------


def test_a_model_in_doubt_believes_the_labels_of_the_client_that_it_serves() -> None:
    scores = serving_clients().scores(model(), EVERYONE)

    assert accuracy(scores) == [1.0, 0.0, 0.5], "as it is, it says a"
    assert accuracy(scores.also["corrected"]) == [1.0, 1.0, 0.5]
    # (8 + 0.5) / 9 of the first client's labels are a, and half of all that the model learned from.
    assert scores.also["corrected"].loss[0] == pytest.approx(-np.log(8.5 / 9), rel=1e-5)
    assert scores.also["corrected"].loss[2] == pytest.approx(np.log(2), rel=1e-5), "its mix is that of the model"


def test_what_the_model_was_trained_on_counts_against_it() -> None:
    scores = serving_clients().scores(model(mix=(0.9, 0.1)), EVERYONE)

    # The third client has 4.9 a and 4.1 b of 9: less a than the model expects, more b.
    assert accuracy(scores.also["corrected"]) == [1.0, 1.0, 0.5]
    shifted = np.log([4.9 / 9 / 0.9, 4.1 / 9 / 0.1])
    assert scores.also["corrected"].loss[2] == pytest.approx(np.logaddexp(*shifted) - shifted.mean(), rel=1e-4)


def test_the_same_mix_changes_nothing() -> None:
    for mix in ((0.5, 0.5), (4.0, 4.0)):
        scores = serving_clients().scores(model(0.3, mix), EVERYONE)

        assert scores.also["corrected"].loss[2] == scores.loss[2]


def test_raw_figures_are_those_of_clients_who_do_not_correct() -> None:
    plain = serving_clients(serving=None).scores(model(0.7), EVERYONE)
    raw = serving_clients().scores(model(0.7), EVERYONE)

    assert plain.also == {}
    assert (plain.correct.tolist(), plain.clients.tolist()) == (raw.correct.tolist(), raw.clients.tolist())
    assert plain.loss == pytest.approx(raw.loss, rel=1e-6)


def test_every_client_is_corrected_against_the_model_that_serves_it() -> None:
    models = np.concatenate([model(mix=(0.5, 0.5)), model(mix=(0.01, 0.99))])

    scores = serving_clients().scores(models, np.array([0, 0, 1])).also["corrected"]

    assert accuracy(scores) == [1.0, 1.0, 0.5]
    assert scores.loss[2] > 1.0, "a model that knew b alone is told that half is a, and goes too far without scores"


def test_test_samples_have_no_part_in_the_mix() -> None:
    samples = [Sample(client=0, interval=0, label=int(at >= 8), for_testing=at >= 8) for at in range(12)]
    windows = planted_windows(samples, n_clients=3, plan=WindowPlan(gap=1, window=1), n_intervals=1)

    scores = serving_clients(windows).scores(model(), EVERYONE).also["corrected"]

    # It has trained on eight a and is tested on four b.
    assert (scores.clients.tolist(), accuracy(scores)) == ([0], [0.0])
    assert scores.loss[0] == pytest.approx(-np.log(0.5 / 9), rel=1e-5)


def test_whoever_has_nothing_to_train_on_is_not_tested() -> None:
    scores = serving_clients(labelled(empty=(1,))).scores(model(), EVERYONE)

    assert scores.clients.tolist() == scores.also["corrected"].clients.tolist() == [0, 2]


def test_newest_and_next_samples_are_corrected_too() -> None:
    clients = serving_clients(labelled(n_visible=2))

    found = clients.other_scores(model(), EVERYONE)

    assert sorted(found) == ["newest", "prequential"]
    for scores in found.values():
        assert accuracy(scores) == [1.0, 0.0, 0.5]
        assert accuracy(scores.also["corrected"]) == [1.0, 1.0, 0.5]


def test_other_models_in_the_same_round_are_not_taken_for_the_last_ones() -> None:
    clients = serving_clients()
    first, second = model(), model(mix=(0.99, 0.01))

    losses = [clients.scores(one, EVERYONE).also["corrected"].loss.tolist() for one in (first, second, first)]

    assert losses[0] == losses[2] != losses[1]


# ---- without labels --------------------------------------------------------------------------------------------


def test_without_labels_the_mix_is_that_of_what_the_model_predicts() -> None:
    # The model tells the labels apart; what is wrong is its threshold: it was trained on four times as much a as b.
    leaning = model(0.6, (0.8, 0.2))
    leaning[0, 2] = np.log(4.0)

    plain = serving_clients().scores(leaning, EVERYONE)
    found = serving_clients(serving=PREDICTED).scores(leaning, EVERYONE).also["corrected"]

    assert accuracy(plain) == [1.0, 0.0, 0.5]
    assert accuracy(found) == [1.0, 1.0, 1.0]


def test_labels_of_training_samples_change_no_predicted_mix(monkeypatch: pytest.MonkeyPatch) -> None:
    windows = labelled()
    before = serving_clients(windows, PREDICTED).scores(model(1.0), EVERYONE).also["corrected"].loss
    asked: list[np.ndarray] = []
    gather = windows.gather

    def relabelled(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x, y = gather(rows)
        is_training = ~windows.pool.is_test()[windows.schedule.sample[rows]]
        asked.append(rows[is_training])
        return x, np.where(is_training, 0, y).astype(np.int32)

    monkeypatch.setattr(windows, "gather", relabelled)
    after = serving_clients(windows, PREDICTED).scores(model(1.0), EVERYONE).also["corrected"].loss

    assert sum(map(len, asked)) == 24
    assert before.tolist() == after.tolist()


def test_many_clients_are_looked_at_in_pieces_with_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    together = serving_clients(serving=PREDICTED).scores(model(1.0), EVERYONE).also["corrected"].loss
    monkeypatch.setattr(serving_module, "MOST_NUMBERS", 20)

    assert serving_clients(serving=PREDICTED).scores(model(1.0), EVERYONE).also["corrected"].loss == pytest.approx(
        together, rel=1e-6
    )


def test_a_model_that_diverged_serves_badly_but_breaks_nothing() -> None:
    broken = model()
    broken[0, :2] = np.nan

    for serving in (PRIOR, PREDICTED):
        scores = serving_clients(serving=serving).scores(broken, EVERYONE)
        assert np.isnan(scores.loss).all()
        assert scores.also["corrected"].summary()["test_loss"] is None


# ---- what it costs ---------------------------------------------------------------------------------------------


def test_labels_are_free_and_predictions_cost_a_pass_over_the_window_but_no_time() -> None:
    for serving, seconds in ((PRIOR, [0.0, 0.0, 0.0]), (PREDICTED, [0.08, 0.16, 0.24])):
        clients = serving_clients(serving=serving)
        clients.scores(model(), EVERYONE)
        clients.other_scores(model(), EVERYONE)

        assert spent(clients) == pytest.approx(seconds)
        assert clients.now_s == 0.0
        assert clients.ledger.client_bytes_down().sum() + clients.ledger.client_bytes_up().sum() == 0
        assert clients.round_costs["client_seconds"] == pytest.approx(sum(seconds))


# ---- what a method may ask -------------------------------------------------------------------------------------


def test_a_method_may_ask_how_models_would_serve() -> None:
    clients, who = serving_clients(), np.array([1, 0])
    models = np.concatenate([model(), model(mix=(0.9, 0.1))])

    raw, served = clients.losses(who, models), clients.losses(who, models, corrected=True)

    assert raw == pytest.approx(np.full((2, 2), np.log(2)))
    assert served[:, 0] == pytest.approx([-np.log(8.5 / 9)] * 2, rel=1e-4)
    assert served.shape == (2, 2)
    assert clients.losses(who, models) == pytest.approx(raw), "plain losses stay plain"


def test_without_a_correction_models_serve_as_they_are() -> None:
    clients, who = serving_clients(serving=None), np.array([1, 0])

    assert (clients.losses(who, model(0.4), corrected=True) == clients.losses(who, model(0.4))).all()


def test_asking_costs_the_same_but_for_a_look_at_the_window_where_the_question_is_about_other_samples() -> None:
    windows, who = labelled(), np.array([1])
    blocks = [np.array([0])]
    for serving, asked, n_passes in (
        (PRIOR, None, 8),
        (PREDICTED, None, 8),
        (PRIOR, blocks, 8),
        (PREDICTED, blocks, 16),
    ):
        clients = serving_clients(windows, serving)
        clients.losses(who, model(), blocks=asked, corrected=True)

        kbit = 4 * (model().size + 1) / 128
        assert spent(clients)[1] == pytest.approx(n_passes * 0.02 + kbit / 1000)


def test_whoever_cannot_answer_has_no_corrected_loss() -> None:
    clients = serving_clients(labelled(empty=(1,)))

    found = clients.losses(np.array([0, 1]), model(), corrected=True)

    assert np.isnan(found[:, 0]).tolist() == [False, True]


@pytest.mark.parametrize("serving", [PRIOR, PREDICTED])
def test_the_watched_door_lets_corrected_questions_through(serving: Serving) -> None:
    clients = serving_clients(serving=serving)
    watched, who = WatchedClients(serving_clients(serving=serving), AlwaysAvailable()), np.array([1, 2])

    found = watched.losses(who, model(0.5), corrected=True)

    assert (found == clients.losses(who, model(0.5), corrected=True)).all()
    assert (found != clients.losses(who, model(0.5))).any()
    watched.check_ledger()


# ---- the rule --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"correction": "prio"}, "prior"),
        ({"smoothing": -1.0}, "give calibrated, or a number of samples"),
        ({"fine_tune": -1}, "give a number of steps"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, str], match: str) -> None:
    with pytest.raises(OptionError, match=match):
        Serving(**options)  # type: ignore[arg-type]


def test_calibrated_windows_are_believed_by_their_size() -> None:
    clients = serving_clients(serving=Serving(correction="prior"))

    corrected = clients.scores(model(), EVERYONE).also["corrected"]

    assert accuracy(corrected) == [1.0, 1.0, 0.5]
    assert corrected.loss[0] < 0.02, "eight labels that are all the same"
    assert PREDICTED_SMOOTHING > 0


# ---- training --------------------------------------------------------------------------------------------------


def test_the_mix_of_whoever_trains_goes_with_the_model() -> None:
    updates = serving_clients().train(plan_for(model(), [0, 1, 2]))

    assert updates.models[:, -2:].tolist() == [[0.75, 0.25], [0.25, 0.75], [0.5, 0.5]]


def test_a_model_that_is_trained_balanced_carries_equal_shares() -> None:
    clients = serving_clients(trainer=mixed_trainer(is_balanced=True))

    updates = clients.train(plan_for(model(mix=(1.0, 0.0)), [0, 1]))

    assert updates.models[:, -2:] == pytest.approx(np.array([[0.75, 0.25]] * 2), abs=1e-5)
