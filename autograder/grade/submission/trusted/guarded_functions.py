"""Functions of libraries that ask first, while tests of a submission run in the trusted process."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

Function = Callable[..., Any]


@contextmanager
def guarded_functions(names: Mapping[str, Iterable[str]], guard: Callable[[Function], Function]) -> Iterator[None]:
    """A block in which other functions stand in place of those that the loaded modules have of these.

    Args:
        names: by module; "save", or "profile.export_stacks" for one of a class.
        guard: returns what stands in place of a function.
    """
    with ExitStack() as stack:
        for owner, name in list(_loaded(names)):
            stack.enter_context(patch.object(owner, name, guard(getattr(owner, name))))
        yield


def _loaded(names: Mapping[str, Iterable[str]]) -> Iterator[tuple[Any, str]]:
    for module in names.keys() & sys.modules.keys():
        for path in names[module]:
            *way, name = path.split(".")
            owner: Any = sys.modules[module]
            for step in way:
                owner = getattr(owner, step, None)
            if hasattr(owner, name):
                yield owner, name
