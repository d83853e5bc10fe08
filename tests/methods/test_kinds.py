"""Methods as configs see them: their names, options, and whose reports they hear."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from fielding._typing import Json
from fielding.errors import OptionError
from fielding.methods import METHODS, MethodKind
from fielding.methods.kinds import (
    ReportsFrom,
    check_method_options,
    kind_named,
    method_named,
    method_options,
    own_kind,
    resolve_reports_from,
)
from fielding.methods.method import MethodSetting
from fielding.simulation.assembly import Own
from fielding.simulation.experiment import run
from tests.methods.own import Quiet
from tests.methods.settings import setting_of
from tests.simulation.run_cases import small_pool, table
from tests.simulation.small import small_clients

QUIET, LISTENING = "tests.methods.own:Quiet", "tests.methods.own:Listening"


def kind_of(reports_from: ReportsFrom | Callable[[Mapping[str, Json], int], ReportsFrom]) -> MethodKind:
    return MethodKind(summary="", sends="", build=Quiet, reports_from=reports_from)


def test_known_names_come_first() -> None:
    assert kind_named("global") is METHODS["global"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("feilding", "method.name: unknown method 'feilding'; did you mean 'fielding'?"),
        ("", "method.name: unknown method ''"),
        (":Quiet", "method.name: unknown name ':Quiet'"),
        ("tests.methods.own:", "method.name: unknown name 'tests.methods.own:'"),
        ("tests.methods.nowhere:Quiet", "method.name is 'tests.methods.nowhere:Quiet', but there is no module"),
        ("tests.methods.own:Quite", "method.name is 'tests.methods.own:Quite', but module tests.methods.own has no"),
        (
            "tests.methods.own:NOT_A_CLASS",
            "method.name is 'tests.methods.own:NOT_A_CLASS', which is 3; name a function or a class",
        ),
    ],
)
def test_a_name_that_leads_nowhere_is_told_with_what_to_do(name: str, words: str) -> None:
    with pytest.raises(OptionError) as caught:
        kind_named(name)

    assert str(caught.value).startswith(words)
    assert "\n" not in str(caught.value)


def test_a_method_of_ones_own_is_told_by_what_its_class_says() -> None:
    quiet, listening = kind_named(QUIET), kind_named(LISTENING)

    assert (quiet.summary, quiet.sends, quiet.reports_from) == (
        "One model for all, which hears nobody.",
        "what it asks for",
        "nobody",
    )
    assert (listening.sends, listening.reports_from) == ("its shoe size", "drifted"), "it has the verb adapt"
    assert listening.summary
    assert quiet.detector is None


def test_a_function_that_makes_a_method_will_do() -> None:
    def with_rows(setting: MethodSetting, n_rows: int = 3) -> Quiet:
        return Quiet(setting, rows=n_rows)

    assert method_options(own_kind(with_rows)) == {"n_rows": 3}


def test_options_are_the_keywords_of_the_constructor() -> None:
    assert method_options(kind_named(QUIET)) == {"pace": 0.5, "rows": 2}
    assert method_options(kind_named(LISTENING)) == {}


def test_a_method_is_made_with_its_options() -> None:
    setting = setting_of(small_clients())

    made = [method_named(kind_named(QUIET), setting, options) for options in ({}, {"rows": 7})]

    assert [(one.pace, one.rows) for one in made if isinstance(one, Quiet)] == [(0.5, 2), (0.5, 7)]


@pytest.mark.parametrize(
    ("name", "option", "words"),
    [
        (QUIET, "pase", "unknown option of this method 'pase'; did you mean 'pace'?"),
        (QUIET, "setting", "unknown option of this method 'setting'"),
        (LISTENING, "k", "k has no effect: this method has no options; leave it out"),
        ("global", "k", "k has no effect"),
    ],
)
def test_an_option_that_a_method_does_not_have_is_refused(name: str, option: str, words: str) -> None:
    kind = kind_named(name)

    with pytest.raises(OptionError) as checked:
        check_method_options(kind, {option: 1})
    with pytest.raises(OptionError) as made:
        method_named(kind, setting_of(small_clients()), {option: 1})

    assert str(checked.value).startswith(words)
    assert str(made.value) == str(checked.value)


def test_whose_reports_reach_a_method_may_depend_on_its_options_and_on_the_clients() -> None:
    def reports_from(options: Mapping[str, Json], n_clients: int) -> ReportsFrom:
        return "flags" if options.get("asks") and n_clients > 10 else "nobody"

    assert resolve_reports_from(kind_of("first"), {"asks": True}, 100) == "first"
    found = [
        resolve_reports_from(kind_of(reports_from), {"asks": asks}, n)
        for asks, n in ((True, 100), (True, 3), (False, 100))
    ]
    assert found == ["flags", "nobody", "nobody"]


@pytest.mark.parametrize(
    ("name", "options", "n_clients", "reports_from"),
    [
        ("ifca", {}, 50, "nobody"),
        ("ifca", {"reassess": "drifted"}, 50, "flags"),
        ("flexcfl", {"cold_start": False}, 50, "nobody"),
        ("flexcfl", {}, 50, "flags"),
        ("feddrift", {"participation": "full"}, 10**6, "nobody"),
        ("static", {}, 50, "first"),
        ("selected", {}, 50, "participants"),
    ],
)
def test_known_methods_hear_what_their_options_say(
    name: str, options: dict[str, Json], n_clients: int, reports_from: ReportsFrom
) -> None:
    assert resolve_reports_from(METHODS[name], options, n_clients) == reports_from


def test_a_config_runs_a_method_of_ones_own_with_its_options(tmp_path: Path) -> None:
    quick = table(rounds=2, method={"name": QUIET, "rows": 3})

    result = run(quick, tmp_path / "run", own=Own(samples=small_pool()), page=False)

    plain = run(table(rounds=2, method={"name": "global"}), own=Own(samples=small_pool()), page=False)
    assert result.checkpoint.models.tobytes() == plain.checkpoint.models.tobytes()
    assert not any(row["n_reports"] for row in result.rounds)
    config = (tmp_path / "run" / "config.toml").read_text()
    assert QUIET in config
    assert "rows = 3" in config
