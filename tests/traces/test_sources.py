"""What a trace section of a config opens: own files, lists of images, features on any scale."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fielding._typing import Json
from fielding.config.keys import TraceSection
from fielding.errors import FileFormatError, InputError
from fielding.simulation.experiment import run
from fielding.traces.pool import Pool
from fielding.traces.sources import deal_samples, first_samples, sort_samples
from fielding.traces.trace import Trace
from tests.simulation.run_cases import small_pool, small_trace, table
from tests.traces.pictures import paint


def write_rides(path: Path, *, n_rows: int = 1200, delimiter: str = ",") -> Path:
    """Write who did what at which heart rate and speed; only the speed tells what."""
    rng = np.random.default_rng(4)
    lines = [delimiter.join(("client", "time", "label", "heart", "speed", "remark"))]
    for row in range(n_rows):
        what = int(rng.integers(2))
        values = (row % 6, row * 300, ("walk", "run")[what], rng.normal(800.0, 150.0), rng.normal(1.0 + what, 0.2), "x")
        lines.append(delimiter.join(map(str, values)))
    path.write_text("\n".join(lines))
    return path


def rides(path: Path, **more: Json) -> dict[str, Json]:
    own: dict[str, Json] = {"file": str(path), "features": "heart,speed", "interval": "6h", "gap": 2, "window": 4}
    config = table(rounds=12, training={"local_steps": 10, "learning_rate": 0.05}) | {"trace": {**own, **more}}
    return config | {"model": {"name": "softmax"}}


def test_standardizing_rescues_training_on_columns_of_different_scale(tmp_path: Path) -> None:
    path = write_rides(tmp_path / "rides.csv")
    accuracy = {scaled: run(rides(path, standardize=scaled)).column("accuracy")[1][-1] for scaled in (False, True)}

    assert accuracy[False] < 0.75
    assert accuracy[True] > 0.9


def test_a_user_who_does_not_standardize_is_told(tmp_path: Path) -> None:
    path = write_rides(tmp_path / "rides.csv")
    section = TraceSection(file=str(path), features="heart,speed", interval="6h", gap=2, window=4)

    (note,) = deal_samples(section, rounds=4, seed=1).notes

    assert "feature 1 of 2 lies around 81" in note
    assert deal_samples(replace(section, standardize=True), rounds=4, seed=1).notes == ()
    assert deal_samples(replace(section, features="speed"), rounds=4, seed=1).notes == ()


def test_only_training_samples_of_the_start_shape_the_scale() -> None:
    trace = sort_samples(small_trace())  # so that rows keep their places
    section = TraceSection(interval="1d", gap=2, window=4, standardize=True)
    dealt = deal_samples(section, rounds=4, seed=1, source=trace)
    known = first_samples(dealt)
    assert trace.x is not None
    changed = trace.x.copy()
    changed[np.setdiff1d(np.arange(trace.n_rows), known)] *= 1000.0

    again = deal_samples(section, rounds=4, seed=1, source=replace(trace, x=changed))

    assert 0 < known.size < trace.n_rows
    assert not dealt.pool.is_test()[known].any()
    assert dealt.schedule.interval[np.isin(dealt.schedule.sample, known)].max() == 1
    assert (again.pool.features(known) == dealt.pool.features(known)).all()
    assert dealt.pool.features(known).mean(axis=0) == pytest.approx(np.zeros(4), abs=1e-6)


def test_looks_are_made_for_standardized_features_and_nothing_else_changes() -> None:
    pool = small_pool()
    large = Pool(x=np.asarray(pool.x) * 1000.0 + 5000.0, y=pool.y, classes=pool.classes)
    section = TraceSection(scenario="covariate", clients=8, gap=2, window=4, options={"share": 0.5})

    plain = deal_samples(section, rounds=8, seed=1, source=large)
    scaled = deal_samples(replace(section, standardize=True), rounds=8, seed=1, source=large)

    assert (scaled.schedule.sample == plain.schedule.sample).all()
    assert (scaled.schedule.look == plain.schedule.look).all()
    seen = scaled.schedule.looks[1].apply(scaled.pool.features(np.arange(len(pool))))
    assert np.abs(seen).max() < 10.0


def paint_all(folder: Path) -> None:
    for name in ("one.png", "two.png", "three.png", "four.png"):
        paint(folder / name)


@pytest.fixture
def pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pytest.importorskip("PIL", reason="images need the extra 'images'")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    paint_all(tmp_path / "set")
    return tmp_path / "set"


def test_a_list_of_images_may_have_any_name(pictures: Path) -> None:
    listed = pictures / "which.csv"
    listed.write_text("file,label\none.png,a\ntwo.png,b\nthree.png,a\nfour.png,b\n")
    section = TraceSection(file=str(listed), clients=3, gap=1, window=1, image_size=4)

    dealt = deal_samples(section, rounds=2, seed=1)

    assert (len(dealt.pool), dealt.pool.shape, dealt.pool.classes) == (4, (4, 4, 3), ("a", "b"))


def test_a_list_with_clients_and_times_may_have_columns_of_any_name(pictures: Path) -> None:
    listed = pictures / "which.csv"
    listed.write_text("file,what,who,when\none.png,a,x,0\ntwo.png,b,y,10\nthree.png,a,x,20\nfour.png,b,y,30\n")
    section = TraceSection(
        file=str(listed), client="who", time="when", label="what", interval="10s", gap=1, window=1, image_size=4
    )

    dealt = deal_samples(section, rounds=3, seed=1)

    assert dealt.schedule.client_ids == ("x", "y")
    assert dealt.schedule.n_intervals == 4
    with pytest.raises(FileFormatError, match="has no column 'whom'; did you mean 'who'"):
        deal_samples(replace(section, client="whom"), rounds=3, seed=1)


def test_a_column_called_file_is_a_column_like_any_other_beside_named_features(tmp_path: Path) -> None:
    path = tmp_path / "commits.csv"
    path.write_text("file,label,client,time,size\na.c,x,1,0,5\nb.c,y,1,10,7\n")
    section = TraceSection(file=str(path), features="size", interval="10s", gap=1, window=1)

    assert deal_samples(section, rounds=1, seed=1).pool.x.tolist() == [[5.0], [7.0]]


def test_a_csv_without_named_features_tells_what_could_be_named(tmp_path: Path) -> None:
    section = TraceSection(file=str(write_rides(tmp_path / "rides.csv", n_rows=3)), interval="6h")

    with pytest.raises(InputError) as caught:
        deal_samples(section, rounds=1, seed=1)

    for words in ("trace.features", "trace.text", "at hand: 'heart', 'speed', 'remark'"):
        assert words in str(caught.value)
    (tmp_path / "bare.csv").write_text("client,time,label\n")
    with pytest.raises(InputError, match="at hand: none"):
        deal_samples(replace(section, file=str(tmp_path / "bare.csv")), rounds=1, seed=1)


def test_cells_may_be_separated_by_semicolons(tmp_path: Path) -> None:
    named = {"features": "heart,speed", "interval": "6h", "gap": 2, "window": 4}
    pools = [
        deal_samples(
            TraceSection(file=str(write_rides(tmp_path / "rides.csv", n_rows=300, delimiter=mark)), **named),  # type: ignore[arg-type]
            rounds=2,
            seed=1,
        ).pool
        for mark in (",", ";", "\t")
    ]

    assert (pools[1].x == pools[0].x).all()
    assert (pools[2].x == pools[0].x).all()


def test_own_traces_without_features_are_refused_as_before() -> None:
    bare: Trace = replace(small_trace(), x=None)

    with pytest.raises(InputError, match="labels but no features"):
        deal_samples(TraceSection(interval="1d", gap=2, window=4), rounds=2, seed=1, source=bare)
