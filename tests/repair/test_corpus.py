"""Every broken program of the corpus: how many are repaired, and whether plain PyTorch agrees that they are."""

import functools
from dataclasses import replace

import pytest
import torch
from corpus.oracles import Gradients, close, differences, reference, run
from corpus.programs import Program, programs

from autograder.tape.diagnose.record import record_program
from autograder.tape.repair.fix_text import apply_fix
from autograder.tape.repair.program_factory import factory_of_text
from autograder.tape.repair.repairs import Repairs, find_repairs
from autograder.tape.run.source_text import ProgramError

# What they raise no rewrite answers: shapes that do not fit, an integer asked for its gradient, a backward that raises itself.
NOT_OURS = {"facts_graph/shape_error", "facts_graph/integer_grad", "facts_functions/backward_raises"}
BROKEN = [program for program in programs() if program.outcome != "correct" and program.name not in NOT_OURS]
ENOUGH = 0.9


@functools.cache
def repairs_of(program: Program) -> Repairs:
    """Returns the repairs of one program, found once."""
    factory = factory_of_text(program.source, program.file, function=program.function)
    try:
        verdict = record_program(factory.original).verdict
    except ProgramError:
        return Repairs()
    return find_repairs(factory, verdict)


def rights(program: Program) -> list[Gradients]:
    """Returns the gradients that independent witnesses call right for the program as it was written."""
    cloned = run(program, clone_on_save=True)
    if cloned.raised:
        return []  # it does not fail for a write into a saved tensor, and nobody knows what it was to compute
    found = [cloned.gradients]
    if program.truth:
        found.append(reference(program))
    elif not program.function:
        found.append(differences(program))
    return found


@pytest.mark.parametrize("program", BROKEN, ids=lambda program: program.name)
def test_repairs_hold_without_the_tape(program):
    """Each repaired text runs in plain PyTorch, and where it keeps every value it gives a gradient an independent witness has."""
    found = repairs_of(program)
    known = rights(program)
    for fix, meaning in zip(found.fixes, found.meanings, strict=True):
        repaired = replace(program, source=apply_fix(program.source, fix), truth="")
        seen = run(repaired)
        assert seen.raised is None, (fix, seen.message)
        if meaning is None and known:
            assert any(close(seen.gradients, right) for right in known), fix
        # A leaf set anew is no function of its old value, and finite differences need hooks that a program may have taken.
        blind = known or program.function or "no_grad" in fix.after or "_raw_saved" in program.source
        slopes = {} if blind else differences(repaired)
        assert not slopes or close(run(repaired, dtype=torch.float64).gradients, slopes), fix


def test_most_of_the_corpus_is_repaired(capsys):
    """At least nine broken programs in ten get a proven repair; the others are named."""
    without = [program.name for program in BROKEN if not repairs_of(program).fixes]
    with capsys.disabled():
        print(
            f"\n{len(BROKEN) - len(without)} of {len(BROKEN)} broken programs repaired; not: {', '.join(without) or 'none'}"
        )
    assert len(without) <= (1 - ENOUGH) * len(BROKEN)
