import json
from pathlib import Path

import pytest

from fielding._typing import Json
from fielding.errors import InputError
from fielding.records.manifest import check_manifest, first_difference, write_json

CONFIG: dict[str, Json] = {"training": {"prox": 0.1}}
STORED: dict[str, Json] = {"seed": 1, "config": CONFIG, "digest": "aa", "version": "1"}


def check(tmp_path: Path, now: dict[str, Json]) -> None:
    write_json(tmp_path / "manifest.json", STORED)
    check_manifest(tmp_path / "manifest.json", now, what="run", ignored=("version",))


def test_what_is_equal_may_go_on(tmp_path: Path) -> None:
    check(tmp_path, {**STORED, "version": "2"})


def test_what_may_differ_may_be_missing_on_either_side(tmp_path: Path) -> None:
    write_json(tmp_path / "manifest.json", STORED)
    without = {key: value for key, value in STORED.items() if key != "version"}

    check_manifest(tmp_path / "manifest.json", without, what="run", ignored=("version",))
    check_manifest(tmp_path / "manifest.json", {**STORED, "more": 1}, what="run", ignored=("more",))
    with pytest.raises(InputError, match="is not of a run"):
        check_manifest(tmp_path / "manifest.json", {**STORED, "more": 1}, what="run", ignored=("version",))


@pytest.mark.parametrize(
    ("now", "words"),
    [
        ({**STORED, "seed": 2, "digest": "bb"}, "seed was 1, now it is 2"),
        (
            {**STORED, "config": {"training": {"prox": 1.0}}, "digest": "bb"},
            "config.training.prox was 0.1, now it is 1",
        ),
        ({**STORED, "config": {"training": {}}}, "config.training.prox was 0.1, now it is not given"),
        ({**STORED, "config": {**CONFIG, "x": 5}}, "config.x was not given, now it is 5"),
        ({**STORED, "digest": "bb"}, "digest was 'aa', now it is 'bb'"),
    ],
)
def test_the_first_thing_that_differs_is_named_in_the_order_of_the_manifest(
    tmp_path: Path, now: dict[str, Json], words: str
) -> None:
    with pytest.raises(InputError) as caught:
        check(tmp_path, now)

    assert str(caught.value).startswith(f"cannot resume {tmp_path}: {words}")


def test_the_manifest_of_something_else_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"manifest\.json is not of a run; name another folder"):
        check(tmp_path, {"other": 1})


@pytest.mark.parametrize("content", [b"{", b"\xff", b"[]", b"5"])
def test_a_damaged_manifest_is_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "manifest.json").write_bytes(content)

    with pytest.raises(InputError, match=r"manifest\.json (cannot be read|is not of a run)"):
        check_manifest(tmp_path / "manifest.json", STORED, what="run")


def test_nothing_differs_between_equals() -> None:
    assert first_difference(STORED, json.loads(json.dumps(STORED)), "all") == ""
    assert first_difference({"a": None}, {}, "all") == ""
    assert first_difference([1, 2], [1, 3], "list") == "list was [1, 2], now it is [1, 3]"
