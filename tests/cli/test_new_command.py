"""`fielding new` from a user's seat: it looks, says what it saw, and writes a config that runs."""

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest

from fielding.config.reader import read_config
from tests.cli.in_process import Command

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def fielding(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Command(monkeypatch, capsys)


def visits(n_days: int = 24) -> dict[str, list[object]]:
    """Return what 6 people do, by pulse and speed: half of them have a pulse of their own, and habits change."""
    rng = np.random.default_rng(1)
    found: dict[str, list[object]] = {"userId": [], "event_ts": [], "activity": [], "pulse": [], "speed": []}
    for day in range(n_days):
        for user in range(6):
            for hour in range(24):
                usual = (user + day // 10) % 3
                does = usual if rng.random() < 0.7 else int(rng.integers(3))
                found["userId"].append(f"u{user}")
                found["event_ts"].append(1_700_000_000_000 + (day * 24 + hour) * 3_600_000)
                found["activity"].append(("walk", "run", "sit")[does])
                found["pulse"].append(round((95, 140, 65)[does] + 20 * (user % 2) + 10 * rng.normal(), 1))
                found["speed"].append(round((1.2, 3.0, 0.1)[does] + 0.4 * rng.normal(), 2))
    return found


def write_csv(path: Path, columns: dict[str, list[object]]) -> None:
    rows = (",".join(map(str, cells)) for cells in zip(*columns.values(), strict=True))
    path.write_text("\n".join([",".join(columns), *rows]))


def test_a_csv_file_becomes_a_config_that_runs_as_it_is(fielding: Command, tmp_path: Path) -> None:
    write_csv(tmp_path / "visits.csv", visits())

    assert fielding("new", "visits.csv") == 0

    first, drift, kind, grouping, wrote = fielding.out.splitlines()
    assert first.startswith("visits.csv: 6 clients, 3 classes, 3,456 samples, 2023-11-14 22:13 UTC to ")
    assert drift.startswith("does it drift beyond sampling noise? yes: label shares move by")
    assert kind.startswith("in which way? over time label mixes change")
    assert grouping.startswith("does grouping look worthwhile? ")
    assert wrote == "wrote visits.toml; run it: fielding run visits.toml"
    assert "taken for milliseconds since 1970" in fielding.err
    text = Path("visits.toml").read_text()
    assert f"# {drift}" in text
    table = tomllib.loads(text)
    assert table["trace"] | {"client": "userId", "time": "event_ts", "label": "activity"} == table["trace"]
    assert table["trace"]["features"] == "pulse,speed"
    assert table["trace"]["standardize"] is True
    assert table["trace"]["interval"] == "1d"

    assert fielding("run", "visits.toml", "--no-page", "--json") == 0
    summary = json.loads(fielding.out)
    assert summary["n_rounds"] == table["rounds"]
    assert summary["final_next_accuracy"] > 0.7, "the last interval is left to be tested on"
    assert "the trace ends with the run" not in fielding.err


def test_gaps_are_filled_and_categories_spread_out_and_the_terminal_says_so(fielding: Command, tmp_path: Path) -> None:
    columns = visits(12)
    n_rows = len(columns["pulse"])
    columns["pulse"] = ["" if at % 20 == 0 else one for at, one in enumerate(columns["pulse"])]
    columns["weather"] = [("rain", "sun", "NA")[at % 3] for at in range(n_rows)]
    columns["session"] = [f"s{at}" for at in range(n_rows)]
    write_csv(tmp_path / "v.csv", columns)

    assert fielding("new", "v.csv") == 0

    lines = fielding.out.splitlines()
    how = "by the mean of what is known at the start, and told by one more feature"
    assert lines[1] == f"gaps filled {how}: 'pulse' (5 % of the rows)"
    assert lines[2] == "spread out, a feature per value: 'weather' (rain, sun)"
    assert lines[3] == "left out: session (1,728 different texts)"
    text = Path("v.toml").read_text()
    assert all(f"# {line}" in text for line in lines[1:4])
    assert tomllib.loads(text)["trace"]["features"] == "pulse,speed,weather"

    assert fielding("run", "v.toml", "--no-page", "--json", "--set", "rounds=4") == 0
    assert lines[1] in fielding.err, "the run says so, too"
    assert json.loads((next(Path("runs").glob("*")) / "manifest.json").read_text())["input_shape"] == [5]


def test_rules_that_differ_between_clients_and_swap_once_are_seen(fielding: Command, tmp_path: Path) -> None:
    rng, columns = (
        np.random.default_rng(7),
        {name: list[object]() for name in ("device", "time", "heart", "tilt", "was")},
    )
    for at in range(24 * 420):
        client, day = at % 24, at // 24 // 7
        heart, tilt = rng.normal(size=2)
        swapped = (client % 2) ^ (day >= 30 and client % 4 >= 2)
        score = (-heart + 0.7 * tilt if swapped else heart + 0.7 * tilt) + 0.4 * rng.normal()
        cells = (f"c{client}", day, 70 + 12 * heart, tilt, "low" if score < -0.5 else "high" if score > 0.7 else "mid")
        for name, cell in zip(columns, cells, strict=True):
            columns[name].append(cell)
    write_csv(tmp_path / "v.csv", columns)

    assert fielding("new", "v.csv", "--interval", "3", "--label", "was") == 0

    _, drift, kind, grouping, _ = fielding.out.splitlines()
    assert drift.startswith("does it drift beyond sampling noise? yes: meanings of labels change; label shares")
    assert kind == "in which way? over time meanings of labels change; between clients meanings of labels differ"
    assert grouping.startswith("does grouping look worthwhile? yes: meanings of labels differ between clients")
    assert read_config(Path("v.toml")).coordinator.representation == "auto"

    assert fielding("new", "v.csv", "--label", "was", "--force", "--json", "-q") == 0
    by_new = json.loads(fielding.out)
    named = ("--client", "device", "--label", "was", "--features", "heart,tilt")
    assert fielding("data", "info", "v.csv", *named, "--json", "-q") == 0
    by_info = json.loads(fielding.out)
    assert all(by_info[name] == by_new[name] for name in ("verdict", "kinds", "grouping", "advice"))


def test_where_clients_do_not_differ_one_model_is_served_with_experts(fielding: Command, tmp_path: Path) -> None:
    columns = visits(12)
    rng = np.random.default_rng(1)
    n_rows = len(columns["pulse"])
    does = rng.integers(0, 3, n_rows)
    columns["activity"] = [("walk", "run", "sit")[one] for one in does]
    columns["pulse"] = [round(float(one), 1) for one in np.array([95, 140, 65])[does] + 10 * rng.normal(size=n_rows)]
    columns["speed"] = [round(float(one), 2) for one in np.array([1.2, 3.0, 0.1])[does] + 0.4 * rng.normal(size=n_rows)]
    write_csv(tmp_path / "v.csv", columns)

    assert fielding("new", "v.csv", "--json", "-q") == 0

    config = read_config(Path("v.toml"))
    assert json.loads(fielding.out)["grouping"].startswith("no: ")
    assert (config.method.name, config.serving.experts) == ("global", "auto")
    assert fielding("run", "v.toml", "--no-page", "--quiet", "--set", "rounds=2") == 0


def test_every_guess_can_be_overruled(fielding: Command, tmp_path: Path) -> None:
    columns = visits(12)
    write_csv(tmp_path / "v.csv", {**columns, "town": [f"t{one}" for one in columns["userId"]]})

    options = ("--client", "town", "--features", "speed", "--interval", "12h", "--out", "mine.toml", "--json", "-q")
    assert fielding("new", "v.csv", *options) == 0

    told, table = json.loads(fielding.out), tomllib.loads(Path("mine.toml").read_text())
    assert told["columns"] == {
        "client": "town",
        "time": "event_ts",
        "label": "activity",
        "text": None,
        "features": ["speed"],
    }
    assert told["left_out"] == {"userId": "not named", "pulse": "not named"}
    assert (table["trace"]["client"], table["trace"]["features"]) == ("town", "speed")
    assert table["trace"]["interval"] == told["interval"] == "12h"
    assert fielding.err == ""


def test_a_parquet_file_becomes_the_same_config(fielding: Command, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="Parquet needs the extra 'data'")
    from pyarrow import parquet

    columns = visits(12)
    write_csv(tmp_path / "v.csv", columns)
    parquet.write_table(pyarrow.table(columns), tmp_path / "v.parquet")

    assert fielding("new", "v.csv", "--out", "a.toml") == 0
    assert fielding("new", "v.parquet", "--out", "b.toml") == 0

    csv, arrow = (tomllib.loads(Path(name).read_text()) for name in ("a.toml", "b.toml"))
    assert arrow["trace"].pop("file") == "v.parquet"
    assert csv["trace"].pop("file") == "v.csv"
    assert csv == arrow
    assert fielding("run", "b.toml", "--no-page", "--quiet", "--set", "rounds=2") == 0


def test_arrays_without_clients_are_dealt_by_a_scenario(fielding: Command, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, 400)
    np.savez(tmp_path / "pool.npz", x=rng.normal(size=(400, 4)) + y[:, None], y=y)

    assert fielding("new", "pool.npz") == 0

    assert fielding.out.startswith("pool.npz: 400 samples of 3 classes, no clients\n")
    assert read_config(Path("pool.toml")).trace.scenario == "mixed"
    assert fielding("run", "pool.toml", "--no-page", "--quiet", "--set", "rounds=2") == 0


@pytest.mark.parametrize("layout", ["client", "class"])
def test_folders_of_images_become_configs(fielding: Command, tmp_path: Path, layout: str) -> None:
    pytest.importorskip("PIL", reason="images need the extra 'images'")
    from tests.traces.pictures import paint

    for at in range(120):
        client = f"p{at % 3}/" if layout == "client" else ""
        paint(tmp_path / "set" / f"{client}{'ab'[at // 3 % 2]}" / f"IMG_{at}.png", (100 + 50 * (at // 3 % 2),) * 3)

    assert fielding("new", "set") == 0
    assert "note: " in fielding.err
    config = read_config(Path("set.toml"))
    assert config.trace.scenario == ("mixed" if layout == "class" else None)
    assert fielding("run", "set.toml", "--no-page", "--quiet", "--set", "rounds=2") == 0


def test_folders_of_clients_are_refused_by_new_and_by_run(fielding: Command, tmp_path: Path) -> None:
    pytest.importorskip("PIL", reason="images need the extra 'images'")
    from tests.traces.pictures import paint

    for client in range(4):
        for at in range(20):
            paint(tmp_path / "set" / f"user_{client}" / f"{at}.png", (10 * client,) * 3)
    Path("c.toml").write_text('rounds = 2\ntrace = {file = "set", clients = 8}\ntraining = {participants = 4}\n')

    for command in (("new", "set"), ("run", "c.toml"), ("data", "info", "set")):
        assert "are called like clients, not like classes" in fielding.refuses(*command)
    assert not Path("set.toml").exists()

    assert fielding("run", "c.toml", "--no-page", "--quiet", "--set", "trace.layout=class/image") == 0


def test_data_that_cannot_be_trained_on_get_no_config(fielding: Command, tmp_path: Path) -> None:
    days: list[object] = ["2024-01-01", "2024-01-02", "2024-01-03"]
    write_csv(tmp_path / "tiny.csv", {"day": days, "who": ["a", "b", "a"], "sold": [*"xyx"], "price": [1, 2.5, 3]})

    words = fielding.refuses("new", "tiny.csv", "--client", "who", "--label", "sold", "--time", "day")

    assert "no client has a sample to train on in the first 3 intervals of 6h; give more samples" in words
    assert not Path("tiny.toml").exists()


def test_nothing_is_written_over_without_force(fielding: Command, tmp_path: Path) -> None:
    write_csv(tmp_path / "v.csv", visits(12))
    Path("v.toml").write_text("# mine\n")

    assert "v.toml is there already; add --force to write over it" in fielding.refuses("new", "v.csv")
    assert Path("v.toml").read_text() == "# mine\n"

    assert fielding("new", "v.csv", "--force", "--quiet") == 0
    assert fielding.out == ""
    assert read_config(Path("v.toml")).trace.file == "v.csv"


def test_examples_are_written_by_name(fielding: Command) -> None:
    assert fielding("new", "--example", "digits_places") == 0

    assert Path("digits_places.toml").read_text() == (ROOT / "examples/configs/digits_places.toml").read_text()
    assert "Known: cifar_buckets, digits_auto, digits_places" in fielding.refuses("new", "--example", "digit")
    assert "is there already" in fielding.refuses("new", "--example", "digits_places")


def test_the_wheel_takes_the_examples_along() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]

    assert included["examples/configs"] == "fielding/cli/configs"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "give the data to look at, or --example NAME"),
        (("v.csv", "--example", "zephyr"), "give the data to look at, or --example NAME"),
        (("gone.csv",), "there is no file or folder 'gone.csv'"),
        (("digits",), "digits is a known data set"),
        (("v.csv", "--label", "pulse"), "label 'pulse' has"),
        (("v.csv", "--client", "user"), "has no column 'user'"),
        (("v.csv", "--interval", "soon"), "'soon' is no length of time"),
        (("v.csv", "--features", "activity"), "which column says which class? name it with --label; there are: "),
    ],
)
def test_mistakes_are_one_line_and_write_nothing(
    fielding: Command, tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    write_csv(tmp_path / "v.csv", visits(12))

    assert fielding("new", *arguments) == 2

    assert words in fielding.err.splitlines()[-1]
    assert fielding.err.splitlines()[-1].startswith("error: ")
    assert list(tmp_path.glob("*.toml")) == []
