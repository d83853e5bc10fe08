"""Change the source in one place at a time, and see whether the tests notice.

Run as ``python -m tests.faults.mutants N SEED RESULTS.jsonl``: a random sample of N mutants of the core. Each is tried
on a copy of the package: first by its examples and the tests that mirror it; those that are left, by the tests that
name it, those of its package and a few that run everything. Results are lines of JSON; what the file holds already is
not tried again, so that a run that was stopped goes on. Prints how many were killed, and all that survived.

A mutant that no test can kill, because what it does is the same, is listed in ``EQUIVALENT`` with the reason.
"""

import ast
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TypeAlias

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCE, TESTS = ROOT / "src", ROOT / "tests"
CORE = ("client", "coordinator", "federation", "records", "runtime", "serving")
BEYOND = (
    "flower/device",
    "golden/test_auto_golden.py",
    "golden/test_replay_golden.py",
    "golden/test_run_golden.py",
    "simulation/test_experiment.py",
    "simulation/test_resuming.py",
)
"""Tests of whole runs and devices, for what the tests of a package let pass."""
LIMIT_S = 900.0
"""Seconds of a core for one stage; a mutant that takes longer goes round for ever."""
EQUIVALENT: dict[str, str] = {
    "fielding/federation/report_budget.py: in `return dict(zip(_NAMES, columns, strict=True))`: True -> False": (
        "there are as many names as columns, in one line above the other"
    ),
}
"""Why no test can tell a mutant from the source, by its name without the line."""
LIBRARIES = ("msgspec", "numpy", "pytest", "safetensors.numpy", "scipy.optimize", "sklearn.metrics")
"""What is imported once for all mutants; of the package itself nothing is."""

COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}


Result: TypeAlias = dict[str, str | int | float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A place of a tree, what becomes of it, and how to make it so."""

    old: ast.AST
    new: ast.AST
    make: Callable[[], object]

    @property
    def what(self) -> str:
        """In words of the language."""
        return f"{_told(self.old)} -> {_told(self.new)}"


def changes(tree: ast.AST) -> Iterator[Change]:
    """Yield all changes of a module that are tried, in order; annotations, decorators and texts are left alone."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list", "type_comment") or isinstance(tree, ast.JoinedStr):
            continue
        if isinstance(value, ast.AST):
            yield from _of_node(tree, name, None, value)
            yield from changes(value)
        elif isinstance(value, list):
            for at, one in enumerate(value):
                if isinstance(one, ast.AST):
                    yield from _of_node(tree, name, at, one)
                    yield from changes(one)


def _of_node(parent: ast.AST, name: str, at: int | None, node: ast.AST) -> Iterator[Change]:  # noqa: C901, a case each
    def put(new: ast.AST) -> None:
        if at is None:
            setattr(parent, name, new)
        else:
            getattr(parent, name)[at] = new

    def change(new: ast.AST) -> Change:
        return Change(old=node, new=new, make=lambda: put(new))

    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in COMPARED:
            yield change(ast.Compare(left=left, ops=[COMPARED[type(op)]()], comparators=[right]))
        case ast.BinOp(left=left, op=operation, right=right) if type(operation) in COMPUTED:
            yield change(ast.BinOp(left=left, op=COMPUTED[type(operation)](), right=right))
        case ast.AugAssign(target=target, op=operation, value=value) if type(operation) in COMPUTED:
            yield change(ast.AugAssign(target=target, op=COMPUTED[type(operation)](), value=value))
        case ast.BoolOp(op=ast.And(), values=values):
            yield change(ast.BoolOp(op=ast.Or(), values=values))
        case ast.BoolOp(op=ast.Or(), values=values):
            yield change(ast.BoolOp(op=ast.And(), values=values))
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield change(operand)
        case ast.Constant(value=bool() as value):
            yield change(ast.Constant(value=not value))
        case ast.Constant(value=int() | float() as value):
            yield change(ast.Constant(value=value + 1))
        case ast.If(test=test, body=body, orelse=other):
            yield change(ast.If(test=ast.UnaryOp(op=ast.Not(), operand=test), body=body, orelse=other))
        case ast.IfExp(test=test, body=body, orelse=other):
            yield change(ast.IfExp(test=test, body=other, orelse=body))
        case ast.Expr(value=ast.Call()) | ast.Raise():
            yield change(ast.Pass())
        case ast.Continue():
            yield change(ast.Break())
        case ast.Return(value=ast.AST() as value) if not _is_none(value):
            yield change(ast.Return(value=ast.Constant(value=None)))
        case ast.Call(func=func, args=args, keywords=keywords):
            for leave in range(len(keywords)):
                yield change(ast.Call(func=func, args=args, keywords=keywords[:leave] + keywords[leave + 1 :]))


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _told(node: ast.AST) -> str:
    return " ".join(ast.unparse(ast.fix_missing_locations(node)).split())[:90]


def mutant_names() -> list[tuple[str, int]]:
    """Return all mutants: the module below ``src``, and which of its changes."""
    paths = [path for package in CORE for path in sorted((SOURCE / "fielding" / package).rglob("*.py"))]
    return [
        (path.relative_to(SOURCE).as_posix(), number)
        for path in paths
        for number in range(len(list(changes(ast.parse(path.read_text())))))
    ]


def mutated(module: str, number: int) -> tuple[str, str]:
    """Return the name of a mutant, which tells the line by its text, and its source."""
    text = (SOURCE / module).read_text()
    tree = ast.parse(text)
    change = list(changes(tree))[number]
    where = text.splitlines()[getattr(change.old, "lineno", 1) - 1].strip()
    name = f"{module}: in `{where}`: {change.what}"
    change.make()
    return name, ast.unparse(ast.fix_missing_locations(tree))


def tests_of(module: str, stage: int) -> list[Path]:
    """Return the tests that may notice a change of a module: those nearby in stage 0, all others in stage 1."""
    folder, stem = Path(module).parent.relative_to("fielding"), Path(module).stem
    dotted = module.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    files = sorted(path for path in TESTS.rglob("test_*.py") if path.parent.name != "flower")  # no real processes
    naming = [path for path in files if f"{dotted} import" in path.read_text()]
    near = sorted((TESTS / folder).glob(f"test_*{stem}*.py")) or naming
    package = sorted((TESTS / folder.parts[0]).rglob("test_*.py"))
    if not stage:
        return near
    return [path for path in dict.fromkeys([*naming, *package]) if path not in near] + [TESTS / one for one in BEYOND]


def fails(package: Path, tests: Sequence[Path]) -> str:
    """Return the first test that fails with this copy of the package, in a fork of this process; "" if all pass."""
    told = package.parent / "told"
    told.unlink(missing_ok=True)
    child = os.fork()
    if not child:
        os.setsid()
        signal.setitimer(signal.ITIMER_PROF, LIMIT_S)  # the end of a process that does not catch it
        null = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(null, number)
        os.chdir(ROOT)
        os.environ |= {"PYTHONPATH": str(package.parent), "HYPOTHESIS_STORAGE_DIRECTORY": str(package.parent / "known")}
        sys.path.insert(0, str(package.parent))
        sys.dont_write_bytecode = True
        import pytest

        class Teller:
            def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
                if report.failed:
                    told.write_text(report.nodeid)

        options = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "-m", "not slow and not browser"]
        options += ["--hypothesis-seed=0", f"--basetemp={package.parent / 'scratch'}"]
        os._exit(int(pytest.main([*options, *map(str, tests)], plugins=[Teller()])))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    for left in _group(child):
        os.kill(left, signal.SIGKILL)
    if code == -signal.SIGPROF:
        return "the time limit"
    return (told.read_text() if told.exists() else "collection") if code else ""


def _group(leader: int) -> list[int]:
    """Return who is left of the process group of a child."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if os.getpgid(int(path.name)) == leader:
                found.append(int(path.name))
        except OSError:
            continue
    return found


def try_mutant(module: str, number: int, stage: int, copies: Path) -> Result:
    """Return what became of a mutant."""
    name, source = mutated(module, number)
    path, begun = copies / module, time.monotonic()
    before = path.read_text()
    path.write_text(source)
    try:
        killer = fails(copies / "fielding", [*([] if stage else [path]), *tests_of(module, stage)])
    finally:
        path.write_text(before)
    seconds = round(time.monotonic() - begun, 1)
    return {"module": module, "number": number, "stage": stage, "name": name, "killer": killer, "seconds": seconds}


def main() -> None:
    """Try what is not in the file of results, and tell."""
    n_mutants, seed, results = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    sample = random.Random(seed).sample(mutant_names(), n_mutants)
    known: dict[tuple[str, int, int], Result] = {}
    for one in map(json.loads, results.read_text(encoding="utf-8").splitlines() if results.exists() else []):
        known[one["module"], one["number"], one["stage"]] = one
    for name in LIBRARIES:
        import_module(name)
    with tempfile.TemporaryDirectory(prefix="fielding-mutants-") as scratch:
        copies = Path(scratch)
        shutil.copytree(SOURCE / "fielding", copies / "fielding", ignore=shutil.ignore_patterns("__pycache__"))
        if broken := fails(copies / "fielding", [TESTS / "coordinator" / "test_coordinator.py"]):
            raise SystemExit(f"{broken} fails without any change")
        for stage in (0, 1):
            for module, number in sample:
                is_killed = any(known.get((module, number, at), {}).get("killer") for at in (0, 1))
                if is_killed or (module, number, stage) in known:
                    continue
                found = known[module, number, stage] = try_mutant(module, number, stage, copies)
                with results.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(found) + "\n")
                tell(f"{found['killer'] or 'SURVIVED'} | {found['name']}")
    survivors = [
        known[module, number, 1]["name"]
        for module, number in sample
        if not any(known.get((module, number, at), {}).get("killer") for at in (0, 1))
    ]
    same = [one for one in survivors if one in EQUIVALENT]
    tell(f"{len(sample)} tried, {len(sample) - len(survivors)} killed, {len(same)} equivalent; survivors:")
    for one in survivors:
        tell(f"{one}{' (equivalent)' if one in EQUIVALENT else ''}")


def tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
