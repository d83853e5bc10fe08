"""DataFrames, arrays and datasets that Python users have in hand, and what is said of those that will not do."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fielding import Pool, Trace
from fielding.config.keys import TraceSection
from fielding.errors import InputError
from fielding.traces.importers import Columns, import_csv, import_trace
from fielding.traces.sources import deal_samples, first_samples
from fielding.traces.trace import read_trace, write_trace

pandas = pytest.importorskip("pandas", reason="pandas is not installed")


def steps(**columns: Any) -> Any:
    """Return a small DataFrame, with other columns if given."""
    return pandas.DataFrame(
        {
            "phone": ["a", "b", "a", "c"],
            "when": pandas.to_datetime(["2026-01-01", "2026-01-01", "2026-01-02", "2026-01-03"]),
            "what": ["sit", "walk", "sit", "run"],
            "speed": [0.1, 1.0, 0.0, 3.0],
            **columns,
        }
    )


def trace_of(frame: Any, **named: Any) -> Trace:
    return Trace.from_dataframe(frame, **{"client": "phone", "time": "when", "label": "what", **named})


DAY = 86400.0
GAP = np.nan  # until samples are dealt
FIRST = 1767225600.0  # 2026-01-01, UTC


def test_a_frame_is_a_trace() -> None:
    trace = trace_of(steps())

    assert trace.client_ids == ("a", "b", "c")
    assert trace.classes == ("run", "sit", "walk")
    assert trace.y.tolist() == [1, 2, 1, 0]
    assert ((trace.time - FIRST) / DAY).tolist() == [0, 0, 1, 2]
    assert trace.x is not None
    assert trace.x.tolist() == [[np.float32(0.1)], [1.0], [0.0], [3.0]]


@pytest.mark.parametrize(
    "when",
    [
        pandas.to_datetime(["2026-01-01"] * 4).tz_localize("America/New_York"),
        ["2026-01-01T05:00:00"] * 4,
        ["2026-01-01T00:00:00-05:00"] * 4,
        [FIRST + 5 * 3600] * 4,
        [int(FIRST) + 5 * 3600] * 4,
        pandas.to_datetime(["2026-01-01 05:00"] * 4).astype("datetime64[s]"),
        pandas.PeriodIndex(["2026-01-01 05:00"] * 4, freq="h"),
    ],
)
def test_dates_are_unix_seconds_however_they_are_kept(when: Any) -> None:
    assert trace_of(steps(when=when)).time.tolist() == [FIRST + 5 * 3600] * 4


def test_milliseconds_are_noticed_where_from_dataframe_is_called() -> None:
    with pytest.warns(
        UserWarning, match="when are taken for milliseconds since 1970: 2026-01-01 to 2026-01-01"
    ) as told:
        trace = trace_of(steps(when=[int(FIRST) * 1000] * 4))

    assert trace.time.tolist() == [FIRST] * 4
    assert told[0].filename == __file__


def test_days_of_the_standard_library_are_dates() -> None:
    days = [one.date() for one in pandas.to_datetime(["2026-01-01"] * 4)]

    assert trace_of(steps(when=days)).time.tolist() == [FIRST] * 4


@pytest.mark.parametrize(
    ("phone", "ids"),
    [
        ([3, 1, 3, 2], (1, 2, 3)),
        ([3.0, 1.0, 3.0, 2.0], (1, 2, 3)),
        (["3", "1", "3", "2"], (1, 2, 3)),
        (["03", "1", "3", "2"], ("03", "1", "2", "3")),
        (pandas.Categorical(["x", "y", "x", "z"]), ("x", "y", "z")),
        ([True, False, True, True], ("False", "True")),
        (pandas.array([3, 1, 3, 2], dtype="Int64"), (1, 2, 3)),
    ],
)
def test_ids_stay_numbers_or_become_texts(phone: Any, ids: tuple[object, ...]) -> None:
    assert trace_of(steps(phone=phone)).client_ids == ids


@pytest.mark.parametrize(
    ("what", "classes", "y"),
    [
        ([10, 9, 9, 10], ("9", "10"), [1, 0, 0, 1]),
        ([1.0, 0.0, 0.0, 1.0], ("0", "1"), [1, 0, 0, 1]),
        ([True, False, False, True], ("False", "True"), [1, 0, 0, 1]),
        (pandas.Categorical(["low", "high", "high", "low"], categories=["low", "middle", "high"]), ("low", "high"),
         [0, 1, 1, 0]),
    ],
)  # fmt: skip
def test_labels_are_classes_and_categories_keep_their_order(what: Any, classes: tuple[str, ...], y: list[int]) -> None:
    trace = trace_of(steps(what=what))

    assert (trace.classes, trace.y.tolist()) == (classes, y)


@pytest.mark.parametrize(
    ("column", "rows"),
    [
        ([1, None, 3, 4], [[1, 0], [GAP, 1], [3, 0], [4, 0]]),
        (pandas.array([1, None, 3, 4], dtype="Int64"), [[1, 0], [GAP, 1], [3, 0], [4, 0]]),
        (pandas.Series([1, None, 3, 4], dtype=object), [[1, 0], [GAP, 1], [3, 0], [4, 0]]),
        ([None] * 4, [[GAP, 1]] * 4),
        ([True, False, True, True], [[1], [0], [1], [1]]),
        (pandas.array([True, None, True, True], dtype="boolean"), [[1, 0], [GAP, 1], [1, 0], [1, 0]]),
        ([True, None, True, True], [[1, 0], [GAP, 1], [1, 0], [1, 0]]),
        (["b", "a", None, "b"], [[0, 1], [1, 0], [0, 0], [0, 1]]),
        (pandas.Categorical(["b", "a", None, "b"], categories=["b", "a", "c"]),
         [[1, 0, 0], [0, 1, 0], [0, 0, 0], [1, 0, 0]]),
    ],
)  # fmt: skip
def test_gaps_are_told_and_texts_become_features(column: Any, rows: list[list[float]]) -> None:
    trace = trace_of(steps(speed=column))

    assert trace.x is not None
    np.testing.assert_array_equal(trace.x, rows)


def test_a_text_is_hashed_as_in_files(tmp_path: Any) -> None:
    frame = steps(note=["sat down", "walked, fast", None, "ran"])
    frame.to_csv(tmp_path / "steps.csv", index=False)
    read = import_csv(
        tmp_path / "steps.csv",
        Columns(client="phone", time="when", label="what", features=("speed",), text="note", n_text_features=16),
    )
    made = trace_of(frame, features="speed", text="note", n_text_features=16)
    alone = trace_of(frame, text="note", n_text_features=16)

    assert made.x is not None
    assert read.x is not None
    assert alone.x is not None
    np.testing.assert_array_equal(made.x, read.x)
    assert alone.x.shape == (4, 16)


def test_levels_of_an_index_are_columns() -> None:
    trace = trace_of(steps().set_index(["phone", "when"]))

    assert trace.client_ids == ("a", "b", "c")
    assert trace.x is not None
    assert trace.x.shape == (4, 1)


def test_counts_say_how_many_samples_a_row_is() -> None:
    assert trace_of(steps(times=[1, 2, 3, 4]), features="speed", count="times").weights.tolist() == [1, 2, 3, 4]


def test_what_has_to_pandas_is_a_frame() -> None:
    class Other:
        def to_pandas(self) -> Any:
            return steps()

    assert trace_of(Other()).n_rows == 4


@pytest.mark.parametrize(
    ("frame", "named", "words"),
    [
        (steps(), {"label": "waht"}, "no column 'waht'; did you mean 'what'"),
        (steps(phone=["a", None, "b", "c"]), {}, r"'phone' is empty in row 1, .*dropna\(subset=\['phone'\]\)"),
        (steps(when=[pandas.NaT, *steps()["when"][1:]]), {}, "'when' is empty in row 0"),
        (steps(when=["2026-01-01", "soon", "2026-01-01", "2026-01-01"]), {}, "'when' in row 1: 'soon' is no date"),
        (steps(when=[True, False, True, True]), {}, "'when' holds truth values"),
        (steps(what=[1.5, 2.5, 2.5, 1.5]), {}, "'what' holds 2 different numbers such as 1.5, .* no class"),
        (pandas.concat([steps(what=[f"id {at}" for at in range(n, n + 4)]) for n in range(0, 40, 4)]), {},
         "'what' has 40 different values in 40 samples"),
        (steps(speed=[1.0, np.inf, 1.0, 1.0]), {}, "feature 'speed' in row 1 is inf"),
        (steps(speed=[[1], [2], [3], [4]]), {}, r"feature 'speed' holds \[1\]; give numbers or texts"),
        (steps(until=steps()["when"]), {}, "feature 'until' holds dates; make numbers of it"),
        (pandas.concat([steps(speed=[f"{at}" for at in range(n, n + 4)]) for n in range(0, 400, 4)]), {},
         "feature 'speed' has 400 different texts, the most is 200; give it as text="),
        (steps().iloc[:0], {}, "the DataFrame has no rows"),
        (steps(times=[1.5] * 4), {"count": "times"}, "'times' holds no whole numbers"),
        ([[1, 2]], {}, "list is no DataFrame"),
        (pandas.concat([steps(), steps()["phone"]], axis=1), {}, "has 2 columns 'phone'"),
    ],
)  # fmt: skip
def test_mistakes_name_column_row_and_remedy(frame: Any, named: dict[str, str], words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        trace_of(frame, **named)

    assert "\n" not in str(caught.value)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "c"]),
            st.datetimes(min_value=pandas.Timestamp("1980-01-01"), max_value=pandas.Timestamp("2040-01-01")),
            st.integers(0, 5),
            st.one_of(st.none(), st.floats(-1e6, 1e6)),
        ),
        min_size=1,
        max_size=30,
    )
)
def test_every_row_of_any_frame_is_a_sample_with_numbers_or_gaps(rows: list[tuple[Any, ...]]) -> None:
    trace = trace_of(pandas.DataFrame(rows, columns=["phone", "when", "what", "speed"]))

    assert [trace.client_ids[at] for at in trace.client] == [row[0] for row in rows]
    assert [int(trace.classes[at]) for at in trace.y] == [row[2] for row in rows]
    seconds = [pandas.Timestamp(row[1], tz="UTC").timestamp() for row in rows]
    np.testing.assert_allclose(trace.time, seconds, atol=1e-5)
    assert trace.x is not None
    assert np.isnan(trace.x[:, 0]).tolist() == [row[3] is None for row in rows]


NAMES = st.text(st.characters(codec="utf-8", categories=["L"]), min_size=1, max_size=3).filter(
    lambda name: name.lower() not in ("inf", "nan", "na", "nil", "true", "nul")
)
COLUMNS = st.one_of(
    st.tuples(st.just(np.float64), st.lists(st.one_of(st.none(), st.floats(-1e6, 1e6, width=32)), min_size=30)),
    st.tuples(st.just(np.int64), st.lists(st.integers(-300, 300), min_size=30)),
    st.tuples(st.just("bool"), st.lists(st.booleans(), min_size=30)),
    st.tuples(st.just(object), st.lists(st.one_of(st.none(), st.booleans()), min_size=30)),
    st.tuples(st.just(object), st.lists(st.one_of(st.none(), NAMES), min_size=30)),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(COLUMNS, min_size=1, max_size=4))
def test_a_csv_a_parquet_file_and_a_frame_of_the_same_data_give_equal_traces(
    tmp_path_factory: pytest.TempPathFactory, columns: list[tuple[Any, list[Any]]]
) -> None:
    pytest.importorskip("pyarrow", reason="Parquet needs the extra 'data'")
    folder = tmp_path_factory.mktemp("same")
    frame = pandas.DataFrame(
        {
            "phone": ["a", "b", "c"] * 10,
            "when": pandas.to_datetime("2026-01-01") + pandas.to_timedelta(np.arange(30), unit="h"),
            "what": ["sit", "walk"] * 15,
            **{f"f{at}": pandas.Series(cells[:30], dtype=dtype) for at, (dtype, cells) in enumerate(columns)},
        }
    )
    frame.to_csv(folder / "same.csv", index=False)
    frame.to_parquet(folder / "same.parquet")
    named = Columns(client="phone", time="when", label="what", features=("f*",))

    made = trace_of(frame)
    write_trace(made, folder / "same.npz")

    for name in ("same.csv", "same.parquet"):
        read = import_trace(folder / name, named)
        assert (read.client_ids, read.classes) == (made.client_ids, made.classes)
        assert [(one.kind, one.has_gaps, one.values) for one in read.columns] == [
            (one.kind, one.has_gaps, one.values) for one in made.columns
        ]
        for field in ("client", "time", "y", "x"):
            np.testing.assert_array_equal(getattr(read, field), getattr(made, field))
    again = read_trace(folder / "same.npz")
    assert again.columns == made.columns
    np.testing.assert_array_equal(again.x, made.x)


def test_a_column_with_many_numbers_and_one_text_is_told_by_its_line(tmp_path: Any) -> None:
    speeds: list[object] = [at / 10 for at in range(300)]
    speeds[141] = "fast"
    cells = "".join(f"a,{at},x,{speed}\n" for at, speed in enumerate(speeds))
    (tmp_path / "t.csv").write_text(f"client,time,label,speed\n{cells}")

    with pytest.raises(InputError, match=r"line 143, column 'speed': 'fast' is no number; .* at most 200 different"):
        import_trace(tmp_path / "t.csv", Columns(features=("speed",)))


def test_a_text_that_comes_after_many_rows_of_numbers_is_still_a_category_or_told(tmp_path: Any) -> None:
    few = ["1", "2"] * 2000 + ["two"]
    many = [str(at) for at in range(4000)] + ["two"]
    for name, cells in (("few", few), ("many", many)):
        rows = "".join(f"a,{at},x,{cell}\n" for at, cell in enumerate(cells))
        (tmp_path / f"{name}.csv").write_text(f"client,time,label,v\n{rows}")

    found = import_trace(tmp_path / "few.csv", Columns(features=("v",)))

    assert found.columns[0].values == ("1", "2", "two")
    with pytest.raises(InputError, match="line 4002, column 'v': 'two' is no number"):
        import_trace(tmp_path / "many.csv", Columns(features=("v",)))


def test_a_gap_becomes_the_mean_of_what_clients_know_at_the_start() -> None:
    pulse = np.where(np.arange(400) % 2, 80.0, 60.0)
    pulse[300:] = 500.0  # what is to come tells nothing of gaps
    pulse[[20, 350]] = np.nan
    frame = pandas.DataFrame({"phone": ["a", "b"] * 200, "when": np.arange(400.0), "what": [0, 0, 1, 1] * 100})
    trace = trace_of(frame.assign(pulse=pulse))
    section = TraceSection(interval="50s", gap=5, window=20, block="none")

    plain = deal_samples(section, rounds=10, seed=1, source=trace)
    scaled = deal_samples(replace(section, standardize=True), rounds=10, seed=1, source=trace)

    first = plain.pool.x[first_samples(plain), 0]
    gaps = np.flatnonzero(plain.pool.x[:, 1])
    np.testing.assert_allclose(plain.pool.features(gaps)[:, 0], np.nanmean(first))
    np.testing.assert_allclose(scaled.pool.features(gaps)[:, 0], 0.0, atol=1e-6)
    assert np.isfinite(scaled.pool.features(np.arange(400))).all()


class Pairs:
    """A dataset as PyTorch has them: pairs by position."""

    def __init__(self, pairs: list[tuple[Any, Any]]) -> None:
        self._pairs = pairs

    def __len__(self) -> int:
        return len(self._pairs)

    def __getitem__(self, at: int) -> tuple[Any, Any]:
        return self._pairs[at]


def test_arrays_are_a_pool() -> None:
    pool = Pool.from_arrays(np.zeros((3, 4, 4), dtype=np.uint8), ["b", "a", "b"])

    assert (pool.classes, pool.y.tolist(), pool.shape, pool.is_image) == (("a", "b"), [1, 0, 1], (4, 4), True)
    assert Pool.from_arrays([1.0, 2.0], [0, 1], classes=["no", "yes"]).classes == ("no", "yes")


def test_images_of_pytorch_get_their_channels_last() -> None:
    torch = pytest.importorskip("torch")
    colour = Pool.from_dataset(
        Pairs([(torch.arange(48.0).reshape(3, 4, 4), torch.tensor(1)), (torch.zeros(3, 4, 4), 0)])
    )
    grey = Pool.from_dataset(torch.utils.data.TensorDataset(torch.zeros(5, 1, 8, 8), torch.arange(5)))

    assert (colour.shape, grey.shape) == ((4, 4, 3), (8, 8))
    assert colour.features(np.array([0]))[0, 0, 1].tolist() == [1.0, 17.0, 33.0]


def test_columns_of_hugging_face_are_found_by_what_they_hold() -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {
            "idx": datasets.Value("int64"),
            "text": datasets.Value("string"),
            "mood": datasets.ClassLabel(names=["bad", "good"]),
        }
    )
    texts = datasets.Dataset.from_dict(
        {"idx": [0, 1], "text": ["so so", "very good"], "mood": [0, 1]}, features=features
    )
    numbers = datasets.Dataset.from_dict({"x": [[1.0, 2.0], [3.0, 4.0]], "label": [7, 3]})

    pool = Pool.from_dataset(texts, n_text_features=8)
    assert (pool.classes, pool.y.tolist(), pool.shape) == (("bad", "good"), [0, 1], (8,))
    pool = Pool.from_dataset(numbers)
    assert (pool.classes, pool.y.tolist(), pool.shape) == (("3", "7"), [1, 0], (2,))
    with pytest.raises(InputError, match=r"which column is the label\? Give y= one of: x, w"):
        Pool.from_dataset(datasets.Dataset.from_dict({"x": [[1.0]], "w": [3]}))
    with pytest.raises(InputError, match=r"which column holds the features\? Give x= one of: a, b"):
        Pool.from_dataset(datasets.Dataset.from_dict({"a": [1.0], "b": [2.0], "label": [3]}))
    with pytest.raises(InputError, match=r"dict of datasets; give one of them, for example \['train'\]"):
        Pool.from_dataset(datasets.DatasetDict({"train": numbers}))


def test_images_of_hugging_face_are_decoded() -> None:
    datasets, pil = pytest.importorskip("datasets"), pytest.importorskip("PIL.Image")
    images = [pil.fromarray(np.full((4, 5, 3), shade, dtype=np.uint8)) for shade in (0, 255)]
    pool = Pool.from_dataset(
        datasets.Dataset.from_dict({"image": images, "label": [0, 1]}, features=datasets.Features(
            {"image": datasets.Image(), "label": datasets.ClassLabel(names=["dark", "light"])}))
    )  # fmt: skip

    assert (pool.shape, pool.classes) == ((4, 5, 3), ("dark", "light"))
    assert pool.features(np.array([0, 1])).mean(axis=(1, 2, 3)).tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("dataset", "words"),
    [
        (Pairs([]), "the dataset is empty"),
        (Pairs([(np.zeros(3), 0), (np.zeros(4), 1)]), r"samples have shape \(3,\) and \(4,\); bring all to one shape"),
        ([3, 4], r"item 0 of the dataset is 3; make it \(features, label\)"),
        (Pairs([(object(), 0)]), "features must be numbers, images or texts"),
        (Pairs([(np.zeros(3), 0.5)]), "is a quantity and no class"),
    ],
)
def test_datasets_that_will_not_do_are_told_in_a_line(dataset: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Pool.from_dataset(dataset)


def test_items_that_are_mappings_are_asked_by_name() -> None:
    pool = Pool.from_dataset([{"pixels": [1, 2], "kind": "x", "id": 5}, {"pixels": [3, 4], "kind": "y", "id": 6}],
                             x="pixels", y="kind")  # fmt: skip

    assert (pool.classes, pool.x.tolist()) == (("x", "y"), [[1, 2], [3, 4]])
