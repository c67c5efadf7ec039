"""The lines of a cell that a picture shows."""

import pytest

from autograder.tape.recording.schema import Recording, SourceFile, Step, from_json, to_json
from autograder.tape.recording.verdict_types import Place, Verdict
from autograder.view.scene.composition import lines_shown

CELL = (
    '"""Two programs."""\n\n\n@observed\ndef first():\n    a = 1\n\n\n@other\ndef second():\n    b = 2\n    return b\n'
)


def run_of(*lines: int, source: str = CELL) -> tuple[Recording, SourceFile]:
    """Return a recording in which these lines ran, and its program."""
    program = SourceFile("cell", source)
    steps = tuple(Step(number, Place("cell", line, "")) for number, line in enumerate(lines))
    recording = Recording(1, "2.13.0", (program,), steps, (), (), (), (), (), Verdict("correct"))
    return from_json(to_json(recording)), program


@pytest.mark.parametrize(
    ("lines", "shown"),
    [
        pytest.param((6,), range(5, 7), id="the first function"),
        pytest.param((11, 12), range(9, 13), id="the second function"),
        pytest.param((6, 11), range(1, 13), id="both functions"),
        pytest.param((1, 6), range(1, 13), id="a line outside"),
        pytest.param((), range(1, 13), id="no line"),
    ],
)
def test_only_the_function_that_ran_is_shown(lines, shown):
    """Beside other functions, the one that ran is shown, without a decorator of the course; whatever ran elsewhere shows the whole cell."""
    assert shown == lines_shown(*run_of(*lines))


def test_a_cell_that_is_no_python_is_shown_whole():
    """A magic in the first line does not stop a picture."""
    assert range(1, 3) == lines_shown(*run_of(2, source="%%explain\na = 1\n"))


def test_a_program_without_other_functions_is_shown_without_a_decorator_of_the_course():
    """A picture repeats the program of its cell, and not the question about it."""
    source = "@versions_hidden\ndef alone():\n    a = 1\n"
    assert range(2, 4) == lines_shown(*run_of(3, source=source))
    assert range(1, 4) == lines_shown(*run_of(3, source=source.replace("versions_hidden", "torch.no_grad()")))
