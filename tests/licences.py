"""Licences of all that fielding and its extras pull in, by the metadata of what is installed.

``python -m tests.licences`` writes ``licences.csv``: package, licence, and the extras that pull it in (``core``: every
installation). ``tests/test_licences.py`` fails where a licence is not among ``ALLOWED`` or the list is out of date.
"""

import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "licences.csv"

ALLOWED = frozenset(
    {
        *("0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0"),
        *("CC0-1.0", "ISC", "MIT", "MIT-0", "MIT-CMU", "MPL-2.0", "PSF-2.0", "Public Domain", "Zlib"),
    }
)
"""Licences under which an Apache-2.0 work may be used and passed on; ``BSD`` where metadata do not say which."""

SPDX = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD 2-Clause License": "BSD-2-Clause",
    "BSD 3-Clause License": "BSD-3-Clause",
    "BSD License": "BSD",
    "BSD, Public Domain": "BSD AND Public Domain",
    "ISC License (ISCL)": "ISC",
    "ISC License": "ISC",
    "ISC license": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "The MIT License (MIT)": "MIT",
}
"""What packages without an SPDX expression write."""


def is_allowed(licence: str) -> bool:
    """Return whether one of the alternatives of an expression has allowed parts only.

    >>> is_allowed("MIT OR AFL-2.1"), is_allowed("MIT AND GPL-3.0-only"), is_allowed("")
    (True, False, False)
    """
    return any(all(part in ALLOWED for part in choice.split(" AND ")) for choice in licence.split(" OR "))


def licence_of(name: str) -> str:
    """Return the licence of an installed package: its SPDX expression, its ``License`` line, or its classifiers."""
    found = distribution(name).metadata
    told = str(found.json.get("license", "")).strip().splitlines()
    classifiers = [one.split(" :: ")[-1] for one in found.get_all("Classifier", []) if one.startswith("License ::")]
    line = SPDX.get(told[0].strip(), told[0].strip()) if told else ""
    by_classifiers = " AND ".join(sorted({SPDX.get(one, one) for one in classifiers}))
    return str(found.json.get("license_expression") or (line if is_allowed(line) else by_classifiers or line))


def pulled_in_by(wanted: Iterable[str]) -> tuple[set[str], set[str]]:
    """Return the packages that requirements pull in, theirs included: those installed here, and those that are not."""
    open_ones, seen, absent = [Requirement(one) for one in wanted], set[tuple[str, frozenset[str]]](), set[str]()
    while open_ones:
        one = open_ones.pop()
        name, extras = canonicalize_name(one.name), frozenset(one.extras)
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        try:
            needs = distribution(name).requires or []
        except PackageNotFoundError:
            absent.add(name)
            continue
        for need in map(Requirement, needs):
            if need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in extras or {""}):
                open_ones.append(need)
    return {name for name, _ in seen} - absent, absent


def list_licences() -> tuple[dict[str, tuple[str, str]], set[str]]:
    """Return licence and extras of every package that can be pulled in, and the packages that are not installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = {"core": project["dependencies"], **project["optional-dependencies"]}
    found = {extra: pulled_in_by(requirements) for extra, requirements in wanted.items()}
    rows = {}
    for name in sorted(set().union(*(installed for installed, _ in found.values()))):
        extras = [extra for extra, (installed, _) in found.items() if name in installed]
        rows[name] = (licence_of(name), "core" if "core" in extras else " ".join(extras))
    return rows, set().union(*(absent for _, absent in found.values()))


def main() -> None:
    rows, absent = list_licences()
    if absent:
        raise SystemExit(f"not installed: {', '.join(sorted(absent))}; run `make check` first")
    lines = [f"{name},{licence},{extras}\n" for name, (licence, extras) in rows.items()]
    LIST.write_text("package,licence,extras\n" + "".join(lines))
    refused = [name for name, (licence, _) in rows.items() if not is_allowed(licence)]
    sys.stdout.write(f"{len(rows)} packages, {len(refused)} with another licence: {', '.join(refused) or 'none'}\n")


if __name__ == "__main__":
    main()
