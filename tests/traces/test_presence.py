"""Missing files of known data sets are told before anything is read."""

from pathlib import Path

import pytest

from fielding.config.keys import TraceSection
from fielding.errors import InputError
from fielding.traces.sources import check_present


def test_a_missing_file_is_named_with_how_to_get_it_and_where_to_say_it_is(tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        check_present(TraceSection(name="zephyr", data=str(tmp_path)))

    words = str(refused.value)
    assert words.startswith(f"zephyr needs zephyr_commits.csv.gz, which is not in {tmp_path}; make it from `git log`")
    assert words.endswith("name its folder in trace.data or in the environment variable FIELDING_DATA")
    assert "--data" not in words


def test_what_is_there_comes_with_fielding_or_is_a_file_of_the_users_own_passes(tmp_path: Path) -> None:
    (tmp_path / "zephyr_commits.csv.gz").touch()

    check_present(TraceSection(name="zephyr", data=str(tmp_path)))
    check_present(TraceSection(name="digits", data=str(tmp_path / "none")))
    check_present(TraceSection(name="zephyr", data=str(tmp_path / "none"), file="mine.csv"))
