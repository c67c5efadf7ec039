"""Convert the findings of a watch on an exception to a Recording with a verdict and no steps."""

from __future__ import annotations

import linecache
import traceback

import torch

from autograder.errors import InputError, message_of
from autograder.locale.translations import in_english
from autograder.tape.recording import schema
from autograder.tape.recording.schema import Recording, SourceFile
from autograder.tape.recording.verdict_types import Harm, Problem, Verdict
from autograder.tape.watch.call_listener import is_own
from autograder.tape.watch.watch_session import KEPT_HARMS

_NO_REPAIR = in_english(
    "A watch recorded this in a running job; it did not check whether the bytes changed. `autograder "
    "explain FILE` runs a program by itself and searches for fixes."
)


def recording_of_error(error: BaseException) -> Recording:
    """Return the recording of an exception that a backward raised under `autograder.watch()`.

    Raises:
        InputError: if no watch was open, or if no in-place modification caused the error.
    """
    harms: tuple[Harm, ...] | None = next(filter(None, (getattr(one, KEPT_HARMS, None) for one in _chain(error))), None)
    if harms is None:
        raise InputError(
            in_english(
                "This {error} contains no record of in-place modifications: no watch was open when backward "
                "raised it. Put `with autograder.watch():` around forward and backward, and run it again.",
                error=type(error).__name__,
            )
        )
    problem = Problem(type(error).__name__, message_of(error), _own_line(error))
    verdict = Verdict("raises-backward", problem, harms, notes=(_NO_REPAIR,))
    return Recording(
        schema.VERSION, str(torch.__version__), _files(harms), steps=(), tensors=(), storages=(), nodes=(), saved=(),
        backward=(), verdict=verdict,
    )  # fmt: skip


def _chain(error: BaseException | None) -> list[BaseException]:
    """Return an exception and the exceptions in its chain of causes and contexts."""
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


def _own_line(error: BaseException) -> int | None:
    lines = [line for frame, line in traceback.walk_tb(error.__traceback__) if is_own(frame.f_code.co_filename)]
    return lines[-1] if lines else None


def _files(harms: tuple[Harm, ...]) -> tuple[SourceFile, ...]:
    """Return the files that the harms name, starting with the file of the first modification."""
    places = [place for harm in harms for place in (*harm.mutated_at, harm.saved_at) if place.file]
    names = dict.fromkeys(place.file for place in places) or {"<job>": None}
    return tuple(SourceFile(name, "".join(linecache.getlines(name))) for name in names)
