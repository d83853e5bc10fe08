import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from fielding.cli.data import fetch_command, list_data
from fielding.traces.catalog import CATALOG, fetching
from fielding.traces.catalog.fetching import FetchError, Recipe, RemoteFile
from tests.traces.catalog.publishing import fashion_files, md5, serving

app = typer.Typer()
app.command("list")(list_data)
app.command("fetch")(fetch_command)
runner = CliRunner(env={"COLUMNS": "120", "NO_COLOR": "1", "no_proxy": "127.0.0.1"})


def test_the_list_tells_what_is_here_and_how_to_get_the_rest(tmp_path: Path) -> None:
    (tmp_path / "fashion_mnist.npz").write_text("")

    done = runner.invoke(app, ["list", "--data", str(tmp_path)])

    assert done.exit_code == 0
    rows = {line.split()[0]: line.split() for line in done.stdout.splitlines()[2 : 2 + len(CATALOG)]}
    assert rows["digits"] == ["digits", "pool", "yes", "1,797", "-", "10"]
    assert rows["fashion_mnist"][2] == "yes"
    assert rows["cifar100"] == ["cifar100", "pool", "no", "60,000", "-", "100"]
    assert str(tmp_path) in done.stdout
    assert CATALOG["cifar100"].how_to_get in done.stdout
    assert CATALOG["fashion_mnist"].how_to_get not in done.stdout


def test_the_list_is_there_for_programs(tmp_path: Path) -> None:
    done = runner.invoke(app, ["list", "--data", str(tmp_path), "--json"])
    told = json.loads(done.stdout)
    sets = {one["name"]: one for one in told["sets"]}

    assert told["folder"] == str(tmp_path)
    assert list(sets) == list(CATALOG)
    assert (sets["digits"]["here"], sets["zephyr"]["here"]) == (True, False)
    assert (sets["zephyr"]["last"], sets["zephyr"]["most_active"]) == ("1050d", 302)
    assert (sets["extrasensory"]["interval"], sets["extrasensory"]["align"]) == ("6h", "client")
    assert sets["digits"]["interval"] is None


def test_a_data_set_is_fetched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = fashion_files()
    with serving(pages) as address:
        files = tuple(RemoteFile(url=f"{address}/{name}", digest=md5(raw)) for name, raw in pages.items())
        recipe = Recipe(files=files, convert=fetching.RECIPES["fashion_mnist"].convert)
        monkeypatch.setitem(fetching.RECIPES, "fashion_mnist", recipe)
        monkeypatch.setenv("FIELDING_DATA", str(tmp_path))

        first = runner.invoke(app, ["fetch", "fashion_mnist", "--json"])

    assert first.exit_code == 0, first.output
    written = tmp_path / "fashion_mnist.npz"
    assert json.loads(first.stdout) == {"file": str(written), "bytes": written.stat().st_size, "fetched": True}
    again = runner.invoke(app, ["fetch", "fashion_mnist", "--to", str(tmp_path)])
    assert again.exit_code == 0
    assert "is there already" in again.stdout


def test_off_line_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = (RemoteFile(url="http://no-such-host.invalid/a.gz", digest=None),)
    recipe = Recipe(files=files, convert=fetching.RECIPES["fashion_mnist"].convert)
    monkeypatch.setitem(fetching.RECIPES, "fashion_mnist", recipe)

    done = runner.invoke(app, ["fetch", "fashion_mnist", "--to", str(tmp_path / "new")])

    assert isinstance(done.exception, FetchError)
    assert list(tmp_path.iterdir()) == []
