"""Runs and comparisons on a real Ray cluster, machines of which die; and what is fetched from them."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding._version import __version__
from fielding.comparing.plan import plan_comparison
from fielding.comparing.ray_runs import (
    FolderReader,
    Input,
    RunHost,
    copy_input,
    digest_of,
    files_of,
    inputs_of,
    write_parts,
)
from fielding.comparing.sweep import Finished, RunJob, Step
from fielding.config.keys import ClockSection, TraceSection
from fielding.errors import OptionError
from fielding.records.lock import is_locked
from fielding.records.run_folder import CHECKPOINTS, ROUNDS
from tests.cli.invoke import CODE, PLAIN, fielding
from tests.comparing.ray_nodes import GATE, ROOT, RayNodes, ray_nodes

CONFIG = """
rounds = 40
[trace]
file = "mine.npz"
interval = "1s"
gap = 4
window = 8
[model]
hidden = 6400  # large enough for two pieces of work in a round
[training]
participants = 12
local_steps = 8
[aggregation]
name = "tests.comparing.ray_nodes:Gated"
[checkpoint]
every = 1
"""
WALL_CLOCK = ("timings.jsonl", "config.toml", ".lock")  # workers stand in the config, and change nothing
WITHIN_S = 240.0
HELD = """
import time
from pathlib import Path
from fielding.simulation.ray_workers import RayCrew
train, n_rounds = RayCrew.train, iter(range(1000))
def held(self, pieces):  # the fourth round begins with two workers, when the test lets it
    if next(n_rounds) == 3:
        while len(self._idle) < 2:
            self._fill_up(2)
            for answer in self._answers():
                self._welcome(answer)
        Path("both").touch()
        while not Path("go").exists():
            time.sleep(0.05)
    yield from train(self, pieces)
RayCrew.train = held
"""


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayNodes]:
    pytest.importorskip("ray", reason="ray is not installed: pip install -e '.[ray]'")
    with ray_nodes(tmp_path_factory.mktemp("home")) as found:
        yield found


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a config, its data, and what runs of it give on this machine."""
    import numpy as np

    folder, rng = tmp_path_factory.mktemp("work"), np.random.default_rng(1)
    time_of, client = np.divmod(np.arange(12 * 20 * 14), 12 * 20)
    x = rng.normal(size=(client.size, 6)).astype(np.float32)
    y = (x[:, 0] + (client // 20 % 2) * x[:, 1] > 0).astype(np.int64)
    np.savez(folder / "mine.npz", client=client // 20, time=time_of.astype(np.float64), y=y, x=x)
    (folder / "a.toml").write_text(CONFIG)
    (folder / GATE).touch()
    printed = fielding(*compare_words("local"), "--jobs", "1", cwd=folder)
    assert printed.returncode == 0, printed.stderr
    return folder


def compare_words(out: str, *more: str) -> list[str]:
    return ["compare", "a.toml", "--methods", "fielding,global", "--seeds", "1", "--no-page", "--out", out, *more]


def start(
    words: list[str],
    cwd: Path,
    environment: Mapping[str, str],
    before: str = "",
    errors: IO[str] | int = subprocess.PIPE,
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", before + CODE, *words],
        cwd=cwd,
        env={**os.environ, **PLAIN, "PYTHONPATH": str(ROOT), **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
    )


def wait_for_rounds(process: subprocess.Popen[str], n_rounds: int, *folders: Path) -> None:
    """Wait until each run has done some rounds."""
    wait_for(lambda: all(n_lines(folder / ROUNDS) >= n_rounds for folder in folders), process, "rounds")


def wait_for(is_there: Callable[[], bool], process: subprocess.Popen[str], what: str) -> None:
    """Wait for something while a process goes on."""
    end_s = time.monotonic() + WITHIN_S
    while not is_there():
        assert process.poll() is None, process.communicate()
        if time.monotonic() > end_s:
            process.kill()  # or it would live on
            raise AssertionError(f"there were never {what}: {process.communicate()}")
        time.sleep(0.05)


def n_lines(path: Path) -> int:
    return len(path.read_bytes().splitlines()) if path.exists() else 0


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    try:
        output, errors = process.communicate(timeout=WITHIN_S)
    finally:
        process.kill()  # nothing lives on that did not end in time
    return process.returncode, output + (errors or "")


def contents(run: Path) -> dict[str, bytes]:
    """Return all that a run left, but for what the clock says."""
    return {
        path.relative_to(run).as_posix(): path.read_bytes()
        for path in run.rglob("*")
        if path.is_file() and path.name not in WALL_CLOCK and path.parent.name != CHECKPOINTS
    }


def models(run: Path) -> bytes:
    """Return the models of the newest checkpoint, which also knows how long the log of seconds is."""
    from fielding.records.run_checkpoint import load_run
    from fielding.records.run_folder import newest_checkpoint

    return load_run(newest_checkpoint(run)).models.tobytes()


def test_a_comparison_begins_here_loses_a_machine_is_stopped_and_ends_here(nodes: RayNodes, work: Path) -> None:
    environment, victim, _ = nodes.environment(), nodes.add(), nodes.add()
    runs = [work / "ray" / name for name in ("fielding-1", "global-1")]
    (work / GATE).unlink()
    begun = start(compare_words("ray", "--jobs", "1"), work, environment)
    wait_for_rounds(begun, 3, runs[0])
    begun.send_signal(signal.SIGINT)
    (work / GATE).touch()
    assert ended(begun)[0] == 130
    n_begun = n_lines(runs[0] / ROUNDS)
    (work / GATE).unlink()
    with (work / "said").open("w+") as said:
        second = start(compare_words("ray", "--on", "ray"), work, environment, errors=said)
        wait_for_rounds(second, n_begun + 2, runs[0])
        wait_for_rounds(second, 3, runs[1])
        os.kill(victim, signal.SIGKILL)
        wait_for(lambda: "its machine was lost" in (work / "said").read_text(), second, "notes of the loss")
        second.send_signal(signal.SIGINT)
        (work / GATE).touch()

        code, words = ended(second)

    assert n_begun < 40
    assert code == 130, words
    assert "go on with the same command" in (work / "said").read_text()
    assert min(n_lines(run / ROUNDS) for run in runs) < 40
    end_s = time.monotonic() + WITHIN_S
    while any(map(is_locked, runs)) and time.monotonic() < end_s:  # by one whose machine was lost
        time.sleep(0.05)
    printed = fielding(*compare_words("ray", "--on", "local"), cwd=work)
    assert printed.returncode == 0, printed.stderr
    for run in runs:
        assert contents(run) == contents(work / "local" / run.name)
        assert models(run) == models(work / "local" / run.name)


def test_machines_without_our_folder_and_data_get_them(nodes: RayNodes, work: Path) -> None:
    nodes.add()
    code = "import fielding.comparing.ray_runs as rays\n"
    code += "from functools import partial\n"
    code += "rays.run_on_ray = partial(rays.run_on_ray, may_share=False)\n"
    code += "rays.digest_of = lambda one: '0' * 32\n"  # so that what machines see does not look like ours
    code += "rays.FETCH_S = 0.5\n"
    process = start(compare_words("fetched", "--on", "ray"), work, nodes.environment(), before=code)
    wait_for_rounds(process, 3, work / "fetched" / "fielding-1")  # while it goes on

    exit_code, words = ended(process)

    assert exit_code == 0, words
    for name in ("fielding-1", "global-1"):
        assert contents(work / "fetched" / name) == contents(work / "local" / name)
        assert models(work / "fetched" / name) == models(work / "local" / name)
    copied = nodes.home / ".cache" / "fielding" / "inputs" / ("0" * 32) / "mine.npz"
    assert copied.read_bytes() == (work / "mine.npz").read_bytes()


def test_participants_of_a_lost_worker_train_elsewhere_in_the_same_round(nodes: RayNodes, work: Path) -> None:
    for process_id in nodes.alive:
        os.kill(process_id, signal.SIGKILL)
    victims = [nodes.add(), nodes.add()]
    words = ["run", "a.toml", "--out", "one", "--no-page", "--on", "ray", "--set", "workers=2", "--json"]
    process = start([*words, "--set", "seed=1"], work, nodes.environment(), before=HELD)
    wait_for((work / "both").exists, process, "two workers")
    os.kill(victims[0], signal.SIGKILL)
    (work / "go").touch()

    output, errors = process.communicate(timeout=WITHIN_S)

    assert process.returncode == 0, errors
    assert "a Ray worker was lost" in errors
    assert json.loads(output)["n_rounds"] == 40  # and nothing else
    assert contents(work / "one") == contents(work / "local" / "fielding-1")
    assert models(work / "one") == models(work / "local" / "fielding-1")


def test_a_run_that_is_stopped_goes_on_without_ray(nodes: RayNodes, work: Path) -> None:
    nodes.add()
    words = ["run", "a.toml", "--out", "two", "--no-page", "--set", "seed=1"]
    process = start([*words, "--on", "ray", "--set", "workers=1"], work, nodes.environment())
    wait_for_rounds(process, 3, work / "two")
    process.send_signal(signal.SIGINT)

    code, said = ended(process)

    assert code == 130, said
    assert 3 <= n_lines(work / "two" / ROUNDS) < 40
    printed = fielding(*words, "--resume", cwd=work)
    assert printed.returncode == 0, printed.stderr
    assert contents(work / "two") == contents(work / "local" / "fielding-1")
    assert models(work / "two") == models(work / "local" / "fielding-1")


def test_an_address_where_nobody_answers_is_told_at_once(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="ray is not installed: pip install -e '.[ray]'")
    (tmp_path / "a.toml").write_text("rounds = 1\n")
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"

    for words, environment in ((["--on", f"ray://{address}"], {}), (["--on", "ray"], {"RAY_ADDRESS": address})):
        process = start(["run", "a.toml", "--out", "x", *words], tmp_path, environment)
        code, said = ended(process)

        assert code == 2
        assert f"{address}: nobody answers there (Connection refused)" in said


def test_a_gpu_of_the_cluster_is_asked_for_by_its_kind_alone() -> None:
    table = {"training": {"trainer": "torch", "device": "cuda:1"}}
    pytest.importorskip("torch", reason="torch is not installed")

    with pytest.raises(
        OptionError, match=r"training.device is 'cuda:1', but on Ray a run sees one GPU alone; give cuda"
    ):
        plan_comparison(table, ["global"], out="nowhere", on="ray")
    table["training"]["device"] = "cuda"
    planned = plan_comparison(table, ["global"], seeds=1, out="nowhere", on="ray")
    assert [one.training.device for one in planned.configs.values()] == ["cuda"]  # though there may be none here


def test_inputs_that_a_machine_got_before_are_not_sent_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("FIELDING_DATA", "whatever a host makes of it")
    monkeypatch.chdir(tmp_path)
    seen, changed, new = (Input(str(tmp_path / name)) for name in ("seen.csv", "changed.csv", "new.csv"))
    for one in (seen, changed):
        Path(one.path).write_bytes(b"1")
    copy_input("d1", {"changed.csv": b"2"})
    host = RunHost(__version__, str(tmp_path), str(tmp_path))

    found = host.look(tmp_path / "mark", {seen: digest_of(seen), changed: "d1", new: "d2"})

    assert found == (False, [changed], [new])


def test_a_place_that_is_none_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("rounds = 1\n")

    for command in (["run", "a.toml"], ["compare", "a.toml", "--out", "x"]):
        printed = fielding(*command, "--on", "rey", cwd=tmp_path)

        assert printed.returncode == 2
        assert "give local, ray, or ray://HOST:PORT" in printed.stderr
        assert not (tmp_path / "x").exists()


@given(
    st.lists(
        st.tuples(st.sampled_from(["a.jsonl", "b.jsonl", "c.json"]), st.binary(max_size=20), st.booleans()), max_size=12
    )
)
def test_what_is_fetched_bit_by_bit_is_the_folder(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, bytes, bool]]
) -> None:
    there, here = tmp_path_factory.mktemp("there"), tmp_path_factory.mktemp("here")
    (there / CHECKPOINTS).mkdir()
    reader = FolderReader(there)
    for at, (name, content, is_read) in enumerate(steps):
        if name.endswith(".jsonl"):
            with (there / name).open("ab") as file:
                file.write(content)
        else:
            (there / name).write_bytes(content)
        (there / CHECKPOINTS / f"{at}.ckpt").write_bytes(content)
        (there / CHECKPOINTS / f"{at - 2}.ckpt").unlink(missing_ok=True)
        if is_read:
            write_parts(here, *reader.read())
    write_parts(here, *reader.read())

    assert _files(here) == _files(there)


def _files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_checkpoints_come_last_so_that_a_half_fetched_run_can_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, written = tmp_path / "there", list[str]()
    for name in (f"{CHECKPOINTS}/1.ckpt", "a.jsonl", "z.jsonl"):
        (there / name).parent.mkdir(parents=True, exist_ok=True)
        (there / name).write_bytes(b"x")
    parts, gone = FolderReader(there).read()

    monkeypatch.setattr("fielding.comparing.ray_runs.make_private", lambda path: written.append(path.name))
    (tmp_path / "here" / CHECKPOINTS).mkdir(parents=True)
    write_parts(tmp_path / "here", parts, gone)

    assert parts[0].name == f"{CHECKPOINTS}/1.ckpt"  # read first: logs hold by then what it says
    assert written == ["here", "here", CHECKPOINTS]


def test_a_folder_that_is_gone_after_its_run_takes_nothing_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_here(jobs: list[RunJob], **_options: object) -> dict[str, Finished]:
        (jobs[0].folder / "new.jsonl").write_bytes(b"2")
        return {"a": Finished(name="a", summary={})}

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FIELDING_DATA", "")
    monkeypatch.setenv("FIELDING_INPUTS", "")
    monkeypatch.setattr("fielding.comparing.ray_runs.run_in_processes", run_here)
    host = RunHost(__version__, str(tmp_path), str(tmp_path))
    host._note_step(Step(name="a", n_rounds=1))

    finished = host.run(RunJob(name="a", table={}, folder=tmp_path / "a"), None, {"old.jsonl": b"1"}, None, [], [])

    assert finished is not None
    assert host.fetch(is_last=False) == ([], [])
    assert {part.name: part.content for part in host.fetch(is_last=True)[0]} == {"old.jsonl": b"1", "new.jsonl": b"2"}
    assert host.fetch(is_last=True)[1] == []


def test_inputs_are_known_by_what_is_in_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "images" / "ann").mkdir(parents=True)
    (tmp_path / "images" / "ann" / "1.png").write_bytes(b"1")
    folder, file = Input(str(tmp_path / "images")), Input(str(tmp_path / "images" / "ann" / "1.png"))
    before = digest_of(folder)
    content = {name: path.read_bytes() for name, path in files_of(folder)}
    copy = copy_input(before, content)

    assert content == {"ann/1.png": b"1"}
    assert digest_of(Input(str(copy))) == before == digest_of(Input(str(copy_input(before, content))))
    assert [name for name, _ in files_of(file)] == ["1.png"]
    (tmp_path / "images" / "ann" / "1.png").write_bytes(b"2")
    assert digest_of(folder) != before
    assert digest_of(Input("nowhere")) not in (before, digest_of(file))


def test_inputs_of_a_config_are_its_files() -> None:
    named = inputs_of(TraceSection(name="zephyr", data="here"), ClockSection(profile="p.csv", availability="a.csv"))

    assert named[0].path == "here"
    assert named[0].names
    assert [one.path for one in named[1:]] == ["p.csv", "a.csv"]
    assert inputs_of(TraceSection(name="digits"), ClockSection()) == []
