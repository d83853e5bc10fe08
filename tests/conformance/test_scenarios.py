"""What every drift scenario must be able to do, whatever drifts in it."""

import pickle
from dataclasses import fields, replace

import numpy as np
import pytest

from fielding.errors import InputError
from fielding.traces.pool import Pool
from fielding.traces.scenarios import SCENARIOS, DealRequest, Scenario, deal, scenario_named, scenario_options
from fielding.traces.schedule import Schedule
from tests.traces.scenarios.pools import concepts_of, image_pool, request_for, vector_pool

ALWAYS_MOVING = {"label-buckets"}
NEVER_MOVING = {"static"}
SWAPPING = {"concept-swap", "mixed"}

every_scenario = pytest.mark.parametrize("name", SCENARIOS)
every_pool = pytest.mark.parametrize("kind", ["images", "colors", "vectors"])


def pool_of(kind: str) -> Pool:
    """Return a small pool of images, images with channels, or vectors."""
    if kind == "vectors":
        return vector_pool()
    pool = image_pool()
    return pool if kind == "images" else Pool(x=np.stack([pool.x] * 3, axis=3), y=pool.y, classes=pool.classes)


def rows_of(schedule: Schedule) -> list[list[int]]:
    """Return client, interval, sample, label and look of every row."""
    columns = (schedule.client, schedule.interval, schedule.sample, schedule.y, schedule.look)
    return np.stack([column.astype(np.int64) for column in columns], axis=1).tolist()


@every_scenario
@every_pool
def test_parts_fit_together(name: str, kind: str) -> None:
    pool, request = pool_of(kind), request_for()

    schedule = deal(name, pool, request, seed=1)

    assert schedule.client_ids == tuple(range(40))
    assert schedule.n_intervals == 6
    assert concepts_of(schedule).shape == (6, 40)
    assert concepts_of(schedule).dtype == np.int32
    assert concepts_of(schedule).min() >= 0
    for column, dtype in (
        (schedule.client, np.int32),
        (schedule.interval, np.int32),
        (schedule.sample, np.int32),
        (schedule.y, np.int32),
        (schedule.look, np.int16),
    ):
        assert column.dtype == dtype
    place = schedule.client.astype(np.int64) * 6 + schedule.interval
    assert (np.diff(place) >= 0).all()
    assert set(schedule.interval.tolist()) == set(range(6))
    assert 0 <= schedule.sample.min() <= schedule.sample.max() < len(pool)
    assert 0 <= schedule.y.min() <= schedule.y.max() < len(pool.classes)
    assert 0 <= schedule.look.min() <= schedule.look.max() < len(schedule.looks)


@every_scenario
def test_every_client_gets_as_much_as_was_asked_for(name: str) -> None:
    schedule = deal(name, vector_pool(), request_for(), seed=1)

    amounts = np.bincount(schedule.client * 6 + schedule.interval, minlength=240)

    assert amounts.min() >= 1
    if name not in ALWAYS_MOVING:
        assert (amounts == 10).all()


@every_scenario
def test_equal_seeds_deal_equally_and_others_do_not(name: str) -> None:
    first, again, other = (deal(name, image_pool(), request_for(), seed=seed) for seed in (1, 1, 2))

    assert rows_of(first) == rows_of(again)
    assert (concepts_of(first) == concepts_of(again)).all()
    assert rows_of(first) != rows_of(other)


@every_scenario
def test_equal_seeds_give_equal_looks(name: str) -> None:
    pool = vector_pool()
    x = pool.features(np.arange(9))

    first, again = (deal(name, pool, request_for(), seed=1).looks for _ in range(2))

    assert all((one.apply(x) == other.apply(x)).all() for one, other in zip(first, again, strict=True))


@every_scenario
def test_more_clients_do_not_change_what_others_get(name: str) -> None:
    few, many = (deal(name, image_pool(), request_for(n_clients), seed=1) for n_clients in (7, 23))
    is_among_few = many.client < 7

    assert [row for row, keep in zip(rows_of(many), is_among_few, strict=True) if keep] == rows_of(few)
    assert (concepts_of(many)[:, :7] == concepts_of(few)).all()


@every_scenario
def test_more_intervals_do_not_change_what_came_before(name: str) -> None:
    options = {"at": 4} if name == "new-label" else {}  # by default the middle, which moves
    short, long = (
        deal(name, image_pool(), request_for(n_intervals=n_intervals), seed=1, options=options)
        for n_intervals in (6, 9)
    )

    assert [row for row in rows_of(long) if row[1] < 6] == rows_of(short)


@every_scenario
def test_intervals_that_are_only_tested_on_change_nothing_before_them(name: str) -> None:
    alone = request_for(n_intervals=6)
    without = deal(name, image_pool(), alone, seed=1)
    ahead = deal(name, image_pool(), replace(alone, n_intervals=7, n_ahead=1), seed=1)

    assert [row for row in rows_of(ahead) if row[1] < 6] == rows_of(without)
    assert (concepts_of(ahead)[:6] == concepts_of(without)).all()
    assert len(rows_of(ahead)) > len(rows_of(without))


@every_scenario
@every_pool
def test_looks_keep_shape_and_type_and_leave_their_argument_alone(name: str, kind: str) -> None:
    pool = pool_of(kind)
    x = pool.features(np.arange(9))
    before = x.copy()

    for look in deal(name, pool, request_for(), seed=1).looks:
        changed = look.apply(x)
        assert changed.shape == x.shape
        assert changed.dtype == np.float32
        assert np.isfinite(changed).all()
        assert (x == before).all()


@every_scenario
def test_a_look_shows_one_sample_as_it_shows_many(name: str) -> None:
    for pool in (image_pool(), vector_pool()):
        x = pool.features(np.arange(9))
        for look in deal(name, pool, request_for(), seed=1).looks:
            assert (look.apply(x[4:5]) == look.apply(x)[4:5]).all()
            assert look.apply(x[:0]).shape == x[:0].shape


@every_scenario
def test_nothing_drifts_before_the_training_starts(name: str) -> None:
    states = concepts_of(deal(name, image_pool(), request_for(n_first=4), seed=1))

    assert (states[:4] == states[0]).all() != (name in ALWAYS_MOVING)


@every_scenario
def test_something_drifts_afterwards(name: str) -> None:
    states = concepts_of(deal(name, image_pool(), request_for(), seed=1))

    assert (states != states[0]).any() != (name in NEVER_MOVING)


with_share = pytest.mark.parametrize("name", [name for name in SCENARIOS if "share" in scenario_options(name)])


@with_share
@pytest.mark.parametrize("share", [0.1, 0.6])
def test_the_share_of_clients_that_drift_is_near_the_knob(name: str, share: float) -> None:
    # Of a pair that changes by halves, one half: a concept of both changes more often.
    others = {"new-label": {"at": 2}, "mixed": {"looks": 1}}
    options = {"share": share} | others.get(name, {})
    states = concepts_of(deal(name, image_pool(), request_for(2000, 3, samples=1), seed=1, options=options))

    assert abs((states[2] != states[1]).mean() - share) < 0.04


@with_share
def test_nobody_drifts_if_the_share_is_none(name: str) -> None:
    states = concepts_of(deal(name, image_pool(), request_for(), seed=1, options={"share": 0.0}))

    assert (states == states[0]).all()


@pytest.mark.parametrize("name", [name for name in SCENARIOS if "intensity" in scenario_options(name)])
def test_nothing_drifts_without_intensity(name: str) -> None:
    states = concepts_of(deal(name, image_pool(), request_for(), seed=1, options={"intensity": 0.0}))

    assert (states == states[0]).all()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("concept-swap", {}),
        ("concept-swap", {"concepts": 3}),
        ("covariate", {"intensity": 0.5}),
        ("covariate", {"look": "mixed"}),
        ("dirichlet", {}),
        ("dirichlet", {"intensity": 0.5, "concepts": 2}),
        ("label-buckets", {"alpha": 0, "buckets": 3}),
        ("mixed", {"alpha": 0, "share": 0.5}),
        ("new-label", {"at": 2, "concepts": 2}),
        ("places", {}),
        ("places", {"looks": False}),
        ("recurring", {"period": 1}),
        ("static", {}),
    ],
)
def test_equal_concepts_are_equal_distributions_and_others_are_not(name: str, options: dict) -> None:
    pool = image_pool(600)
    schedule = deal(name, pool, request_for(9, 4, n_first=1, samples=2000), seed=4, options=options)
    n_looks = len(schedule.looks)
    what = (pool.y[schedule.sample].astype(np.int64) * 6 + schedule.y) * n_looks + schedule.look
    seen = np.zeros((4, 9, 36 * n_looks))
    np.add.at(seen, (schedule.interval, schedule.client, what), 1.0)
    shares = (seen / seen.sum(axis=2, keepdims=True)).reshape(36, -1)
    concept = concepts_of(schedule).ravel()

    distances = np.abs(shares[:, np.newaxis] - shares).sum(axis=2)
    is_same = concept[:, np.newaxis] == concept

    assert distances[is_same].max() < 0.2 < distances[~is_same].min()


@every_scenario
def test_one_client_one_interval_and_one_sample_are_enough(name: str) -> None:
    request = DealRequest(n_clients=1, n_intervals=1, samples_per_interval=1)

    schedule = deal(name, image_pool(), request, seed=1)

    assert schedule.client.size >= 1
    assert concepts_of(schedule).shape == (1, 1)


@every_scenario
def test_one_class_is_dealt_or_refused_with_a_reason(name: str) -> None:
    refusals = {
        "new-label": "labels is 1, but the pool has samples of 1",
        "mixed": "concepts is 2, but swaps of 1 labels give fewer",
    }
    if name in refusals:
        with pytest.raises(InputError, match=refusals[name]):
            deal(name, vector_pool(n_classes=1), request_for(), seed=1)
    else:
        assert not deal(name, vector_pool(n_classes=1), request_for(), seed=1).y.any()


@every_scenario
def test_two_samples_are_enough(name: str) -> None:
    pool = image_pool(2, 2)

    assert set(deal(name, pool, request_for(), seed=1).sample.tolist()) == {0, 1}


@every_scenario
def test_classes_without_samples_are_never_seen(name: str) -> None:
    full = image_pool()
    pool = Pool(x=full.x, y=full.y, classes=("none", *full.classes[1:], "nobody", "nothing"))
    pool = Pool(x=pool.x[pool.y > 0], y=pool.y[pool.y > 0], classes=pool.classes)

    assert set(deal(name, pool, request_for(), seed=1).y.tolist()) <= {1, 2, 3, 4, 5}


@every_scenario
def test_a_class_of_test_samples_alone_is_dealt_like_any_other(name: str) -> None:
    pool = image_pool()
    pool = Pool(x=pool.x, y=np.where(pool.is_test(), 1, 0).astype(np.int32), classes=("trained", "tested"))

    assert deal(name, pool, request_for(), seed=1).client.size


@every_scenario
def test_the_pool_stays_as_it_was(name: str) -> None:
    pool = vector_pool()
    x, y = pool.x.copy(), pool.y.copy()

    deal(name, pool, request_for(), seed=1)

    assert (pool.x == x).all()
    assert (pool.y == y).all()


@every_scenario
def test_labels_mean_what_they_say_unless_they_are_swapped(name: str) -> None:
    schedule = deal(name, image_pool(), request_for(), seed=1)

    assert (schedule.y == image_pool().y[schedule.sample]).all() != (name in SWAPPING)


@every_scenario
def test_it_survives_a_pickle_and_equals_its_copy(name: str) -> None:
    scenario: Scenario = scenario_named(name)

    assert pickle.loads(pickle.dumps(scenario)) == scenario


@every_scenario
def test_every_knob_is_explained(name: str) -> None:
    described = SCENARIOS[name].__doc__ or ""

    assert [knob.name for knob in fields(SCENARIOS[name]) if knob.name not in described] == []  # type: ignore[arg-type]
