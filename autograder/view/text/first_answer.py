"""What can be said before any repair is looked for, in one line."""

from __future__ import annotations

from autograder.locale.translations import translated
from autograder.tape.recording.verdict_types import Place, Verdict


def first_answer(verdict: Verdict) -> str:
    """Returns the outcome and the line that did it, such as "silently-wrong, line 12: h.data.mul_(2)"."""
    places = [place for harm in verdict.harms for place in harm.mutated_at]
    if places:
        return translated("{outcome}, {where}", outcome=verdict.outcome, where=_where(places[0]))
    line = verdict.error.line if verdict.error else None
    return translated("{outcome}, line {line}", outcome=verdict.outcome, line=line) if line else verdict.outcome


def _where(place: Place) -> str:
    return translated("line {line}: {text}", line=place.line, text=place.text)
