"""DataFrames, arrays and datasets that a Python user has in hand, turned into a trace or a pool of samples.

Nothing here imports pandas, PyTorch or ``datasets``: what they made is asked for its arrays.
"""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np
import numpy.typing as npt

from fielding._typing import Codes, Counts, Features, Vector
from fielding.errors import InputError, echo
from fielding.traces.csv_table import (
    CellError,
    encode_texts,
    parse_ids,
    plain_numbers,
    sort_classes,
    sort_ids,
    time_parser,
)
from fielding.traces.features import TEXT_FEATURES, InputColumn, encode_frame, frame_features, hash_texts
from fielding.traces.intervals import epoch_seconds
from fielding.traces.npz_file import Array
from fielding.traces.pool import Pool

MOST_FRACTION_CLASSES = 0.5
"""Share of the rows that may have a label of their own: where more do, the label is an id or a quantity."""
_IMAGE_CHANNELS = (1, 3, 4)


def rows_from_frame(frame: Any, columns: Sequence[InputColumn]) -> Features:
    """Return the rows of a DataFrame as the raw features that these columns became; other columns do not matter."""
    frame = plain_frame(frame, [one.name for one in columns])
    for one in columns:
        _column(frame, one.name)
    return encode_frame(frame, columns)


def read_features(
    frame: Any, names: Sequence[str], text: str | None, n_text_features: int
) -> tuple[tuple[InputColumn, ...], Features | None]:
    """Return what became of the columns that say what samples look like, and their features; see `frame_features`."""
    for name in [*names, *([] if text is None else [text])]:
        _column(frame, name)  # is there, and once
    return frame_features(frame, names, text, n_text_features)


def plain_frame(frame: Any, named: Iterable[str | None]) -> Any:
    """Return a pandas DataFrame whose columns have names that are texts, those of its index among them if asked for."""
    if not hasattr(frame, "iloc") and callable(getattr(frame, "to_pandas", None)):
        frame = frame.to_pandas()  # of polars, pyarrow, datasets
    if not hasattr(frame, "iloc") or not hasattr(frame, "columns"):
        raise InputError(f"{type(frame).__name__} is no DataFrame; give one of pandas, or something with to_pandas()")
    if any(name in frame.index.names for name in named if name is not None and name not in frame.columns):
        frame = frame.reset_index()
    if not len(frame):
        raise InputError("the DataFrame has no rows; at least one sample is needed")
    return frame


def _column(frame: Any, name: str) -> Any:
    names = [str(one) for one in frame.columns]
    if name not in frame.columns:
        near = get_close_matches(str(name), names, n=1, cutoff=0.3)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise InputError(f"the DataFrame has no column {echo(name)}{hint} It has: {', '.join(names[:20])}")
    column = frame[name]
    if column.ndim > 1:
        raise InputError(f"the DataFrame has {column.shape[1]} columns {echo(name)}; rename all but one")
    return column


def _full_column(frame: Any, name: str) -> Any:
    """Return a column; raise if it has gaps."""
    column = _column(frame, name)
    if column.isna().any():
        row = int(np.argmax(column.isna().to_numpy()))
        raise InputError(
            f"column {echo(name)} is empty in row {row}, and in {int(column.isna().sum())} rows in all; "
            f"leave these out with df.dropna(subset=[{name!r}])"
        )
    return column


def read_ids(frame: Any, name: str) -> tuple[tuple[Any, ...], Codes]:
    """Return distinct client ids, rising, and positions among them: whole numbers stay, all others become texts."""
    column = _full_column(frame, name)
    values = column.to_numpy()
    if values.dtype.kind == "f" and np.all(values == np.floor(values)):
        values = values.astype(np.int64)  # numbers that a gap, long gone, made floats
    if values.dtype.kind in "iu":
        numbers, codes = np.unique(values, return_inverse=True)
        return tuple(numbers.tolist()), codes.astype(np.int32)
    names, codes = encode_texts(np.array([str(one) for one in values.tolist()]))
    ids, ranks = sort_ids(parse_ids(names), codes)
    return tuple(ids), ranks.astype(np.int32)


def read_labels(frame: Any, name: str) -> tuple[tuple[str, ...], Codes]:
    """Return classes and positions among them; those of a categorical column keep its order."""
    column = _full_column(frame, name)
    categories = getattr(getattr(column, "cat", None), "categories", None)
    if categories is not None:
        codes = column.cat.codes.to_numpy().astype(np.int64)
        used, ranks = np.unique(codes, return_inverse=True)
        return tuple(str(categories[at]) for at in used.tolist()), ranks.astype(np.int32)
    return encode_labels(column.to_numpy(), name)


def encode_labels(labels: Array, name: str = "y") -> tuple[tuple[str, ...], Codes]:
    """Return the classes of some labels, rising, and for each its position among them, int32.

    Whole numbers, truth values and texts are labels; other numbers are quantities.

    Raises
    ------
    InputError
        If they are quantities, or nearly every sample has a label of its own.

    Examples
    --------
    >>> encode_labels(np.array(["dog", "cat", "dog"]))
    (('cat', 'dog'), array([1, 0, 1], dtype=int32))
    """
    if labels.ndim != 1:
        raise InputError(f"{name} has shape {labels.shape}; give one label per sample")
    if labels.dtype.kind == "f":
        bad = ~(labels == np.floor(labels))
        if bad.any():
            example = labels[int(np.argmax(bad))]
            raise InputError(
                f"{echo(name)} holds {np.unique(labels).size:,} different numbers such as {example:g}, which is a "
                "quantity and no class; make classes of it, for example with pandas.qcut"
            )
        labels = labels.astype(np.int64)
    if labels.dtype.kind in "iu":
        numbers, codes = np.unique(labels, return_inverse=True)
        classes, found = tuple(str(one) for one in numbers.tolist()), codes.astype(np.int32)
    else:
        classes, found = sort_classes(*encode_texts(np.array([str(one) for one in labels.tolist()])))
    if len(classes) > max(20, MOST_FRACTION_CLASSES * labels.size):
        raise InputError(
            f"{echo(name)} has {len(classes):,} different values in {labels.size:,} samples, too many for classes; "
            "is it an id or a quantity?"
        )
    return classes, found.astype(np.int32)


def read_times(frame: Any, name: str) -> Vector:
    """Return unix seconds: of dates (UTC unless they have a time zone), periods (their start), numbers, and texts."""
    column = _full_column(frame, name)
    if hasattr(column.dtype, "freq"):  # periods
        column = column.dt.to_timestamp()
    if getattr(column.dtype, "tz", None) is not None:
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    values = column.to_numpy()
    if values.dtype.kind == "b":
        raise InputError(f"column {echo(name)} holds truth values; give dates or numbers for the time")
    if values.dtype.kind in "iufM":
        seconds, note = plain_numbers(name, values), None
        if values.dtype.kind != "M":
            seconds, note = epoch_seconds(seconds, name=name)
        if note is not None:
            warnings.warn(note, stacklevel=3)  # at the line of the caller of from_dataframe
        return seconds
    names, codes = encode_texts(np.array([str(one) for one in values.tolist()]))
    try:
        return time_parser()(names)[codes]
    except CellError as error:
        row = int(np.argmax(codes == error.at))
        raise InputError(f"column {echo(name)} in row {row}: {echo(names[error.at])} is {error.wanted}") from None


def read_counts(frame: Any, name: str) -> Counts:
    """Return how many samples each row stands for."""
    column = _full_column(frame, name)
    numbers: Array = column.to_numpy()
    if numbers.dtype.kind not in "iuf" or (numbers != np.floor(numbers)).any():
        raise InputError(f"column {echo(name)} holds no whole numbers; a count is one")
    return numbers.astype(np.int64)


def pool_from_arrays(x: npt.ArrayLike, y: npt.ArrayLike, classes: Sequence[str] | None = None) -> Pool:
    """Return samples as a pool; see :meth:`fielding.Pool.from_arrays`."""
    labels = np.asarray(y)
    if classes is None:
        names, codes = encode_labels(labels)
    else:
        names = tuple(str(one) for one in classes)
        if labels.ndim != 1 or labels.dtype.kind not in "iu":
            raise InputError(f"y holds {labels.dtype} of shape {labels.shape}; with classes, give positions in these")
        codes = labels.astype(np.int32)
    features = np.asarray(x)
    if features.ndim == 1 and features.dtype.kind in "biuf":
        features = features[:, np.newaxis]
    return Pool(x=features, y=codes, classes=names)


def pool_from_dataset(
    dataset: Any, *, x: str | int | None = None, y: str | int | None = None, n_text_features: int = TEXT_FEATURES
) -> Pool:
    """Return the samples of a dataset as a pool; see :meth:`fielding.Pool.from_dataset`."""
    columns = getattr(dataset, "column_names", None)
    if isinstance(columns, Mapping):
        raise InputError(f"this is a dict of datasets; give one of them, for example [{next(iter(columns))!r}]")
    if isinstance(columns, list):
        return _pool_from_columns(dataset, columns, x, y, n_text_features)
    return _pool_from_items(dataset, 0 if x is None else x, 1 if y is None else y, n_text_features)


def _pool_from_columns(
    dataset: Any, columns: list[str], x: str | int | None, y: str | int | None, n_text_features: int
) -> Pool:
    """Return a dataset with named columns (of Hugging Face) as a pool."""
    features = dataset.features
    if y is None:
        named = [name for name in columns if hasattr(features[name], "int2str")]  # those that know their classes
        named += [name for name in ("label", "labels", "fine_label", "target", "y") if name in columns]
        if not named:
            raise InputError(f"which column is the label? Give y= one of: {', '.join(columns)}")
        y = named[0]
    if x is None:
        usual = ("image", "img", "text", "sentence", "x", "features", "input")
        rest = [name for name in columns if name != y]
        named = [name for name in usual if name in rest] or (rest if len(rest) == 1 else [])
        if not named:
            raise InputError(f"which column holds the features? Give x= one of: {', '.join(rest)}")
        x = named[0]
    for name in (x, y):
        if name not in columns:
            raise InputError(f"the dataset has no column {echo(name)}; it has: {', '.join(columns)}")
    names = getattr(features[y], "names", None)
    return _pool([row[x] for row in dataset], [row[y] for row in dataset.select_columns([y])], names, n_text_features)


def _pool_from_items(dataset: Any, x: str | int, y: str | int, n_text_features: int) -> Pool:
    """Return a dataset whose items are pairs or mappings (of PyTorch) as a pool."""
    items = (dataset[at] for at in range(len(dataset))) if hasattr(dataset, "__len__") else iter(dataset)
    xs, ys = [], []
    for at, item in enumerate(items):
        try:
            if isinstance(item, Mapping) and x == 0 and y == 1 and len(item) == 2 and 0 not in item:
                one, label = item.values()
            else:
                one, label = item[x], item[y]
        except (KeyError, IndexError, TypeError):
            raise InputError(
                f"item {at} of the dataset is {echo(item)}; make it (features, label), or name both with x= and y="
            ) from None
        xs.append(one)
        ys.append(label)
    return _pool(xs, ys, getattr(dataset, "classes", None), n_text_features)


def _pool(xs: list[Any], ys: list[Any], classes: Sequence[str] | None, n_text_features: int) -> Pool:
    if not xs:
        raise InputError("the dataset is empty; at least one sample is needed")
    if isinstance(xs[0], str):
        return pool_from_arrays(hash_texts(xs, n_text_features), _plain_labels(ys), classes)
    arrays = [_sample(one) for one in xs]
    shapes = {array.shape for array in arrays}
    if len(shapes) > 1:
        one, other = sorted(shapes)[:2]
        raise InputError(f"samples have shape {one} and {other}; bring all to one shape, for example by a transform")
    return pool_from_arrays(np.stack(arrays), _plain_labels(ys), classes)


def _sample(one: Any) -> Array:
    """Return the features of a sample; images of PyTorch get their channels last, those with one channel none."""
    is_tensor = hasattr(one, "detach")
    array = np.asarray(one.detach().cpu().numpy() if is_tensor else one)
    if array.dtype.kind not in "biuf":
        raise InputError(f"a sample is {echo(one)}; features must be numbers, images or texts")
    if array.ndim == 3 and is_tensor and array.shape[0] in _IMAGE_CHANNELS:
        array = np.moveaxis(array, 0, -1)
    if array.ndim == 3 and array.shape[-1] == 1:
        array = array[:, :, 0]
    if array.dtype == np.float64:
        array = array.astype(np.float32)
    return array.reshape(1) if array.ndim == 0 else array


def _plain_labels(ys: list[Any]) -> Array:
    found = np.asarray([one.item() if hasattr(one, "item") else one for one in ys])
    if found.ndim != 1:
        raise InputError(f"labels have shape {found.shape}; give one label per sample")
    return found
