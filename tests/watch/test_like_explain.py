"""For the corpus: a watched program equals the unwatched one, and the watch agrees with `explain` on a refused backward."""

import warnings

import pytest

from autograder.tape.run.engine import Listener
from autograder.tape.run.programs.program import from_source
from autograder.tape.run.runner import Runner
from autograder.tape.watch.watch_session import watch
from tests.corpus.once import recorded
from tests.corpus.programs import programs
from tests.tape.observe.test_observer_effect import Witness

CORPUS = programs()
REFUSED = [program for program in CORPUS if program.outcome == "raises-backward" and program.harm]

SAMPLE = 6
"""One of this number of programs is run unwatched and watched in each run of the tests; the others in `test --slow`."""

# A refused node that Python cannot look into (CopySlices, a checkpoint's): one of the two names another that was refused as well.
OTHER_SAVE = {"swish_inplace_bwd[bug]", "facts_graph/checkpoint_input_written"}


def program_of(program):
    """Return the code that runs."""
    return from_source(program.source, program.file, None, program.function)


def slow_but_for_a_sample(all_programs):
    """Return the programs as parameters, with one of SAMPLE left unmarked."""
    marks = [() if index % SAMPLE == 0 else pytest.mark.slow for index in range(len(all_programs))]
    return [pytest.param(one, id=one.name, marks=mark) for one, mark in zip(all_programs, marks, strict=True)]


@pytest.mark.parametrize("program", slow_but_for_a_sample(CORPUS))
def test_a_watched_run_is_the_unwatched_run(program):
    """Error text and line, nodes, versions, gradients and their shared memory are equal bit for bit, with either check.

    `check="versions"` reports nothing for a correct program.
    """
    alone = Witness()
    plain = Runner(program_of(program)).run(alone)
    for watching in (watch("versions"), watch("bytes")):
        watched = Witness()
        watched.around = lambda _, watching=watching: watching
        with warnings.catch_warnings(action="ignore"):
            seen = Runner(program_of(program)).run(watched)

        assert plain.problem == seen.problem
        assert repr(alone.seen) == repr(watched.seen)
        assert program.outcome != "correct" or watching.bytes or not watching.harms


@pytest.mark.parametrize("program", REFUSED, ids=lambda program: program.name)
def test_the_lines_are_those_of_explain(program):
    """The write's line is a declared one, and line, saving line, node and versions are those of a harm that `explain` lists."""
    watching, listener = watch(), Listener()
    listener.around = lambda _: watching
    Runner(program_of(program)).run(listener)
    harm, told = watching.harms[0], recorded(program).verdict.harms

    lines = {place.line for place in harm.mutated_at}
    assert lines & program.harm, harm
    if program.name not in OTHER_SAVE:
        same = [
            one for one in told if (one.saved_at.line, one.saved_by, one.saved_version, one.version_now)
            == (harm.saved_at.line, harm.saved_by, harm.saved_version, harm.version_now)
        ]  # fmt: skip
        assert any(lines <= {place.line for place in one.mutated_at} for one in same), (harm, told)
