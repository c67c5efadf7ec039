"""What is declared of a program of the corpora beside the large one, held against plain PyTorch and against the tape."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from autograder.tape import record
from autograder.tape.recording.verdict_types import Verdict
from autograder.tape.run.child_processes import process_groups_kept
from tests.corpus.oracles import close, reference, run
from tests.corpus.programs import Program


def assert_declared(program: Program, beside: Callable[[], AbstractContextManager] = nullcontext) -> None:
    """Makes sure that plain PyTorch does what is declared: it raises there, or gives the reference's gradients, or others.

    Where no reference is written, the gradients of a run with a private copy of every saved tensor stand for it; `beside` makes
    the context of that run. What looks for its own source (`torch.jit.script`) finds it.
    """
    linecache.cache[program.file] = (len(program.source), None, program.source.splitlines(keepends=True), program.file)
    with process_groups_kept():
        seen = run(program)
    if seen.raised:
        assert program.outcome == seen.raised, seen.message
        return
    if program.truth:
        right = reference(program)
    else:
        with beside(), process_groups_kept():
            right = run(program, clone_on_save=True).gradients
    assert program.outcome == ("correct" if close(seen.gradients, right) else "silently-wrong"), (seen, right)


def assert_explained(program: Program) -> Verdict:
    """Makes sure that the tape says what is declared, names the harmful line once and the line that saved, and blames no other line."""
    verdict = record(program.source, file=program.file).verdict
    assert program.outcome == verdict.outcome, verdict
    assert not any("stopped early" in note for note in verdict.notes), verdict.notes
    if program.tensor:
        assert program.harm == {place.line for harm in verdict.harms for place in harm.mutated_at}, verdict
        assert program.saves & {harm.saved_at.line for harm in verdict.harms}, verdict
    else:
        assert not verdict.harms, verdict.harms
    return verdict
