"""The condition under which a call keeps a tensor: the shortest condition on the arguments that separates the calls."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import torch

from tests.atlas.calls import Call

DIMENSIONS = (
    (0, 0, "no dimensions"),
    (0, 1, "fewer than 2 dimensions"),
    (1, 1, "1 dimension"),
    (2, 2, "2 dimensions"),
    (2, 9, "more than 1 dimension"),
    (3, 9, "more than 2 dimensions"),
    (4, 9, "more than 3 dimensions"),
)
Facts = dict[str, bool]


def facts_of(calls: Sequence[Call]) -> list[Facts]:
    """Return for each call which statements about its arguments hold: the same statements for all, the more telling first."""
    told = [dict(_statements(call)) for call in calls]
    ranks = {words: rank for statements in told for words, rank in statements.items()}
    order = sorted(ranks, key=lambda words: ranks[words])
    return [{words: words in statements for words in order} for statements in told]


def _statements(call: Call) -> Iterator[tuple[str, int]]:
    """Yield the properties of a call, each with its rank: values come before dtypes, and dtypes before shapes."""
    by_name: dict[str, list[object]] = {}
    for name, value in zip(call.names, call.values, strict=True):
        by_name.setdefault(name, []).append(value)
    for name, values in by_name.items():
        yield from _of_parameter(name, values)
    tensors = [call.values[at] for at in call.tensors]
    if any(tensor.is_complex() for tensor in tensors):
        yield "the tensors are complex", 2
    if len(tensors) > 1 and len({tensor.shape for tensor in tensors}) == 1:
        yield "all tensors have one shape", 3


def _of_parameter(name: str, values: list[object]) -> Iterator[tuple[str, int]]:
    first = values[0]
    if first is not None:
        yield f"{name} is given", 0
    if isinstance(first, torch.Tensor):
        yield f"{name} is a tensor", 0
        yield from ((f"{name} has {words}", 4) for least, most, words in DIMENSIONS if least <= first.dim() <= most)
        if first.layout is torch.strided and not first.is_contiguous():
            yield f"{name} is not contiguous", 5
    elif len(values) == 1 and _is_telling(name, first):
        yield f"{name}={first!r}", 1


def _is_telling(name: str, value: object) -> bool:
    """Return whether a condition may name a value: of numbers only 0 and 1, since that calls share another is mostly chance."""
    return isinstance(value, (bool, str)) or (value in (0, 1) and name != "dim")


def condition(facts: Sequence[Facts], kept: Sequence[bool]) -> str:
    """Return the condition under which a tensor is kept, such as "where training=True"; "" if it is kept in every call.

    Args:
        facts: the properties of each call.
        kept: whether each call keeps the tensor; at least one does.
    """
    if all(kept):
        return ""
    columns = {words: tuple(one[words] for one in facts) for words in facts[0]}
    return _single(columns, tuple(kept)) or _pair(columns, tuple(kept)) or f"in {sum(kept)} of {len(kept)} calls"


def _single(columns: dict[str, tuple[bool, ...]], kept: tuple[bool, ...]) -> str:
    without = tuple(not one for one in kept)
    for words, holds in columns.items():
        if holds == kept:
            return f"where {words}"
        if holds == without:
            return f"except where {words}"
    return ""


def _pair(columns: dict[str, tuple[bool, ...]], kept: tuple[bool, ...]) -> str:
    without = tuple(not one for one in kept)
    for (words, holds), (other, held) in itertools.combinations(columns.items(), 2):
        both = tuple(map(min, holds, held))
        either = tuple(map(max, holds, held))
        for combined, joined in ((both, f"{words} and {other}"), (either, f"{words} or {other}")):
            if combined == kept:
                return f"where {joined}"
            if combined == without:
                return f"except where {joined}"
    return ""


def holds(words: str, facts: Facts) -> bool | None:
    """Return whether a condition is true for a call; None if the condition only counts calls.

    Args:
        words: the condition, as returned by `condition`.
        facts: the properties of the call.
    """
    if not words:
        return True
    kind, _, stated = words.rpartition("where ")
    if not stated or words.startswith("in "):
        return None
    joined, combine = (" and ", all) if " and " in stated else (" or ", any)
    return combine(facts[one] for one in stated.split(joined)) is not kind.startswith("except")
