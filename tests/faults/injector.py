"""Let every call of a command to the file system fail once, or be its last, and see that nothing is lost.

Run as ``python -m tests.faults.injector FOLDER SEED N_FAULTS N_KILLS N_CUTS [COMMAND ...]`` with ``inject.c``
preloaded; a number of 0 stands for all there are, -1 for none, and no command for all of them. Attempts are forked, so
that nothing is imported again. Prints a JSON object: how many attempts there were of each kind, and what went wrong.

- **fault**: a call fails with an error. The command goes on, or ends with one line and an exit code; the checkpoint
  that there was is still whole.
- **kill**: the process is killed before a call.
- **cut**: the same, and what was not synced is lost: names that a folder got since, and what files were given since.

After each, the same command with ``--resume``, undisturbed, must leave the bytes of one that was never disturbed.
"""

import ctypes
import errno
import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fielding.cli import main as command_line
from fielding.errors import FieldingError
from fielding.records.checkpoint import load_coordinator
from fielding.records.report_file import write_reports
from fielding.records.run_checkpoint import load_run
from fielding.records.run_folder import read_run_reports
from tests.cli.in_process import CONFIG
from tests.faults.others import DeviceScript, desk_of, watch
from tests.simulation.run_cases import left_behind

ERRORS = ("ENOSPC", "EIO", "EACCES", "EMFILE")
RUN = ("run", "small.toml", "--no-page", "--quiet", "--out", "out")
REPLAY = ("replay", "reports.npz", "--no-page", "--quiet", "--out", "out")
REPORT = ("report", "out", "--quiet")
COMPARE = (
    *("compare", "small.toml", "--methods", "fielding,global", "--seeds", "1", "--set", "rounds=2"),
    *("--jobs", "1", "--no-page", "--quiet", "--out", "out"),
)
N_MEASURED = 5  # columns of runs.csv that hold times and memory, the last ones
OTHERS: dict[str, Callable[[Path], int]] = {"watch": watch}  # what is no command of ours, by its first word
LIBRARY = ctypes.CDLL(None)  # what is loaded already: the injector before libc


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A command, the folder that it starts from, and how to go on after it was disturbed.

    ``newest``: how far its checkpoints reach, -1 without any. ``results``: what must be equal at the end. ``writes``:
    whether there is anything that a kill could spoil.
    """

    name: str
    words: Sequence[str]
    again: Sequence[str]
    start: Path
    newest: Callable[[Path], int]
    results: Callable[[Path], dict[str, bytes]]
    writes: bool = True


def newest_round(folder: Path) -> int:
    rounds = [-1]
    for path in (folder / "out" / "checkpoints").glob("*.ckpt"):
        try:
            rounds.append(load_run(path).round_index)
        except FieldingError:
            continue
    return max(rounds)


def newest_event(folder: Path) -> int:
    path = folder / "out" / "coordinator.ckpt"
    return load_coordinator(path).n_events if path.exists() else -1


def run_results(folder: Path) -> dict[str, bytes]:
    return left_behind(folder / "out")


def replay_results(folder: Path) -> dict[str, bytes]:
    names = ("decisions.jsonl", "events.jsonl", "memberships.jsonl", "membership.npz", "summary.json", "manifest.json")
    return {name: (folder / "out" / name).read_bytes() for name in names}


def report_results(folder: Path) -> dict[str, bytes]:
    return run_results(folder) | {"page": (folder / "out" / "report.html").read_bytes()[:15]}


def compare_results(folder: Path) -> dict[str, bytes]:
    """Return what is no measured time."""
    out = folder / "out"
    runs = sorted(one.parent for one in out.glob("*/manifest.json"))
    found = {f"{run.name}/{name}": one for run in runs for name, one in left_behind(run).items()}
    rows = [line.split(",")[:-N_MEASURED] for line in (out / "runs.csv").read_text().splitlines()]
    written = {name: (out / name).read_bytes() for name in ("compare.json", "table.md", "table.tex")}
    return found | written | {"runs": repr(rows).encode(), "summary": b"%d" % (out / "summary.json").exists()}


def watch_results(folder: Path) -> dict[str, bytes]:
    return {"answers": (folder / "answers").read_bytes()}


def type_in(folder: Path, words: Sequence[str]) -> int:
    """Return the exit code of a command in this process."""
    os.chdir(folder)
    if words[0] in OTHERS:
        return OTHERS[words[0]](folder)
    sys.argv = ["fielding", *words]
    try:
        command_line()
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def call(folder: Path, words: Sequence[str], prepare: Callable[[], object] | None = None) -> tuple[int, str]:
    """Return how a command in a process of its own ended, and what it said on standard error."""
    said = folder.with_suffix(".err")
    child = os.fork()
    if not child:
        code = 99
        os.setpgid(0, 0)  # who kills it kills its children, too
        try:
            os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 2)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            (prepare or partial(arm, folder))()
            code = type_in(folder, words)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code, said.read_text(errors="replace")


def arm(folder: Path, at: int = 0, error: int = 0, log: Path | None = None) -> None:
    LIBRARY.fault_arm(os.fsencode(folder), at, error, b"" if log is None else os.fsencode(log))


def fresh(start: Path, folder: Path) -> Path:
    desk_of(folder).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    return Path(shutil.copytree(start, folder))


def calls_of(words: Sequence[str], start: Path, folder: Path) -> list[str]:
    """Return the calls that an undisturbed command makes, in their order."""
    log = folder.with_suffix(".calls")
    code, said = call(fresh(start, folder), words, partial(arm, folder, log=log))
    if code:
        raise SystemExit(f"{' '.join(words)} fails undisturbed: {said}")
    return log.read_text().splitlines()


def cases(root: Path) -> list[Case]:
    """Return the commands, each with a folder to start from."""
    empty, done, half, reports, part = (root / name for name in ("empty", "done", "half", "reports", "part"))
    for one in (empty, done, half, reports, part):
        one.mkdir(parents=True)
        (one / "small.toml").write_text(CONFIG)
    # In this process, so that all that is needed is imported when attempts are forked.
    if type_in(done, RUN) or type_in(fresh(done, root / "shown"), REPORT):
        raise SystemExit("a small run fails undisturbed")
    for one in (reports, part):
        write_reports(read_run_reports(done / "out"), one / "reports.npz")
    if type_in(fresh(reports, root / "replayed"), REPLAY):
        raise SystemExit("a small replay fails undisturbed")
    devices = {
        name: DeviceScript(root / name, is_private=is_private)
        for name, is_private in (("device", False), ("private device", True))
    }
    OTHERS.update(devices)
    run_again, replay_again = (*RUN, "--resume"), (*REPLAY, "--resume")
    # Killed when half or three quarters of it was done: what is committed is less than what is there.
    for one, words, share in ((half, RUN, 0.6), (part, REPLAY, 0.75)):
        at = int(share * len(calls_of(words, one, root / "counted")))
        call(one, words, partial(arm, one, at))
    return [
        Case(name="run", words=RUN, again=run_again, start=empty, newest=newest_round, results=run_results),
        Case(name="resume", words=run_again, again=run_again, start=half, newest=newest_round, results=run_results),
        Case(
            name="replay", words=REPLAY, again=replay_again, start=reports, newest=newest_event, results=replay_results
        ),
        Case(
            name="replay --resume", words=replay_again, again=replay_again, start=part, newest=newest_event,
            results=replay_results,
        ),
        Case(name="report", words=REPORT, again=REPORT, start=done, newest=newest_round, results=report_results),
        Case(
            name="compare", words=COMPARE, again=COMPARE, start=empty, newest=lambda _: -1, results=compare_results
        ),
        Case(
            name="watch", words=["watch"], again=["watch"], start=done, newest=newest_round, results=watch_results,
            writes=False,
        ),
        *(
            Case(name=name, words=[name], again=[name], start=empty, newest=one.newest, results=one.results)
            for name, one in devices.items()
        ),
    ]  # fmt: skip


# ---- power cuts ----------------------------------------------------------------------------------------------------


def remember(folder: Path) -> dict[str, tuple[str, bytes]]:
    """Return what a folder holds, as :func:`restore` wants it: what was there before was synced."""
    found: dict[str, tuple[str, bytes]] = {}
    for path in (folder, *folder.rglob("*")):
        if path.is_dir():
            inside = sorted(path.iterdir())
            lines = [f"{'d' if one.is_dir() else 'f'} {one.stat().st_ino}.0 {one.name}\n" for one in inside]
            found[f"{path.stat().st_ino}.0"] = ("d", "".join(lines).encode())
        else:
            found[f"{path.stat().st_ino}.0"] = ("f", path.read_bytes())
    return found


def restore(folder: Path, before: dict[str, tuple[str, bytes]], shadow: Path) -> None:
    """Turn a folder into what a power cut leaves of it."""
    own = f"{folder.stat().st_ino}.0"
    kept = {one.name: one.read_bytes() for one in shadow.iterdir() if one.suffix != ".tmp"}

    def put(name: str, kind: str, path: Path) -> None:
        content = kept[name] if name in kept else before.get(name, ("", b""))[1]
        if kind == "f":
            path.write_bytes(content)
            return
        path.mkdir(mode=0o700)
        for line in content.decode().splitlines():
            of_kind, of_name, text = line.split(" ", 2)
            put(of_name, of_kind, path / text)

    shutil.rmtree(folder)
    put(own, "d", folder)


# ---- attempts ------------------------------------------------------------------------------------------------------


def is_told(said: str) -> bool:
    """Return whether a command said in a line what was wrong; a comparison ends with a line for each run."""
    lines = said.splitlines()
    if len(lines) == 1:
        return said.startswith("error: ")
    return bool(lines) and lines[-1].startswith("out/") and not re.search(r"Traceback|\.py, line \d", said)


def attempt(case: Case, folder: Path, kind: str, at: int, whole: dict[str, bytes]) -> str:
    """Disturb a command at a call; return what went wrong, in words, or nothing."""
    fresh(case.start, folder)
    committed, before, shadow = case.newest(folder), remember(folder), folder.with_suffix(".shadow")
    shutil.rmtree(shadow, ignore_errors=True)
    shadow.mkdir()

    def prepare() -> None:
        if kind == "cut":
            LIBRARY.fault_shadow(os.fsencode(shadow))
        arm(folder, at, getattr(errno, kind, 0))

    code, said = call(folder, case.words, prepare)
    if kind in ERRORS:
        if code and not (code in (1, 2) and is_told(said)):
            return f"exit {code} with {said.strip().splitlines()[-1:]} as the last of {said.count(chr(10))} lines"
        if not code and any(not line.startswith("note: ") for line in said.splitlines()):
            return f"exit 0, but it said {said}"
    elif code != -signal.SIGKILL:
        return f"exit {code} where it had to be killed: {said[-300:]}"
    if kind == "cut":
        reached = case.newest(folder)
        restore(folder, before, shadow)
        if case.newest(folder) < (reached - 1 if case.newest is newest_round else committed):
            return f"round {reached} was there before the cut, {case.newest(folder)} is after it"
    if case.newest(folder) < committed:
        return "the checkpoint that there was is lost"
    if code:
        code, said = call(folder, case.again)
        if code:
            return f"it cannot go on: {said.strip()[-300:]}"
    return "" if case.results(folder) == whole else "it ended otherwise"


def main(root: Path, seed: int, n_faults: int, n_kills: int, n_cuts: int, *, names: Sequence[str] = ()) -> None:
    fork = multiprocessing.get_context("fork")
    multiprocessing.get_context = lambda _method=None: fork  # type: ignore[assignment]  # counted too
    rng, problems, counts = random.Random(seed), list[str](), dict[str, int]()
    known = [case for case in cases(root / "starts") if case.name in names or not names]
    calls, whole = dict[str, list[str]](), dict[str, dict[str, bytes]]()
    for case in known:
        calls[case.name] = calls_of(case.words, case.start, root / "attempt")
        whole[case.name] = case.results(root / "attempt")
    for kinds, wanted in ((ERRORS, n_faults), (("kill",), n_kills), (("cut",), n_cuts)):
        able = [case for case in known if case.writes or kinds is ERRORS]
        sites = [(case, at, kind) for case in able for at in range(len(calls[case.name])) for kind in kinds]
        for case, at, kind in rng.sample(sites, max(0, wanted)) if wanted else sites:
            problem = attempt(case, root / "attempt", kind, at + 1, whole[case.name])
            counts[kind] = counts.get(kind, 0) + 1
            if problem:
                where = calls[case.name][at].replace(str(root / "attempt"), "")
                problems.append(f"{case.name}, {kind} at call {at + 1} ({where}): {problem}")
                sys.stderr.write(f"{problems[-1]}\n")
    sys.stdout.write(json.dumps({"calls": {name: len(one) for name, one in calls.items()}, "attempts": counts}))
    sys.stdout.write(f"\n{json.dumps(problems)}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), *map(int, sys.argv[2:6]), names=sys.argv[6:])
