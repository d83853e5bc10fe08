import re

import pytest

from fielding.client.representation import (
    REPRESENTATIONS,
    Combination,
    Representation,
    representation_named,
    representation_options,
    representation_summary,
)
from fielding.client.representation.confusion import Confusion
from fielding.client.representation.embedding import Embedding
from fielding.errors import OptionError


def combination_named(text: str, **options: float) -> Combination:
    found = representation_named(text, options)
    assert isinstance(found, Combination)
    return found


@pytest.mark.parametrize("name", REPRESENTATIONS)
def test_every_name_gives_its_class(name: str) -> None:
    assert type(representation_named(name)) is REPRESENTATIONS[name]


@pytest.mark.parametrize(
    ("name", "metric", "kind", "effort", "needs_labels"),
    [
        ("label", "l1", "histogram", "none", True),
        ("label-smoothed", "l1", "histogram", "none", True),
        ("label-sqrt", "hellinger", "histogram", "none", True),
        ("embedding", "l2", "vector", "forward", False),
        ("residual-embedding", "l2", "vector", "forward", True),
        ("class-means", "l2", "vector", "forward", True),
        ("confusion", "hellinger", "histogram", "forward", True),
        ("predictions", "hellinger", "histogram", "forward", False),
        ("gradient", "l2", "vector", "backward", True),
        ("head-gradient", "l2", "vector", "forward", True),
        ("class-directions", "l2", "vector", "forward", True),
        ("loss", "l2", "vector", "forward", True),
        ("label+confusion", "l2", "vector", "forward", True),
        ("embedding+gradient", "l2", "vector", "backward", False),
        ("label+label-sqrt", "l2", "vector", "none", True),
    ],
)
def test_every_name_says_what_it_costs(name: str, metric: str, kind: str, effort: str, needs_labels: bool) -> None:
    own: Representation = representation_named(name)

    assert (own.metric, own.kind, own.effort, own.needs_labels) == (metric, kind, effort, needs_labels)


def test_a_text_with_weights_makes_a_combination() -> None:
    parts = combination_named(" embedding + 2.5 * confusion").parts

    assert [part.weight for part in parts] == [1.0, 2.5]
    assert [part.representation for part in parts] == [Embedding(), Confusion()]


def test_a_single_name_with_a_weight_is_itself() -> None:
    assert representation_named("2*confusion") == Confusion()


def test_options_of_a_combination_go_to_the_parts_that_have_them() -> None:
    embedding, confusion = combination_named("embedding+confusion", shrink=5.0).parts

    assert embedding.representation == Embedding()
    assert confusion.representation == Confusion(shrink=5.0)
    assert representation_options("embedding+confusion") == {"shrink": 2.0}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("confussion", "unknown representation 'confussion'; did you mean 'confusion'?"),
        ("label+", "unknown representation ''"),
        (3, "unknown representation 3;"),
        ("two*confusion", "weight of 'confusion' is 'two'; write for example 2*confusion"),
        ("label+0*confusion", "weight is 0.0; give a number from 1e-06 to 1e+06"),
        ("-1*confusion", "weight is -1.0; give a number"),
        ("nan*confusion+label", "weight is nan; give a number"),
        ("label+label", "representation 'label+label' names 'label' twice; give it once, with a weight"),
    ],
)
def test_a_text_that_means_nothing_is_refused(text: str, message: str) -> None:
    with pytest.raises(OptionError, match=re.escape(message)):
        representation_named(text)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("label", {"shrink": 1.0}, "shrink has no effect: representation 'label' has no options; leave it out"),
        ("confusion", {"shrnk": 1.0}, "unknown option of representation 'confusion' 'shrnk'; did you mean 'shrink'?"),
        ("confusion", {"shrink": -1.0}, "shrink is -1.0; give a number from 0 to 1e+06"),
        ("label-smoothed", {"pseudo": float("inf")}, "pseudo is inf; give a number"),
        ("class-means", {"dims": 0}, "dims is 0; give a whole number from 1 to 4096"),
        ("class-means", {"dims": True}, "dims is True; give a whole number"),
        ("gradient", {"layer": "lost"}, "unknown layer 'lost'; did you mean 'last'? Known: full, last"),
        ("gradient", {"normalize": 1}, "normalize is 1; give true or false"),
        ("head-gradient", {"dims": -1}, "dims is -1; give a whole number from 0 to 4096"),
        ("loss", {"shrink": "much"}, "shrink is 'much'; give a number"),
        ("residual-embedding", {"seed": -1}, "seed is -1; give a whole number from 0"),
    ],
)
def test_options_are_checked(name: str, options: dict, message: str) -> None:
    with pytest.raises(OptionError, match=re.escape(message)):
        representation_named(name, options)


def test_the_summary_of_an_unknown_name_is_refused() -> None:
    with pytest.raises(OptionError, match="unknown representation 'labels'; did you mean 'label'"):
        representation_summary("labels")
