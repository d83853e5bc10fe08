"""A device loses nothing, tells nothing twice and answers the same order the same way, whatever happens to it."""

import logging
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fielding.client.drift import Never
from fielding.client.representation.label import SmoothedLabelShares
from fielding.errors import InputError
from fielding.flower.device.own_code import OwnCode
from fielding.flower.device.state import STATE, run_folder
from fielding.flower.wire.orders import DescribeReply, EvaluateReply, Reply, Report, TrainReply
from fielding.records.container import read_contents, write_contents
from fielding.runtime.own_code import Fitted, Samples, Scored
from tests.flower.devices import RULE, Diary, describe, device, evaluate, samples, train

pytest.importorskip("flwr", reason="the flower extra is not installed")

from tests.flower.spoiling import sent


def report_of(reply: Reply) -> Report | None:
    assert isinstance(reply, (TrainReply, DescribeReply))
    return reply.report


def told(reply: Reply) -> tuple[int, list[float], int]:
    """Return number, representation and samples of the report that came along."""
    report = report_of(reply)
    assert report is not None
    return report.number, report.representation.tolist(), report.n_samples


def test_first_samples_are_reported_until_an_order_confirms_it(tmp_path: Path) -> None:
    diary = Diary({0: samples([0, 1, 1, 1])})

    assert told(device(tmp_path, diary).answer(describe(0))) == (1, [0.25, 0.75], 4)
    assert report_of(device(tmp_path, diary).answer(describe(1, confirmed=1))) is None


def test_a_report_that_was_lost_is_made_again_of_what_the_window_holds_now(tmp_path: Path) -> None:
    diary = Diary({0: samples([0]), 1: samples([1])})
    device(tmp_path, diary, replace(RULE, drift_test=Never())).answer(describe(0))

    reply = device(tmp_path, diary, replace(RULE, drift_test=Never())).answer(describe(1, confirmed=0))

    assert told(reply) == (2, [0.5, 0.5], 2)


def test_a_server_that_asks_who_this_is_gets_no_new_report(tmp_path: Path) -> None:
    """A new server does not know what a node without a key has reported."""
    diary, rule = Diary({0: samples([0, 1])}), replace(RULE, max_rounds=5)
    device(tmp_path, diary, rule).answer(describe(0))
    path = run_folder(tmp_path, "run") / STATE
    before = path.read_bytes()

    assert told(device(tmp_path, diary, rule).answer(replace(describe(2), asks="name"))) == (1, [0.5, 0.5], 2)
    assert path.read_bytes() == before
    assert told(device(tmp_path, diary, rule).answer(describe(2))) == (2, [0.5, 0.5], 2), "one that is wanted is new"


def test_samples_leave_after_their_rounds_and_an_empty_window_goes_silent(tmp_path: Path) -> None:
    diary = Diary({0: samples([0]), 1: samples([1])})
    replies = [device(tmp_path, diary).answer(describe(now, confirmed=now)) for now in range(4)]

    assert [told(replies[now]) for now in (0, 1, 2)] == [(1, [1.0, 0.0], 1), (2, [0.5, 0.5], 2), (3, [0.0, 1.0], 1)]
    assert told(replies[3]) == (4, [], 0)


def test_samples_from_before_the_start_leave_one_by_one(tmp_path: Path) -> None:
    diary = Diary({0: samples([1, 0], rounds=[0, -1])})

    first = device(tmp_path, diary).answer(describe(0))
    later = device(tmp_path, diary).answer(describe(1, confirmed=1))

    assert told(first) == (1, [0.5, 0.5], 2)
    assert told(later) == (2, [0.0, 1.0], 1)


def test_a_clock_that_strikes_rarely_never_runs_backwards(tmp_path: Path) -> None:
    """Samples that come between two strokes count at once, and leave when it strikes."""
    diary = Diary({0: samples([0]), 3: samples([1]), 5: samples([1])})
    rule = replace(RULE, max_rounds=10, gap=10)
    replies = [
        device(tmp_path, diary, rule).answer(describe(now, min(now, 1) + (now > 3) + (now > 5))) for now in range(11)
    ]

    assert [now for now, reply in enumerate(replies) if report_of(reply) is not None] == [0, 3, 5, 10]
    assert told(replies[3]) == (2, [0.5, 0.5], 2)
    assert told(replies[10]) == (4, [0.0, 1.0], 2)


def test_the_same_order_twice_takes_samples_in_once_and_gives_the_same_answer(tmp_path: Path) -> None:
    diary = Diary({0: samples([0, 1, 0, 1, 1], n_test=1), 1: samples([1])})
    device(tmp_path, diary).answer(describe(0))
    order = train(1, confirmed=1)

    first, second = (device(tmp_path, diary).answer(order) for _ in range(2))

    assert diary.asked == [(None, 0), (0, 1)]
    assert isinstance(first, TrainReply)
    assert isinstance(second, TrainReply)
    assert sent(second) == sent(first)
    assert first.n_samples == 5


def test_an_order_of_an_earlier_round_is_answered_from_what_is_known(tmp_path: Path) -> None:
    diary = Diary({2: samples([0, 1])})
    device(tmp_path, diary).answer(describe(2))

    assert told(device(tmp_path, diary).answer(describe(1))) == (1, [0.5, 0.5], 2)
    assert diary.asked == [(None, 2)]


def test_a_failure_in_load_data_takes_nothing_in_and_the_round_can_be_asked_again(tmp_path: Path) -> None:
    diary = Diary({0: samples([0]), 1: samples([5])})
    device(tmp_path, diary).answer(describe(0))

    with pytest.raises(InputError, match=r"labels of load_data \(classes = 2\) hold 5"):
        device(tmp_path, diary).answer(describe(1, confirmed=1))
    diary.by_round = {1: samples([1])}

    assert told(device(tmp_path, diary).answer(describe(1, confirmed=1))) == (2, [0.5, 0.5], 2)
    assert diary.asked == [(None, 0), (0, 1), (0, 1)]


def test_a_report_is_on_disk_before_training_fails(tmp_path: Path) -> None:
    def broken(*_: object) -> Fitted:
        raise RuntimeError("out of memory")

    diary = Diary({0: samples([0, 1])})
    own = OwnCode(load_data=diary.load, train=broken, evaluate=lambda *_: Scored(0, 0, 0.0))
    with pytest.raises(RuntimeError, match="out of memory"):
        device(tmp_path, diary, own=own).answer(train(0))

    assert told(device(tmp_path, diary, own=own).answer(describe(0))) == (1, [0.5, 0.5], 2)
    assert diary.asked == [(None, 0)]


@pytest.mark.parametrize("damage", [b"", b"nonsense", None])
def test_a_damaged_state_is_told_and_the_device_starts_anew(
    damage: bytes | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    diary = Diary({0: samples([0]), 1: samples([0, 1])})
    device(tmp_path, diary).answer(describe(0))
    path = run_folder(tmp_path, "run") / STATE
    path.write_bytes(path.read_bytes()[:-1] if damage is None else damage)

    with caplog.at_level(logging.WARNING, logger="fielding.flower"):
        reply = device(tmp_path, diary).answer(describe(1, confirmed=7))

    assert told(reply) == (8, [0.5, 0.5], 2)  # above what the server has, or it would be taken for an old one
    assert diary.asked[-1] == (None, 1)
    assert "what it held is lost" in caplog.text
    assert path.with_name(f"{STATE}.damaged").exists()
    assert told(device(tmp_path, diary).answer(describe(1, confirmed=7))) == (8, [0.5, 0.5], 2)


def test_a_state_of_the_layout_before_places_is_told_in_one_line_and_set_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Releases before agreement 2 kept samples without their places."""
    diary = Diary({0: samples([0]), 1: samples([0, 1])})
    device(tmp_path, diary).answer(describe(0))
    path = run_folder(tmp_path, "run") / STATE
    contents = read_contents(path)
    older = {name: array for name, array in contents.arrays.items() if name != "kept.places"}
    write_contents(replace(contents, arrays=older), path)

    with caplog.at_level(logging.WARNING, logger="fielding.flower"):
        reply = device(tmp_path, diary).answer(describe(1, confirmed=1))

    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("kept.places is missing")
    assert "\n" not in line
    assert path.with_name(f"{STATE}.damaged").exists()
    assert told(reply) == (2, [0.5, 0.5], 2)
    assert diary.asked[-1] == (None, 1)


def test_a_state_of_more_classes_than_there_are_is_damaged(tmp_path: Path) -> None:
    diary = Diary({0: samples([0, 1]), 1: samples([0])})
    device(tmp_path, diary).answer(describe(0))

    reply = device(tmp_path, diary, replace(RULE, n_classes=1)).answer(describe(1, confirmed=1))

    assert told(reply) == (2, [1.0], 1)


def test_a_device_whose_state_is_older_than_the_server_knows_reports_at_once(tmp_path: Path) -> None:
    diary = Diary({0: samples([0])})
    device(tmp_path, diary).answer(describe(0))

    assert told(device(tmp_path, diary).answer(describe(0, confirmed=5))) == (6, [1.0, 0.0], 1)
    assert told(device(tmp_path, diary).answer(describe(0, confirmed=5))) == (6, [1.0, 0.0], 1)


def test_runs_do_not_see_each_other(tmp_path: Path) -> None:
    diary = Diary({0: samples([0])})
    for run_id in ("one", "two/../\0three"):
        assert told(device(tmp_path, diary).answer(describe(0, run_id=run_id))) == (1, [1.0, 0.0], 1)


def test_the_last_order_of_a_run_removes_what_was_kept_for_it(tmp_path: Path) -> None:
    diary = Diary({0: samples([0])})
    for run_id in ("one", "two"):
        device(tmp_path, diary).answer(describe(0, run_id=run_id))

    reply = device(tmp_path, diary).answer(replace(describe(1, run_id="one"), asks="end"))

    assert isinstance(reply, DescribeReply)
    assert (reply.n_samples, reply.report) == (0, None)
    assert diary.asked == [(None, 0), (None, 0)], "nothing is loaded for it"
    assert list(tmp_path.iterdir()) == [run_folder(tmp_path, "two")]


def test_who_has_nothing_to_train_on_describes_itself(tmp_path: Path) -> None:
    reply = device(tmp_path, Diary({0: samples([0], n_test=1)})).answer(train(0))

    assert isinstance(reply, DescribeReply)
    assert (reply.n_samples, reply.report) == (0, None)


def test_models_are_tested_on_test_samples_alone(tmp_path: Path) -> None:
    says_one = np.array([0, 0, 0, 0, 0, 5], dtype=np.float32)
    diary = Diary({0: samples([1, 1, 0, 1, 0], n_test=3)})

    reply = device(tmp_path, diary).answer(evaluate(0, says_one))

    assert isinstance(reply, EvaluateReply)
    assert (reply.scores.n_test.tolist(), reply.scores.correct.tolist()) == ([3], [1])
    assert reply.scores.loss[0] == pytest.approx((2 * np.log1p(np.exp(5)) + np.log1p(np.exp(-5))) / 3)


@pytest.mark.parametrize("came", [None, samples([0, 1]), samples([0, 1], n_test=2)], ids=["none", "training", "tests"])
def test_whoever_has_nothing_to_test_or_to_train_on_has_no_score(came: Samples | None, tmp_path: Path) -> None:
    reply = device(tmp_path, Diary({} if came is None else {0: came})).answer(evaluate(0))

    assert isinstance(reply, EvaluateReply)
    assert (reply.scores.clients.size, reply.scores.n_test.size, reply.scores.also) == (0, 0, {})


def test_what_an_evaluation_takes_in_is_reported_with_the_next_answer(tmp_path: Path) -> None:
    diary = Diary({0: samples([0, 1])})
    device(tmp_path, diary).answer(evaluate(0))

    assert told(device(tmp_path, diary).answer(describe(0))) == (1, [0.5, 0.5], 2)


def test_windows_can_be_described_in_other_words(tmp_path: Path) -> None:
    diary = Diary({0: samples([0, 0, 1], n_test=1)})
    smoothed = replace(RULE, representation=SmoothedLabelShares(pseudo=2.0))
    own = OwnCode(load_data=diary.load, describe=lambda seen, n_classes: np.array([len(seen), n_classes], np.float64))

    assert told(device(tmp_path / "a", diary, smoothed).answer(describe(0))) == (1, [0.75, 0.25], 2)
    assert told(device(tmp_path / "b", diary, own=own).answer(describe(0))) == (1, [2.0, 2.0], 2)


PROBE = """
import sys
from pathlib import Path
from tests.flower.devices import Diary, describe, device, samples
device(Path(sys.argv[1]), Diary({0: samples([0, 1])})).answer(describe(0))
print(sorted({"torch", "scipy", "sklearn", "pandas"} & set(sys.modules)))
"""


def test_describing_loads_nothing_heavy(tmp_path: Path) -> None:
    """Each message starts a process: PyTorch would take longer to load than the description."""
    done = subprocess.run([sys.executable, "-c", PROBE, str(tmp_path)], capture_output=True, text=True, check=False)

    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr
