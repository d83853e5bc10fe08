"""What the columns of a table become, whatever the table is: numbers, categories spread out, hashed words.

Numbers stay. A gap stays a gap (NaN) until samples are dealt, when it becomes the mean of what is known
(:meth:`fielding.traces.pool.Scaling.apply`), and one more feature tells where the gaps are. Texts and categories become
a feature per distinct value; a gap is none of them. A text that is named as such has its words hashed.
"""

import json
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from itertools import count
from typing import Any, Literal

import numpy as np

from fielding._typing import Codes, Counts, Features, Floats, Json, Mask, Vector
from fielding.errors import InputError, OptionError, echo
from fielding.traces.csv_table import CellError
from fielding.traces.npz_file import Array

MOST_CATEGORIES = 200
"""Distinct texts of a column that become a feature each; a column with more holds names or sentences."""
GAPS = frozenset(
    [
        *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
        *("<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
    ]
)
"""Cells of a text file that are gaps: those that pandas takes for such."""
TRUTH = {"True": 1.0, "TRUE": 1.0, "true": 1.0, "False": 0.0, "FALSE": 0.0, "false": 0.0}
TEXT_FEATURES = 512  # buckets that words are hashed into by default
MOST_FEATURES = 1 << 20
LARGEST_CACHE = 1_000_000  # distinct words that are remembered at most; beyond, they are hashed again
_LARGEST = float(np.finfo(np.float32).max)
_WORD = re.compile(r"[^\W_]+")
_CHUNK = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class InputColumn:
    """A column of a table, and what it became.

    Parameters
    ----------
    kind
        ``"number"``: one feature, and with ``has_gaps`` one more, 1 where the number is missing. ``"category"``: a
        feature for each of ``values``. ``"text"``: ``n_buckets`` features that words are hashed into.

    Examples
    --------
    >>> InputColumn(name="weather", kind="category", values=("rain", "sun")).spread(["sun", None, "hail"]).tolist()
    [[0.0, 1.0], [0.0, 0.0], [0.0, 0.0]]
    """

    name: str
    kind: Literal["number", "category", "text"]
    has_gaps: bool = False
    values: tuple[str, ...] = ()
    n_buckets: int = 0

    @property
    def n_features(self) -> int:
        """Features that it became; a column of nothing but gaps is one that is always 0."""
        return {"number": 1 + self.has_gaps, "category": max(1, len(self.values)), "text": self.n_buckets}[self.kind]

    def numbers(self, numbers: Floats) -> Features:
        """Return numbers, NaN where there is a gap, as features, shape ``(n_rows, 1 or 2)``."""
        is_gap = np.isnan(numbers)
        bad = np.isinf(numbers) | (np.abs(np.where(is_gap, 0.0, numbers)) > _LARGEST)
        if bad.any():
            row = int(np.argmax(bad))
            raise InputError(
                f"feature {echo(self.name)} in row {row} is {numbers[row]}; give finite numbers up to 3e38"
            )
        columns = [numbers, is_gap.astype(np.float64)] if self.has_gaps else [numbers]
        return np.stack(columns, axis=1).astype(np.float32)

    def spread(self, texts: Sequence[str | None]) -> Features:
        """Return texts as features, shape ``(n_rows, n_features)``; None, and what is not among the values, is none."""
        place = {one: at for at, one in enumerate(self.values)}
        codes = np.fromiter((place.get(one, -1) for one in texts), dtype=np.int64, count=len(texts))  # type: ignore[arg-type]
        found = np.zeros((codes.size, self.n_features), dtype=np.float32)
        found[np.flatnonzero(codes >= 0), codes[codes >= 0]] = 1.0
        return found


def number_column(name: str, numbers: Floats) -> InputColumn:
    """Return what a column of numbers becomes; NaN is a gap."""
    return InputColumn(name=name, kind="number", has_gaps=bool(np.isnan(numbers).any()))


def category_column(name: str, values: Sequence[str], *, way_out: str) -> InputColumn:
    """Return what a column with these distinct values becomes, in their order; InputError if they are too many."""
    if len(values) > MOST_CATEGORIES:
        raise InputError(
            f"feature {echo(name)} has {len(values):,} different texts, the most is {MOST_CATEGORIES}; {way_out}"
        )
    return InputColumn(name=name, kind="category", values=tuple(values))


def text_column(name: str, n_buckets: int = TEXT_FEATURES) -> InputColumn:
    """Return what a column of sentences becomes."""
    return InputColumn(name=name, kind="text", n_buckets=n_buckets)


def may_have_gaps(columns: Sequence[InputColumn]) -> Mask:
    """Return which features may be NaN, shape ``(n_features,)``: numbers of columns that have gaps."""
    found = [np.zeros(one.n_features, dtype=np.bool_) for one in columns]
    for mask, one in zip(found, columns, strict=True):
        mask[0] = one.has_gaps
    return np.concatenate([np.zeros(0, dtype=np.bool_), *found])


def columns_record(columns: Sequence[InputColumn]) -> list[Json]:
    """Return columns as plain values, without what is as usual."""
    return [
        {key: list(one) if isinstance(one, tuple) else one for key, one in asdict(column).items() if one}
        for column in columns
    ]


def columns_from(records: object) -> tuple[InputColumn, ...]:
    """Return the columns that :func:`columns_record` wrote down, perhaps as JSON; InputError if it did not."""
    try:
        tables = [json.loads(one) if isinstance(one, str) else one for one in records]  # type: ignore[attr-defined]
        return tuple(InputColumn(**{**one, "values": tuple(one.get("values", ()))}) for one in tables)
    except (TypeError, ValueError, AttributeError) as error:
        raise InputError(f"columns are no columns that Fielding wrote down ({error}); leave them out") from None


def describe_columns(columns: Sequence[InputColumn], x: Array | None) -> list[str]:
    """Return in lines what became of columns that are not plain numbers.

    Examples
    --------
    >>> columns = [InputColumn(name="pulse", kind="number", has_gaps=True)]
    >>> describe_columns(columns, np.array([[np.nan, 1.0], [70.0, 0.0]]))
    ["gaps filled by the mean of what is known at the start, and told by one more feature: 'pulse' (50 % of the rows)"]
    """
    gaps, spread, first = list[str](), list[str](), 0
    for one in columns:
        if one.has_gaps and x is not None:
            gaps.append(f"{echo(one.name)} ({_share(float(np.isnan(x[:, first]).mean()))} of the rows)")
        if one.kind == "category":
            spread.append(f"{echo(one.name)} ({', '.join(one.values[:6])}{', ...' if len(one.values) > 6 else ''})")
        first += one.n_features
    how = "gaps filled by the mean of what is known at the start, and told by one more feature"
    told = [f"{how}: {', '.join(gaps)}"] if gaps else []
    return told + ([f"spread out, a feature per value: {', '.join(spread)}"] if spread else [])


def _share(share: float) -> str:
    return f"{share:.0%}".replace("%", " %") if share >= 0.01 else "less than 1 %"


def frame_features(
    frame: Any, names: Sequence[str], text: str | None = None, n_buckets: int = TEXT_FEATURES
) -> tuple[tuple[InputColumn, ...], Features | None]:
    """Return what columns of a pandas DataFrame become, and their features side by side; None without any column."""
    columns = [_series_column(frame[name], name) for name in names]
    columns += [] if text is None else [text_column(text, n_buckets)]
    return tuple(columns), encode_frame(frame, columns) if columns else None


def encode_frame(frame: Any, columns: Sequence[InputColumn]) -> Features:
    """Return the features of the rows of a pandas DataFrame that has these columns, shape ``(n_rows, n_features)``."""
    return np.concatenate([_series_features(frame[one.name], one) for one in columns], axis=1)


def _series_column(series: Any, name: str) -> InputColumn:
    """Return what a column of a DataFrame becomes."""
    if getattr(series.dtype, "kind", "O") in "mM" or getattr(series.dtype, "tz", None) is not None:
        raise InputError(
            f"feature {echo(name)} holds dates; make numbers of it (df[{name!r}].dt.hour), or leave it out of features"
        )
    values = _categories(series)
    if values is None and (numbers := _series_numbers(series)) is not None:
        return number_column(name, numbers)
    if values is None:
        known = series[~series.isna()].tolist()
        odd = [one for one in known if not isinstance(one, (str, int, float, bool, np.generic))]
        if odd:
            raise InputError(
                f"feature {echo(name)} holds {echo(odd[0])}; give numbers or texts, or leave it out of features"
            )
        values = sorted({str(one) for one in known})
    return category_column(name, values, way_out="give it as text=, or leave it out of features")


def _series_features(series: Any, column: InputColumn) -> Features:
    if column.kind == "text":
        return hash_texts([str(one) for one in series.where(~series.isna(), "").tolist()], column.n_buckets)
    if column.kind == "number":
        numbers = _series_numbers(series)
        if numbers is None:
            bad = next(one for one in series[~series.isna()].tolist() if not isinstance(one, (int, float, np.number)))
            raise InputError(
                f"column {echo(column.name)} holds {echo(bad)}; it held numbers when the model was trained"
            )
        return column.numbers(numbers)
    gaps = series.isna().tolist()
    return column.spread([None if gap else str(one) for gap, one in zip(gaps, series.tolist(), strict=True)])


def _categories(series: Any) -> list[str] | None:
    """Return the categories of a column that has such, in their order."""
    found = getattr(getattr(series, "cat", None), "categories", None)
    return None if found is None else [str(one) for one in found]


def _series_numbers(series: Any) -> Vector | None:
    """Return the numbers or truth values of a column, NaN in its gaps; None if it holds anything else."""
    if _categories(series) is not None:
        return None
    if getattr(series.dtype, "kind", "O") not in "biuf":  # objects, among them what a gap made of truth values
        known = series[~series.isna()].tolist()
        if not all(isinstance(one, (int, float, np.number, np.bool_)) for one in known):
            return None
        is_number = ~series.isna().to_numpy()
        numbers = np.full(is_number.size, np.nan)
        numbers[is_number] = [float(one) for one in known]
        return numbers
    found: Vector = series.to_numpy(dtype=np.float64, na_value=np.nan)
    return found


class FeatureColumn:
    """A column of a text file, as it comes: numbers (or truth values) with or without gaps, or a few different texts.

    Which of them it is, is known at the end. As long as few texts were seen, rows are kept as codes of these; a column
    with more holds numbers, and the first cell that is none raises.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._known: defaultdict[str, int] = defaultdict(count().__next__)
        self._codes: list[Codes] = []
        self._parts: list[Features] | None = None  # numbers, once there are too many different texts for categories

    def add(self, texts: Sequence[str]) -> None:
        """Take the next texts of the column, or raise :class:`CellError` with the first that will not do."""
        if self._parts is not None:
            self._parts.append(self._numbers(texts))
            return
        known, before = self._known, len(self._known)
        self._codes.append(np.fromiter(map(known.__getitem__, texts), dtype=np.int32, count=len(texts)))
        new = list(known)[before:]
        self._check(new, texts)
        if len(known) - len(GAPS.intersection(known)) > MOST_CATEGORIES:
            self._parts = []
            codes = np.concatenate(self._codes)
            try:
                values = self._numbers(list(known))
            except CellError as error:
                row = int(np.argmax(codes == error.at)) - codes.size + len(texts)
                raise CellError(row, error.wanted, got=list(known)[error.at]) from None
            self._parts.append(values[codes])
            self._codes.clear()

    def _check(self, new: Sequence[str], texts: Sequence[str]) -> None:
        """Raise for a new text that is a number, but none that can be a feature."""
        for text in new:
            number = _number(text)
            if text not in GAPS and number is not None and abs(number) > _LARGEST:
                what = f"too large for a feature; the most is {_LARGEST:.3g}"
                wanted = what if np.isfinite(number) else "no finite number; every feature must be one"
                raise CellError(texts.index(text), wanted)

    def _numbers(self, texts: Sequence[str]) -> Features:
        """Return texts that must be numbers or gaps."""
        try:
            numbers = np.fromiter(map(float, texts), dtype=np.float64, count=len(texts))
        except ValueError:
            found = [np.nan if text in GAPS else _number(text) for text in texts]
            if None in found:
                rule = f"a column may also hold texts, but at most {MOST_CATEGORIES} different ones"
                raise CellError(found.index(None), f"no number; every feature here must be one ({rule})") from None
            numbers = np.array(found, dtype=np.float64)
        if (np.isinf(numbers) | (np.abs(np.nan_to_num(numbers)) > _LARGEST)).any():
            self._check(texts, texts)
        return numbers.astype(np.float32)

    def column(self) -> InputColumn:
        """Return what the column is."""
        return self._read()[0]

    def features(self, rows: Counts) -> Features:
        """Return the features of some rows, shape ``(n_rows, n_features)``."""
        column, by_code = self._read()
        if by_code is not None:
            return by_code[np.concatenate(self._codes)[rows]]
        return column.numbers(np.concatenate(self._parts or [])[rows])

    def _read(self) -> tuple[InputColumn, Features | None]:
        """Return what the column is, and the features of each distinct text unless it holds many numbers."""
        if self._parts is not None:
            return number_column(self.name, np.concatenate(self._parts)), None
        texts = list(self._known)
        known = [text for text in texts if text not in GAPS]
        truth = bool(known) and all(text in TRUTH for text in known)
        numbers = [None if text in GAPS else TRUTH[text] if truth else _number(text) for text in texts]
        if all(number is not None for number, text in zip(numbers, texts, strict=True) if text not in GAPS):
            values = np.array([np.nan if number is None else number for number in numbers])
            column = number_column(self.name, values)
            return column, column.numbers(values)
        column = category_column(self.name, sorted(known), way_out="name it as text, or leave it out")
        return column, column.spread([None if text in GAPS else text for text in texts])


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


class HashedTexts:
    """Texts as they come, each kept as the signed buckets of its words; dense features are made when asked for.

    A word is a run of letters and digits, in lower case. Its bucket and its sign follow from its bytes alone (BLAKE2b),
    so the same text has the same features in every process and wherever it stands. The features of a text are the sums
    of its signs per bucket, scaled to length 1; a text without words is all zeros.

    Examples
    --------
    >>> texts = HashedTexts(8)
    >>> texts.add(["Fix the build", "fix THE build!", ""])
    >>> rows = texts.features()
    >>> rows.shape, bool((rows[0] == rows[1]).all()), round(float(np.linalg.norm(rows[0])), 6), rows[2].any().item()
    ((3, 8), True, 1.0, False)
    """

    def __init__(self, n_features: int = TEXT_FEATURES) -> None:
        if isinstance(n_features, bool) or not 1 <= n_features <= MOST_FEATURES:
            raise OptionError(f"{echo(n_features)} text features were asked for; give 1 to {MOST_FEATURES}")
        self.n_features = n_features
        self._known: dict[str, int] = {}
        self._codes: list[Codes] = []
        self._lengths: list[Codes] = []

    def __len__(self) -> int:
        return sum(part.size for part in self._lengths)

    def add(self, texts: Sequence[str]) -> None:
        """Take the next texts."""
        if len(self._known) > LARGEST_CACHE:
            self._known.clear()
        known = self._known
        words = [_WORD.findall(text.lower()) for text in texts]
        codes = [known[word] if word in known else self._learn(word) for row in words for word in row]
        self._codes.append(np.array(codes, dtype=np.int32))
        self._lengths.append(np.fromiter(map(len, words), dtype=np.int32, count=len(words)))

    def _learn(self, word: str) -> int:
        """Return the bucket of a word, from 1, negative for the sign minus."""
        # Not hash(): that differs between processes. Texts of fixed width may hold halves of surrogate pairs.
        number = int.from_bytes(blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
        bucket = number % self.n_features + 1
        code = -bucket if number >> 63 else bucket
        self._known[word] = code
        return code

    def features(self, rows: Counts | None = None) -> Features:
        """Return the features of all texts, or of some rows in their order, shape ``(n_texts, n_features)``."""
        codes = np.concatenate([*self._codes, np.empty(0, dtype=np.int32)])
        lengths = np.concatenate([*self._lengths, np.empty(0, dtype=np.int32)]).astype(np.int64)
        begins = np.cumsum(lengths) - lengths
        wanted = np.arange(lengths.size, dtype=np.int64) if rows is None else rows
        features = np.zeros((wanted.size, self.n_features), dtype=np.float32)
        step = max(1, _CHUNK * TEXT_FEATURES // self.n_features)
        for start in range(0, wanted.size, step):
            part = wanted[start : start + step]
            sizes = lengths[part]
            row = np.repeat(np.arange(sizes.size, dtype=np.int64), sizes)
            place = np.arange(row.size, dtype=np.int64) + np.repeat(begins[part] - (np.cumsum(sizes) - sizes), sizes)
            signed = codes[place].astype(np.int64)
            cells = row * self.n_features + np.abs(signed) - 1
            sums = np.bincount(cells, weights=np.sign(signed), minlength=sizes.size * self.n_features)
            dense = sums.reshape(sizes.size, self.n_features)
            norms = np.sqrt((dense * dense).sum(axis=1, keepdims=True))
            features[start : start + step] = (dense / np.where(norms > 0.0, norms, 1.0)).astype(np.float32)
        return features


def hash_texts(texts: Sequence[str], n_features: int = TEXT_FEATURES) -> Features:
    """Return the hashed words of each text, in any language that separates words, rows of length 1.

    Shape ``(n_texts, n_features)``; fewer features make more words share one.
    """
    hashed = HashedTexts(n_features)
    hashed.add(texts)
    return hashed.features()
