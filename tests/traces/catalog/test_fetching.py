import io
import socket
from collections.abc import Iterator
from http.client import HTTPMessage
from pathlib import Path
from urllib.request import Request

import numpy as np
import pytest

from fielding.errors import OptionError, OutputError
from fielding.traces.catalog import CATALOG, open_source
from fielding.traces.catalog.fetching import (
    RECIPES,
    FetchError,
    Recipe,
    RemoteFile,
    _SafeRedirects,
    cifar100_arrays,
    download,
    fashion_mnist_arrays,
    fetch,
)
from fielding.traces.pool import Pool
from fielding.traces.trace import Trace
from tests.traces.catalog.publishing import Pages, cifar_archive, fashion_files, md5, sensor_archive, serving


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def closed_port() -> Iterator[int]:
    """Return a port at which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def recipe(name: str, address: str, pages: Pages) -> dict[str, Recipe]:
    """Return the real recipe, but for files on this machine."""
    files = tuple(
        RemoteFile(url=f"{address}/{one.name}", digest=md5(pages[one.name]) if one.digest else None)
        for one in RECIPES[name].files
    )
    return {name: Recipe(files=files, convert=RECIPES[name].convert)}


SENSORS = sensor_archive({"00EABED2": ["100,1,5,1,0,0,0,0,0", "160,3,6,0,1,0,0,0,0"]})
PUBLISHED: dict[str, Pages] = {
    "fashion_mnist": fashion_files(),
    "cifar100": {"cifar-100-binary.tar.gz": cifar_archive()},
    "extrasensory": {"ExtraSensory.per_uuid_features_labels.zip": SENSORS},
}


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_what_is_fetched_can_be_opened(tmp_path: Path, name: str) -> None:
    pages = PUBLISHED[name]
    folder = tmp_path / "new" / "folder"
    told: list[tuple[str, int, int | None]] = []

    with serving(pages) as address:
        path, is_new = fetch(
            name, folder, recipes=recipe(name, address, pages), on_bytes=lambda *news: told.append(news)
        )

    assert is_new
    assert path == folder / CATALOG[name].files[0]
    assert [item.name for item in folder.iterdir()] == [path.name]
    assert {name: (done, total) for name, done, total in told} == {
        name: (len(raw), len(raw)) for name, raw in pages.items()
    }
    source = open_source(name, folder)
    assert isinstance(source, Pool if CATALOG[name].kind == "pool" else Trace)
    assert np.asarray(source.x).shape[0] == source.y.size > 0


def test_what_is_there_is_left_alone(tmp_path: Path, closed_port: int) -> None:
    there = tmp_path / "fashion_mnist.npz"
    there.write_text("mine")

    assert fetch("fashion_mnist", tmp_path, recipes=_unreachable(closed_port)) == (there, False)
    assert there.read_text() == "mine"


def _unreachable(port: int) -> dict[str, Recipe]:
    return recipe("fashion_mnist", f"http://127.0.0.1:{port}", fashion_files())


def assert_refused(folder: Path, recipes: dict[str, Recipe], *words: str) -> None:
    """Check that fetching fails in one line and leaves nothing behind, not even the folder."""
    (name,) = recipes
    with pytest.raises(FetchError) as caught:
        fetch(name, folder / "a" / "b", recipes=recipes)
    for word in words:
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list(folder.iterdir()) == []


def test_off_line_is_one_clear_line_and_nothing_is_left_behind(tmp_path: Path, closed_port: int) -> None:
    assert_refused(tmp_path, _unreachable(closed_port), "cannot fetch", "Connection refused", "are you on-line?")


def test_a_name_that_cannot_be_resolved_is_one_clear_line(tmp_path: Path) -> None:
    recipes = recipe("fashion_mnist", "http://no-such-host.invalid", fashion_files())

    assert_refused(tmp_path, recipes, "cannot fetch http://no-such-host.invalid/train-images")


def test_a_wrong_checksum_is_refused(tmp_path: Path) -> None:
    pages = fashion_files()
    with serving(pages | {"t10k-labels-idx1-ubyte.gz": b"forged"}) as address:
        assert_refused(
            tmp_path, recipe("fashion_mnist", address, pages), "t10k-labels-idx1-ubyte.gz has the md5", "it is refused"
        )


def test_a_download_that_breaks_off_is_refused(tmp_path: Path) -> None:
    pages = PUBLISHED["extrasensory"]
    with serving(pages, cut=100) as address:
        assert_refused(tmp_path, recipe("extrasensory", address, pages), "100", "bytes")


def test_an_archive_that_is_not_what_it_should_be_is_refused(tmp_path: Path) -> None:
    pages = {"ExtraSensory.per_uuid_features_labels.zip": b"<html>moved</html>"}
    with serving(pages) as address:
        assert_refused(tmp_path, recipe("extrasensory", address, pages), "is damaged or not what it should be")


def test_an_answer_longer_than_it_should_be_is_refused(tmp_path: Path) -> None:
    with serving({"a": b"12345"}) as address, pytest.raises(FetchError, match="sends more than the 3 bytes"):
        download(RemoteFile(url=f"{address}/a", digest=None, size=3), tmp_path)


def test_an_answer_shorter_than_it_should_be_is_refused(tmp_path: Path) -> None:
    with serving({"a": b"12345"}) as address, pytest.raises(FetchError, match="broke off after 5 of 9 bytes"):
        download(RemoteFile(url=f"{address}/a", digest=None, size=9), tmp_path)


def test_a_page_that_is_gone_is_named(tmp_path: Path) -> None:
    with serving({}) as address:
        assert_refused(tmp_path, recipe("fashion_mnist", address, fashion_files()), "answers 404 Not Found")


@pytest.mark.parametrize("target", ["file:///etc/hosts", "ftp://127.0.0.1/x", "data:text/plain,x"])
def test_redirects_lead_to_web_servers_only(tmp_path: Path, target: str) -> None:
    with serving({}, redirects={"a": target}) as address, pytest.raises(FetchError) as caught:
        download(RemoteFile(url=f"{address}/a", digest=None), tmp_path)

    assert "\n" not in str(caught.value)
    assert target.split(":")[0] in str(caught.value)
    assert not (tmp_path / "a").exists()


def test_redirects_never_leave_encryption() -> None:
    asked, body, headers = Request("https://site.example/a"), io.BytesIO(), HTTPMessage()

    with pytest.raises(FetchError, match=r"leads to http://site\.example/a, which is refused; only https is followed"):
        _SafeRedirects().redirect_request(asked, body, 302, "Found", headers, "http://site.example/a")
    followed = _SafeRedirects().redirect_request(asked, body, 302, "Found", headers, "https://site.example/b")
    assert followed is not None
    assert followed.full_url == "https://site.example/b"


def test_redirects_to_web_servers_are_followed(tmp_path: Path) -> None:
    with serving({"b": b"here"}) as there, serving({}, redirects={"a": f"{there}/b"}) as address:
        path = download(RemoteFile(url=f"{address}/a", digest=md5(b"here")), tmp_path)

    assert path.read_bytes() == b"here"


@pytest.mark.parametrize("url", ["file:///etc/hosts", "ftp://127.0.0.1/hosts"])
def test_other_protocols_are_not_spoken(tmp_path: Path, url: str) -> None:
    with pytest.raises(FetchError, match="unknown url type"):
        download(RemoteFile(url=url, digest=None), tmp_path)


def test_a_data_set_that_must_be_got_by_hand_says_how(tmp_path: Path) -> None:
    with pytest.raises(
        OptionError, match=r"zephyr cannot be fetched: make it from `git log`.*Fetched can be: cifar100"
    ):
        fetch("zephyr", tmp_path)
    with pytest.raises(OptionError, match="unknown data set 'fashion'; did you mean 'fashion_mnist'"):
        fetch("fashion", tmp_path)


def test_a_folder_that_cannot_be_made_is_an_output_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(OutputError, match="cannot make the folder"):
        fetch("fashion_mnist", tmp_path / "file" / "x")


def test_the_catalog_says_of_each_data_set_whether_it_can_be_fetched() -> None:
    assert {name for name, entry in CATALOG.items() if entry.fetchable} == set(RECIPES)


def test_every_recipe_names_the_digests_that_publishers_give() -> None:
    """ExtraSensory publishes none; its archive carries checksums of its own."""
    without = {name for name, one in RECIPES.items() if any(file.digest is None for file in one.files)}

    assert without == {"extrasensory"}
    assert all(
        len(file.digest.removeprefix("md5:")) == 32 and file.url.startswith("https://")
        for one in RECIPES.values()
        for file in one.files
        if file.digest
    )
    assert {RECIPES["fashion_mnist"].convert, RECIPES["cifar100"].convert} == {fashion_mnist_arrays, cifar100_arrays}
