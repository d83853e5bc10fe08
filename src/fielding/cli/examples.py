"""The example configs that come with Fielding: in the installed package, or beside it in a clone."""

from pathlib import Path

from fielding import _version

NEEDS_MORE = ("own_method",)  # examples that run only beside a module of the repository


def example_configs() -> dict[str, Path]:
    """Return the files of the example configs by name; nothing if they did not come along.

    Examples
    --------
    >>> "digits_places" in example_configs()
    True
    """
    package = Path(_version.__file__).parent
    for folder in (package / "cli" / "configs", package.parent.parent / "examples" / "configs"):
        if folder.is_dir():
            return {path.stem: path for path in sorted(folder.glob("*.toml")) if path.stem not in NEEDS_MORE}
    return {}
