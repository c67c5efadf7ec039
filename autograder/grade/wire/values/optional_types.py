"""The codecs of types from libraries that may not be installed: pandas, networkx and Pillow."""

from __future__ import annotations

import functools
import sys
from typing import Any

from autograder.grade.wire.values.codec import Codec, Part
from autograder.grade.wire.values.graph_types import GRAPH_TAGS, graph_codecs

LARGEST_PICTURE = 1 << 26  # bytes


def optional_codec(value: object) -> Codec | None:
    """Returns the codec of a value of these libraries; they are imported already if there is such a value."""
    if _is_loaded("pandas", "DataFrame") and (found := pandas_codecs().get(type(value))):
        return found
    if _is_loaded("networkx", "Graph") and (known := graph_codecs().get(type(value))):
        return known
    # What `Image.open` returns is of a class for the file's format; it crosses as a picture without a file.
    is_picture = _is_loaded("PIL.Image", "Image") and issubclass(type(value), sys.modules["PIL.Image"].Image)
    return PICTURE if is_picture else None


def _is_loaded(module: str, name: str) -> bool:
    """Returns whether a library is imported, and no file of the course's that has its name."""
    return hasattr(sys.modules.get(module), name)


@functools.cache
def pandas_codecs() -> dict[type, Codec]:
    """Returns the codecs of pandas' types; imports pandas."""
    import pandas

    nothing: list[tuple[Any, str]] = [(pandas.NaT, "NaT"), (pandas.NA, "NA")]
    return {
        pandas.DataFrame: Codec("DataFrame", _frame_parts, _frame, lambda target, new: target.__init__(new)),
        pandas.Series: Codec("Series", _series_parts, _series, lambda target, new: target.__init__(new)),
        pandas.Timestamp: Codec(
            "Timestamp",
            lambda value, part: [part(value.to_pydatetime(warn=False)), value.nanosecond, value.unit],
            _timestamp,
        ),
        pandas.Timedelta: Codec(
            "Timedelta", lambda value, _: [value.value], lambda value: pandas.Timedelta(value, "ns")
        ),
        pandas.Interval: Codec(
            "Interval", lambda value, part: [part(value.left), part(value.right), value.closed], pandas.Interval
        ),
        pandas.Period: Codec("Period", lambda value, _: [value.ordinal, value.freqstr], _period),
        **{type(value): Codec(name, lambda value, _: [], lambda found=value: found) for value, name in nothing},
        **{
            kind: Codec(kind.__name__, _index_parts, _index)
            for kind in (
                pandas.Index,
                pandas.DatetimeIndex,
                pandas.TimedeltaIndex,
                pandas.CategoricalIndex,
                pandas.PeriodIndex,
                pandas.IntervalIndex,
            )
        },
        pandas.RangeIndex: Codec(
            "RangeIndex",
            lambda value, part: [value.start, value.stop, value.step, part(value.name)],
            lambda start, stop, step, name: pandas.RangeIndex(start, stop, step, name=name),
        ),
        pandas.MultiIndex: Codec(
            "MultiIndex",
            lambda value, part: [
                part(list(value.names)),
                *(part(value.get_level_values(i)) for i in range(value.nlevels)),
            ],
            lambda names, *levels: pandas.MultiIndex.from_arrays(levels, names=names),
        ),
        pandas.Categorical: Codec(
            "Categorical",
            lambda value, part: [part(value.codes), part(value.categories), bool(value.ordered)],
            lambda codes, categories, ordered: pandas.Categorical.from_codes(codes, categories, ordered=ordered),
        ),
    }


def _values(values: Any, part: Part) -> list[Any]:
    """Returns a column's dtype and its values, as an array of NumPy's where that loses nothing."""
    import numpy
    import pandas

    array = values.array
    if isinstance(array, pandas.Categorical):
        return ["category", part(array)]
    if isinstance(values.dtype, numpy.dtype) and values.dtype.kind in "biufcMmO":
        return ["", part(numpy.asarray(values))]
    return [str(values.dtype), part(list(values))]


def _column(dtype: str, values: Any) -> Any:
    import pandas

    return values if dtype in ("", "category") else pandas.array(values, dtype=dtype)


def _series_parts(value: Any, part: Part) -> list[Any]:
    return [part(value.attrs), part(value.name), part(value.index), *_values(value, part)]


def _series(attributes: Any, name: Any, index: Any, dtype: str, values: Any) -> Any:
    import pandas

    found = pandas.Series(_column(dtype, values), index=index, name=name)
    found.attrs = attributes
    return found


def _frame_parts(value: Any, part: Part) -> list[Any]:
    columns = [value.iloc[:, position] for position in range(value.shape[1])]
    return [
        part(value.attrs),
        part(value.index),
        part(value.columns),
        *(item for column in columns for item in _values(column, part)),
    ]


def _frame(attributes: Any, index: Any, columns: Any, *parts: Any) -> Any:
    import pandas

    values = zip(parts[::2], parts[1::2], strict=True)
    found = pandas.DataFrame({position: _column(*pair) for position, pair in enumerate(values)}, index=index)
    found.columns, found.attrs = columns, attributes
    return found


def _index_parts(value: Any, part: Part) -> list[Any]:
    return [part(value.name), getattr(value, "freqstr", None), *_values(value, part)]


def _index(name: Any, frequency: str | None, dtype: str, values: Any) -> Any:
    import pandas

    found = pandas.Index(_column(dtype, values), name=name)
    if frequency and isinstance(found, (pandas.DatetimeIndex, pandas.TimedeltaIndex)):
        found.freq = frequency
    return found


def _timestamp(value: Any, nanosecond: int, unit: str) -> Any:
    import pandas

    return (pandas.Timestamp(value) + pandas.Timedelta(nanosecond, "ns")).as_unit(unit)


def _period(ordinal: int, frequency: str) -> Any:
    import pandas

    return pandas.Period(ordinal=ordinal, freq=frequency)


def _picture_parts(value: Any, part: Part) -> list[Any]:
    palette = value.getpalette() if value.mode == "P" else None
    return [value.mode, value.width, value.height, value.tobytes(), part(palette)]


def _picture(mode: str, width: int, height: int, data: bytes, palette: list[int] | None) -> Any:
    from PIL import Image

    if len(data) > LARGEST_PICTURE or width * height > 8 * max(len(data), 1):
        raise ValueError("the picture's size does not fit its bytes")
    found = Image.frombytes(mode, (width, height), data)
    if palette is not None:
        found.putpalette(palette)
    return found


PICTURE = Codec("Image", _picture_parts, _picture)
PANDAS_TAGS = ("DataFrame", "Series", "Timestamp", "Timedelta", "Interval", "Period", "NaT", "NA", "Index", "DatetimeIndex",
               "TimedeltaIndex", "CategoricalIndex", "PeriodIndex", "IntervalIndex", "RangeIndex", "MultiIndex", "Categorical")  # fmt: skip
OPTIONAL_TAGS = (*PANDAS_TAGS, *GRAPH_TAGS, PICTURE.tag)
"""Of values whose parts travel as one: a table's columns, say, are new objects each time that it is asked for them."""


def optional_reader(tag: str) -> Codec | None:
    """Returns the codec of a tag."""
    if tag == PICTURE.tag:
        return PICTURE
    codecs = pandas_codecs() if tag in PANDAS_TAGS else graph_codecs() if tag in GRAPH_TAGS else {}
    return next((codec for codec in codecs.values() if codec.tag == tag), None)
