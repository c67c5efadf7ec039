"""What a watch found of an exception, as a Recording that holds a verdict and no steps."""

from __future__ import annotations

import linecache
import traceback

import torch

from autograder.errors import InputError, message_of
from autograder.locale.translations import in_english
from autograder.tape.recording import schema
from autograder.tape.recording.schema import Recording, SourceFile
from autograder.tape.recording.verdict_types import Harm, Problem, Verdict
from autograder.tape.watch.call_sites import is_own
from autograder.tape.watch.watch_session import KEPT_HARMS

_NO_REPAIR = in_english(
    "This is what a watch saw of a running job; whether the bytes changed was not looked at. "
    "`autograder explain FILE` runs a program by itself, and looks for repairs."
)


def recording_of_error(error: BaseException) -> Recording:
    """Return the recording of an exception that left a backward under `autograder.watch()`.

    Raises:
        InputError: no watch saw it, or it is no write's doing.
    """
    harms: tuple[Harm, ...] | None = next(filter(None, (getattr(one, KEPT_HARMS, None) for one in _chain(error))), None)
    if harms is None:
        raise InputError(
            in_english(
                "This {error} says nothing of a write in place: no watch was open when backward raised it. Put "
                "`with autograder.watch():` around forward and backward, and run it again.",
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
    """Returns an exception, and those that it was raised from or while handling."""
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


def _own_line(error: BaseException) -> int | None:
    lines = [line for frame, line in traceback.walk_tb(error.__traceback__) if is_own(frame.f_code.co_filename)]
    return lines[-1] if lines else None


def _files(harms: tuple[Harm, ...]) -> tuple[SourceFile, ...]:
    """Returns the files that the harms name, that of the first write first."""
    places = [place for harm in harms for place in (*harm.mutated_at, harm.saved_at) if place.file]
    names = dict.fromkeys(place.file for place in places) or {"<job>": None}
    return tuple(SourceFile(name, "".join(linecache.getlines(name))) for name in names)
