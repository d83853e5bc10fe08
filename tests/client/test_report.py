import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fielding.client import report as report_module
from fielding.client.report import (
    LONGEST_ID,
    ClientReport,
    ReportBatch,
    checked_batch,
    checked_id,
    checked_ids,
    checked_rows,
    id_order,
    row_chunks,
    silent_rows,
)
from fielding.distance import Kind
from fielding.errors import ReportError


def rows_of(representations: object, *, kind: Kind = "histogram", width: int | None = None) -> np.ndarray:
    return checked_rows(representations, 1, kind=kind, width=width)


def test_report_holds_what_a_client_tells_and_no_more() -> None:
    report = ClientReport(client_id="a", representation=np.array([1.0]))

    assert (report.client_id, report.n_samples, report.label_version) == ("a", 0, None)
    with pytest.raises(AttributeError):
        report.n_samples = 3  # type: ignore[misc]


@pytest.mark.parametrize("good", ["zone 17", "é", "x" * LONGEST_ID, 0, -5, 2**63 - 1, -(2**63)])
def test_fit_id_is_returned_as_it_is(good: int | str) -> None:
    assert checked_id(good) == good


def test_id_from_numpy_becomes_a_plain_one() -> None:
    assert type(checked_id(np.int32(7))) is int
    assert type(checked_id(np.str_("a"))) is str


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("", "has 0 characters; give it 1 to 1024"),
        ("x" * 1_000_000, "has 1000000 characters"),
        ("a\nb", "has control characters"),
        ("\ud800", "has control characters"),
        (2**63, "does not fit 64 bits; use a text id instead"),
        (True, "is of type bool"),
        (np.True_, "is of type bool"),
        (1.0, "is of type float; use a whole number or a text"),
        (None, "is of type NoneType"),
        ([1], "is of type list"),
        (b"a", "is of type bytes"),
    ],
)
def test_unfit_id_is_refused_in_one_short_line(bad: object, message: str) -> None:
    with pytest.raises(ReportError, match=message) as caught:
        checked_id(bad)

    assert len(str(caught.value)) < 200
    assert "\n" not in str(caught.value)


def test_ids_of_two_types_are_refused() -> None:
    with pytest.raises(ReportError, match="mix whole numbers and texts"):
        checked_ids([1, "1"])


def test_client_that_reports_twice_is_named() -> None:
    with pytest.raises(ReportError, match="client 'a' reports twice in one batch"):
        checked_ids(["a", "b", "c", "b", "a"])


def test_no_reports_are_a_fit_batch() -> None:
    batch = checked_batch(ReportBatch(client_ids=[], representations=np.empty((0, 3))), kind="histogram", width=3)

    assert len(batch.client_ids) == 0
    assert batch.representations.shape == (0, 3)


def test_fit_batch_keeps_ids_rows_and_version() -> None:
    batch = checked_batch(
        ReportBatch(client_ids=np.array([3, 1]), representations=[[1, 0], [0, 0]], label_version=4),  # type: ignore[arg-type]
        kind="histogram",
        width=2,
    )

    assert batch.client_ids == [3, 1]
    assert {type(client_id) for client_id in batch.client_ids} == {int}
    assert batch.representations.tolist() == [[1.0, 0.0], [0.0, 0.0]]
    assert batch.representations.dtype == np.float64
    assert batch.label_version == 4


@pytest.mark.parametrize("ids", ["ab", b"ab", 5, None, {1: 2}, iter([1])])
def test_ids_that_are_no_list_are_refused(ids: object) -> None:
    batch = ReportBatch(client_ids=ids, representations=np.eye(2))  # type: ignore[arg-type]

    with pytest.raises(ReportError, match="give a list with one id per report"):
        checked_batch(batch, kind="histogram", width=2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_float_rows_are_not_copied(dtype: type) -> None:
    rows: np.ndarray = np.array([[0.5, 0.5]], dtype=dtype)

    assert checked_rows(rows, 1, kind="histogram", width=2) is rows


@pytest.mark.parametrize("kind", ["histogram", "vector"])
def test_row_of_zeros_is_fit_it_says_that_the_client_went_silent(kind: Kind) -> None:
    assert rows_of([[0.0, 0.0]], kind=kind).tolist() == [[0.0, 0.0]]


def test_shares_may_be_rounded_for_a_text_file() -> None:
    assert rows_of([[0.333, 0.333, 0.333]]).shape == (1, 3)
    with pytest.raises(ReportError, match=r"sums to 0\.99, not to 1; divide the counts by their sum"):
        rows_of([[0.33, 0.33, 0.33]])


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([[np.nan, 1.0]], "row 0 holds nan at position 0; every number must be finite"),
        ([[0.0, -np.inf]], "row 0 holds -inf at position 1"),
        ([[1e39, 0.0]], r"row 0 holds 1e\+39 at position 0"),
        ([["a", "b"]], "hold <U1 values such as \\['a'\\]; send numbers"),
        ([[None, 1.0]], "send numbers"),
        ([[True, False]], "send numbers"),
        ([[1 + 1j, 0]], "send numbers"),
        ([[0.5], [0.5, 0.1]], "are not a matrix of numbers"),
        ([0.5, 0.5], "have shape"),
        (np.empty((1, 0)), "have shape"),
        (np.zeros((2, 2)), r"for 1 clients it must be \(1, n_features\)"),
        (np.zeros((1, 1, 1)), "have shape"),
        (None, "send numbers"),
    ],
)
@pytest.mark.parametrize("kind", ["histogram", "vector"])
def test_what_is_no_matrix_of_finite_numbers_is_refused(bad: object, message: str, kind: Kind) -> None:
    with pytest.raises(ReportError, match=message):
        rows_of(bad, kind=kind)


def test_histogram_has_no_negative_share_but_a_vector_may() -> None:
    with pytest.raises(ReportError, match="negative share -1; shares are counts divided by their sum"):
        rows_of([[-1.0, 2.0]])
    assert rows_of([[-1.0, 2.0]], kind="vector").tolist() == [[-1.0, 2.0]]


def test_counts_are_no_histogram_but_a_vector() -> None:
    with pytest.raises(ReportError, match="sums to 7, not to 1"):
        rows_of([[3, 4]])
    assert rows_of([[3, 4]], kind="vector").tolist() == [[3.0, 4.0]]


def test_representation_of_another_length_is_refused() -> None:
    with pytest.raises(ReportError, match="have 3 numbers but 2 are expected; a longer class list needs"):
        rows_of([[1.0, 0.0, 0.0]], width=2)


def test_bad_row_is_named_by_its_place_in_the_whole_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_module, "row_chunks", lambda n_rows: row_chunks(n_rows, 2))
    rows = np.eye(5)
    rows[4, 0] = 3.0

    with pytest.raises(ReportError, match="row 4 sums to 4"):
        checked_rows(rows, 5, kind="histogram", width=5)


@given(
    hnp.arrays(np.float64, (3, 2), elements=st.floats(allow_nan=True, allow_infinity=True)),
    st.sampled_from(["histogram", "vector"]),
)
def test_any_matrix_is_taken_as_it_is_or_refused_and_never_edited(rows: np.ndarray, kind: Kind) -> None:
    before = rows.copy()
    limit = np.finfo(np.float32).max
    is_fit = bool((np.abs(rows) <= limit).all())
    if kind == "histogram" and is_fit:
        sums = rows.sum(axis=1)
        is_fit = bool((rows >= 0).all() and ((np.abs(sums - 1) <= 1e-3) | (sums == 0)).all())
    batch = ReportBatch(client_ids=[1, 2, 3], representations=rows)

    if is_fit:
        assert checked_batch(batch, kind=kind, width=2).representations is rows
    else:
        with pytest.raises(ReportError):
            checked_batch(batch, kind=kind, width=2)
    assert np.array_equal(rows, before, equal_nan=True)


def test_silent_rows_are_those_of_zeros() -> None:
    assert silent_rows(np.array([[0.0, 0.0], [0.0, 1e-30], [-0.0, 0.0]])).tolist() == [True, False, True]
    assert silent_rows(np.empty((0, 2))).shape == (0,)


@given(st.integers(0, 50), st.integers(1, 10))
def test_chunks_cover_every_row_once_in_order(n_rows: int, size: int) -> None:
    covered = [row for part in row_chunks(n_rows, size) for row in range(n_rows)[part]]

    assert covered == list(range(n_rows))


def test_order_of_ids_is_that_of_their_values() -> None:
    assert id_order([30, -1, 4]).tolist() == [1, 2, 0]
    assert id_order(["b", "B", "a"]).tolist() == [1, 2, 0]
    assert id_order([]).dtype == np.int64


@pytest.mark.parametrize(
    ("ids", "rows", "message"),
    [
        (np.array(5), np.array([[0.5, 0.5]]), "give a list with one id per report"),
        (np.array("ab"), np.array([[0.5, 0.5]]), "give a list with one id per report"),
        (["a"], np.ma.masked_array([[0.5, 0.5]], mask=[[True, False]]), "masked array"),
        (["a"], np.array([["1e4000", "0"]], dtype=np.longdouble), "every number must be finite"),
    ],
)
def test_look_alikes_of_ids_and_rows_are_refused(ids: object, rows: np.ndarray, message: str) -> None:
    batch = ReportBatch(client_ids=ids, representations=rows)  # type: ignore[arg-type]

    with pytest.raises(ReportError, match=message):
        checked_batch(batch, kind="histogram", width=2)
