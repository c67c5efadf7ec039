"""Encoding of tables and other data of pandas as plain values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pandas
from pandas import arrays

from autograder.grade.wire.plain_values import Codec

# fmt: off
NAMED_DTYPES = frozenset({
    "boolean", "string", "str", "Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64", "Float32", "Float64",
})
# fmt: on
"""The dtypes of pandas that are determined by their names."""
NAMED_ARRAYS = ("ArrowStringArray", "BooleanArray", "FloatingArray", "IntegerArray", "StringArray")


def _column(values: Any) -> Any:
    """Return the values of a column or index as an array, which determines its dtype."""
    return numpy.asarray(values) if isinstance(values.dtype, numpy.dtype) else values.array


def _named(dtype: str, values: Any) -> Any:
    if dtype not in NAMED_DTYPES:
        raise ValueError
    return pandas.array(values, dtype=dtype)


def _series(attributes: Any, name: Any, index: Any, column: Any) -> Any:
    series = pandas.Series(column, index=index, name=name, dtype=column.dtype)
    series.attrs = attributes
    return series


def _table(attributes: Any, index: Any, names: Any, *columns: Any) -> Any:
    parts = {position: _series({}, None, index, column) for position, column in enumerate(columns)}
    table = pandas.DataFrame(parts, index=index)
    table.columns, table.attrs = names, attributes
    return table


def _table_parts(value: Any) -> list[Any]:
    columns = [_column(value.iloc[:, position]) for position in range(value.shape[1])]
    return [dict(value.attrs), value.index, value.columns, *columns]


def _index(name: Any, frequency: str | None, column: Any) -> Any:
    index = pandas.Index(column, dtype=column.dtype, name=name, tupleize_cols=False)
    if frequency is not None:
        index.freq = frequency
    return index


def _index_parts(value: Any) -> list[Any]:
    has_frequency = value.dtype.kind in "Mm" and getattr(value, "freq", None) is not None
    return [value.name, value.freqstr if has_frequency else None, _column(value)]


def _time(value: Any) -> list[Any]:
    """Return a time of pandas, or an array of times, in UTC and without a zone, together with its zone."""
    if value.tz is None:
        return [value.to_numpy(), None]
    zone = getattr(value.tz, "zone", None)  # a zone of pytz, which pandas 2 uses
    return [value.tz_convert(None).to_numpy(), zone if isinstance(zone, str) else value.tz]


def _decode_time(kind: Any) -> Callable[..., Any]:
    def build(values: Any, zone: Any) -> Any:
        if isinstance(zone, str) and zone.startswith(("dateutil", "tz")):  # such a zone is read from a file of any name
            raise ValueError
        moment = kind(values)
        return moment if zone is None else moment.tz_localize("UTC").tz_convert(zone)

    return build


def pandas_codecs() -> dict[type, Codec]:
    """Return the forms of tables and other data of pandas."""
    indexes = [
        getattr(pandas, f"{name}Index") for name in ("", "Datetime", "Timedelta", "Period", "Interval", "Categorical")
    ]
    forms = [
        (pandas.DataFrame, _table_parts, _table),
        (pandas.Series, lambda v: [dict(v.attrs), v.name, v.index, _column(v)], _series),
        (
            pandas.RangeIndex,
            lambda v: [v.start, v.stop, v.step, v.name],
            lambda *p: pandas.RangeIndex(*p[:3], name=p[3]),
        ),
        (
            pandas.MultiIndex,
            lambda v: [list(v.levels), list(map(numpy.array, v.codes)), list(v.names)],
            lambda levels, codes, names: pandas.MultiIndex(levels, codes, names=names),
        ),
        (
            pandas.Categorical,
            lambda v: [numpy.array(v.codes), v.categories, bool(v.ordered)],
            lambda codes, categories, ordered: pandas.Categorical.from_codes(codes, categories, ordered),
        ),
        (pandas.Timestamp, _time, _decode_time(pandas.Timestamp)),
        (arrays.DatetimeArray, _time, lambda *parts: _decode_time(pandas.DatetimeIndex)(*parts).array),
        (pandas.Timedelta, lambda v: [v.to_numpy()], pandas.Timedelta),
        (arrays.TimedeltaArray, lambda v: [v.to_numpy()], lambda values: pandas.TimedeltaIndex(values).array),
        (pandas.Period, lambda v: [v.ordinal, v.freqstr], lambda n, f: pandas.Period(ordinal=n, freq=f)),
        (arrays.PeriodArray, lambda v: [v.asi8, v.freqstr], lambda n, f: arrays.PeriodArray(n, dtype=f"period[{f}]")),
        (pandas.Interval, lambda v: [v.left, v.right, v.closed], pandas.Interval),
        (arrays.IntervalArray, lambda v: [v.left, v.right, v.closed], arrays.IntervalArray.from_arrays),
        *((getattr(arrays, name), lambda v: [str(v.dtype), list(v)], _named) for name in NAMED_ARRAYS),
        (type(pandas.NaT), lambda value: [], lambda: pandas.NaT),
        (type(pandas.NA), lambda value: [], lambda: pandas.NA),
    ]
    by_type = {kind: Codec(f"pandas.{kind.__name__}", split, build, True) for kind, split, build in forms}
    return by_type | dict.fromkeys(indexes, Codec("pandas.Index", _index_parts, _index, True))
