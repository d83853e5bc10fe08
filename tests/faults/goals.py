"""What the system has to stand, by the numbers of the goals: one list, from which docs/reliability.md is written.

A goal that ``make test`` reaches in full names its tests, and is done. Others have a ``measure`` that
``make reliability`` runs, or are measured elsewhere; what was reached last is a small file each: ``results/R1.json``.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path(__file__).with_name("results")


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What was reached last, in words; whether that is all of it; when, and at which commit."""

    reached: str
    is_met: bool
    date: str
    commit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """Something that must not do harm.

    Parameters
    ----------
    what
        What happens, and what must be true then.
    where
        Test files below ``tests/``, or what to call.
    measure
        Tries it in full: returns what was reached, and whether that is all; None: ``make test`` does, or another
        command that records it.
    """

    number: str
    what: str
    where: str
    measure: Callable[[], tuple[str, bool]] | None = None

    @property
    def file(self) -> Path:
        """Where its result is kept."""
        return RESULTS / f"{self.number}.json"

    def result(self) -> Result | None:
        """Return what was reached last; None: ``make test`` is all there is."""
        return Result(**json.loads(self.file.read_text())) if self.file.exists() else None

    def keep(self, result: Result) -> None:
        """Keep what was reached."""
        self.file.parent.mkdir(exist_ok=True)
        self.file.write_text(json.dumps(asdict(result), indent=2) + "\n")


def table(goals: "tuple[Goal, ...]") -> str:
    """Return the table of the page."""
    rows = ["| | what happens, and what must be true | reached | where |", "|---|---|---|---|"]
    for goal in goals:
        result = goal.result()
        if result is None:
            reached = "always" if goal.measure is None else "sampled"
        else:
            reached = "" if result.is_met else "**short**: "
            reached += f"{result.reached} ({result.date}, {result.commit})"
        rows.append(f"| {goal.number} | {goal.what} | {reached} | {goal.where} |")
    return "\n".join(rows) + "\n"


# ---- measures ------------------------------------------------------------------------------------------------------


def ask(module: str, *words: str) -> list[dict[str, object]]:
    """Return the JSON lines that a module of this folder prints."""
    done = subprocess.run(
        [sys.executable, "-m", f"tests.faults.{module}", *words],
        cwd=ROOT, env=_environment(), stdout=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    return [json.loads(line) for line in done.stdout.splitlines()]


def pass_tests(*words: str) -> bool:
    """Return whether tests pass, the slow ones among them."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *words]
    return subprocess.run(command, cwd=ROOT, env=_environment(), check=False).returncode == 0


def _environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def by_tests(words: str, *files: str, is_all: bool = True) -> Callable[[], tuple[str, bool]]:
    """Return a measure that is a file of tests, with the words for what it tries, and whether that is all."""

    def measure() -> tuple[str, bool]:
        is_met = pass_tests(*files)
        return words if is_met else f"tests fail: {' '.join(files)}", is_met and is_all

    return measure


def kill_at_random() -> tuple[str, bool]:
    from tests.faults.kills import N_KILLS

    (found,) = ask("kills", "--kills", str(N_KILLS))
    problems = found["problems"]
    return f"{found['kills']} kills, {found['ended']} runs, {problems or 'no byte different'}", (
        not problems and found["kills"] == N_KILLS
    )


def refuse_malformed(n_reports: int = 1_000_000) -> tuple[str, bool]:
    import numpy as np

    from fielding.errors import ReportError
    from tests.coordinator.test_malformed import malformed_report, running_coordinator

    draw, coordinator, n_refused = np.random.default_rng(8), running_coordinator(), 0
    with np.errstate(all="ignore"):
        for _ in range(n_reports):
            try:
                coordinator.receive(malformed_report(draw)[1])
            except ReportError:
                n_refused += 1
    return f"{n_refused:,} of {n_reports:,} refused", n_refused == n_reports


def flood() -> tuple[str, bool]:
    (found,) = ask("flood")
    one, roster = found["coordinator"], found["roster"]
    assert isinstance(one, dict)
    assert isinstance(roster, dict)
    grown = (one["grown_bytes"] + roster["grown_bytes"]) / 1e6
    times = f"others' p99 {one['p99_us_calm']:.0f} and {one['p99_us_flooded']:.0f} µs"
    return f"{one['loud']} of 10,000, {one['unknown']} of 100,000 taken; {grown:.0f} MB; {times}", grown <= 20


def soak(rounds: int = 10_000) -> tuple[str, bool]:
    from tests.faults.soak import Soaked, summary

    return summary([Soaked(**line) for line in ask("soak", "--rounds", str(rounds))])  # type: ignore[arg-type]


def restart() -> tuple[str, bool]:
    import numpy as np

    from fielding.client.report import ClientReport, ReportBatch
    from fielding.coordinator import Coordinator, Policy
    from fielding.records.checkpoint import load_coordinator, save_coordinator

    told = np.random.default_rng(26).dirichlet(np.full(100, 0.3), size=5078)
    coordinator = Coordinator(Policy())
    coordinator.update(ReportBatch(client_ids=range(len(told)), representations=told))
    with TemporaryDirectory() as folder:
        save_coordinator(coordinator, Path(folder) / "coordinator.ckpt")
        start = time.perf_counter()
        load_coordinator(Path(folder) / "coordinator.ckpt").receive(ClientReport(client_id=7, representation=told[0]))
        seconds = time.perf_counter() - start
    return f"{seconds:.2f} s", seconds <= 2


ELSEWHERE = None  # measured by another command, which keeps the result: python -m tests.faults.reliability --record
GOALS = (
    Goal(
        number="R1",
        what="1,000 kills -9 at random moments: no committed round lost, one at most done again, same bytes",
        where="`faults/kills.py`; `cli/test_run_crash.py`",
        measure=kill_at_random,
    ),
    Goal(number="R2", what="kill -9 before every call to the file system: the same", where="`faults/injector.py`"),
    Goal(
        number="R3",
        what="power cut before every call; 5,000 flipped bits, every truncation: noticed, nothing committed lost",
        where="`faults/injector.py`; `records/test_container.py`",
    ),
    Goal(
        number="R4",
        what="every call fails: goes on, or one line and exit 1; checkpoint whole",
        where="`faults/injector.py`",
    ),
    Goal(
        number="R5",
        what="SIGINT, SIGTERM: checkpoint, exit 130, 143",
        where="`cli/test_stopping.py`, `cli/test_run_crash.py`",
    ),
    Goal(number="R6", what="the same folder twice: refused", where="`records/test_lock.py`, `cli/test_run_crash.py`"),
    Goal(
        number="R7",
        what="other settings or data: refused or recorded; older checkpoints load",
        where="`records/test_changes.py`, `flower/test_agreements.py`",
    ),
    Goal(
        number="R8",
        what="1,000,000 malformed reports: each refused, no state changed",
        where="`coordinator/test_malformed.py`",
        measure=refuse_malformed,
    ),
    Goal(
        number="R9",
        what="updates of NaN, wrong shape or length: left out, counted, named; models finite",
        where="`simulation/test_attacks.py`, `methods/test_large_uploads.py`, `flower/test_deployment.py`",
    ),
    Goal(
        number="R10",
        what="20 % of a cluster send sign-flipped or tenfold updates: honest accuracy at most 2 points less",
        where="[attacks](attacks.md)",
        measure=ELSEWHERE,
    ),
    Goal(
        number="R11",
        what="lying reports: honest ARI 0.95 up to 20 % liars, 0.9 at 30 %",
        where="[attacks](attacks.md)",
        measure=ELSEWHERE,
    ),
    Goal(
        number="R12",
        what="flip-flopping reports: no forced re-clustering in 1,000 events",
        where="`coordinator/test_flip_flop.py`",
        measure=by_tests("1,000 events", "tests/coordinator/test_flip_flop.py"),
    ),
    Goal(
        number="R13",
        what="10,000 reports of one client, 100,000 of unknown ones at a coordinator for 1,000 (`most_clients`): all "
        "others heard, at most 20 MB",
        where="`faults/flood.py`, `faults/test_flood.py`",
        measure=flood,
    ),
    Goal(
        number="R14",
        what="10,000 forged messages at a SuperLink with node keys: none taken",
        where="`flower/test_forgery.py`, `flower/test_reverse_proxy.py`",
        measure=by_tests(
            "10,000 of 10,000 refused; a signed time may be sent again for 5 minutes, within TLS",
            "tests/flower/test_forgery.py",
        ),
    ),
    Goal(
        number="R15",
        what="pickles, paths in ids, HTML in names, packed bombs: nothing runs, nothing leaves its folder",
        where="`test_house.py`, `traces/test_packed_files.py`, `watch/test_browser.py`",
    ),
    Goal(
        number="R16",
        what="200 rounds with 25 % of requests and of answers lost, 10 % cut, doubled, 0 to 2 s late, 30 % crashes, "
        "20 restarts: every update counts once, clusters and accuracy as in calm, no exchange beyond its deadline",
        where="`flower/test_chaos.py`",
        measure=by_tests(
            "seeds 1 to 3, all of it, once clients told of themselves; three real nodes behind a proxy that loses "
            "10 % of HTTP requests and 10 % of answers (a message takes some 20), cuts 5 %, killed once: 5 of 5 rounds",
            "tests/flower/test_chaos.py",
            is_all=False,
        ),
    ),
    Goal(
        number="R17",
        what="any sequence of reports, snapshots, growth: the coordinator's laws hold",
        where="`coordinator/test_machine.py`",
        measure=by_tests("1,000 sequences", "tests/coordinator/test_machine.py", "--hypothesis-profile=slow"),
    ),
    Goal(
        number="R18",
        what="10,000 random streams: fast code equals a slow transcription of the method",
        where="`coordinator/test_oracle.py`",
        measure=by_tests("10,000 streams", "tests/coordinator/test_oracle.py"),
    ),
    Goal(
        number="R19",
        what="same seed, other workers, other order of clients: same bytes",
        where="`simulation/test_repeatability.py`",
    ),
    Goal(
        number="R20",
        what="10,000 rounds of 1,000 clients, every method: memory within 1 %, open files and growth of logs constant",
        where="`faults/soak.py`",
        measure=soak,
    ),
    Goal(
        number="R21",
        what="5,000 mutated configs: read, or one line and exit 2",
        where="`config/test_config_fuzz.py`",
        measure=by_tests("all of them", "tests/config/test_config_fuzz.py"),
    ),
    Goal(number="R22", what="degenerate data: see below", where="`simulation/test_bad_data.py`"),
    Goal(
        number="R23",
        what="1,000 kills of a device: nothing released without its line in the privacy ledger",
        where="`client/privacy/test_ledger.py`",
        measure=by_tests("1,000 kills", "tests/client/privacy/test_ledger.py"),
    ),
    Goal(
        number="R24",
        what="20,000 trials of an attack show no more than the epsilon that is claimed",
        where="`client/privacy/test_audit.py`",
    ),
    Goal(
        number="R25",
        what="300 planted faults: 90 % caught; 95 % of branches of the core run",
        where="`faults/mutants.py`",
        measure=ELSEWHERE,
    ),
    Goal(
        number="R26",
        what="restart with 5,078 clients of 100 labels: takes reports within 2 s",
        where="`faults/goals.py`",
        measure=restart,
    ),
    Goal(
        number="R27",
        what="the live page: reads only, loopback or token, no script or request from outside",
        where="`watch/`",
    ),
    Goal(
        number="R28",
        what="licences of dependencies, advisories; no network at import",
        where="`test_licences.py`, `test_imports.py`, [SECURITY.md](../SECURITY.md)",
        measure=ELSEWHERE,
    ),
)
