"""Models as clients are served by them: corrected to their label mixes, in tests, questions and errors."""

import numpy as np
import pytest

from fielding._typing import Counts
from fielding.errors import OptionError
from fielding.federation.evaluation import ClientScores
from fielding.runtime.runtime import ClientRuntime
from fielding.runtime.serve import Serving
from fielding.traces.histograms import WindowPlan
from tests.runtime.plans import plan_of
from tests.runtime.serving_cases import (
    EVERYONE,
    PREDICTED,
    PRIOR,
    labelled,
    mixed_trainer,
    model,
    serving_runtime,
)
from tests.simulation.run_cases import Sample, planted_windows


def accuracy(scores: ClientScores) -> list[float]:
    return list(scores.accuracy.tolist())


# ---- evaluations -----------------------------------------------------------------------------------------------


def test_a_model_in_doubt_believes_the_labels_of_the_client_that_it_serves() -> None:
    scores = serving_runtime().test(model(), EVERYONE)["window"]

    assert accuracy(scores) == [1.0, 0.0, 0.5], "as it is, it says a"
    assert accuracy(scores.also["corrected"]) == [1.0, 1.0, 0.5]
    # (8 + 0.5) / 9 of the first client's labels are a, and half of all that the model learned from.
    assert scores.also["corrected"].loss[0] == pytest.approx(-np.log(8.5 / 9), rel=1e-5)
    assert scores.also["corrected"].loss[2] == pytest.approx(np.log(2), rel=1e-5), "its mix is that of the model"


def test_what_the_model_was_trained_on_counts_against_it() -> None:
    scores = serving_runtime().test(model(mix=(0.9, 0.1)), EVERYONE)["window"]

    # The third client has 4.9 a and 4.1 b of 9: less a than the model expects, more b.
    assert accuracy(scores.also["corrected"]) == [1.0, 1.0, 0.5]
    shifted = np.log([4.9 / 9 / 0.9, 4.1 / 9 / 0.1])
    assert scores.also["corrected"].loss[2] == pytest.approx(np.logaddexp(*shifted) - shifted.mean(), rel=1e-4)


def test_the_same_mix_changes_nothing() -> None:
    for mix in ((0.5, 0.5), (4.0, 4.0)):
        scores = serving_runtime().test(model(0.3, mix), EVERYONE)["window"]

        assert scores.also["corrected"].loss[2] == scores.loss[2]


def test_raw_figures_are_those_of_clients_who_do_not_correct() -> None:
    plain = serving_runtime(serving=None).test(model(0.7), EVERYONE)["window"]
    raw = serving_runtime().test(model(0.7), EVERYONE)["window"]

    assert plain.also == {}
    assert (plain.correct.tolist(), plain.clients.tolist()) == (raw.correct.tolist(), raw.clients.tolist())
    assert plain.loss == pytest.approx(raw.loss, rel=1e-6)


def test_every_client_is_corrected_against_the_model_that_serves_it() -> None:
    models = np.concatenate([model(mix=(0.5, 0.5)), model(mix=(0.01, 0.99))])

    scores = serving_runtime().test(models, np.array([0, 0, 1]))["window"].also["corrected"]

    assert accuracy(scores) == [1.0, 1.0, 0.5]
    assert scores.loss[2] > 1.0, "a model that knew b alone is told that half is a, and goes too far without scores"


def test_test_samples_have_no_part_in_the_mix() -> None:
    samples = [Sample(client=0, interval=0, label=int(at >= 8), for_testing=at >= 8) for at in range(12)]
    windows = planted_windows(samples, n_clients=3, plan=WindowPlan(gap=1, window=1), n_intervals=1)

    scores = serving_runtime(windows).test(model(), EVERYONE)["window"].also["corrected"]

    # It has trained on eight a and is tested on four b.
    assert (scores.clients.tolist(), accuracy(scores)) == ([0], [0.0])
    assert scores.loss[0] == pytest.approx(-np.log(0.5 / 9), rel=1e-5)


def test_whoever_has_nothing_to_train_on_is_not_tested() -> None:
    scores = serving_runtime(labelled(empty=(1,))).test(model(), EVERYONE)["window"]

    assert scores.clients.tolist() == scores.also["corrected"].clients.tolist() == [0, 2]


def test_other_models_in_the_same_round_are_not_taken_for_the_last_ones() -> None:
    clients = serving_runtime()
    first, second = model(), model(mix=(0.99, 0.01))

    losses = [clients.test(one, EVERYONE)["window"].also["corrected"].loss.tolist() for one in (first, second, first)]

    assert losses[0] == losses[2] != losses[1]


# ---- without labels --------------------------------------------------------------------------------------------


def test_without_labels_the_mix_is_that_of_what_the_model_predicts() -> None:
    # The model tells the labels apart; what is wrong is its threshold: it was trained on four times as much a as b.
    leaning = model(0.6, (0.8, 0.2))
    leaning[0, 2] = np.log(4.0)

    plain = serving_runtime().test(leaning, EVERYONE)["window"]
    found = serving_runtime(serving=PREDICTED).test(leaning, EVERYONE)["window"].also["corrected"]

    assert accuracy(plain) == [1.0, 0.0, 0.5]
    assert accuracy(found) == [1.0, 1.0, 1.0]


def test_labels_of_training_samples_change_no_predicted_mix(monkeypatch: pytest.MonkeyPatch) -> None:
    windows = labelled()
    before = serving_runtime(windows, PREDICTED).test(model(1.0), EVERYONE)["window"].also["corrected"].loss
    asked: list[np.ndarray] = []
    gather = windows.gather

    def relabelled(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x, y = gather(rows)
        is_training = ~windows.pool.is_test()[windows.schedule.sample[rows]]
        asked.append(rows[is_training])
        return x, np.where(is_training, 0, y).astype(np.int32)

    monkeypatch.setattr(windows, "gather", relabelled)
    after = serving_runtime(windows, PREDICTED).test(model(1.0), EVERYONE)["window"].also["corrected"].loss

    assert sum(map(len, asked)) == 24
    assert before.tolist() == after.tolist()


def test_many_clients_are_looked_at_in_pieces_with_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    together = serving_runtime(serving=PREDICTED).test(model(1.0), EVERYONE)["window"].also["corrected"].loss
    monkeypatch.setattr("fielding.runtime.serve.MOST_NUMBERS", 20)

    assert serving_runtime(serving=PREDICTED).test(model(1.0), EVERYONE)["window"].also[
        "corrected"
    ].loss == pytest.approx(together, rel=1e-6)


def test_a_model_that_diverged_serves_badly_but_breaks_nothing() -> None:
    broken = model()
    broken[0, :2] = np.nan

    for serving in (PRIOR, PREDICTED):
        scores = serving_runtime(serving=serving).test(broken, EVERYONE)["window"]
        assert np.isnan(scores.loss).all()
        assert scores.also["corrected"].summary()["test_loss"] is None


# ---- what a method may ask -------------------------------------------------------------------------------------


def test_losses_may_be_those_of_models_as_they_would_serve() -> None:
    clients, who = serving_runtime(), np.array([1, 0])
    models, samples = np.concatenate([model(), model(mix=(0.9, 0.1))]), clients.samples(who, None)

    raw, served = (clients.losses(who, models, samples, corrected=corrected) for corrected in (False, True))

    assert raw == pytest.approx(np.full((2, 2), np.log(2)))
    # Smoothed by one sample of the model's mix, 8 of 8 become 8.5 of 9; and 8.1 or 8.9 where its mix is uneven.
    assert served[:, 0] == pytest.approx([-np.log(8.5 / 9)] * 2, rel=1e-4)
    shifted = [np.log([0.9 / 9 / 0.9, 8.1 / 9 / 0.1]), np.log([8.9 / 9 / 0.9, 0.1 / 9 / 0.1])]
    assert served[:, 1] == pytest.approx(
        [np.logaddexp(*shifted[0]) - shifted[0][1], np.logaddexp(*shifted[1]) - shifted[1][0]], rel=1e-4
    )


def test_without_a_correction_models_serve_as_they_are() -> None:
    clients, who = serving_runtime(serving=None), np.array([1, 0])
    samples = clients.samples(who, None)

    raw, served = (clients.losses(who, model(0.4), samples, corrected=corrected) for corrected in (False, True))

    assert (raw == served).all()


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
    clients = serving_runtime(serving=Serving(correction="prior"))

    corrected = clients.test(model(), EVERYONE)["window"].also["corrected"]

    assert accuracy(corrected) == [1.0, 1.0, 0.5]
    assert corrected.loss[0] < 0.02, "eight labels that are all the same"


# ---- errors on samples that just arrived ------------------------------------------------------------------------


def rows_of(clients: ClientRuntime, *who: int) -> Counts:
    """Return the training samples of the first window."""
    return clients.training.of(np.array(who))[0]


def test_nobody_knows_errors_before_models_serve() -> None:
    clients = serving_runtime(serving=None)

    errors = clients.errors(rows_of(clients, 0))

    assert errors.shape == (8,)
    assert np.isnan(errors).all()


def test_a_model_that_says_a_errs_on_b() -> None:
    clients = serving_runtime(serving=None)
    clients.serve(model(), EVERYONE)

    assert clients.errors(rows_of(clients, 0)).tolist() == [0.0] * 8
    assert clients.errors(rows_of(clients, 1)).tolist() == [1.0] * 8
    assert clients.errors(rows_of(clients, 2)).tolist() == [0.0, 1.0] * 4
    assert clients.errors(np.empty(0, dtype=np.int64)).size == 0


def test_everybody_is_judged_by_its_own_model_in_the_order_of_the_rows() -> None:
    clients = serving_runtime(serving=None)
    clients.serve(np.concatenate([model(-1.0), model(1.0)]), np.array([0, 1, 0]))

    assert clients.errors(rows_of(clients, 2, 1, 0)).tolist() == [1.0] * 8 + [0.0] * 8 + [1.0] * 8


def test_models_handed_out_later_count() -> None:
    clients = serving_runtime(serving=None)
    for slope in (-1.0, 1.0):
        clients.serve(model(slope), EVERYONE)

    assert not clients.errors(rows_of(clients, 0, 1, 2)).any()


def test_a_client_judges_its_model_as_it_serves_it_corrected_to_its_mix() -> None:
    clients = serving_runtime()
    clients.serve(model(), EVERYONE)

    assert clients.errors(rows_of(clients, 1)).tolist() == [0.0] * 8, "its window says that all is b"
    # Of as many a as b there is nothing to correct: a tie goes to a.
    assert clients.errors(rows_of(clients, 2)).tolist() == [0.0, 1.0] * 4


# ---- training --------------------------------------------------------------------------------------------------


def test_the_mix_of_whoever_trains_goes_with_the_model() -> None:
    updates = serving_runtime().train(plan_of([0, 1, 2], models=model()))

    assert updates.models[:, -2:].tolist() == [[0.75, 0.25], [0.25, 0.75], [0.5, 0.5]]


def test_a_model_that_is_trained_balanced_carries_equal_shares() -> None:
    clients = serving_runtime(trainer=mixed_trainer(is_balanced=True))

    updates = clients.train(plan_of([0, 1], models=model(mix=(1.0, 0.0))))

    assert updates.models[:, -2:] == pytest.approx(np.array([[0.75, 0.25]] * 2), abs=1e-5)
