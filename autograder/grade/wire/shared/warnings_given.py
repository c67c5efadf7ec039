"""Warnings that the learner's code gives are given again in a test that listens to them, by `catch_warnings` or `pytest.warns`."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Annotated

import msgspec

from autograder.grade.wire.values.library_names import find, is_own, library_name

MOST = 100
LONGEST = 2000
Text = Annotated[str, msgspec.Meta(max_length=LONGEST)]


class GivenWarning(msgspec.Struct, frozen=True, array_like=True):
    """A warning: the library's class that its category is or extends, as a module and a name, and its text."""

    module: Text
    name: Text
    text: Text


class WarningFilters:
    """Whether a test has other filters than at its beginning, or keeps the warnings that it gets."""

    def __init__(self) -> None:
        self._filters, self._copy = warnings.filters, list(warnings.filters)

    def have_changed(self) -> bool:
        """Returns whether they have; entering `catch_warnings` makes another list (Python 3.11, Lib/warnings.py)."""
        return warnings.filters is not self._filters or list(warnings.filters) != self._copy


@contextlib.contextmanager
def warnings_kept(wanted: bool) -> Iterator[list[GivenWarning]]:
    """A block whose warnings are in the list after it, all of them: the filters are the test's."""
    found: list[GivenWarning] = []
    if not wanted:
        yield found
        return
    with warnings.catch_warnings(record=True) as kept:
        warnings.simplefilter("always")
        yield found
    found += [_described(one) for one in kept[:MOST]]


def give_again(given: list[GivenWarning]) -> None:
    """Gives the warnings here; where the filters say so, the first of them is raised."""
    for one in given[:MOST]:
        warnings.warn_explicit(one.text, _category(one), "<answer>", 1, module="__main__")


def _described(kept: warnings.WarningMessage) -> GivenWarning:
    names = (library_name(kind) for kind in kept.category.__mro__)
    module, name = next(known for known in names if known is not None)
    return GivenWarning(module[:LONGEST], name[:LONGEST], str(kept.message)[:LONGEST])


def _category(one: GivenWarning) -> type[Warning]:
    found = None if is_own(one.module) else find(one.module, one.name)
    return found if isinstance(found, type) and issubclass(found, Warning) else UserWarning
