"""Every declaration of the corpus holds under plain PyTorch, without a line of the tape."""

from dataclasses import replace

import pytest
import torch

from tests.corpus.once import differences, reference, run, watched
from tests.corpus.oracles import Gradients, close
from tests.corpus.programs import Program, programs

CORPUS = programs()


def named(some: list[Program]):
    """Returns the parametrisation that calls each program by its name."""
    return pytest.mark.parametrize("program", some, ids=lambda program: program.name)


def got_and_right(program: Program) -> tuple[Gradients, Gradients]:
    """Returns plain gradients beside the strongest witness's: reference, else finite differences, else clone-on-save."""
    if program.truth:
        return run(program).gradients, reference(program)
    if program.oracle == "clone":
        return run(program).gradients, run(program, clone_on_save=True).gradients
    return run(program, dtype=torch.float64).gradients, differences(program)


@named(CORPUS)
def test_outcome_is_what_pytorch_does(program):
    """What is declared to raise raises there; what is declared right or wrong is so by an oracle that saw no write."""
    seen = run(program)
    if seen.raised:
        assert program.outcome == seen.raised, seen.message
    else:
        got, right = got_and_right(program)
        assert program.outcome == ("correct" if close(got, right) else "silently-wrong"), (got, right)


@named([p for p in CORPUS if p.outcome in ("correct", "silently-wrong") and p.truth and not p.unseen])
def test_reference_agrees_with_clone_on_save(program):
    """Where private copies of the saved tensors change the gradients at all, they change them into the reference's."""
    plain, cloned = run(program).gradients, run(program, clone_on_save=True).gradients
    assert close(plain, cloned) or close(reference(program), cloned), (reference(program), cloned)


@named([program for program in CORPUS if program.harm and not program.unseen])
def test_marked_lines_are_those_that_wrote(program):
    """The lines marked `harm` and `saves` are those that Python's line tracing and saved-tensor hooks find."""
    harmful, saving = watched(program)
    assert program.harm == harmful
    assert program.saves <= saving


@named([program for program in CORPUS if program.harm and program.unseen and not program.twin])
def test_without_the_marked_lines(program):
    """Where hooks are blind (a write before the save, a stash on ctx), taking the marked lines out makes it right."""
    lines = program.source.splitlines()
    for number in program.harm:
        lines[number - 1] = " " * (len(lines[number - 1]) - len(lines[number - 1].lstrip())) + "pass"
    repaired = replace(program, source="\n".join(lines) + "\n", truth="")
    plain = run(repaired)
    assert plain.raised is None, plain.message
    if not program.function and program.oracle != "clone":
        assert close(*got_and_right(repaired))
    elif program.truth:
        assert close(plain.gradients, reference(program))


def test_the_corpus_is_large_and_balanced():
    """At least 125 programs, three in ten of them correct, 60 at real-world size, each name once."""
    correct = [program for program in CORPUS if program.outcome == "correct"]
    modules = [program for program in CORPUS if program.function]
    assert len(CORPUS) >= 125
    assert len(correct) >= 0.3 * len(CORPUS)
    assert len(modules) >= 60
    assert len({program.name for program in CORPUS}) == len(CORPUS)
