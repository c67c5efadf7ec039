"""The atlas of the running PyTorch: the tensors that each operation keeps, combined from observations of its calls."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

import torch

from autograder.tape.atlas.atlas_text import FORMAT
from tests.atlas.calls import Call, calls_of, in_place_form, key_of, made, operations
from tests.atlas.conditions import condition, facts_of
from tests.atlas.disagreements import notes_on
from tests.atlas.observation import Kept, nodes_of, observed

Row = dict[str, Any]


@dataclass(frozen=True)
class Observation:
    """The observation of one call whose arguments `required` require grad.

    Attributes:
        call: the index of the call among those of its operation.
        required: the parameter names of these arguments.
        kept: the observation of each tensor, by name.
        nodes: the kinds of node in its graph.
    """

    call: int
    required: frozenset[str]
    kept: dict[str, Kept]
    nodes: frozenset[str]


def table(names: Sequence[str] = (), workers: int = 2) -> dict[str, Any]:
    """Return the atlas as one JSON object, of the operations named or of all."""
    chosen = [name for name in operations() if not names or name in names]
    with ProcessPoolExecutor(workers, get_context("spawn"), initializer=_quiet) as pool:
        entries = list(pool.map(entry_or_reason, chosen, chunksize=4))
    return {
        "format": FORMAT,
        "pytorch": torch.__version__.partition("+")[0],
        "operations": [entry for entry in entries if "keeps" in entry],
        "not_covered": [entry for entry in entries if "keeps" not in entry],
    }


def _quiet() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)


def entry_or_reason(name: str) -> dict[str, Any]:
    """Return the entry of an operation, given by name and form, or the reason why it has no entry."""
    op = operations()[name]
    named = {"name": op.name} | ({"form": op.variant_test_name} if op.variant_test_name else {})
    try:
        return named | entry(op)
    except NotImplementedError as error:
        return named | {"why": str(error)}


def entry(op: Any) -> dict[str, Any]:
    """Return the entry of one operation.

    Raises:
        NotImplementedError: no call of the operation could be observed here.
    """
    calls = calls_of(op)
    seen = list(_observations(calls))
    if not seen:
        raise NotImplementedError("none of PyTorch's own samples can be differentiated on the CPU")
    found = {
        "aliases": sorted({alias.name for alias in op.aliases}),
        "nodes": sorted(frozenset().union(*(one.nodes for one in seen))),
        "calls": len({one.call for one in seen}),
        "arguments": [name for name in _tensors(calls, seen) if name in _arguments(calls)],
        "outputs": [name for name in _tensors(calls, seen) if name not in _arguments(calls)],
        "gradients": sorted(frozenset().union(*(one.required for one in seen))),
        "keeps": _rows(calls, seen),
    }
    notes = notes_on(key_of(op), found["keeps"])
    return found | _in_place(op) | ({"notes": notes} if notes else {})


def _in_place(op: Any) -> dict[str, Any]:
    calls = calls_of(op, in_place=True)
    seen = list(_observations(calls))
    if not seen:
        return {}
    return {"in_place": {"name": in_place_form(op)[0], "keeps": _rows(calls, seen)}}


def _observations(calls: Sequence[Call]) -> Iterator[Observation]:
    for number, call in enumerate(calls):
        every = [call.differentiable]
        for required in every + [(at,) for at in call.differentiable if len(call.differentiable) > 1]:
            try:
                kept = observed(call, required)
                nodes = frozenset(node.name() for node in nodes_of(made(call, required)))
            except (RuntimeError, TypeError, IndexError, ValueError, NotImplementedError):
                continue  # a sample that cannot be differentiated here, or not in place
            if kept:
                yield Observation(number, frozenset(call.names[at] for at in required), kept, nodes)


def _tensors(calls: Sequence[Call], seen: Sequence[Observation]) -> list[str]:
    """Return the names of all tensors of the calls, arguments first."""
    known = dict.fromkeys(name for one in seen for name in one.kept)
    return [name for name in _arguments(calls) if name in known] + [
        name for name in known if name not in _arguments(calls)
    ]


def _arguments(calls: Sequence[Call]) -> list[str]:
    return list(dict.fromkeys(name for call in calls for name in call.names))


def _rows(calls: Sequence[Call], seen: Sequence[Observation]) -> list[Row]:
    """Return what is kept for which gradients under which condition, one row for each that differs."""
    facts = facts_of(calls)
    merged: dict[tuple[str, str, bool, bool], Row] = {}
    for name in _tensors(calls, seen):
        for gradient in _gradients(seen):
            about = [one for one in seen if one.required == gradient and name in one.kept]
            for row in _judged(facts, about, name):
                into = merged.setdefault((name, *row.values()), {"what": name, "for": [], **row})
                into["for"] = sorted({*into["for"], *gradient})
    return list(merged.values())


def _gradients(seen: Sequence[Observation]) -> list[frozenset[str]]:
    """Return the gradients of an entry: for each argument alone, and for several together only if no call has one alone."""
    alone = sorted({one.required for one in seen if len(one.required) == 1}, key=sorted)
    return alone or sorted({one.required for one in seen}, key=sorted)


def _judged(facts: Sequence[dict[str, bool]], about: Sequence[Observation], name: str) -> Iterator[Row]:
    told = [facts[one.call] for one in about]
    guarded = [one.kept[name].guarded for one in about]
    silent = [one.kept[name].read is True and not one.kept[name].guarded for one in about]
    if any(guarded):
        yield {
            "when": condition(told, guarded),
            "guarded": True,
            "read": any(one.kept[name].read is True for one in about),
        }
    if any(silent):
        yield {"when": condition(told, silent), "guarded": False, "read": True}
