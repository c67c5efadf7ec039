"""A watch with features around the engine: AMP, DDP, LBFGS, GradScaler, checkpoints, threads, hooks and compiled functions."""

import linecache
import warnings

import pytest
import torch

import autograder
from autograder.tape.run.child_processes import process_groups_kept
from autograder.tape.watch.watch_session import JobWatch
from tests.corpus.oracles import fresh_torch, namespace_of
from tests.corpus.programs import HERE, Program, programs

FOLDERS = ("engine", "threads", "checkpoints", "compiled")
CORPUS = [one for folder in FOLDERS for one in programs(HERE / folder) if "inductor" not in one.name]
BLIND = {
    "hooks/save_on_cpu[bug]": "hooks that hand out no tensor",
    "hooks/hooks_in_a_list[bug]": "hooks that hand out no tensor",
    "hooks/backward_writes_its_input[bug]": "a gradient, which no node keeps",
    "transforms/scripted_inside[bug]": "a scripted function makes no calls",
    "transforms/func_grad[bug]": "the tensors of torch.func have no storage to find again",
}
"""Writes that a watch does not observe, and the reason; a refused write is then reported as unobserved."""
SEEN = [
    one
    for one in CORPUS
    if one.tensor and one.name not in BLIND and not one.name.startswith(("backends", "training/e"))
]


@pytest.fixture(autouse=True)
def groups_kept():
    """A DistributedDataParallel is let go before its process group, as `process_groups_kept` explains."""
    with process_groups_kept():
        yield


def watched(program: Program, check: str) -> tuple[JobWatch, BaseException | None]:
    """Run a program under a watch; return the watch, and the program's error."""
    torch.compiler.reset()
    linecache.cache[program.file] = (0, None, program.source.splitlines(keepends=True), program.file)
    watching, error = autograder.watch(check), None
    with fresh_torch(), namespace_of(program) as space, warnings.catch_warnings(action="ignore"):
        try:
            with watching:
                exec(compile(program.source, program.file, "exec"), space)
        except Exception as raised:
            error = raised
    return watching, error


def names_of(some: list[Program]):
    """Return the parametrisation that calls each program by its name."""
    return pytest.mark.parametrize("program", some, ids=lambda program: program.name)


def in_user_code(program: Program) -> bool:
    """Return whether a watch can observe the harmful line: not in a compiled function, nor in a block recomputed without a check."""
    compiled = "torch.compile" in program.source and program.name.split("/")[1] not in ("loop_aot[bug]", "cache[bug]")
    silent_block = "checkpoint" in program.source and program.outcome == "silently-wrong"
    return not compiled and not silent_block


@names_of([program for program in SEEN if in_user_code(program)])
def test_the_declared_line_is_named(program):
    """The line of a write that backward refuses is named; with a comparison of bytes, also of one that it does not notice."""
    watching, error = watched(program, "bytes" if program.outcome == "silently-wrong" else "versions")
    assert (error is not None) == program.outcome.startswith("raises")
    assert program.harm == {place.line for harm in watching.harms for place in harm.mutated_at}
    if error is not None:
        assert any(f"line {line}" in note for note in error.__notes__ for line in program.harm)
        assert any(note.startswith("autograder: ") for note in error.__notes__)


@names_of([program for program in CORPUS if program.outcome == "correct"])
def test_a_right_job_is_left_alone(program):
    """Nothing is raised or reported."""
    watching, error = watched(program, "versions")
    assert error is None
    assert not watching.harms


UNSEEN = [
    program
    for program in CORPUS
    if program.outcome == "raises-backward" and program.tensor and not (program in SEEN and in_user_code(program))
]


@names_of(UNSEEN)
def test_a_refused_write_that_was_not_seen_has_a_note(program):
    """If the write was not observed (compiled code, a script), the note says so, and names the needed tensor."""
    _, error = watched(program, "versions")
    notes = getattr(error, "__notes__", [])
    assert any(note.startswith("autograder: ") for note in notes)
