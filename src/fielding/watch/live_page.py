"""What a live page shows now: the folders are read again when something in them changed, and not too often."""

import gzip
import hashlib
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fielding._typing import ClientId, Json
from fielding.errors import FieldingError, InputError, echo
from fielding.records.lock import NAME as LOCK
from fielding.records.lock import is_locked
from fielding.records.plan import PLAN
from fielding.records.run_folder import MANIFEST
from fielding.reporting.charts.client_story import draw_client_story
from fielding.reporting.client_reasons import client_ids
from fielding.reporting.numbers.groups import RunGroups, gather_runs
from fielding.reporting.numbers.run_record import LogReader, RunRecord
from fielding.reporting.page import Page, page_record, section_record
from fielding.reporting.report_page import DAMAGE, make_page

JSON = "application/json"
LEAST_S = 1.0  # seconds between two readings at least
MOST_WORK = 1 / 3  # largest share of the time that reading takes
READ_ANEW_S = 300.0  # seconds after which all is read anew, changed or not: some of it may not have been readable
_DEPTH = 2
"""Levels of folders whose files tell of changes: a comparison and its runs, whose logs grow with whatever they do.

A folder of comparisons has one more.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What is sent to browsers, compressed once for all of them; ``tag`` tells it from what was there before."""

    gzipped: bytes
    kind: str
    tag: str

    @property
    def record(self) -> dict[str, Json]:
        """The JSON that it holds."""
        return dict(json.loads(gzip.decompress(self.gzipped)))


def make_content(body: bytes, kind: str) -> Content:
    """Return what is sent for some bytes."""
    tag = hashlib.blake2b(body, digest_size=12).hexdigest()
    return Content(gzipped=gzip.compress(body, 4, mtime=0), kind=kind, tag=f'"{tag}"')


class LivePage:
    """Some folders that runs may still write into, or that are not there yet; safe to use from several threads."""

    def __init__(self, folders: Sequence[Path], clock: Callable[[], float] = time.monotonic) -> None:
        self._folders, self._clock = tuple(folders), clock
        self._reader, self._lock = LogReader(), threading.Lock()
        self._content: Content | None = None
        self._gathered: RunGroups | None = None
        self._has_begun = False
        self._seen, self._next_s, self._read_s = "", -1.0, -READ_ANEW_S

    def read(self) -> Content:
        """Return what the page shows now, or what it showed before if another thread is reading the folders just now.

        The record has ``page``, as a page is made of, ``runs``, the names of the runs whose clients can be opened, and
        ``inside``, by group the name of the run whose clusters are shown.
        """
        known = self._content
        if known is not None and (self._clock() < self._next_s or self._lock.locked()):
            return known
        with self._lock:
            if self._content is None or self._clock() >= self._next_s:
                self._content = self._read_folders()
            return self._content

    def clients(self, run: str) -> list[str]:
        """Return the ids of the clients of a run as texts; InputError if there is no such run."""
        self.read()
        with self._lock:
            return [str(one) for one in client_ids(self._run(run))]

    def story(self, run: str, client: str) -> list[dict[str, Json]]:
        """Return the sections about one client of a run, which is named by the text of its id.

        InputError if there is no such run or client.
        """
        self.read()
        with self._lock:
            record = self._run(run)
            known: dict[str, ClientId] = {str(one): one for one in client_ids(record)}
            try:
                return [section_record(one) for one in draw_client_story(record, known.get(client, client))]
            except DAMAGE as error:
                raise InputError(str(error) or f"this client cannot be shown: {type(error).__name__}") from error

    def _read_folders(self) -> Content:
        """Return what is to be seen now, and note when to look again."""
        begun, content = self._clock(), self._content
        seen = _signature(self._folders)
        if begun - self._read_s >= READ_ANEW_S:
            self._reader, self._seen, self._read_s = LogReader(), "", begun
        if content is None or seen != self._seen:
            self._seen = seen
            page, runs = self._make_page(), self._gathered
            names = [] if runs is None else list(name_runs(runs))
            # The run that each group shows the inside of.
            inside: dict[str, Json] = {
                group.name: name
                for group in (() if runs is None else runs.groups)
                for name, run in names
                if group.is_clustered and run is group.runs[0]
            }
            record: Json = {"page": page_record(page), "runs": [name for name, _ in names], "inside": inside}
            content = make_content(json.dumps(record, allow_nan=False, separators=(",", ":")).encode(), JSON)
        took = self._clock() - begun
        self._next_s = begun + took + max(LEAST_S, took / MOST_WORK - took)
        return content

    def _make_page(self) -> Page:
        try:
            found = gather_runs(self._folders, self._reader)
            page = make_page(found)
        except FieldingError as error:
            return self._make_blank_page(str(error))
        except Exception as error:
            # A file in the middle of being written must not end a page that is open; the next look may be whole.
            return self._make_blank_page(f"this cannot be read: {type(error).__name__}: {error}")
        self._gathered, self._has_begun = found, True
        return page

    def _make_blank_page(self, problem: str) -> Page:
        """Return the page for folders without a run that can be shown."""
        self._gathered, self._reader, self._seen = None, LogReader(), ""  # the next look may find it
        where = ", ".join(map(str, self._folders))
        if self._has_begun:
            return Page(
                title="The run is gone", lead=f"There was a run in {where}; there is none now.", notes=[problem]
            )
        lead = f"Nothing to show in {where} yet; this page fills as soon as a run begins there."
        # That there is nothing yet is what a page waits for; that what is there cannot be read is worth a word.
        is_new = not any(one.is_file() or (one / PLAN).exists() or (one / MANIFEST).exists() for one in self._folders)
        return Page(title="Waiting for a run", lead=lead, notes=[] if is_new else [problem])

    def _run(self, name: str) -> RunRecord:
        found = dict(name_runs(self._gathered)) if self._gathered is not None else {}
        if name not in found:
            raise InputError(f"there is no run {echo(name)}; choose one of the page")
        return found[name]


def name_runs(runs: RunGroups) -> Iterator[tuple[str, RunRecord]]:
    """Yield every run with a name of its own: of its group and seed, and of its folder where that is not enough."""
    names = [f"{group.name}, seed {run.seed}" if run.seed is not None else group.name for group, run in runs.runs]
    counts, used = Counter(names), Counter[str]()
    for name, (_, run) in zip(names, runs.runs, strict=True):
        own = name if counts[name] == 1 else f"{name}, {run.folder.name}"
        used[own] += 1
        yield own if used[own] == 1 else f"{own} ({used[own]})", run


def _signature(folders: Sequence[Path]) -> str:
    """Return what changes whenever a file of a run changes, or the process that writes into a folder ends."""
    digest = hashlib.blake2b(digest_size=12)
    for folder in folders:
        nested = sorted(path.parent for path in folder.glob(f"*/{PLAN}"))
        for path, known in (file for one in (folder, *nested) for file in _files(one, _DEPTH)):
            state = is_locked(Path(path).parent) if Path(path).name == LOCK else ""
            digest.update(f"{path} {known.st_size} {known.st_mtime_ns} {state}\n".encode(errors="replace"))
    return digest.hexdigest()


def _files(folder: Path | str, depth: int) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the files in a folder and in those within it, by name."""
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        try:
            if entry.is_dir():
                if depth > 1:
                    yield from _files(entry.path, depth - 1)
            else:
                yield entry.path, entry.stat()
        except OSError:
            continue
