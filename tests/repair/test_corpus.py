"""Every broken program of the corpus: how many are repaired, and whether plain PyTorch agrees that they are."""

import zlib
from dataclasses import replace

import pytest
import torch

from autograder.tape.repair.edits import apply_fix
from tests.corpus import oracles
from tests.corpus.once import differences, reference, repairs_of, run
from tests.corpus.oracles import Gradients, close
from tests.corpus.programs import Program, programs

# What they raise no rewrite answers: shapes that do not fit, an integer asked for its gradient, a backward that raises itself.
NOT_OURS = {"facts_graph/shape_error", "facts_graph/integer_grad", "facts_functions/backward_raises"}
BROKEN = [program for program in programs() if program.outcome != "correct" and program.name not in NOT_OURS]
ENOUGH = 0.9


SAMPLE = 12
"""`test` tries every n-th module, since repairs take seconds each; `test --all` tries them all."""

LONGEST = {"forward_hooks[silent]"}
"""For these of the sample the search goes on until its time is up: they are left to the weekly `test --all`."""


def case(program: Program):
    """Return a program as a parameter; most modules are slow."""
    left_out = zlib.crc32(program.name.encode()) % SAMPLE != 0 or program.name in LONGEST
    marks = [pytest.mark.slow] if program.function and left_out else []
    return pytest.param(
        program, id=program.name, marks=[*marks, pytest.mark.exhaustive] if program.name in LONGEST else marks
    )


# A write through .data behind the last operation: the loss that ran is exp(2 a) times 2, where a and b have the same values
# and b is a constant. A repair that keeps this loss has its slope; a private copy of what was saved knows nothing of it.
SLOPES_OF_WHAT_RAN = {"facts_aliases/data_then_detached": {"a": 2 * torch.tensor([0.6, 1.4]).exp()}}


def rights(program: Program) -> list[Gradients]:
    """Return the gradients that independent witnesses call right for the program as it was written."""
    cloned = run(program, clone_on_save=True)
    if cloned.raised:
        return []  # it does not fail for a write into a saved tensor, and nobody knows what it was to compute
    found = [cloned.gradients]
    if program.truth:
        found.append(reference(program))
    elif not program.function:
        found.append(differences(program))
    if program.name in SLOPES_OF_WHAT_RAN:
        found.append(SLOPES_OF_WHAT_RAN[program.name])
    return found


@pytest.mark.parametrize("program", map(case, BROKEN))
def test_repairs_hold_without_the_tape(program):
    """Each repaired text runs in plain PyTorch; if it keeps every value, its gradient agrees with an independent witness."""
    found = repairs_of(program)
    known = rights(program)
    for fix in found.fixes:
        repaired = replace(program, source=apply_fix(program.source, fix), truth="")
        seen = oracles.run(repaired)
        assert seen.raised is None, (fix, seen.message)
        if not fix.changes and known:
            assert any(close(seen.gradients, right) for right in known), fix
        # A leaf with a new value is no function of its old value, and finite differences need hooks that a program may have taken.
        blind = known or program.function or "no_grad" in fix.after or "_raw_saved" in program.source
        slopes = {} if blind else oracles.differences(repaired)
        assert not slopes or close(oracles.run(repaired, dtype=torch.float64).gradients, slopes), fix


@pytest.mark.slow
@pytest.mark.exhaustive  # the search for every broken program, in one test
def test_most_of_the_corpus_is_repaired(capsys):
    """At least nine broken programs in ten get a proven repair; the others are named."""
    without = [program.name for program in BROKEN if not repairs_of(program).fixes]
    with capsys.disabled():
        print(
            f"\n{len(BROKEN) - len(without)} of {len(BROKEN)} broken programs repaired; not: {', '.join(without) or 'none'}"
        )
    assert len(without) <= (1 - ENOUGH) * len(BROKEN)
