"""The house rules that prevent defects and that no linter knows: names, and what library code must not do."""

import ast
import importlib
import inspect
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent / "src" / "fielding"
PATHS = {path.relative_to(SOURCE.parent).as_posix(): path for path in SOURCE.rglob("*.py")}

HUBS = {"utils", "util", "common", "helpers", "manager", "core", "internal"}
PICKLERS = {"pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
TYPED_TO_THE_END = ("fielding/client/", "fielding/coordinator/", "fielding/distance.py")


@cache
def modules() -> dict[str, ast.Module]:
    """Return all of the source; read when a test asks, for every worker collects these tests and one runs them."""
    return {name: ast.parse(path.read_text()) for name, path in PATHS.items()}


@cache
def nodes() -> list[tuple[str, ast.AST]]:
    """Return all nodes of the source with their files."""
    return [(name, node) for name, tree in modules().items() for node in ast.walk(tree)]


def offenders(is_bad: Callable[[ast.AST], bool], *, spare: tuple[str, ...] = ()) -> list[str]:
    """Return ``file:line`` of every node that is bad, outside the spared files and folders."""
    return [
        f"{name}:{getattr(node, 'lineno', 0)}" for name, node in nodes() if not name.startswith(spare) and is_bad(node)
    ]


def dotted(node: ast.AST) -> str:
    """Return ``a.b.c`` for a chain of names, and nothing for other nodes."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (head := dotted(node.value)):
        return f"{head}.{node.attr}"
    return ""


def called(node: ast.AST) -> str:
    return dotted(node.func) if isinstance(node, ast.Call) else ""


def imported(node: ast.AST) -> list[str]:
    """Return the full names that an import statement brings in."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def test_there_is_source_to_look_at() -> None:
    assert "fielding/distance.py" in PATHS


def test_nothing_is_named_like_a_place_for_everything() -> None:
    assert [name for name in PATHS if HUBS & {part.strip("_") for part in Path(name).with_suffix("").parts}] == []


def test_every_module_says_what_it_is_for() -> None:
    assert [name for name, tree in modules().items() if not ast.get_docstring(tree)] == []


def test_imports_are_absolute() -> None:
    assert offenders(lambda node: isinstance(node, ast.ImportFrom) and node.level > 0) == []


def test_no_file_holds_pickle() -> None:
    """What a Python program brings along goes through a pipe to the processes that it starts, and to no file."""
    spared = ("fielding/comparing/sweep.py",)
    assert offenders(lambda node: any(name.split(".")[0] in PICKLERS for name in imported(node)), spare=spared) == []
    assert offenders(_may_unpickle) == []


def _may_unpickle(node: ast.AST) -> bool:
    """Return whether numpy is asked to load or save without being told to leave pickle alone."""
    if not isinstance(node, ast.Call):
        return False
    told = {word.arg: ast.unparse(word.value) for word in node.keywords}
    if told.get("allow_pickle", "False") != "False":
        return True
    return called(node) in ("np.load", "np.save") and "allow_pickle" not in told


def test_no_text_is_run_as_code() -> None:
    assert offenders(lambda node: called(node) in ("eval", "exec", "compile")) == []


def test_generators_are_born_in_one_place_only() -> None:
    """Types such as ``np.random.Generator`` may be named anywhere; the global generator nowhere."""
    may_be_named = {"np.random.Generator", "np.random.BitGenerator"}

    def draws(node: ast.AST) -> bool:
        return (
            dotted(node).startswith("np.random.") and dotted(node).count(".") == 2 and dotted(node) not in may_be_named
        )

    assert offenders(draws, spare=("fielding/rng.py",)) == []
    # Noise of private reports must be a secret on devices.
    secret = ("fielding/client/privacy/geometric.py",)
    names = ("random", "secrets")
    assert offenders(lambda node: any(name.split(".")[0] in names for name in imported(node)), spare=secret) == []


def test_mistakes_of_users_are_not_met_with_assert() -> None:
    assert offenders(lambda node: isinstance(node, ast.Assert)) == []


def test_only_the_command_line_prints() -> None:
    assert offenders(lambda node: called(node) == "print", spare=("fielding/cli/",)) == []


def test_the_numeric_parts_are_typed_to_the_end() -> None:
    assert (
        offenders(
            lambda node: "typing.Any" in imported(node),
            spare=tuple(name for name in PATHS if not name.startswith(TYPED_TO_THE_END)),
        )
        == []
    )


def public_modules() -> list[str]:
    """Return the modules that list their public names."""
    return [name for name, path in PATHS.items() if "\n__all__ = " in path.read_text()]


def in_order(names: list[str]) -> list[str]:
    """Return names as the linter wants them: CONSTANTS, then Classes, then the rest."""
    return sorted(names, key=lambda name: (0 if name.isupper() else 1 if name[:1].isupper() else 2, name))


@pytest.mark.parametrize("name", sorted(public_modules()))
def test_public_names_are_there_sorted_and_documented(name: str) -> None:
    module = importlib.import_module(name.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
    public = list(module.__all__)

    assert public == in_order(public)
    assert len(set(public)) == len(public)
    assert [one for one in public if not hasattr(module, one)] == []
    assert [one for one in public if not _is_documented(getattr(module, one), one)] == []


def _is_documented(member: object, name: str) -> bool:
    """Return whether a class or function has a docstring of its own, not the signature a dataclass writes."""
    if not (inspect.isclass(member) or inspect.isroutine(member)):
        return True
    return bool(member.__doc__) and not str(member.__doc__).startswith(f"{name}(")


@pytest.mark.parametrize("name", sorted(set(public_modules()) & {one for one in PATHS if one.endswith("__init__.py")}))
def test_a_package_lists_all_that_it_gathers(name: str) -> None:
    package = name.removesuffix("/__init__.py").replace("/", ".")
    gathered = {
        alias.asname or alias.name
        for node in ast.walk(modules()[name])
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{package}.")
        for alias in node.names
    }

    assert {one for one in gathered if not one.startswith("_")} <= set(importlib.import_module(package).__all__)
