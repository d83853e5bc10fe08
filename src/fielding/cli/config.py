"""`fielding config`: what a config may say."""

import typer

from fielding.cli.console import say_json

config_app = typer.Typer(help="What a config may say.", no_args_is_help=True)


@config_app.callback()
def _config() -> None:
    """Keep the sub-command's name, also while there is only one."""


@config_app.command()
def schema() -> None:
    """Print the JSON Schema of a config: with it, editors complete and check one while it is typed.

    Every section and key with its type, range, known names, default and help, and the options of all parts.
    """
    from fielding.config.schema import config_schema

    say_json(config_schema())
