"""The preliminary answer of `explain` in one line, before the search for fixes."""

from __future__ import annotations

from autograder.locale.translations import translated
from autograder.tape.recording.schema import Recording
from autograder.view.text.harm_sentences import where


def first_answer(recording: Recording) -> str:
    """Return the outcome and the responsible line, such as "silently-wrong, line 12: h.data.mul_(2)"."""
    verdict, file = recording.verdict, recording.programs[0].file
    places = [place for harm in verdict.harms for place in harm.mutated_at]
    raised = verdict.error.place(file) if verdict.error else None
    if places:
        place = translated("{where}: {text}", where=where(places[0], file), text=places[0].text)
    elif raised:
        place = where(raised, file)
    else:
        return verdict.outcome
    return translated("{outcome}, {where}", outcome=verdict.outcome, where=place)
