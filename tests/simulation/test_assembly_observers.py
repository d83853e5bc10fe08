"""Who watches the clients of a config, and with which model."""

from pathlib import Path

import numpy as np
import pytest

from fielding._typing import Counts, Floats, Json, Models
from fielding.client.drift import Always, DriftTest, Never
from fielding.client.representation.registry import representation_named
from fielding.config.keys import Config
from fielding.config.reader import config_from
from fielding.engine.report_rule import is_own_function, report_rule_of
from fielding.errors import OptionError
from fielding.records.model_file import write_model
from fielding.runtime.observe import LabelObserver, Observer, SampleObserver, VectorObserver
from fielding.simulation.assembly import HELD_OUT, observer_of, pool_model, without_held_out
from fielding.traces.pool import Pool
from fielding.traces.sliding import SlidingWindows
from fielding.traces.sources import Dealt, HeldOut, deal_samples
from fielding.training.factory import ModelRequest, trainer_for
from fielding.training.trainer import Sgd, Trainer
from tests.simulation.run_cases import small_pool, table


def config_of(coordinator: dict[str, Json] | None = None, **trace: Json) -> Config:
    given = {"detector": None, "shared_model": "pool", **(coordinator or {})}
    return config_from(table(trace=trace, coordinator=given))


def dealt_by(config: Config) -> Dealt:
    return deal_samples(config.trace, rounds=config.rounds, seed=config.seed, source=small_pool())


def mlp(hidden: int = 8) -> Trainer:
    return trainer_for(ModelRequest(name="mlp", hidden=hidden, input_shape=(4,), n_classes=4, trainer="numpy"))


def observer_for(config: Config, drift_test: DriftTest | None = None) -> Observer:
    section = config.coordinator
    report_rule = report_rule_of(section, is_own=is_own_function(section), seed=config.seed)
    dealt, held = without_held_out(config, dealt_by(config), needs_pool=section.shared_model == "pool")
    windows = SlidingWindows(dealt.pool, dealt.schedule, dealt.plan)
    return observer_of(config, report_rule, windows, trainer=mlp(), held=held, drift_test=drift_test)


def describe(x: Floats, y: Counts, n_classes: int) -> Floats:
    """Return a representation that says nothing."""
    return np.ones(2)


# ---- samples of the server's own --------------------------------------------------------------------------------


def n_held(config: Config, *, needs_pool: bool) -> int:
    """Return how many samples of a class the server has at most."""
    _, held = without_held_out(config, dealt_by(config), needs_pool=needs_pool)
    return 0 if held is None else int(np.bincount(held.labels).max())


def test_samples_are_held_out_where_a_model_is_trained_on_them_or_the_config_says() -> None:
    pool = small_pool()
    most = int((np.bincount(pool.y[~pool.is_test()]) // 4).max())
    assert most < HELD_OUT

    assert n_held(config_of(), needs_pool=True) == most
    assert n_held(config_of(), needs_pool=False) == 0
    assert [n_held(config_of(held_out=3), needs_pool=needs) for needs in (False, True)] == [3, 3]
    assert n_held(config_of(held_out=0), needs_pool=False) == 0


def test_a_model_cannot_be_trained_on_nothing() -> None:
    with pytest.raises(OptionError, match=r'^trace\.held_out is 0, but .* coordinator\.shared_model = "global" or'):
        n_held(config_of(held_out=0), needs_pool=True)


# ---- who watches ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("coordinator", "family"),
    [
        ({}, LabelObserver),
        ({"representation": "label-sqrt"}, LabelObserver),
        ({"detector": "error-rate"}, SampleObserver),
        ({"detector": "confusion"}, SampleObserver),
        ({"representation": "embedding", "detector": "any-change"}, SampleObserver),
        ({"representation": "auto"}, SampleObserver),
        ({"representation": f"{__name__}:describe", "detector": "any-change"}, VectorObserver),
    ],
    ids=str,
)
def test_labels_are_counted_and_all_else_is_looked_at(coordinator: dict[str, Json], family: type) -> None:
    assert type(observer_for(config_of(coordinator))) is family


def test_smoothed_shares_are_told_as_such() -> None:
    plain, smooth = (
        observer_for(config_of({"representation": name})).observe(0) for name in ("label", "label-smoothed")
    )

    counts = (plain.representations * plain.n_samples[:, np.newaxis]).round().astype(np.float64)
    expected = representation_named("label-smoothed").vectors(counts, counts.sum(axis=0))
    assert np.allclose(smooth.representations, expected, atol=1e-6)
    assert (plain.representations == 0.0).any()
    assert (smooth.representations > 0.0).all()


def test_a_method_with_a_test_of_its_own_counts_labels() -> None:
    found = [observer_for(config_of({"representation": "embedding"}), test) for test in (Never(), Always())]

    assert all(isinstance(observer, LabelObserver) for observer in found)
    for observer in found:
        observer.observe(0)
    assert [len(observer.observe(3)) for observer in found] == [0, 12]


def test_errors_alone_need_no_model() -> None:
    observer = observer_for(config_of({"detector": "error-rate"}))

    assert isinstance(observer, SampleObserver)
    assert not observer.awaits_model
    assert len(observer.observe(0)) == 12
    assert not observer.looked.clients.size


# ---- with which model -------------------------------------------------------------------------------------------


def seeing(**coordinator: Json) -> SampleObserver:
    observer = observer_for(config_of({"representation": "embedding", **coordinator}))
    assert isinstance(observer, SampleObserver)
    return observer


def test_a_model_of_the_pool_is_there_at_once_and_that_of_the_clients_is_awaited() -> None:
    assert not seeing(shared_model="pool").awaits_model
    assert seeing(shared_model="global").awaits_model


def test_more_passes_make_another_model() -> None:
    first, again, longer = (seeing(shared_epochs=epochs).observe(0).representations.tobytes() for epochs in (1, 1, 3))

    assert first == again
    assert first != longer


@pytest.mark.parametrize("has_blanks", [False, True])
def test_a_model_is_read_from_a_file(tmp_path: Path, has_blanks: bool) -> None:
    path = tmp_path / ("my model.safetensors" if has_blanks else "model.safetensors")
    write_model(mlp().initial_model(9), mlp().layout, path)
    other = tmp_path / "other.safetensors"
    write_model(mlp().initial_model(10), mlp().layout, other)

    first, again, others = (seeing(shared_model=str(one)).observe(0) for one in (path, path, other))

    assert first.representations.tobytes() == again.representations.tobytes()
    assert first.representations.tobytes() != others.representations.tobytes()


def test_a_file_that_cannot_be_used_is_told_in_one_line_with_the_key(tmp_path: Path) -> None:
    wide, missing = tmp_path / "wide.safetensors", tmp_path / "missing.safetensors"
    write_model(mlp(hidden=9).initial_model(1), mlp(hidden=9).layout, wide)
    broken = tmp_path / "broken.safetensors"
    broken.write_bytes(b"no tensors")

    for path, words in ((wide, "wide.safetensors"), (missing, "cannot read"), (broken, "is no safetensors file")):
        with pytest.raises(OptionError, match=f"^coordinator.shared_model: .*{words}") as caught:
            seeing(shared_model=str(path))
        assert "\n" not in str(caught.value)


def test_a_word_that_is_neither_source_nor_file_is_told_with_the_key() -> None:
    with pytest.raises(OptionError, match=r"^coordinator\.shared_model: .*globl"):
        seeing(shared_model="globl")


def test_a_shared_model_that_does_not_converge_is_told_in_a_line() -> None:
    section: dict[str, Json] = {"representation": "confusion", "detector": None, "shared_model": "pool"}
    config = config_from(table(trace={}, coordinator=section, training={"learning_rate": 1e30}))

    with pytest.raises(OptionError, match=r"coordinator\.shared_model: training it at training\.learning_rate = 1e"):
        observer_for(config)


POOL = small_pool()
HELD = HeldOut(samples=np.arange(0, 240, 3), labels=POOL.y[np.arange(0, 240, 3)])


def trainer(name: str = "mlp") -> Trainer:
    return trainer_for(ModelRequest(name=name, hidden=8, input_shape=(4,), n_classes=4, trainer="numpy"))


def trained(
    made: Trainer,
    pool: Pool = POOL,
    held: HeldOut = HELD,
    *,
    n_steps: int = 60,
    seed: int = 1,
    batch_size: int = 16,
    momentum: float = 0.9,
) -> Models:
    sgd = Sgd(learning_rate=0.1, momentum=momentum)
    return pool_model(made, pool, held, sgd=sgd, n_steps=n_steps, batch_size=batch_size, seed=seed)


def test_it_learns_the_samples_of_the_server() -> None:
    others = np.setdiff1d(np.arange(240), HELD.samples)
    made = trainer()

    model = trained(made)

    assert model.dtype == np.float32
    assert model.shape == (made.layout.size,)
    for samples, least in ((HELD.samples, 0.85), (others, 0.7)):
        _, scores = made.features(model, POOL.features(samples))
        assert (scores.argmax(axis=1) == POOL.y[samples]).mean() > least


def test_it_depends_on_the_seed_alone() -> None:
    first, again, other = (trained(trainer(), seed=seed) for seed in (1, 1, 2))

    assert first.tobytes() == again.tobytes()
    assert first.tobytes() != other.tobytes()


def test_no_other_sample_counts() -> None:
    strange = small_pool()
    others = np.setdiff1d(np.arange(240), HELD.samples)
    strange.x[others] = 99.0
    strange.y[others] = 0

    assert trained(trainer(), strange).tobytes() == trained(trainer()).tobytes()


def test_without_momentum_it_does_not_matter_in_how_many_goes_batches_are_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = trained(trainer(), n_steps=7, momentum=0.0)
    monkeypatch.setattr("fielding.simulation.assembly.STEPS_AT_ONCE", 3)

    assert trained(trainer(), n_steps=7, momentum=0.0).tobytes() == whole.tobytes()


def test_one_step_on_one_sample_is_a_step_down_its_gradient() -> None:
    one = HeldOut(samples=HELD.samples[:1], labels=HELD.labels[:1])
    made = trainer("softmax")
    start = made.initial_model(1)

    model = trained(made, held=one, n_steps=1, batch_size=3)

    slope = made.gradient(start, POOL.features(one.samples), one.labels)
    assert np.allclose(model, start - 0.1 * slope, atol=1e-6)
