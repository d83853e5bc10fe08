"""Samples may stay in the app: the device keeps positions and labels, and reads what it trains, tests or looks at."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fielding.errors import InputError
from fielding.flower.device.own_code import OwnCode
from fielding.flower.device.samples import IN_APP, checked_samples
from fielding.flower.device.state import read_state, run_folder
from fielding.flower.wire.orders import DescribeReply, Order
from fielding.runtime.own_code import DeviceNode, Samples
from tests.flower.devices import RULE, Diary, describe, device, evaluate, samples, train

pytest.importorskip("flwr", reason="the flower extra is not installed")

from tests.flower.spoiling import sent

WHOLE = samples([0, 1, 1, 0, 1, 0, 0, 1], n_test=2)
LABELS, IS_TEST = np.asarray(WHOLE.y), np.asarray(WHOLE.is_test)


@dataclass(slots=True)
class Photos:
    """A dataset that writes down which samples were asked for."""

    x: Any = field(default_factory=lambda: list(np.asarray(WHOLE.x)))
    with_labels: bool = False
    read: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> Any:
        self.read.append(index)
        return (self.x[index], int(LABELS[index])) if self.with_labels else self.x[index]


def positions(*which: int, **more: Any) -> Samples:
    return Samples(np.array(which), LABELS[list(which)], is_test=IS_TEST[list(which)], **more)


def answers(folder: Path, by_round: dict[int, Samples], photos: Photos | None = None) -> list[object]:
    """Return what a device answers, a new process for each order; without photos it is given arrays."""
    diary = Diary(by_round)
    own = OwnCode(load_data=diary.load, dataset=None if photos is None else lambda _node: photos)
    orders: list[Order] = [
        describe(0),
        train(0),
        evaluate(0),
        describe(1, 1),
        train(1, 1),
        evaluate(1),
        describe(2, 2),
        train(2, 2),
    ]
    return [sent(device(folder, diary, own=own).answer(order)) for order in orders]


@pytest.mark.parametrize("with_labels", [False, True])
def test_a_device_answers_the_same_whether_samples_are_given_or_stay(with_labels: bool, tmp_path: Path) -> None:
    photos = Photos(with_labels=with_labels)
    given = {0: [0, 1, 2, 6], 1: [3, 4, 5, 7]}
    x = np.asarray(WHOLE.x)

    here = answers(tmp_path / "here", {now: positions(*which) for now, which in given.items()}, photos)
    there = answers(tmp_path / "there", {now: replace(positions(*which), x=x[which]) for now, which in given.items()})

    assert here == there
    assert sorted(set(photos.read)) == list(range(8))
    assert list((tmp_path / "here").rglob("samples-*")) == []


def test_labels_alone_are_described_without_a_look_at_any_sample(tmp_path: Path) -> None:
    photos, diary = Photos(), Diary({0: positions(0, 1, 2), 1: positions(3)})
    own = OwnCode(load_data=diary.load, dataset=lambda _node: photos)
    for now in range(4):
        reply = device(tmp_path, diary, own=own).answer(describe(now, confirmed=now))

    assert isinstance(reply, DescribeReply)
    assert (reply.n_samples, photos.read) == (0, [])


def test_the_dataset_is_opened_where_the_run_keeps_its_files_and_only_for_something(tmp_path: Path) -> None:
    seen = list[DeviceNode]()

    def opened(node: DeviceNode) -> Photos:
        seen.append(node)
        return Photos()

    diary = Diary({0: positions(0, 1)})
    own = OwnCode(load_data=diary.load, dataset=opened)
    device(tmp_path, diary, own=own).answer(train(0))
    device(tmp_path, diary, own=own).answer(describe(1, confirmed=1))

    assert [node.folder for node in seen] == [run_folder(tmp_path, "run")]


def test_samples_of_a_file_and_of_the_app_go_together(tmp_path: Path) -> None:
    """An app that goes over to a dataset keeps the window that it has."""
    x = np.asarray(WHOLE.x)
    diary = Diary({0: replace(positions(0, 1, 2), x=x[:3]), 1: positions(3, 4)})
    device(tmp_path, diary).answer(describe(0))
    own = OwnCode(load_data=diary.load, dataset=lambda _node: Photos())
    mixed = device(tmp_path, diary, own=own).answer(train(1, 1))
    plain = Diary({0: replace(positions(0, 1, 2), x=x[:3]), 1: replace(positions(3, 4), x=x[3:5])})
    device(tmp_path / "plain", plain).answer(describe(0))

    assert sent(mixed) == sent(device(tmp_path / "plain", plain).answer(train(1, 1)))
    state = read_state(run_folder(tmp_path, "run"))
    assert state is not None
    assert (state.kept.file.tolist(), state.kept.row.tolist()) == ([0, 0, 0, IN_APP, IN_APP], [0, 1, 2, 3, 4])


def test_who_is_for_tests_follows_from_the_position() -> None:
    def sides(which: np.ndarray) -> np.ndarray:
        given = Samples(which, np.zeros(which.size, dtype=int))
        return checked_samples(given, n_classes=2, now=0, since=None, file=IN_APP)[0].is_test

    all_ = sides(np.arange(2**40, 2**40 + 1000))

    assert 150 < all_.sum() < 250
    assert (sides(np.arange(2**40 + 999, 2**40 - 1, -1)) == all_[::-1]).all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (Samples([0, 8], [0, 1]), "load_data gave position 8 of a dataset of 8; give 0 to 7"),
        (Samples([0, -1], [0, 1]), "load_data gave position -1 of a dataset of 8; give 0 to 7"),
        (Samples([0, 1, 2], [0, 1]), r"x of load_data is int64 of shape \(3,\); .* give 2 positions in it"),
        (Samples([[0.0, 1.0]], [0]), r"x of load_data is float64 of shape \(1, 2\); .* give 1 positions in it"),
        (Samples([0.5], [0]), r"x of load_data is float64 of shape \(1,\)"),
        (Samples([0], [5]), r"labels of load_data \(classes = 2\) hold 5"),
    ],
)
def test_positions_that_cannot_be_are_refused_and_nothing_is_kept(given: Samples, message: str, tmp_path: Path) -> None:
    own = OwnCode(load_data=lambda *_: given, dataset=lambda _node: Photos())

    with pytest.raises(InputError, match=message):
        device(tmp_path, Diary({}), own=own).answer(describe(0))

    assert read_state(run_folder(tmp_path, "run")) is None


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ([[1.0, 2.0], [1.0]], r"sample 1 of the dataset is float64 of shape \(1,\); give numbers of shape \(2,\)"),
        ([[1.0, 2.0], ["a", "b"]], "sample 1 of the dataset is <U1"),
        ([[1.0, 2.0], [np.nan, 1.0]], "samples of the dataset hold NaN or infinity"),
        ([3.0, 4.0], r"sample 0 of the dataset is float64 of shape \(\)"),
        ({0: [1.0, 2.0], 2: [0.0, 0.0]}, "sample 1 of the dataset cannot be read: KeyError: 1"),
    ],
)
def test_samples_that_cannot_be_used_are_told_in_one_line(x: Any, message: str, tmp_path: Path) -> None:
    own = OwnCode(load_data=lambda *_: Samples([0, 1], [0, 1], is_test=[False, False]), dataset=lambda _: Photos(x))

    with pytest.raises(InputError, match=message) as caught:
        device(tmp_path, Diary({}), replace(RULE, max_rounds=9), own=own).answer(train(0))

    assert "\n" not in str(caught.value)


def test_positions_without_their_dataset_are_told(tmp_path: Path) -> None:
    diary = Diary({0: positions(0, 1)})
    device(tmp_path, diary, own=OwnCode(load_data=diary.load, dataset=lambda _node: Photos())).answer(describe(0))

    with pytest.raises(InputError, match="client_app has no dataset; give it again"):
        device(tmp_path, diary).answer(train(0))


# ---- keys ------------------------------------------------------------------------------------------------------------

KEYS = [f"2026/ü-{at}.jpg" for at in range(len(LABELS))]


def by_key(*which: int, **more: Any) -> Samples:
    return Samples(np.array(KEYS)[list(which)], LABELS[list(which)], is_test=IS_TEST[list(which)], **more)


def test_samples_by_text_keys_are_answered_as_arrays_are(tmp_path: Path) -> None:
    album = dict(zip(KEYS, np.asarray(WHOLE.x), strict=True))
    arrays = {0: Samples(np.asarray(WHOLE.x)[:6], LABELS[:6], is_test=IS_TEST[:6]), 1: samples([1], n_test=0)}
    arrays[1] = Samples(np.asarray(WHOLE.x)[6:], LABELS[6:], is_test=IS_TEST[6:])
    keyed = {0: by_key(*range(6)), 1: by_key(6, 7)}
    assert answers(tmp_path / "keys", keyed, album) == answers(tmp_path / "arrays", arrays)  # type: ignore[arg-type]
    state = read_state(run_folder(tmp_path / "keys", "run"))
    assert state is not None
    assert set(map(bytes.decode, state.kept.key.tolist())) <= set(KEYS)
    assert not list((tmp_path / "keys").rglob("samples-*")), "no features are kept"


def test_who_is_for_tests_hangs_on_the_key(tmp_path: Path) -> None:
    keys = [f"photo {at}" for at in range(200)]
    first, again = (
        checked_samples(Samples(np.array(order), np.zeros(200, int)), n_classes=2, now=0, since=None, file=IN_APP)[0]
        for order in (keys, keys[::-1])
    )
    assert first.is_test.tolist() == again.is_test.tolist()[::-1]
    assert 20 < first.is_test.sum() < 60


@pytest.mark.parametrize(
    ("x", "why"),
    [
        (np.array(["a", ""]), "1 to 200 bytes"),
        (np.array(["a", "b" * 201]), "1 to 200 bytes"),
        (np.array(["a", 3], dtype=object), "or texts that are keys of it"),
    ],
)
def test_what_is_no_key_is_refused(x: Any, why: str) -> None:
    with pytest.raises(InputError, match=why):
        checked_samples(Samples(x, [0, 1]), n_classes=2, now=0, since=None, file=IN_APP)


def test_a_key_that_a_mapping_does_not_have_is_told_at_once(tmp_path: Path) -> None:
    own = OwnCode(load_data=Diary({0: by_key(0, 1)}).load, dataset=lambda _node: {KEYS[0]: np.zeros(2)})
    with pytest.raises(InputError, match="gave the key '2026/ü-1"):
        device(tmp_path, Diary({}), own=own).answer(describe(0))
