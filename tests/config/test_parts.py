import pytest

from fielding.config.parts import PLACES, Family
from fielding.errors import OptionError


@pytest.mark.parametrize("name", PLACES)
def test_every_part_is_where_the_table_says(name: str) -> None:
    family: Family[object] = Family(name)

    assert len(family) == len(dict(family))
    assert all(not isinstance(part, str) for part in family.values())


@pytest.mark.parametrize("name", [name for name in PLACES if name not in ("data set", "expert", "inheritance")])
def test_the_options_of_every_part_have_defaults(name: str) -> None:
    family: Family[object] = Family(name)

    for part in family:
        assert all(one.default is not one.empty for one in family.parameters(part).values())


def test_a_part_of_ones_own_can_be_added() -> None:
    family: Family[object] = Family("pace")

    family["mine"] = dict
    try:
        assert "mine" in Family("pace")
        assert Family[object]("pace")["mine"] is dict
    finally:
        del family["mine"]
    assert "mine" not in family


def test_an_unknown_name_is_told_with_the_nearest() -> None:
    with pytest.raises(OptionError, match="unknown pace 'stedy'; did you mean 'steady'"):
        Family[object]("pace").make("stedy")
    with pytest.raises(OptionError, match="unknown option of pace 'master-fl' 'longer'; did you mean 'longest'"):
        Family[object]("pace").make("master-fl", {"longer": 3})
    with pytest.raises(OptionError, match="seed"):
        Family[object]("pace").make("master-fl", {"seed": 3})
