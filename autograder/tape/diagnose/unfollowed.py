"""Where something of autograd happened in a process that nobody follows: then no outcome is named."""

from __future__ import annotations

from autograder.locale.translations import in_english
from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.run.programs.source_text import ProgramError


class UnfollowedError(ProgramError):
    """What decides the outcome happened in another process; the message says what was seen."""


def refuse_unfollowed(file: str, evidence: Evidence) -> None:
    """Raises where other processes did what an answer would have to mention; a harm that was seen here is reported all the same.

    Raises:
        UnfollowedError: the message is one sentence.
    """
    children, outcome = evidence.plain.children, evidence.outcome
    if outcome == "silently-wrong" and children.forked and _wrote_into_shared_memory(evidence):
        raise UnfollowedError(
            in_english(
                "{file}: another process that the program started wrote into shared memory which backward needed; its line "
                "is not known, because only this process is followed. Explain that part in one process: call its function "
                "itself, or set num_workers=0.",
                file=file,
            )
        )
    if outcome != "correct":
        return
    if children.called_backward:
        raise UnfollowedError(
            in_english(
                "{file}: another process that the program started called backward, and nothing can be said of it, because "
                "only this process is followed. Explain that part in one process: call its function itself, or set "
                "num_workers=0.",
                file=file,
            )
        )
    if children.pythons and not evidence.plain.calls:
        raise UnfollowedError(
            in_english(
                "{file}: the program started another Python program and never called backward itself, so nothing was "
                "checked. Explain that other program.",
                file=file,
            )
        )


def _wrote_into_shared_memory(evidence: Evidence) -> bool:
    """Whether a saved tensor changed in memory that processes share, and no call here wrote it."""
    changed = {save.memory for save in evidence.state.consumed if save.changed}
    return any(write.shared and write.memory in changed for write in evidence.state.writes)
