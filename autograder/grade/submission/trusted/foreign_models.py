"""Keeps models that an answer has saved as a program of PyTorch's own from being loaded by a test.

TorchScript and exported programs call any of PyTorch's operations when they run, `aten::from_file` too, which writes into files.
Weights (`state_dict`) are data, and `torch.load` reads no more than these from a file that is not trusted.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from autograder.grade.submission.trusted.guarded_functions import guarded_functions

LOADERS = {"torch.jit": ("load", "jit_module_from_flatbuffer"), "torch.export": ("load",)}
"""Where PyTorch (2.13) reads a program; `torch.load` ends in `torch.jit.load` where it is given one."""


@contextlib.contextmanager
def no_loaded_models(known: list[bytes], refuse: Callable[[], Exception]) -> Iterator[None]:
    """A block in which PyTorch loads no program but those that are known.

    Args:
        known: the bytes of the teacher's files.
        refuse: returns the exception to raise for another one.
    """
    with guarded_functions(LOADERS, lambda load: _guarded(load, known, refuse)):
        yield


def _guarded(load: Callable[..., Any], known: list[bytes], refuse: Callable[[], Exception]) -> Callable[..., Any]:
    def guarded(*arguments: Any, **keywords: Any) -> Any:
        if not any(_content(argument) in known for argument in (*arguments, *keywords.values())):
            _raise(refuse())
        return load(*arguments, **keywords)

    return guarded


def _content(argument: Any) -> bytes | None:
    """Returns the bytes of a program that is given by a path, or as they are."""
    if isinstance(argument, bytes):
        return argument
    if isinstance(argument, (str, os.PathLike)) and os.path.isfile(argument):
        return Path(argument).read_bytes()
    return None


def _raise(error: Exception) -> NoReturn:
    raise error
