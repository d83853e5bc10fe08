"""DataFrames, arrays and datasets that Python users have in hand, and what is said of those that will not do."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding import Pool, Trace
from fielding.errors import InputError
from fielding.traces.importers import Columns, import_csv

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
        ([1, None, 3, 4], [[1, 0], [0, 1], [3, 0], [4, 0]]),
        (pandas.array([1, None, 3, 4], dtype="Int64"), [[1, 0], [0, 1], [3, 0], [4, 0]]),
        ([True, False, True, True], [[1], [0], [1], [1]]),
        (pandas.array([True, None, True, True], dtype="boolean"), [[1, 0], [0, 1], [1, 0], [1, 0]]),
        (["b", "a", None, "b"], [[0, 1], [1, 0], [0, 0], [0, 1]]),
        (pandas.Categorical(["b", "a", None, "b"], categories=["b", "a", "c"]),
         [[1, 0, 0], [0, 1, 0], [0, 0, 0], [1, 0, 0]]),
    ],
)  # fmt: skip
def test_gaps_are_told_and_texts_become_features(column: Any, rows: list[list[float]]) -> None:
    trace = trace_of(steps(speed=column))

    assert trace.x is not None
    assert trace.x.tolist() == rows


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
def test_every_row_of_any_frame_is_a_sample_with_finite_features(rows: list[tuple[Any, ...]]) -> None:
    trace = trace_of(pandas.DataFrame(rows, columns=["phone", "when", "what", "speed"]))

    assert [trace.client_ids[at] for at in trace.client] == [row[0] for row in rows]
    assert [int(trace.classes[at]) for at in trace.y] == [row[2] for row in rows]
    seconds = [pandas.Timestamp(row[1], tz="UTC").timestamp() for row in rows]
    np.testing.assert_allclose(trace.time, seconds, atol=1e-5)
    assert trace.x is not None
    assert np.isfinite(trace.x).all()


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
