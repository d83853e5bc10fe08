import json
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from tests.cli.invoke import CODE, assert_one_line_error, fielding, start_fielding

# Every step takes a while, so that signals come before the last one.
SLOW_STEPS = f"""
import time
from fielding.engine import replay
real = replay.replay_row
def replay_row(*arguments):
    time.sleep(0.1)
    return real(*arguments)
replay.replay_row = replay_row
{CODE}"""
FIELDS = {"step", "n_reports", "n_moved", "shift", "theta", "reclustered", "n_clusters", "mean_client_distance"}


def write_stream(path: Path, *, n_steps: int = 6, n_clients: int = 30) -> Path:
    rng = np.random.default_rng(2)
    concepts = rng.dirichlet(np.full(8, 0.3), size=3)
    steps, clients, rows = [], [], []
    for step in range(n_steps):
        if step % 4 == 3:
            concepts = rng.dirichlet(np.full(8, 0.3), size=3)
        known = n_clients // 2 + step if n_steps > 6 else n_clients  # in long streams clients join late
        who = np.arange(min(n_clients, known))
        who = who if step == 0 else who[rng.random(who.size) < 0.5]
        steps.append(np.full(who.size, 10 * step))
        clients.append(who)
        rows.append(rng.multinomial(30, concepts[(who + step) % 3]) / 30.0)
    names = np.array([f"zone-{one:03d}" for one in range(n_clients)])
    np.savez(
        path,
        step=np.concatenate(steps),
        client=names[np.concatenate(clients)],
        representation=np.concatenate(rows).astype(np.float32),
    )
    return path


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("replay")
    done = fielding("replay", write_stream(folder / "reports.npz"), "--out", folder / "out", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads((folder / "out" / "summary.json").read_text())
    return folder / "out"


def test_every_step_leaves_a_line_with_the_promised_fields(replayed: Path) -> None:
    rows = [json.loads(line) for line in (replayed / "decisions.jsonl").read_text().splitlines()]

    assert [row["step"] for row in rows] == [0, 10, 20, 30, 40, 50]
    assert all(row.keys() >= FIELDS for row in rows)
    assert rows[0]["started"]
    assert rows[0]["shift"] is None
    assert all(isinstance(row["shift"], float) for row in rows[1:])
    assert sum(row["reclustered"] for row in rows) > 0
    assert all(row["silhouettes"] for row in rows if row["reclustered"])


def test_membership_holds_every_client_at_every_step(replayed: Path) -> None:
    with np.load(replayed / "membership.npz", allow_pickle=False) as stored:
        step, client, cluster = stored["step"], stored["client"], stored["cluster"]

    assert step.size == client.size == cluster.size == 6 * 30
    assert np.unique(step).tolist() == [0, 10, 20, 30, 40, 50]
    assert np.unique(client).size == 30
    assert (cluster >= 0).all()
    sizes = [json.loads(line)["cluster_sizes"] for line in (replayed / "decisions.jsonl").read_text().splitlines()]
    for at, when in enumerate(np.unique(step)):
        ids, counts = np.unique(cluster[step == when], return_counts=True)
        assert {str(one): int(count) for one, count in zip(ids, counts, strict=True)} == sizes[at]


def test_events_name_who_reported_and_who_moved(replayed: Path) -> None:
    rows = [json.loads(line) for line in (replayed / "decisions.jsonl").read_text().splitlines()]
    events = [json.loads(line) for line in (replayed / "events.jsonl").read_text().splitlines()]

    assert [len(event["reported"]) for event in events] == [row["n_reports"] for row in rows]
    assert [len(event["moved"]) for event in events] == [row["n_moved"] for row in rows]
    assert events[0]["joined"][0] == "zone-000"


def test_equal_replays_are_equal_to_the_byte(replayed: Path, tmp_path: Path) -> None:
    again = fielding(
        "replay", write_stream(tmp_path / "reports.npz"), "--out", tmp_path / "out", "--quiet", "--no-page"
    )

    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
    for name in ("decisions.jsonl", "events.jsonl", "coordinator.ckpt", "summary.json"):
        assert (tmp_path / "out" / name).read_bytes() == (replayed / name).read_bytes()
    assert not (tmp_path / "out" / "report.html").exists()


def test_a_replay_is_not_written_over(replayed: Path, tmp_path: Path) -> None:
    before = (replayed / "decisions.jsonl").read_bytes()

    done = fielding("replay", write_stream(tmp_path / "reports.npz"), "--out", replayed)

    assert_one_line_error(done, "holds a replay already", "--resume")
    assert (replayed / "decisions.jsonl").read_bytes() == before


def test_files_of_others_are_spared(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "events.jsonl").write_text("mine")

    done = fielding("replay", write_stream(tmp_path / "reports.npz"), "--out", tmp_path / "out")

    assert_one_line_error(done, "holds a events.jsonl that no replay wrote")
    assert (tmp_path / "out" / "events.jsonl").read_text() == "mine"


def test_infinity_is_written_as_json_can_hold_it(tmp_path: Path) -> None:
    reports = write_stream(tmp_path / "reports.npz")
    for _ in range(2):  # the second time resumes the finished replay
        done = fielding("replay", reports, "--out", tmp_path / "out", "--tau", "inf", "--resume", "--json", "--no-page")
        assert done.returncode == 0, done.stderr

    def refuse(word: str) -> None:
        raise AssertionError(word)

    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text(), parse_constant=refuse)
    assert manifest["policy"]["trigger"]["options"]["tau"] == "inf"
    assert json.loads(done.stdout)["n_reclusterings"] == 0


def test_csv_reports_give_the_same_decisions(replayed: Path, tmp_path: Path) -> None:
    with np.load(write_stream(tmp_path / "reports.npz")) as stored:
        lines = ["step,client," + ",".join(f"label{at}" for at in range(8))]
        for step, client, row in zip(stored["step"], stored["client"], stored["representation"], strict=True):
            lines.append(f"{step},{client}," + ",".join(repr(float(share)) for share in row))
    (tmp_path / "reports.csv").write_text("\n".join(lines))

    done = fielding("replay", tmp_path / "reports.csv", "--out", tmp_path / "out", "--quiet")

    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "decisions.jsonl").read_bytes() == (replayed / "decisions.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--metric", "l3"], ["unknown metric 'l3'", "did you mean"]),
        (["--trigger", "center_shift"], ["unknown trigger", "did you mean 'center-shift'"]),
        (["--tau", "third"], ["'third' is not a number", "1/3"]),
        (["--tau", "1e400"], ["'1e400' is not a number"]),
        (["--tau", "-1"], ["tau is -1.0"]),
        (["--reference", "never"], ["use 'previous' or 'last-global'"]),
        (["--kind", "histgram"], ["did you mean 'histogram'"]),
        (["--metric", "js", "--kind", "vector"], ["use it with kind 'histogram'"]),
        (["--inherit", "nothing"], ["unknown inheritance"]),
        (["--partitioner", "dbscan"], ["partitioner"]),
        (["--k-max", "0"], ["k_max"]),
        (["--seed", "-3"], ["seed is -3"]),
    ],
)
def test_a_wrong_option_gets_one_clear_line(tmp_path: Path, options: list[str], words: list[str]) -> None:
    done = fielding("replay", write_stream(tmp_path / "r.npz"), "--out", tmp_path / "out", *options)

    assert_one_line_error(done, *words)
    assert not (tmp_path / "out").exists()


def test_bad_files_get_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "empty.npz").write_bytes(b"")
    (tmp_path / "text.csv").write_text("step,client,a,b\n0,x,0.5,half\n")
    np.savez(tmp_path / "half.npz", step=np.zeros(2), client=np.arange(2))
    np.savez(tmp_path / "nan.npz", step=np.zeros(1, int), client=np.arange(1), representation=np.array([[np.nan, 1.0]]))
    for name, words in {
        "none.npz": ["none.npz", "No such file"],
        "empty.npz": ["empty"],
        "text.csv": ["line 2", "'b'", "'half'"],
        "half.npz": ["representation"],
        "nan.npz": ["nan", "row 0"],
    }.items():
        assert_one_line_error(fielding("replay", tmp_path / name, "--out", tmp_path / "out"), *words)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_replay_goes_on_and_ends_as_if_it_never_stopped(tmp_path: Path, number: int) -> None:
    reports = write_stream(tmp_path / "reports.npz", n_steps=50, n_clients=40)
    whole = fielding("replay", reports, "--out", tmp_path / "whole", "--quiet", "--no-page")
    assert whole.returncode == 0, whole.stderr

    running = start_fielding("replay", reports, "--out", tmp_path / "cut", "--quiet", "--no-page", code=SLOW_STEPS)
    log = tmp_path / "cut" / "decisions.jsonl"
    for _ in range(600):
        if log.exists() and log.read_bytes().count(b"\n") >= 5:
            break
        time.sleep(0.05)
    running.send_signal(number)
    _, complaint = running.communicate(timeout=60)
    assert running.returncode == 128 + number
    assert "go on with --resume" in complaint
    assert 5 <= log.read_bytes().count(b"\n") < 50

    resumed = fielding("replay", reports, "--out", tmp_path / "cut", "--resume", "--quiet", "--no-page")
    assert resumed.returncode == 0, resumed.stderr
    for name in ("decisions.jsonl", "events.jsonl", "coordinator.ckpt", "summary.json"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    with np.load(tmp_path / "cut" / "membership.npz") as one, np.load(tmp_path / "whole" / "membership.npz") as other:
        assert all((one[name] == other[name]).all() for name in ("step", "client", "cluster"))


def test_resume_refuses_other_reports_and_other_rules(replayed: Path, tmp_path: Path) -> None:
    other = write_stream(tmp_path / "reports.npz", n_steps=3)
    assert_one_line_error(fielding("replay", other, "--out", replayed, "--resume"), "cannot resume", "reports_blake2b")
    same = write_stream(tmp_path / "reports.npz")
    done = fielding("replay", same, "--out", replayed, "--resume", "--tau", "1/2")
    assert_one_line_error(done, "cannot resume", "policy.trigger.options.tau was 0.333", "now it is 0.5")
    for manifest in ("{", "3", '{"name": "mine"}'):
        (tmp_path / "other").mkdir(exist_ok=True)
        (tmp_path / "other" / "manifest.json").write_text(manifest)
        done = fielding("replay", same, "--out", tmp_path / "other", "--resume")
        assert_one_line_error(done, "manifest.json", "name another folder")


def test_resume_starts_a_replay_where_there_is_none(tmp_path: Path) -> None:
    reports = write_stream(tmp_path / "reports.npz")

    done = fielding("replay", reports, "--out", tmp_path / "new", "--resume", "--json", "--no-page")

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["n_steps"] == 6


def test_an_unwritable_folder_is_a_failure_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    done = fielding("replay", write_stream(tmp_path / "reports.npz"), "--out", tmp_path / "file" / "out")

    assert_one_line_error(done, "cannot write into", code=1)
