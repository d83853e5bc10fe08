"""A server that is killed between any two steps loses no committed round, and nothing counts twice.

Everything runs in this process. The disk is photographed while a run goes on: a photograph is what a kill -9 at that
moment leaves, and from each the run must go on to the same end.
"""

import random
import threading
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

from fielding._typing import Json
from fielding.errors import InputError
from fielding.flower.server.exchange import Node
from fielding.flower.wire.orders import Order
from fielding.records.run_folder import EVENTS, ROUNDS
from tests.flower.device_wire import lines
from tests.flower.photographs import Camera, watching
from tests.flower.real_runs import committed, n_rounds
from tests.flower.same_runs import assert_same_runs
from tests.rotation import seed, some_of
from tests.simulation.run_cases import Crash

pytest.importorskip("flwr", reason="the flower extra is not installed")

from tests.flower.scripted_runs import ScriptedWire, address, client_records, deployed, run_config

KEYS = {number: f"-----BEGIN {number}".encode() for number in range(5)}
JOINER, JOINS_IN, N_ROUNDS = 4, 2, 5
SCRIPT: Mapping[str, Json] = {"script": "0:AABBA 2:CABBC", "broken": 3}
CONFIG = run_config(rounds=N_ROUNDS, evaluation__every=2)
N_CHAINS, N_KILLS = 3, 4
LAST_PUSH = 6  # the orders of round 2, in which two nodes drift and one joins


class Life(ScriptedWire):
    """The nodes as a server meets them that just began; one of them joins in round 2, whoever asks.

    Parameters
    ----------
    disk
        The folder with all that outlived the servers before.
    stale
        Orders of a dead server that reach their nodes when this one pushes for so many times.
    """

    def __init__(self, disk: Path, *, stale: Mapping[int, list[tuple[int, Order]]] | None = None) -> None:
        super().__init__(disk, KEYS, CONFIG, SCRIPT)
        self.out, self._stale = disk / "out", dict(stale or {})
        self.on_push = self._deliver

    def nodes(self) -> list[Node]:
        self.hidden = {address(JOINER)} if n_rounds(self.out) < JOINS_IN else set()
        return super().nodes()

    def _deliver(self) -> None:
        for at, order in self._stale.pop(len(self.pushes), []):
            self.devices[at].answer(order)

    def run(self) -> dict[str, Json] | None:
        return deployed(self, CONFIG, self.out)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run that nobody disturbed."""
    disk = tmp_path_factory.mktemp("whole")
    assert Life(disk).run() is not None
    return disk / "out"


def assert_same_end(out: Path, whole: Path) -> None:
    """Check that a run came to the same end: rounds, events, memberships, tests, models, bytes, reports."""
    assert_same_runs(out, whole)
    assert client_records(out) == client_records(whole)
    assert [row["round"] for row in lines(out, ROUNDS)] == list(range(N_ROUNDS))


def photographed(folder: Path, wanted: set[int]) -> Camera:
    """Return a camera that saw a whole run and took some photographs of it."""
    disk = folder / f"disk-{len(wanted)}"
    disk.mkdir()
    camera = Camera(disk, folder / "album", wanted)
    with watching(camera):
        assert Life(disk).run() is not None
    return camera


def some_of_each(steps: list[str]) -> set[int]:
    """Return a moment of each kind, others whenever the source changes."""
    by_kind: dict[str, list[int]] = defaultdict(list)
    for number, what in enumerate(steps):
        by_kind[what].append(number)
    draw = random.Random(seed())
    return {draw.choice(numbers) for numbers in by_kind.values()}


def assert_goes_on(disk: Path, whole: Path, what: str) -> None:
    known = committed(disk / "out")
    with watching(Camera(disk, disk)):
        assert Life(disk).run() is not None, what
    assert known.lost_in(disk / "out") == [], what
    assert_same_end(disk / "out", whole)


def test_the_run_that_is_disturbed_has_all_that_can_go_wrong(whole: Path) -> None:
    events = lines(whole, EVENTS)

    assert [line["round"] for line in events if line["fired"]] == [3]
    assert [line["round"] for line in events if line["joined"]] == [0, 3]
    assert [row["round"] for row in lines(whole, ROUNDS) if row["n_failed"] == 1] == [0, 2]  # then it rests


def test_a_server_killed_between_any_two_steps_goes_on_to_the_same_end(tmp_path: Path, whole: Path) -> None:
    steps = photographed(tmp_path, set()).steps
    camera = photographed(tmp_path, some_of_each(steps))

    assert camera.steps == steps
    assert len({camera.steps[number] for number in camera.photographs}) >= 14
    for number, disk in camera.photographs.items():
        assert_goes_on(disk, whole, camera.steps[number])


@pytest.mark.slow
def test_every_moment_at_which_a_server_can_be_killed(tmp_path: Path, whole: Path) -> None:
    steps = photographed(tmp_path, set()).steps
    for first in range(0, len(steps), 100):  # not all photographs at once
        album = tmp_path / f"from-{first}"
        album.mkdir()
        camera = photographed(album, set(range(first, min(first + 100, len(steps)))))
        for number, disk in camera.photographs.items():
            assert_goes_on(disk, whole, camera.steps[number])


@pytest.mark.parametrize("number", some_of(range(N_CHAINS), 1))
def test_a_server_killed_again_and_again_gets_there_all_the_same(tmp_path: Path, whole: Path, number: int) -> None:
    draw, disk = random.Random(number), tmp_path / "0"
    disk.mkdir()
    for life in range(N_KILLS):
        camera = Camera(disk, tmp_path / f"album-{life}", {draw.randrange(150)})
        with watching(camera):
            Life(disk).run()
        (disk,) = camera.photographs.values() or [disk]

    assert_goes_on(disk, whole, "the last life")


@pytest.mark.parametrize("delay", some_of([1, 2, 3], 1))
def test_orders_of_a_dead_server_that_arrive_late_change_nothing(tmp_path: Path, whole: Path, delay: int) -> None:
    first = Life(tmp_path)
    seen: list[list[tuple[int, Order]]] = []

    def die() -> None:
        seen.append(list(first.pushes[-1]))
        if len(first.pushes) == LAST_PUSH:
            raise Crash

    first.on_push = die
    with watching(Camera(tmp_path, tmp_path)):
        with pytest.raises(Crash):
            first.run()
        second = Life(tmp_path, stale={delay: seen[-1]})
        assert second.run() is not None

    assert {(order.verb, order.round_index) for _, order in seen[-1]} == {("train", 2), ("describe", 2)}
    assert_same_end(tmp_path / "out", whole)


# ---- two servers, one folder -----------------------------------------------------------------------------------------


class Standoff:
    """A server that holds its folder until it may go on, and another one that wants the same."""

    def __init__(self, disk: Path, *, dies: bool) -> None:
        self.first, self.second = Life(disk), Life(disk)
        self._dies, self._may_go_on, self.is_held = dies, threading.Event(), threading.Event()
        self.first.on_push = self._wait
        self.summaries: list[dict[str, Json] | None] = []
        self.died = False

    def _wait(self) -> None:
        self.is_held.set()
        if len(self.first.pushes) == 4:
            assert self._may_go_on.wait(60)
            if self._dies:
                raise Crash

    def _run(self, life: Life) -> None:
        try:
            self.summaries.append(life.run())
        except Crash:
            self.died = True

    def settle(self) -> None:
        """Let both run, the second one while the first holds the folder."""
        threads = [threading.Thread(target=self._run, args=[life]) for life in (self.first, self.second)]
        threads[0].start()
        assert self.is_held.wait(60)
        threads[1].start()
        threads[1].join(0.5)
        assert threads[1].is_alive(), "it did not wait"
        self._may_go_on.set()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()


def test_the_second_of_two_servers_waits_and_finds_the_run_complete(
    tmp_path: Path, whole: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="fielding")
    both = Standoff(tmp_path, dies=False)
    both.settle()

    first, second = both.summaries
    assert first == second
    assert both.second.pushes == []
    assert sum("another server writes into" in record.message for record in caplog.records) == 1
    assert_same_end(tmp_path / "out", whole)


def test_the_second_of_two_servers_goes_on_when_the_first_dies(tmp_path: Path, whole: Path) -> None:
    both = Standoff(tmp_path, dies=True)
    both.settle()

    assert both.died
    assert len(both.summaries) == 1
    assert both.second.pushes != []
    assert_same_end(tmp_path / "out", whole)


def test_whoever_brings_another_config_is_refused_without_waiting(tmp_path: Path) -> None:
    first = Life(tmp_path)

    def come_in_between() -> None:
        with pytest.raises(InputError, match="cannot resume"):
            deployed(Life(tmp_path), run_config(rounds=N_ROUNDS, seed=99), tmp_path / "out")

    first.on_push = come_in_between
    assert first.run() is not None
