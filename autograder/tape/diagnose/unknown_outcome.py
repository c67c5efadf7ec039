"""Errors of a program that are unrelated to autograd, and outcomes that are unknown because of another process or the time."""

from __future__ import annotations

import builtins
import linecache
import os
import re

from msgspec import structs

from autograder.tape.diagnose.assembly import freeze
from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.harms import find_harms, unrecorded_write
from autograder.tape.observe.observer import Observer
from autograder.tape.oracle.all_runs import TOLERANCE
from autograder.tape.oracle.gradient_comparison import gradients_of
from autograder.tape.recording.schema import Recording, SourceFile
from autograder.tape.recording.verdict_types import Outcome, Problem, Verdict
from autograder.tape.run.budget import current_budget
from autograder.tape.run.finished_run import Run, is_out_of_time
from autograder.tape.run.programs.program import Program
from autograder.tape.run.programs.source_text import ProgramError

# Built-in exceptions that PyTorch raises for violations of autograd's rules; it uses no others for that (2.6 to 2.15).
_TYPES = ("RuntimeError", "ValueError", "TypeError", "AttributeError", "NotImplementedError")
# The messages differ between releases; each message on a rule of autograd contains one of these words.
_WORDS = re.compile(
    r"in-?place|backward|autograd|\bgrad|requires?_grad|require gradients?|\bleaf\b|leaves|differentia|inference"
    r"|checkpoint|saved tensor|written-to|\bgraph\b|inputs? to the function|Couldn't swap|mark_dirty|empty parameter list",
    re.IGNORECASE,
)


def is_foreign(problem: Problem, in_backward: bool, source: str) -> bool:
    """Return whether an exception has nothing to do with autograd. `source` is the text of the file that raised it."""
    is_builtin = isinstance(getattr(builtins, problem.type, None), type)
    # `torch.load` raises UnpicklingError with a text about checkpoints.
    if (is_builtin and problem.type not in _TYPES) or problem.type == "UnpicklingError":
        return True
    lines = source.splitlines()
    line = lines[problem.line - 1].strip() if problem.line and problem.line <= len(lines) else ""
    if line.startswith("raise ") and " from " not in line:
        return True
    if "NoneType" in problem.message:
        is_closure = ".step(" in line and "real number" in problem.message  # one that returns no loss
        # The line may use a gradient through a name that another line binds to one.
        binding = [other for other in lines if "grad" in other and re.search(r"=|\bfor\b", other)]
        bound = set(re.findall(r"\b[A-Za-z_]\w*\b", "\n".join(binding)))
        return not (is_closure or "grad" in line or bound.intersection(re.findall(r"\b[A-Za-z_]\w*\b", line)))
    # An error of the engine is at the line that calls it; one of a custom backward or a hook, at a line of that function.
    calls_engine = in_backward and (not line or "backward" in line or "grad" in line)
    return not (calls_engine or _WORDS.search(problem.message))


def is_foreign_error(recording: Recording) -> bool:
    """Return whether the program ended with an error that has nothing to do with autograd."""
    verdict = recording.verdict
    if verdict.error is None or not recording.programs or (verdict.outcome == "raises-backward" and verdict.harms):
        return False
    sources = {program.file: program.source for program in recording.programs}
    source = sources.get(verdict.error.file or recording.programs[0].file, "")
    return is_foreign(verdict.error, verdict.outcome == "raises-backward", source)


def recording_of_error(program: Program, plain: Run) -> Recording | None:
    """Return the recording of a run that such an error ended before any backward call was complete, or None for any other run."""
    problem = plain.problem
    if problem is None or any(call.error is None for call in plain.calls):
        return None
    is_own = problem.file in ("", program.file)
    path = os.path.join(program.folder, problem.file)
    source = program.source if is_own else "".join(linecache.getlines(path))
    if not is_foreign(problem, plain.in_backward, source):
        return None
    outcome: Outcome = "raises-backward" if plain.in_backward else "raises-forward"
    verdict = Verdict(outcome, problem, runs=current_budget().runs)
    recording = freeze(program, Observer(program).state, (), (), verdict)
    if is_own:
        return recording
    return structs.replace(recording, programs=(*recording.programs, SourceFile(problem.file, source)))


class UnknownOutcomeError(ProgramError):
    """The outcome is unknown. The message gives the reason."""


def refuse_unfollowed(evidence: Evidence) -> None:
    """Raise an UnknownOutcomeError if another process determined the outcome. Harms of this process are reported in any case."""
    children, outcome = evidence.runs.plain.children, evidence.outcome
    changed = {save.memory for save in evidence.state.consumed if save.changed}
    is_foreign_write = any(write.shared and write.memory in changed for write in evidence.state.writes)
    if outcome == "silently-wrong" and children.forked and is_foreign_write:
        raise UnknownOutcomeError.of(
            "outcome.shared_memory|{file}: another process that the program started wrote into shared memory which "
            "backward needed; its line is not known, because explain follows only this process. Explain that part in "
            "one process: call its function directly, or set num_workers=0.",
            file=evidence.file,
        )
    if outcome != "correct":
        return
    if children.called_backward:
        raise UnknownOutcomeError.of(
            "outcome.other_process_backward|{file}: another process that the program started called backward, and "
            "explain cannot check it, because it follows only this process. Explain that part in one process: call its "
            "function directly, or set num_workers=0.",
            file=evidence.file,
        )
    if children.pythons and not evidence.runs.plain.calls:
        raise UnknownOutcomeError.of(
            "outcome.other_program|{file}: the program started another Python program and never called backward "
            "itself, so nothing was checked. Explain that other program.",
            file=evidence.file,
        )


def refuse_uncompared(evidence: Evidence) -> None:
    """Raise an UnknownOutcomeError if no reference computed the gradients within the time limit."""
    observed, error = evidence.runs.observed, evidence.runs.cloned_saves.error
    late = is_out_of_time(error)
    if evidence.outcome == "correct" and error is not None and not late:
        raise UnknownOutcomeError.of(
            "outcome.copies_raised|{file}: the gradients could not be compared, because a run with private copies of "
            "the saved tensors raised {error}, and the program itself did not. Please report it with this program.",
            file=evidence.file, error=type(error).__name__,
        )  # fmt: skip
    if evidence.outcome == "correct" and late and (observed.is_truncated or is_out_of_time(observed.error)):
        raise UnknownOutcomeError.of(
            "outcome.not_compared_in_time|{file}: the time limit was reached before the gradients could be compared; "
            "backward calls until then: {calls}. Make the run shorter, or give it more time with --budget.",
            file=evidence.file, calls=len(evidence.runs.plain.calls),
        )  # fmt: skip


def refuse_inherited(evidence: Evidence) -> None:
    """Raise an UnknownOutcomeError if backward used a tensor that an earlier cell's graph saved and this cell changed.

    This tensor was not copied when it was saved, so the correct gradient is unknown.
    """
    state = evidence.state
    changed = [save for save in state.consumed if save.changed and save.node.id < state.inherited]
    if evidence.outcome == "correct" and changed:
        raise UnknownOutcomeError.of(
            "outcome.earlier_cell|{file}: {node}, which an earlier cell created, keeps a tensor whose values were "
            "changed here, and the right gradient is not known. Explain both cells together, as one.",
            file=evidence.file, node=changed[0].node.name,
        )  # fmt: skip


def is_unexplained(evidence: Evidence) -> bool:
    """Return whether no recorded modification explains a wrong gradient, so that the program may not be deterministic."""
    harms = find_harms(evidence.explaining) if evidence.outcome == "silently-wrong" else ()
    # Unrecorded modifications are found by differences of losses, which are meaningless as well.
    return evidence.outcome == "silently-wrong" and all(harm.kind == unrecorded_write.name for harm in harms)


def refuse_unrepeated(evidence: Evidence, again: Run) -> None:
    """Raise an UnknownOutcomeError if wrong gradients differ between runs, because other differences then have no meaning.

    `again` is another run of the unchanged program, because two runs may agree by chance.
    """
    if is_out_of_time(evidence.runs.observed.error):
        raise UnknownOutcomeError.of(
            "outcome.undecided_in_time|{file}: the gradients differ from those of a run with private copies of the "
            "saved tensors, and the time limit was reached before explain could decide whether an in-place "
            "modification or an unseeded random number is the cause. Make the run shorter, or give it more time with --budget.",
            file=evidence.file,
        )
    if not evidence.repeats or evidence.got.first_difference(gradients_of(again), TOLERANCE) is not None:
        raise UnknownOutcomeError.of(
            "outcome.runs_differ|{file}: two runs of the program differ although both started with the same seeds, and "
            "no in-place modification broke backward, so explain cannot determine the outcome. Set a seed for "
            "its random numbers.",
            file=evidence.file,
        )
