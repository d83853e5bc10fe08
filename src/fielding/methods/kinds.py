"""A method as configs see it: its name, what it says of itself, and its options."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import getdoc
from typing import Any, Literal, TypeAlias, cast

from fielding._typing import Json
from fielding.client.drift import DriftTest
from fielding.config.options import check_options, options_of
from fielding.config.parts import METHOD_ALIASES, Family, imported_function, make_own
from fielding.errors import OptionError, unknown_name
from fielding.methods.method import Method, MethodSetting

ReportsFrom: TypeAlias = Literal["nobody", "drifted", "flags", "first", "participants"]
"""Whose reports reach a method: nobody's; those of all clients that drifted; of the same no more than that they
drifted; only the first of each client; or those of this round's participants alone, after the round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodKind:
    """A method that configs can name.

    Parameters
    ----------
    summary
        What it does, in a line.
    sends
        What its clients send and receive beside the models that they train, in a line.
    build
        Makes one of a setting and, by keyword, its options.
    reports_from
        Whose reports reach it, or a function that says so of its options and the number of clients.
    detector
        Its own drift test, made of its options; None for that of the coordinator.
    """

    summary: str
    sends: str
    build: Callable[..., Method]
    reports_from: ReportsFrom | Callable[[Mapping[str, Json], int], ReportsFrom] = "nobody"
    detector: Callable[[Mapping[str, Json]], DriftTest] | None = None


METHODS: Family[MethodKind] = Family("method")  # every method by the name that configs use


def method_options(kind: MethodKind) -> dict[str, Json]:
    """Return the options of a method with their defaults; what it takes first is its setting and no option."""
    return dict(list(options_of(kind.build).items())[1:])


def resolve_reports_from(kind: MethodKind, options: Mapping[str, Json], n_clients: int) -> ReportsFrom:
    """Return whose reports reach a method with these options."""
    return kind.reports_from(options, n_clients) if callable(kind.reports_from) else kind.reports_from


def own_kind(build: Callable[..., object]) -> MethodKind:
    """Return the kind of a method of the user's own: drifted clients report to it if it has the verb ``adapt``."""
    lines = (getdoc(build) or "a method of one's own").splitlines()
    return MethodKind(
        summary=lines[0],
        sends=str(getattr(build, "sends", "what it asks for")),
        build=cast(Callable[..., Method], build),
        reports_from="drifted" if hasattr(build, "adapt") else "nobody",
    )


def plain_name(name: str) -> str:
    """Return the name of a method as configs keep it: in lower case, and of two names the first.

    Examples
    --------
    >>> plain_name("FedAvg"), plain_name("IFCA"), plain_name("my_module:MyMethod")
    ('global', 'ifca', 'my_module:MyMethod')
    """
    lower = name.lower()
    found = METHOD_ALIASES.get(lower, lower)
    return found if name not in METHODS and found in METHODS else name


def kind_named(name: str) -> MethodKind:
    """Return a method by its name, or by ``module:Class`` one of the user's own."""
    name = plain_name(name)
    if name in METHODS:
        return METHODS[name]
    if ":" not in name:
        raise OptionError(f"method.name: {unknown_name('method', name, METHODS)}; or one of your own, as module:Class")
    return own_kind(imported_function(name, key="method.name", known=METHODS))


def method_named(kind: MethodKind, setting: MethodSetting, options: Mapping[str, Json]) -> Method:
    """Return a method; an option that it does not have is named with the nearest one."""
    check_method_options(kind, options)
    values: dict[str, Any] = dict(options)
    made: Method = make_own(kind.build, setting, **values)
    return made


def check_method_options(kind: MethodKind, options: Mapping[str, Json]) -> None:
    """Raise if a method has no such option."""
    check_options("this method", options, method_options(kind))
