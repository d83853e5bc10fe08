"""How served models err on samples that just arrived, by hand."""

import numpy as np
from fielding.simulation.served_models import ServedModels
from fielding.simulation.serving import Correcting, Serving
from fielding.simulation.workers import Workers

from fielding._typing import Counts, Models
from fielding.traces.sliding import SlidingWindows
from fielding.training.head import Judged, judged
from tests.simulation.serving_cases import EVERYONE, PRIOR, labelled, mixed_trainer, model


def served_by(windows: SlidingWindows, serving: Serving | None = None) -> ServedModels:
    """Return clients that correct their models or, by default, do not."""
    workers = Workers(mixed_trainer(), 1)

    def score(one: Models, rows: Counts) -> Judged:
        return judged(*workers.class_scores(one, rows, windows.gather))

    return ServedModels(windows, score, None if serving is None else Correcting(windows, workers, serving))


def rows_of(windows: SlidingWindows, *clients: int) -> Counts:
    """Return the training samples of the first window."""
    return windows.training(0).of(np.array(clients))[0]


def test_nobody_knows_errors_before_models_serve() -> None:
    windows = labelled()

    errors = served_by(windows).errors(rows_of(windows, 0), windows.training(0))

    assert errors.shape == (8,)
    assert np.isnan(errors).all()


def test_a_model_that_says_a_errs_on_b() -> None:
    windows = labelled()
    served = served_by(windows)
    served.serve(model(slope=0.0), EVERYONE)
    training = windows.training(0)

    assert served.errors(rows_of(windows, 0), training).tolist() == [0.0] * 8
    assert served.errors(rows_of(windows, 1), training).tolist() == [1.0] * 8
    assert served.errors(rows_of(windows, 2), training).tolist() == [0.0, 1.0] * 4
    assert served.errors(np.empty(0, dtype=np.int64), training).size == 0


def test_everybody_is_judged_by_its_own_model_in_the_order_of_the_rows() -> None:
    windows = labelled()
    served = served_by(windows)
    right, wrong = model(slope=1.0)[0], model(slope=-1.0)[0]
    served.serve(np.stack([wrong, right]), np.array([0, 1, 0]))

    errors = served.errors(rows_of(windows, 2, 1, 0), windows.training(0))

    assert errors.tolist() == [1.0] * 8 + [0.0] * 8 + [1.0] * 8


def test_models_handed_out_later_count() -> None:
    windows = labelled()
    served = served_by(windows)
    for slope in (-1.0, 1.0):
        served.serve(model(slope=slope), EVERYONE)

    assert not served.errors(rows_of(windows, 0, 1, 2), windows.training(0)).any()


def test_a_client_judges_its_model_as_it_serves_it_corrected_to_its_mix() -> None:
    windows = labelled()
    plain, corrected = served_by(windows), served_by(windows, PRIOR)
    for served in (plain, corrected):
        served.serve(model(slope=0.0), EVERYONE)
    rows, training = rows_of(windows, 1), windows.training(0)

    assert plain.errors(rows, training).tolist() == [1.0] * 8
    assert corrected.errors(rows, training).tolist() == [0.0] * 8, "its window says that all is b"
    # Of as many a as b there is nothing to correct: a tie goes to a.
    assert corrected.errors(rows_of(windows, 2), training).tolist() == [0.0, 1.0] * 4
