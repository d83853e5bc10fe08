"""The plan of a comparison comes back as it was written, and a damaged one is told from none."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fielding.errors import InputError, OutputError
from fielding.records.plan import (
    FAILURE,
    PLAN,
    Plan,
    Variant,
    clear_failure,
    read_failure,
    read_plan,
    write_failure,
    write_plan,
)

GLOBAL = Variant(name="global", folder="global", settings={"method.name": "global"})
OURS = Variant(name="fielding tau=1/6", folder="fielding-tau-1_6", settings={"coordinator.tau": "1/6", "seed": None})
SMALL = Plan(config={"rounds": 3, "trace": {"gap": 2}}, variants=(GLOBAL, OURS), seeds=(1, 4), reference="global")


def test_a_plan_comes_back_as_it_was_written(tmp_path: Path) -> None:
    for plan in (SMALL, replace(SMALL, is_asked=True)):
        write_plan(tmp_path, plan)

        assert read_plan(tmp_path) == plan


def test_every_run_has_a_folder_of_its_own() -> None:
    names = [SMALL.folder_of(one, seed) for one in SMALL.variants for seed in SMALL.seeds]

    assert names == ["global-1", "global-4", "fielding-tau-1_6-1", "fielding-tau-1_6-4"]


def test_a_variant_is_found_by_its_name() -> None:
    assert SMALL.variant_named("fielding tau=1/6") is OURS
    with pytest.raises(InputError, match="unknown variant 'globl'; did you mean 'global'"):
        SMALL.variant_named("globl")


@pytest.mark.parametrize("name", ["nothing", "file"])
def test_no_comparison_is_no_plan(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("x")

    assert read_plan(tmp_path / name) is None
    assert read_plan(tmp_path) is None


def set_folder(record: dict[str, Any], name: object) -> None:
    record["variants"][0]["folder"] = name


@pytest.mark.parametrize(
    "spoil",
    [
        lambda record: record.pop("config"),
        lambda record: record.pop("seeds"),
        lambda record: record.update(seeds=["1"]),
        lambda record: record.update(seeds=3),
        lambda record: record.update(reference="nobody"),
        lambda record: record.update(variants=[]),
        lambda record: record.update(variants=["global"]),
        lambda record: record["variants"][0].pop("name"),
        lambda record: record["variants"][0].update(name=7),
        lambda record: record["variants"][0].update(settings=7),
        *(
            lambda record, name=name: set_folder(record, name)
            for name in ("", "../x", "a/b", ".lock", "a\\b", "a\0", 3)
        ),
    ],
)
def test_a_damaged_plan_is_told_in_a_line(tmp_path: Path, spoil: Callable[[dict[str, Any]], object]) -> None:
    write_plan(tmp_path, SMALL)
    record = json.loads((tmp_path / PLAN).read_text())
    spoil(record)
    (tmp_path / PLAN).write_text(json.dumps(record))

    with pytest.raises(InputError, match=r"compare\.json is damaged") as told:
        read_plan(tmp_path)

    assert "\n" not in str(told.value)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"3", b"\xff\xfe"])
def test_what_is_no_record_is_told_in_a_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / PLAN).write_bytes(content)

    with pytest.raises(InputError, match=r"compare\.json"):
        read_plan(tmp_path)


def test_a_failure_is_kept_until_the_run_is_tried_again(tmp_path: Path) -> None:
    folder = tmp_path / "global-1"
    assert read_failure(folder) is None

    write_failure(folder, "no data\nat all", "line 3")

    assert read_failure(folder) == "no data at all"
    assert json.loads((folder / FAILURE).read_text()) == {"error": "no data\nat all", "traceback": "line 3"}
    clear_failure(folder)
    clear_failure(folder)
    assert read_failure(folder) is None


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"error": 3}'])
def test_a_damaged_failure_is_still_one(tmp_path: Path, content: str) -> None:
    (tmp_path / FAILURE).write_text(content)

    assert str(read_failure(tmp_path)).startswith("failure.json ")


def test_a_file_in_the_place_of_a_run_holds_no_failure(tmp_path: Path) -> None:
    (tmp_path / "global-1").write_text("mine")

    clear_failure(tmp_path / "global-1")
    assert read_failure(tmp_path / "global-1") is None
    with pytest.raises(OutputError, match="cannot write"):
        write_failure(tmp_path / "global-1", "it broke")


def test_what_cannot_be_forgotten_is_told(tmp_path: Path) -> None:
    (tmp_path / FAILURE).mkdir()

    with pytest.raises(OutputError, match=r"cannot remove .*failure\.json: .*; remove it by hand"):
        clear_failure(tmp_path)
