"""What a config says of representation, metric and drift test, and what it cannot mean."""

import pytest

from fielding._extras import EXTRAS
from fielding._typing import Json
from fielding.client.drift import DRIFT_TESTS, Chi2, Threshold
from fielding.client.drift.detectors import KindDetector, SampleDetector, VectorDetector
from fielding.client.drift.sample_tests import OF_ERRORS, RIVER_TESTS, SAMPLE_TESTS
from fielding.client.drift.two_sample import Mmd
from fielding.client.report_rule import ReportRule
from fielding.client.representation.combination import Combination
from fielding.client.representation.confusion import SoftConfusion
from fielding.client.representation.embedding import ResidualEmbedding
from fielding.client.representation.gradient import Gradient
from fielding.client.representation.label import RootLabelShares
from fielding.client.representation.registry import REPRESENTATIONS
from fielding.config.keys import CoordinatorSection
from fielding.config.parts import BY_KIND
from fielding.distance import metric_named
from fielding.engine.report_rule import NATURAL_TESTS, is_own_function, report_rule_of
from fielding.errors import OptionError


def described(
    representation: str, detector: str | None = None, metric: str | None = None, **options: Json
) -> ReportRule:
    """Return what clients of a seed of 5 do."""
    section = CoordinatorSection(representation=representation, detector=detector, metric=metric, options=options)
    return report_rule_of(section, is_own=is_own_function(section), seed=5)


def test_auto_sees_meanings_and_tells_kinds_apart() -> None:
    auto = described("auto", alpha=0.02)

    assert isinstance(auto.representation, SoftConfusion)
    assert (auto.detector, auto.metric, auto.kind) == (BY_KIND, "hellinger", "histogram")
    assert auto.needs_model
    assert not auto.is_label
    assert auto.drift_detector() == KindDetector(alpha=0.02)


@pytest.mark.parametrize("name", REPRESENTATIONS)
def test_every_representation_has_a_test_and_a_metric_that_suit_it(name: str) -> None:
    natural = described(name)

    assert natural.detector == NATURAL_TESTS.get(name, "joint")
    assert natural.representation is not None
    assert natural.metric == natural.representation.metric
    assert natural.kind == natural.representation.kind
    if natural.is_label:
        assert natural.drift_test() == Chi2()
        assert not natural.needs_model
    else:
        assert isinstance(natural.drift_detector(), SampleDetector)
        assert natural.needs_model


def test_a_combination_takes_the_options_of_its_parts() -> None:
    found = described("label-sqrt+2*residual-embedding", dims=8, metric="l1")

    assert isinstance(found.representation, Combination)
    first, second = found.representation.parts
    assert first.representation == RootLabelShares()
    assert second.representation == ResidualEmbedding(dims=8, seed=5)
    assert (second.weight, found.metric, found.detector) == (2.0, "l1", "joint")


def test_projections_are_drawn_by_the_seed_of_the_run_unless_they_have_their_own() -> None:
    assert described("gradient", layer="full").representation == Gradient(layer="full", seed=5)
    assert described("gradient", seed=7).representation == Gradient(seed=7)


def test_options_go_to_the_test_and_the_rule_around_it() -> None:
    detector = described("embedding", "mmd", deals=99, least=30, alpha=0.02, growth=3.0).drift_detector()

    assert detector == SampleDetector(test=Mmd(deals=99), alpha=0.02, least=30, growth=3.0)


def test_a_threshold_is_measured_in_the_metric_of_the_representation() -> None:
    detector = described("embedding", "threshold", eps=0.7).drift_detector()

    assert detector == VectorDetector(drift_test=Threshold(eps=0.7), metric=metric_named("l2"))


@pytest.mark.parametrize("name", ["label", "label-sqrt", "label-smoothed"])
@pytest.mark.parametrize("detector", DRIFT_TESTS)
def test_label_counts_and_a_test_on_them_need_no_model(name: str, detector: str) -> None:
    found = described(name, detector)

    assert found.is_label
    assert not found.needs_model


@pytest.mark.parametrize("detector", [*SAMPLE_TESTS, BY_KIND])
def test_label_counts_need_a_model_if_the_test_does(detector: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXTRAS, "drift", "numpy")  # as if river were there
    found = described("label", detector)

    assert not found.is_label
    assert found.needs_model is (detector not in OF_ERRORS)
    assert found.drift_detector().needs_errors is (detector in OF_ERRORS or detector == BY_KIND)
    assert found.drift_detector().is_slow


@pytest.mark.parametrize(
    ("representation", "detector", "options"),
    [*(("label", name, {}) for name in RIVER_TESTS), ("auto", None, {"errors": "adwin"})],
)
def test_a_missing_package_is_told_before_anything_runs(
    representation: str, detector: str | None, options: dict[str, Json], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(EXTRAS, "drift", "no_such_package")

    with pytest.raises(
        OptionError, match=r"^coordinator\.detector: no_such_package is not installed; run: pip install"
    ):
        described(representation, detector, None, **options)


def test_auto_takes_another_test_of_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXTRAS, "drift", "numpy")

    assert described("auto", errors="hddm").drift_detector() == KindDetector(errors="hddm")
    with pytest.raises(OptionError, match=r"^coordinator: unknown test of errors 'ks'"):
        described("auto", errors="ks")


def test_a_function_of_ones_own_reports_vectors() -> None:
    own = described("my_module:describe", "threshold", eps=0.5)

    assert own.representation is None
    assert (own.kind, own.metric) == ("vector", "l1")
    assert not own.is_label
    assert not own.needs_model
    assert isinstance(own.drift_detector(), VectorDetector)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"representation": "embeding"}, "coordinator.representation: unknown representation 'embeding'; did you mean"),
        (
            {"representation": "label+label"},
            "coordinator.representation: representation 'label.label' names 'label' tw",
        ),
        ({"representation": "x*loss"}, "coordinator.representation: weight of 'loss' is 'x'"),
        ({"representation": "embedding", "detector": "chi2"}, "coordinator.detector: Chi2 compares label counts"),
        (
            {"representation": "embedding", "detector": "chi2", "alpha": 0.1},
            "coordinator.detector: Chi2 compares label counts",
        ),
        ({"representation": "loss", "detector": "flexcfl-original"}, "coordinator.detector: FlexcflOriginal compares"),
        ({"representation": "my:own", "detector": "chi2"}, "coordinator.detector: Chi2 compares label counts"),
        (
            {"representation": "embedding", "alhpa": 0.1},
            "unknown key coordinator.alhpa; did you mean coordinator.alpha",
        ),
        ({"representation": "embedding", "layer": "full"}, "coordinator.layer has no effect on representation 'embed"),
        ({"representation": "label", "least": 3}, "coordinator.least has no effect .* with drift test 'chi2'"),
        ({"representation": "embedding", "alpha": 7}, "coordinator: alpha is 7; give a number from 0 to 1"),
        ({"representation": "auto", "growth": 0.5}, "coordinator: growth is 0.5"),
        ({"representation": "gradient", "layer": "first"}, "coordinator: .*'first'"),
        ({"representation": "label", "detector": "threshold", "eps": -1}, "coordinator: eps is -1"),
        ({"representation": "embedding", "detector": "ks", "axes": 0}, "coordinator: axes is 0"),
    ],
)
def test_mistakes_are_told_in_one_line_that_says_where(given: dict[str, Json], words: str) -> None:
    with pytest.raises(OptionError, match=f"^{words}") as caught:
        described(**given)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_a_misspelled_auto_is_recognised() -> None:
    with pytest.raises(OptionError, match="did you mean 'auto'"):
        described("autos")
