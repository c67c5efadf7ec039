"""Over the corpus: a watched program is the unwatched one, and what a watch says of a refused backward is what `explain` says."""

import warnings

import pytest

from autograder.tape.run.engine import Listener
from autograder.tape.run.once import run_once
from autograder.tape.run.program import from_source
from autograder.tape.watch.job_watch import watch
from tests.corpus.once import recorded
from tests.corpus.programs import programs
from tests.tape.test_observer_effect import Witness

CORPUS = programs()
REFUSED = [program for program in CORPUS if program.outcome == "raises-backward" and program.harm]

# No function mode receives `Tensor.set_` (PyTorch 2.13): the tensor and the line that saved it are named, the write is not.
UNHEARD = {"facts_aliases/set_write"}
# A refused node that Python cannot look into (CopySlices): `explain` says that, a watch the next one that it can read.
OTHER_SAVE = {"swiglu_backward_reuses_buffers[bug]"}


def program_of(program):
    """Returns what runs."""
    return from_source(program.source, program.file, None, program.function)


@pytest.mark.parametrize("program", CORPUS, ids=lambda program: program.name)
@pytest.mark.parametrize("check", ["versions", "bytes"])
def test_a_watched_run_is_the_unwatched_run(program, check):
    """Error text and line, nodes, versions, gradients and which of them share memory: equal bit for bit."""
    alone, watched = Witness(), Witness()
    plain = run_once(program_of(program), alone)
    with warnings.catch_warnings(action="ignore"):
        seen = run_once(program_of(program), watched, lambda: watch(check))

    assert plain.problem == seen.problem
    assert repr(alone.seen) == repr(watched.seen)


@pytest.mark.parametrize("program", REFUSED, ids=lambda program: program.name)
def test_the_lines_are_those_of_explain(program):
    """The write's line is a declared one, and line, saving line, node and versions are those of a harm that `explain` lists."""
    watching = watch()
    run_once(program_of(program), Listener(), lambda: watching)
    harm, told = watching.harms[0], recorded(program).verdict.harms

    lines = {place.line for place in harm.mutated_at}
    assert lines & program.harm or program.name in UNHEARD, harm
    if program.name not in UNHEARD | OTHER_SAVE:
        same = [
            one for one in told if (one.saved_at.line, one.saved_by, one.saved_version, one.version_now)
            == (harm.saved_at.line, harm.saved_by, harm.saved_version, harm.version_now)
        ]  # fmt: skip
        assert any(lines <= {place.line for place in one.mutated_at} for one in same), (harm, told)


@pytest.mark.parametrize(
    "program", [one for one in CORPUS if one.outcome == "correct"], ids=lambda program: program.name
)
def test_no_alarm_over_a_right_program(program):
    """Under `check="versions"`, a program whose backward passes is told nothing."""
    watching = watch()
    run_once(program_of(program), Listener(), lambda: watching)
    assert () == watching.harms
