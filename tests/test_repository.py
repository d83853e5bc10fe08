"""The files around the code: no machine's traces, documented commands, and test fixtures that do what they say."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fielding._version import __version__

ROOT = Path(__file__).resolve().parent.parent
TEXT_LIMIT = 2_000_000

# Written so that no pattern finds itself.
MACHINE_PATH = re.compile(r"(?<![\w.~-])/(?:work|root|home/\w[\w.-]*|Users/\w[\w.-]*)/|[A-Z]:\\Users\\")
REGISTRY = re.compile(
    r"index[-_]url|trusted[-_]host|//(?!pypi\.org\b)[\w.-]*(?:pypi|registry|artifactory|nexus|mirror)[\w-]*\.", re.I
)


def tracked_files() -> list[Path]:
    """Return every file that is, or would be, in the repository."""
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


def lines_that_match(pattern: re.Pattern[str]) -> list[str]:
    """Return ``file:line: text`` for every line of a tracked text file that the pattern finds."""
    found = []
    for path in tracked_files():
        if path.stat().st_size > TEXT_LIMIT:
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="ignore").splitlines(), 1):
            if pattern.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}")
    return found


@pytest.mark.parametrize("inside", ["see /{}/main/x.py", "'/{}/jo/x'", "C:\\{}\\jo"])
def test_the_pattern_of_machine_paths_finds_them(inside: str) -> None:
    folder = {"see": "work", "'/{": "home", "C:\\": "Users"}[inside[:3]]

    assert MACHINE_PATH.search(inside.format(folder))


@pytest.mark.parametrize("harmless", ["frame{}/x", "../{}/x", "src/root/y", "https://site.org/{}/", "~/{}/"])
def test_the_pattern_of_machine_paths_leaves_others_alone(harmless: str) -> None:
    assert not MACHINE_PATH.search(harmless.format("work"))


def test_no_file_names_a_path_of_a_particular_machine() -> None:
    assert lines_that_match(MACHINE_PATH) == []


def test_no_file_names_a_package_registry() -> None:
    assert lines_that_match(REGISTRY) == []


def test_the_changelog_has_room_for_what_is_not_released() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")

    assert re.search(r"^## \[?Unreleased\b", changelog, re.MULTILINE)


def test_the_citation_names_this_version() -> None:
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_every_command_is_documented() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    prose = "\n".join(page.read_text(encoding="utf-8") for page in pages)

    assert [command for command in cli_commands() if not re.search(rf"\b{command}\b", prose)] == []


def cli_commands() -> list[str]:
    """Return every command as it is typed, for example ``fielding data info``."""
    import typer.main

    from fielding.cli.app import app

    def leaves(command: object, typed: str) -> list[str]:
        children = getattr(command, "commands", None)
        if not children:
            return [typed]
        return [leaf for name, child in children.items() for leaf in leaves(child, f"{typed} {name}")]

    return leaves(typer.main.get_command(app), "fielding")


def test_make_without_a_target_lists_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^\.PHONY: ([a-z-]+)$", makefile, re.MULTILINE)

    shown = subprocess.run(["make"], cwd=ROOT, capture_output=True, check=True, text=True).stdout

    assert {"demo", "test", "check", "test-slow", "format", "bench", "figures", "clean"} <= set(targets)
    assert [target for target in targets if not re.search(rf"^  make {target} +\w", shown, re.MULTILINE)] == []


SKIPPING_TESTS = '''
import pytest

def test_runs():
    """
    >>> np.arange(2).tolist()
    [0, 1]
    """

def test_skips_inside():
    pytest.skip("no luck")

@pytest.mark.skipif(True, reason="no wish")
def test_skips_by_mark():
    pass

@pytest.mark.xfail(reason="known")
def test_is_expected_to_fail():
    raise ValueError
'''


def run_pytest(folder: Path, **environment: str) -> str:
    """Run the tests of a folder under this project's conftest in a new process and return what is printed."""
    shutil.copy(ROOT / "tests" / "conftest.py", folder / "conftest.py")
    command = [sys.executable, "-m", "pytest", "-rfE", "--doctest-modules"]
    command += [part for name in ("anyio", "cacheprovider", "xdist") for part in ("-p", f"no:{name}")]
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "FIELDING"))}
    done = subprocess.run(
        [*command, f"--rootdir={folder}", str(folder)],
        cwd=folder,
        env=clean | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def test_skips_are_only_counted_at_a_desk(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(SKIPPING_TESTS)

    assert "2 passed, 2 skipped, 1 xfailed" in run_pytest(tmp_path)


def test_skips_fail_in_ci(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(SKIPPING_TESTS)

    printed = run_pytest(tmp_path, FIELDING_FAIL_ON_SKIP="1")

    assert "1 failed, 2 passed, 1 xfailed, 1 error" in printed
    assert "no luck" in printed
    assert "no wish" in printed


def test_a_skipped_module_fails_in_ci(tmp_path: Path) -> None:
    (tmp_path / "test_whole.py").write_text("import pytest\npytest.importorskip('no_such_module')\n")

    printed = run_pytest(tmp_path, FIELDING_FAIL_ON_SKIP="1")

    assert "could not import 'no_such_module'" in printed
    assert "errors during collection" in printed


def test_missing_traces_are_a_skip_that_says_how_to_mend_it(tmp_path: Path) -> None:
    (tmp_path / "test_traces.py").write_text("def test_traces(data_folder):\n    pass\n")

    printed = run_pytest(tmp_path, FIELDING_DATA=str(tmp_path / "nowhere"), FIELDING_FAIL_ON_SKIP="1")

    assert "name their folder with FIELDING_DATA" in printed


PAGE_TESTS = """
HEAD = "<link rel=icon href=data:,><p id=word>here</p>"

def test_reads(page, tmp_path):
    (tmp_path / "x.html").write_text(HEAD)
    page.goto((tmp_path / "x.html").as_uri())
    assert page.inner_text("#word") == "here"

def test_calls_out(page):
    page.set_content(HEAD + "<img src=https://example.org/x.png>")
    page.wait_for_timeout(200)

def test_throws(page):
    page.set_content(HEAD + "<script>throw new Error('broken')</script>")
"""


@pytest.mark.browser
def test_a_page_that_calls_out_or_throws_fails_its_test(tmp_path: Path, chromium: str) -> None:
    (tmp_path / "test_pages.py").write_text(PAGE_TESTS)

    printed = run_pytest(tmp_path)

    assert "3 passed, 2 errors" in printed
    assert "asks for https://example.org/x.png" in printed
    assert "throws broken" in printed


def test_links_between_pages_lead_somewhere() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    dead = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text())
        if "://" not in target and not (page.parent / target).exists()
    ]

    assert dead == []
