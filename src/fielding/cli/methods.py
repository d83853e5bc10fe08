"""`fielding methods`: what methods there are, what they send, their options; and whether one of one's own is sound."""

import sys
from inspect import getdoc
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from fielding._typing import Json
from fielding.cli.completion import complete_method
from fielding.cli.console import say, say_json, tell
from fielding.cli.options import JsonOutput, Quiet
from fielding.config.options import option_words
from fielding.errors import OptionError
from fielding.methods import METHODS, MethodKind, kind_named, method_options, plain_name
from fielding.methods.kinds import check_method_options

HEARS = {
    "nobody": "no reports",
    "drifted": "reports of clients that drifted",
    "flags": "that clients drifted, and no more",
    "first": "the first report of each client, and no other",
    "participants": "reports of this round's participants",
}
"""What a method hears, in words."""
BY_OPTIONS = "as its options say"
WIDTH = 160  # characters of a line, where there is no terminal


def methods(
    name: Annotated[
        str | None,
        typer.Argument(
            help="A method, or one of your own: my_module:MyMethod; all without it.", autocompletion=complete_method
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Run the method on a small federation of difficult clients.")
    ] = False,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="OPTION=VALUE", help="With --check: an option of it; may be repeated."),
    ] = None,
    as_json: JsonOutput = False,
    quiet: Quiet = False,
) -> None:
    """List the methods: what each does, what its clients send beside models, and its options with their defaults.

    With --check, try a method in every way that all methods are tested: the same seed gives the same log, a stopped run
    goes on where it was, clients that it did not ask are left alone, every byte is paid for, and difficult clients,
    broken answers and no answers at all do no harm.
    """
    sys.path.insert(0, str(Path.cwd()))  # for methods of the user's own
    if name is None:
        if check or changes:
            raise OptionError("--check and --set need the name of a method; for example fielding methods fielding")
        _list_all(as_json=as_json)
        return
    if changes and not check:
        raise OptionError("options given with --set need --check; in a run they stand in the config's [method]")
    name = plain_name(name)
    kind = kind_named(name)
    if check:
        from fielding.config.reader import apply_changes
        from fielding.conformance.method_checks import check_method

        options = apply_changes({}, list(changes or ()))
        check_method_options(kind, options)
        check_method(name, options, on_check=lambda passed: None if quiet else tell(f"{name} is {passed}"))
        if not quiet:
            say(f"{name} passed all checks")
    elif as_json:
        say_json(_record(name, kind))
    else:
        _show(name, kind)


def _list_all(*, as_json: bool) -> None:
    if as_json:
        say_json([_record(name, kind) for name, kind in METHODS.items()])
        return
    table = Table(header_style="bold", box=None, pad_edge=False)
    for head in ("method", "what it does", "sends beside models", "options"):
        table.add_column(head, overflow="fold")
    for name, kind in METHODS.items():
        options = ", ".join(f"{option} {_format_default(value)}" for option, value in method_options(kind).items())
        table.add_row(name, kind.summary, kind.sends, options or "-")
    console = Console()
    (console if console.is_terminal else Console(width=WIDTH)).print(table, markup=False)
    say("fielding methods NAME tells more; in a config: [method] name = NAME, and the options beside it")


def _record(name: str, kind: MethodKind) -> dict[str, Json]:
    return {
        "name": name,
        "summary": kind.summary,
        "sends": kind.sends,
        "hears": BY_OPTIONS if callable(kind.reports_from) else kind.reports_from,
        "options": method_options(kind),
    }


def _show(name: str, kind: MethodKind) -> None:
    say(f"{name}: {kind.summary}")
    say(f"sends beside models: {kind.sends}")
    say(f"hears: {BY_OPTIONS if callable(kind.reports_from) else HEARS[kind.reports_from]}")
    words, options = option_words(getdoc(kind.build) or ""), method_options(kind)
    say("options:" if options else "options: none")
    for option, value in options.items():
        say(f"  {option} = {_format_default(value)}{f'  {words[option]}' if option in words else ''}")


def _format_default(value: Json) -> str:
    """Return a default as a config writes it.

    Examples
    --------
    >>> [_format_default(value) for value in (True, 0.001, "random", None)]
    ['true', '0.001', 'random', 'none']
    """
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)
