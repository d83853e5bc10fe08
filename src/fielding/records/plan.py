"""What a comparison is made of, written down in its folder before anything runs, and why runs of it failed."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fielding._typing import Json
from fielding.atomic import check_no_pipe, make_private
from fielding.errors import InputError, OutputError, echo, unknown_name
from fielding.json_text import parse_json
from fielding.records.manifest import write_json

PLAN, FAILURE = "compare.json", "failure.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One of the things that are compared, by a name for people: ``"fielding"``, ``"fielding tau=1/6"``.

    ``folder`` is how the names of its run folders begin; fit for any file system, and its alone. ``settings`` hold, by
    dotted key of the config, what it has instead of the base config's value; None leaves the key out.
    """

    name: str
    folder: str
    settings: Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A comparison as it was asked for."""

    config: Mapping[str, Json]  # the base config, as a table
    variants: tuple[Variant, ...]  # what is compared, in the order of tables
    seeds: tuple[int, ...]  # every variant runs on each of them
    reference: str  # the name of the variant that the others are compared with
    # Whether this reference was asked for; else it is the usual one, and gives way to a better one that comes.
    is_asked: bool = False

    def folder_of(self, variant: Variant, seed: int) -> str:
        """Return the name of the folder of a run.

        Examples
        --------
        >>> one = Variant(name="fielding tau=1/3", folder="fielding-tau-1_3", settings={"coordinator.tau": "1/3"})
        >>> Plan(config={}, variants=(one,), seeds=(1, 2), reference=one.name).folder_of(one, 2)
        'fielding-tau-1_3-2'
        """
        return f"{variant.folder}-{seed}"

    def variant_named(self, name: str) -> Variant:
        """Return a variant by its name; OptionError if there is none; the message names the nearest."""
        found = {one.name: one for one in self.variants}
        if name not in found:
            raise unknown_name("variant", name, found)
        return found[name]


def read_plan(folder: Path) -> Plan | None:
    """Return the plan of a comparison; None if the folder holds none.

    InputError if there is one, but it cannot be read.
    """
    path = folder / PLAN
    try:
        check_no_pipe(path)
        record = parse_json(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({error}); name another folder") from error
    try:
        variants = tuple(
            Variant(name=_text(one["name"]), folder=_file_name(one["folder"]), settings=dict(one["settings"]))
            for one in record["variants"]
        )
        plan = Plan(
            config=dict(record["config"]),
            variants=variants,
            seeds=tuple(_whole(seed) for seed in record["seeds"]),
            reference=_text(record["reference"]),
            is_asked=record.get("reference_asked", False) is True,  # plans of old versions do not tell
        )
        plan.variant_named(plan.reference)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path} is damaged or no plan of a comparison ({error}); name another folder") from error
    return plan


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{echo(value)} is no text")
    return value


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{echo(value)} is no whole number")
    return value


def _file_name(value: object) -> str:
    """Return the name of a folder inside the comparison's own; a plan may come from anywhere, so no path will do."""
    name = _text(value)
    if not name or name.startswith(".") or Path(name).name != name or "\\" in name or "\0" in name:
        raise ValueError(f"{echo(name)} is no name of a folder")
    return name


def write_plan(folder: Path, plan: Plan) -> None:
    """Write the plan of a comparison, whole or not at all."""
    variants: list[Json] = [
        {"name": one.name, "folder": one.folder, "settings": dict(one.settings)} for one in plan.variants
    ]
    record: dict[str, Json] = {
        "reference": plan.reference,
        "reference_asked": plan.is_asked,
        "seeds": list(plan.seeds),
        "variants": variants,
        "config": dict(plan.config),
    }
    write_json(folder / PLAN, record)


def read_failure(folder: Path) -> str | None:
    """Return why the run of a folder failed, in a line; None if it did not."""
    try:
        check_no_pipe(folder / FAILURE)
        record = parse_json((folder / FAILURE).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError):
        return f"{FAILURE} is there, but cannot be read"
    error = record.get("error") if isinstance(record, dict) else None
    return " ".join(error.split()) if isinstance(error, str) else f"{FAILURE} does not say why"


def write_failure(folder: Path, error: str, traceback: str | None = None) -> None:
    """Write down why the run of a folder failed, and where in the code; the folder is made if need be."""
    with contextlib.suppress(OSError):  # writing will tell
        make_private(folder)
    record: dict[str, Json] = {"error": error}
    write_json(folder / FAILURE, record if traceback is None else {**record, "traceback": traceback})


def clear_failure(folder: Path) -> None:
    """Forget that the run of a folder failed, since it is tried again."""
    path = folder / FAILURE
    try:
        path.unlink(missing_ok=True)
    except NotADirectoryError:  # then nothing was kept there; the run will tell
        return
    except OSError as error:
        raise OutputError(f"cannot remove {path}: {error.strerror or error}; remove it by hand") from error
