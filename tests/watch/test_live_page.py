"""What the live page shows, without a server: it follows folders, tells their states, reads no more than need be."""

import json
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from fielding._typing import Json
from fielding.errors import InputError
from fielding.records.lock import lock_folder
from fielding.records.plan import Plan, Variant, write_failure, write_plan
from fielding.reporting.numbers.groups import RunGroups, gather_runs
from fielding.watch import live_page as module
from fielding.watch.live_page import LEAST_S, MOST_WORK, READ_ANEW_S, Content, LivePage
from tests.reporting.big_folder import Shape, big_folder
from tests.reporting.run_folders import round_rows, run_folder

CURVE = [0.1, 0.2, 0.3]
STRANGE_IDS = ("<img src=x onerror=alert(1)>", "a&b", "a#b?c=d", "two words", "žluťoučký 馬", "%2e%2e/", "7")


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def later(watched: LivePage, clock: Clock) -> Content:
    """Return what is shown after a while."""
    clock.now += 100.0
    return watched.read()


def title(shown: Content) -> str:
    return str(page(shown)["title"])


def page(shown: Content) -> dict[str, Any]:
    return dict(shown.record["page"])  # type: ignore[arg-type]


def section(shown: Content, heading: str) -> dict[str, Any]:
    (found,) = (one for one in page(shown)["sections"] if one["title"] == heading)
    return dict(found)


def append(folder: Path, log: str, *lines: dict[str, Json]) -> None:
    with (folder / f"{log}.jsonl").open("a") as file:
        file.writelines(f"{json.dumps(line)}\n" for line in lines)


def test_a_folder_that_is_not_there_yet_fills_once_the_run_begins(tmp_path: Path) -> None:
    clock = Clock()
    watched = LivePage([tmp_path / "run"], clock)

    before = watched.read()
    run_folder(tmp_path / "run", round_rows(CURVE[:1]), finished=False)
    after = later(watched, clock)

    assert title(before) == "Waiting for a run"
    assert page(before)["notes"] == []
    assert before.record["runs"] == []
    assert title(after) == "What the run gave so far: run"
    assert after.record["runs"] == ["fielding, seed 1"]
    assert before.tag != after.tag


def test_new_rounds_are_shown_and_nothing_new_is_the_same_answer(tmp_path: Path) -> None:
    clock, folder = Clock(), run_folder(tmp_path / "run", round_rows(CURVE)[:1], finished=False)
    watched = LivePage([folder], clock)

    first = watched.read()
    same = later(watched, clock)
    append(folder, "rounds", *round_rows(CURVE)[1:])
    newer = later(watched, clock)

    assert same is first
    assert section(first, "State of the runs")["table"][1][3].startswith("1")
    assert section(newer, "State of the runs")["table"][1][3].startswith("3")
    assert section(newer, "State of the runs")["table"][1][4] == "0.300"


def test_what_could_not_be_read_once_is_shown_though_nothing_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, folder = Clock(), run_folder(tmp_path / "run", round_rows(CURVE))
    whole, watched = LivePage([folder], clock).read(), LivePage([folder], clock)

    def fail(*_arguments: Any) -> RunGroups:
        raise OSError("too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(module, "gather_runs", fail)
        assert title(watched.read()) == "Waiting for a run"
    assert later(watched, clock).tag == whole.tag

    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", fail)
        watched = LivePage([folder], clock)
        assert watched.read().tag != whole.tag
    clock.now += READ_ANEW_S
    assert watched.read().tag == whole.tag


def test_folders_are_read_at_most_so_often(tmp_path: Path) -> None:
    clock, folder = Clock(), run_folder(tmp_path / "run", round_rows(CURVE)[:1], finished=False)
    watched = LivePage([folder], clock)
    first = watched.read()
    append(folder, "rounds", *round_rows(CURVE)[1:])

    clock.now = LEAST_S * 0.9
    soon = watched.read()
    clock.now = LEAST_S * 1.1
    then = watched.read()

    assert soon is first
    assert then is not first


def test_a_slow_reading_takes_only_a_share_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, folder = Clock(), run_folder(tmp_path / "run", round_rows(CURVE)[:1], finished=False)
    n_read: list[float] = []

    def slow(*arguments: Any) -> RunGroups:
        clock.now += 10.0
        n_read.append(clock.now)
        return gather_runs(*arguments)

    monkeypatch.setattr(module, "gather_runs", slow)
    watched = LivePage([folder], clock)
    watched.read()
    append(folder, "rounds", *round_rows(CURVE)[1:2])

    clock.now = 10.0 / MOST_WORK - 1.0
    watched.read()
    clock.now += 2.0
    watched.read()

    assert n_read == pytest.approx([10.0, 10.0 / MOST_WORK + 1.0 + 10.0])


def test_who_asks_while_the_folders_are_read_gets_what_was_shown_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, folder = Clock(), run_folder(tmp_path / "run", round_rows(CURVE)[:1], finished=False)
    watched = LivePage([folder], clock)
    first = watched.read()
    append(folder, "rounds", *round_rows(CURVE)[1:])
    is_reading, may_go_on = threading.Event(), threading.Event()

    def held(*arguments: Any) -> RunGroups:
        is_reading.set()
        assert may_go_on.wait(20)
        return gather_runs(*arguments)

    monkeypatch.setattr(module, "gather_runs", held)
    clock.now = 100.0
    reader = threading.Thread(target=watched.read)
    reader.start()
    assert is_reading.wait(20)
    meanwhile = watched.read()
    may_go_on.set()
    reader.join(20)

    assert meanwhile is first
    assert watched.read() is not first


def test_a_run_whose_process_died_is_no_longer_called_running(tmp_path: Path) -> None:
    clock, folder = Clock(), run_folder(tmp_path / "run", round_rows(CURVE), finished=False)
    watched = LivePage([folder], clock)

    with lock_folder(folder):
        running = watched.read()
    stopped = later(watched, clock)

    assert [section(one, "State of the runs")["table"][1][2] for one in (running, stopped)] == ["running", "stopped"]


def test_a_folder_that_is_removed_is_said_to_be_gone_and_another_run_in_it_is_read_anew(tmp_path: Path) -> None:
    clock, folder = Clock(), run_folder(tmp_path / "run", round_rows(CURVE))
    watched = LivePage([folder], clock)
    watched.read()

    shutil.rmtree(folder)
    gone = later(watched, clock)
    run_folder(folder, round_rows([0.9, 0.8, 0.7, 0.6]), seed=5)
    again = later(watched, clock)

    assert title(gone) == "The run is gone"
    assert "is no folder" in page(gone)["notes"][0]
    assert again.record["runs"] == ["fielding, seed 5"]
    with pytest.raises(InputError, match="there is no run 'fielding, seed 1'"):
        watched.clients("fielding, seed 1")


def test_a_run_that_takes_the_place_of_another_between_two_looks_is_not_mixed_with_it(tmp_path: Path) -> None:
    clock, folder = Clock(), run_folder(tmp_path / "run", round_rows(CURVE), finished=False)
    watched = LivePage([folder], clock)
    watched.read()

    shutil.rmtree(folder)
    run_folder(folder, round_rows([0.9, 0.8, 0.7, 0.6]), finished=False)
    row = section(later(watched, clock), "State of the runs")["table"][1]

    assert row[3].split() == ["4", "of", "4"]
    assert row[4] == "0.600"


def test_runs_of_a_comparison_are_shown_in_every_state(tmp_path: Path) -> None:
    folder, clock = tmp_path / "compared", Clock()
    folder.mkdir()
    variants = tuple(Variant(name=name, folder=name, settings={}) for name in ("global", "fielding"))
    write_plan(folder, Plan(config={}, variants=variants, seeds=(1, 2), reference="global"))
    watched = LivePage([folder], clock)
    begun = watched.read()
    run_folder(folder / "global-1", round_rows(CURVE), method="global")
    run_folder(folder / "fielding-1", round_rows(CURVE), finished=False)
    (folder / "global-2").mkdir()
    write_failure(folder / "global-2", "no room left")

    with lock_folder(folder / "fielding-1"):
        shown = later(watched, clock)

    assert [row[2] for row in section(begun, "State of the runs")["table"][1:]] == ["waiting"] * 4
    table = section(shown, "State of the runs")["table"]
    assert {f"{row[0]} {row[1]}": row[2] for row in table[1:]} == {
        "global 1": "finished", "global 2": "failed", "fielding 1": "running", "fielding 2": "waiting",
    }  # fmt: skip
    assert any("no room left" in note for note in page(shown)["notes"])


def test_a_state_that_cannot_be_read_does_not_end_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_arguments: Any) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(module, "make_page", breaks)

    shown = LivePage([run_folder(tmp_path / "run", round_rows(CURVE))]).read()

    assert page(shown)["notes"] == ["this cannot be read: RuntimeError: a bug"]


def test_any_client_can_be_opened_by_its_id(tmp_path: Path) -> None:
    shape = Shape(n_clients=len(STRANGE_IDS), n_rounds=45, name=lambda at: STRANGE_IDS[at])
    watched = LivePage([big_folder(tmp_path / "run", shape)])

    assert sorted(watched.clients("fielding, seed 1")) == sorted(STRANGE_IDS)
    for client in STRANGE_IDS:
        reported, clusters, accuracy, *reasons = watched.story("fielding, seed 1", client)
        assert all(one["figure"] for one in (reported, clusters, accuracy))
        assert client in str(reported["title"])
        assert all(one["table"] for one in reasons)  # for those that changed their cluster


def test_whole_numbers_are_opened_by_their_digits_and_unknown_ids_are_named_with_the_nearest(tmp_path: Path) -> None:
    watched = LivePage([big_folder(tmp_path / "run", Shape(n_clients=12, n_rounds=25))])

    assert watched.clients("fielding, seed 1")[-1] == "11"
    assert len(watched.story("fielding, seed 1", "11")) == 3
    with pytest.raises(InputError, match=r"no such client in this run: '111'; did you mean 11\?"):
        watched.story("fielding, seed 1", "111")


def test_runs_of_the_same_name_are_told_apart(tmp_path: Path) -> None:
    folders = [run_folder(tmp_path / at / "run", round_rows(CURVE)) for at in ("a", "b")]
    folders.append(run_folder(tmp_path / "c", round_rows(CURVE)))
    for folder in folders:  # of the same seed, only one would be shown
        manifest = json.loads((folder / "manifest.json").read_text())
        (folder / "manifest.json").write_text(json.dumps({**manifest, "seed": None}))

    names = LivePage(folders).read().record["runs"]

    assert names == ["fielding, run", "fielding, run (2)", "fielding, c"]


def test_a_client_that_cannot_be_shown_is_told_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_arguments: Any) -> None:
        raise OverflowError("too large")

    monkeypatch.setattr(module, "draw_client_story", breaks)
    watched = LivePage([run_folder(tmp_path / "run", round_rows(CURVE))])

    with pytest.raises(InputError, match="too large"):
        watched.story("fielding, seed 1", "ann")


def test_what_is_there_and_cannot_be_read_is_told_while_waiting(tmp_path: Path) -> None:
    (tmp_path / "compare.json").write_text("{")

    shown = LivePage([tmp_path]).read()

    assert title(shown) == "Waiting for a run"
    assert "compare.json" in page(shown)["notes"][0]


def test_a_comparison_inside_a_folder_is_followed(tmp_path: Path) -> None:
    variants = (Variant(name="fielding", folder="fielding", settings={}),)
    (tmp_path / "runs" / "inner").mkdir(parents=True)
    write_plan(tmp_path / "runs" / "inner", Plan(config={}, variants=variants, seeds=(1,), reference="fielding"))
    clock = Clock()
    watched = LivePage([tmp_path / "runs"], clock)

    before = watched.read()
    run_folder(tmp_path / "runs" / "inner" / "fielding-1", round_rows(CURVE), finished=False)
    after = later(watched, clock)

    assert (before.record["runs"], after.record["runs"]) == ([], ["fielding, seed 1"])
