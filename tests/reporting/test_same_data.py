import json
from pathlib import Path

from fielding._typing import Json
from fielding.reporting.numbers.groups import fail_other_data, version_words
from fielding.reporting.numbers.run_record import FAILED, FINISHED, RunRecord, read_run
from tests.reporting.run_folders import round_rows, run_folder


def a_run(folder: Path, digest: str | None, *, seed: int = 1, gap: int = 4, finished: bool = True) -> RunRecord:
    run_folder(folder, round_rows([0.5]), seed=seed, finished=finished)
    manifest: dict[str, Json] = json.loads((folder / "manifest.json").read_text())
    manifest["config"]["trace"]["gap"] = gap  # type: ignore[call-overload, index]
    manifest |= {} if digest is None else {"data_blake2b": digest}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return read_run(folder)


def test_a_run_on_other_data_than_the_reference_has_failed(tmp_path: Path) -> None:
    named = [("fielding", a_run(tmp_path / "a", "0123456789")), ("global", a_run(tmp_path / "b", "abcdefghij"))]

    (_, ours), (_, theirs) = fail_other_data(named, {"global"})

    assert (ours.state, theirs.state) == (FAILED, FINISHED)
    assert ours.problems[0].startswith("made on other data than global on seed 1 (digests 01234567 and abcdefgh)")
    assert theirs.problems == ()


def test_without_a_reference_that_ended_the_first_run_counts(tmp_path: Path) -> None:
    named = [
        ("fielding", a_run(tmp_path / "a", "one")),
        ("static", a_run(tmp_path / "b", "other")),
        ("global", a_run(tmp_path / "c", "other", finished=False)),
    ]

    assert [run.state for _, run in fail_other_data(named, {"global"})] == [FINISHED, FAILED, "stopped"]


def test_other_seeds_and_other_traces_have_other_data(tmp_path: Path) -> None:
    named = [
        ("global", a_run(tmp_path / "a", "one")),
        ("fielding", a_run(tmp_path / "b", "two", seed=2)),
        ("fielding", a_run(tmp_path / "c", "three", gap=9)),
    ]

    assert [run.state for _, run in fail_other_data(named, {"global"})] == [FINISHED] * 3


def test_a_run_that_does_not_tell_its_data_counts(tmp_path: Path) -> None:
    named = [("global", a_run(tmp_path / "a", "one")), ("fielding", a_run(tmp_path / "b", None))]

    assert [run.state for _, run in fail_other_data(named, {"global"})] == [FINISHED] * 2


def test_several_versions_are_told(tmp_path: Path) -> None:
    runs = [a_run(tmp_path / name, None) for name in ("a", "b")]
    assert version_words(runs) == ""

    (tmp_path / "b" / "manifest.json").write_text(json.dumps({"fielding": "1.5", "config": {}}))

    assert "(0, 1.5)" in version_words([runs[0], read_run(tmp_path / "b")])
