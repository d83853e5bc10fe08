"""Licences of dependencies: each is allowed, and all are listed."""

import csv

import pytest
from packaging.utils import canonicalize_name

from tests.licences import LIST, ROOT, is_allowed, licence_of, list_licences, pulled_in_by


def listed() -> dict[str, tuple[str, str]]:
    with LIST.open(newline="") as file:
        return {row["package"]: (row["licence"], row["extras"]) for row in csv.DictReader(file)}


def test_every_installed_dependency_has_an_allowed_licence_and_is_listed() -> None:
    found, _ = list_licences()

    assert [name for name, (licence, _) in found.items() if not is_allowed(licence)] == []
    assert {name: row[0] for name, row in found.items() if name not in listed() or row[0] != listed()[name][0]} == {}


def test_the_list_names_pinned_packages_with_allowed_licences_only() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {canonicalize_name(line.split("==")[0]) for line in lines if "==" in line}

    assert sorted(set(listed()) - pinned) == []
    assert [name for name, (licence, _) in listed().items() if not is_allowed(licence)] == []


@pytest.mark.parametrize("licence", ["GPL-3.0-only", "MIT AND AGPL-3.0", "(MIT OR X) AND Y", "UNKNOWN", ""])
def test_what_is_not_known_to_be_allowed_is_refused(licence: str) -> None:
    assert not is_allowed(licence)


def test_dependencies_of_dependencies_count() -> None:
    installed, absent = pulled_in_by(["typer", "no-such-package"])

    assert {"typer", "click", "markdown-it-py"} <= installed
    assert absent == {"no-such-package"}
    assert licence_of("typer") == "MIT"
