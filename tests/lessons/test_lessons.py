"""Every exercise is proven by its stub, right and wrong answers, and every announced case is run in a lesson."""

import re
from typing import NamedTuple

import pytest
import torch

from autograder.check import prediction
from autograder.check.message import Incorrect, NotAttempted
from autograder.check.prediction import record_program as recorded
from autograder.course import catalogue
from autograder.course.paths import SOLUTIONS, lessons
from autograder.tape import record
from tests.lessons.cells import Ran, agree, outcome_of, ran
from tests.lessons.solving import candidates, verdict
from tests.lessons.sources import exercises

LESSONS = {path.parent.name: path for path in lessons(SOLUTIONS)}
ALL = [(path, exercise) for path in LESSONS.values() for exercise in exercises(path)]
EXERCISES = [pytest.param(path, exercise, id=exercise.id) for path, exercise in ALL if exercise.answers]
ANSWERS = [
    pytest.param(path, exercise, answer, id=f"{exercise.id}: {answer.name}")
    for path, exercise in ALL
    for answer in exercise.answers
]
GUESSES = [pytest.param(path, exercise, id=exercise.id) for path, exercise in ALL if not exercise.answers]


@pytest.mark.parametrize(("path", "exercise"), EXERCISES + GUESSES)
def test_what_is_handed_out_is_not_attempted(path, exercise):
    """An untouched exercise is not attempted, and gives no marks."""
    assert NotAttempted is type(verdict(path, exercise, exercise.stub))


@pytest.mark.parametrize(("path", "exercise", "answer"), ANSWERS)
def test_each_answer_gets_what_the_author_says(path, exercise, answer):
    """Right answers pass; a wrong one is refused in the words that the author promises."""
    raised = verdict(path, exercise, answer.source)
    if answer.kind != "wrong":
        assert raised is None, raised
        return
    assert Incorrect is type(raised)
    assert answer.phrase in re.sub(r"\s+", " ", str(raised))
    assert max(map(len, str(raised).splitlines())) <= 76


@pytest.mark.parametrize(("path", "exercise"), EXERCISES)
def test_each_exercise_has_enough_answers(path, exercise):
    """Each exercise has one model answer, at least one other right one, and at least four wrong ones."""
    assert 1 == len(exercise.of_kind("answer"))
    assert 1 <= len(exercise.of_kind("right"))
    assert 4 <= len(exercise.of_kind("wrong"))


@pytest.mark.parametrize(("path", "exercise"), GUESSES)
def test_a_prediction_is_held_against_the_run(path, exercise, monkeypatch):
    """Exactly one possible answer passes (for lines of a program, not all are tried)."""
    known = {}

    def record_once(program):
        return known.get(program.__code__) or known.setdefault(program.__code__, recorded(program))

    monkeypatch.setattr(prediction, "record_program", record_once)
    tried = [verdict(path, exercise, answer) is None for answer in candidates(exercise)]
    assert 1 <= sum(tried) < len(tried)
    assert "culprit(" in exercise.check or 1 == sum(tried)


@pytest.mark.parametrize("name", sorted(LESSONS.keys() - {"start"}))
def test_the_catalogue_knows_each_lesson(name):
    """Title, time and three hints for each exercise: no more exercises and no fewer than the notebook has."""
    lesson = {lesson.name: lesson for lesson in catalogue.lessons()}[name]
    ids = [exercise.id for exercise in exercises(LESSONS[name]) if exercise.answers]
    assert ids == [exercise.id for exercise in lesson.exercises]
    assert all(hint.strip() for exercise in lesson.exercises for hint in exercise.hints)


class Run(NamedTuple):
    """The result of one program of a case: its outcome, its gradients, and words from its error."""

    outcome: str
    gradients: dict = {}
    error: str = ""


class Case(NamedTuple):
    """One row: its topic, the programs that must be in cells with its tag, and the required output of its cells."""

    about: str
    runs: tuple[Run, ...] = ()
    prints: tuple[str, ...] = ()


SIGMOID = [0.1966, 0.1050, 0.0452]
STALE = "is at version 1; expected version 0"

CASES = {
    "N1": Case("binding a name against writing an item", prints=("b is 1", "M is [1, 0]")),
    "N2": Case("the name of a saved tensor is used again", (Run("correct"),)),
    "N3": Case("an item of a saved tensor is written", (Run("raises-backward", error=STALE),)),
    "N4": Case("one storage, two counters", prints=("(0, 1, 0)", "(1, 1, 1)")),
    "L1": Case(
        "normal_ on a leaf", (Run("raises-forward", error="a leaf Variable that requires grad is being used in an in-place"),)
    ),
    "L2": Case("three ways to fill a parameter", prints=("version: 0", "version: 1")),
    "L3": Case("a used leaf is scaled", (Run("raises-forward"),)),
    "L4": Case("the same through .data, nothing saved", (Run("correct", {"x": [2]}),)),
    "L5": Case("the same through .data, the leaf saved", (Run("silently-wrong", {"x": [200]}),)),
    "L6": Case("no_grad does not lift the rule for saved tensors", (Run("raises-backward", error=STALE),)),
    "L7": Case("no_grad where nothing is saved", (Run("correct", {"w": [2]}),)),
    "L8": Case("another storage by assigning .data", (Run("silently-wrong"),)),
    "L9": Case("an item of a leaf", (Run("raises-forward", error="a view of a leaf Variable that requires grad"),)),
    "L10": Case("what is a leaf; an optimizer's step", prints=("parameter w   is_leaf: True", "version 1 -> 2")),
    "M1": Case("a write after the save", (Run("raises-backward", error=STALE),)),
    "M2": Case("the write before the save", (Run("correct", {"w1": [[0], [0]], "w2": [1]}),)),
    "M3": Case("zeros written before the save", (Run("correct", {"w2": [0]}),)),
    "M4": Case("who saves what", (Run("raises-backward"), Run("correct")), ("ExpBackward0    ['result']",)),
    "M5": Case(
        "backward twice",
        (
            Run("raises-backward", error="Trying to backward through the graph a second time"),
            Run("correct", {"a": [0.3932, 0.2100, 0.0904]}),
        ),
    ),
    "M6": Case("anomaly mode names the line that saved", (Run("raises-backward"),), ("a = w.exp()",)),
    "D1": Case("what .data and .detach() have in common", prints=("same memory: True  grad_fn: None  requires_grad: False",)),
    "D2": Case("the two products, through .data", (Run("silently-wrong", {"w1": [[3], [6]], "w2": [1]}),)),
    "D3": Case("the two products, through .detach()", (Run("raises-backward", error=STALE),)),
    "D4": Case("the sigmoid, through .data", (Run("silently-wrong", {"a": [0, 0, 0]}),)),
    "D5": Case("the sigmoid, through .detach()", (Run("raises-backward", error="output 0 of Sigmoid"),)),
    "D6": Case("detached and only read", (Run("correct", {"a": SIGMOID}),)),
    "D7": Case("backward from the detached tensor", (Run("raises-backward", error="does not require grad"),)),
    "D8": Case(
        "the sum of the sigmoid is zeroed, both ways",
        (Run("correct", {"a": SIGMOID}), Run("correct", {"a": SIGMOID})),
        ("out reads 0.0",),
    ),
    "D9": Case("one branch cut on purpose", (Run("correct", {"body": None}),)),
    "D10": Case("detach_ before the graph is built", (Run("raises-backward", error="does not require grad"),)),
    "D11": Case("detach_ after the graph is built", (Run("correct", {"x": [6]}),)),
    "D12": Case("detach_ on a view", (Run("raises-forward", error="Can't detach views in-place"),)),
    "D13": Case("a detached tensor as a new leaf", prints=("fresh.is_leaf: True", "x.grad: None")),
    "D14": Case("no error, and a wrong gradient", prints=("gradient [200.0]  right [2.0]", "gradient [0.0, 0.0, 0.0]")),
    "E1": Case("the table, then a lookup", (Run("raises-backward", error="[3, 5]] is at version 2; expected version 1"),)),
    "E2": Case("a clone of the table, then a lookup", (Run("correct"),)),
    "E3": Case("a lookup, then the table", (Run("correct"),)),
    "E4": Case("max_norm=True is 1.0", prints=("1.0000,  0.5000, 10.0000",)),
    "E5": Case("no row is too long", (Run("raises-backward", error="[3, 5]] is at version 2; expected version 1"),)),
    "E6": Case("only lookups", (Run("correct"),)),
    "S1": Case("a select, then the row is written", (Run("raises-backward"),)),
    "S2": Case("the same times three", (Run("correct", {"parameter": [[3, 3, 3], [0, 0, 0]]}),)),
    "S3": Case("the same with an index", (Run("correct"),)),
    "S4": Case(
        "who shares memory when read, who writes",
        prints=("SelectBackward0  shares memory: True", "IndexBackward0   shares memory: False"),
    ),
    "S5": Case("a view gets a new node", prints=("SliceBackward0", "after:  AsStridedBackward0 | base: CopySlices")),
    "S6": Case("a recurrence by index", (Run("correct", {"a": [[12]], "d": [[14]]}),)),
    "S7": Case("the recurrence by select", (Run("raises-backward"),)),
    "S8": Case("history is rebased", (Run("correct"),), ("CopySlices leads to CloneBackward0",)),
    "S9": Case("a result assigned into a plain tensor", (Run("correct", {"p": 3}),), ("False then True | node: CopySlices",)),
    "S10": Case("one view of a bundle", (Run("raises-forward", error="is a view and is being modified inplace"),)),
}  # fmt: skip


def cells_of(case: str) -> list[Ran]:
    """Return the executed code cells of all lessons that carry the case's tag."""
    return [cell for path in lessons(SOLUTIONS) for cell in ran(path) if f"case-{case}" in cell.tags]


def programs_of(case: str) -> list:
    """Return the programs in the case's cells."""
    return [program for cell in cells_of(case) for program in cell.programs.values()]


def meets(expected: Run, program) -> bool:
    """Return whether plain PyTorch and the recorder see the outcome, and plain PyTorch the gradients and the error."""
    got = outcome_of(program)
    right = {name: None if value is None else torch.tensor(value).float() for name, value in expected.gradients.items()}
    return (
        expected.outcome == got.word == record(program).verdict.outcome
        and expected.error in got.error
        and agree(right, {name: got.gradients.get(name, torch.tensor(torch.nan)) for name in right})
    )


@pytest.mark.parametrize("case", CASES)
def test_each_case_is_run_in_a_lesson(case):
    """At least one code cell that runs from top to bottom with the lesson's others has the tag."""
    assert cells_of(case)


@pytest.mark.parametrize("case", [case for case, row in CASES.items() if row.runs])
def test_each_outcome_and_figure_is_what_happens(case):
    """For each run in the table one program under the tag has that outcome, those gradients and that error; each another one."""
    left = programs_of(case)
    for expected in CASES[case].runs:
        found = [program for program in left if meets(expected, program)]
        assert found, f"{case} ({CASES[case].about}): no program has {expected}"
        left.remove(found[0])


@pytest.mark.parametrize("case", [case for case, row in CASES.items() if row.prints])
def test_what_a_cell_prints_holds_the_figures(case):
    """The cells of a case without a program with an outcome print the measured figures."""
    printed = "".join(cell.printed for cell in cells_of(case))
    assert [] == [words for words in CASES[case].prints if words not in printed], printed


def test_no_cell_carries_a_tag_for_a_case_that_is_not_listed():
    """A slip in a tag would silently leave its case untaught."""
    tags = {tag for path in lessons(SOLUTIONS) for cell in ran(path) for tag in cell.tags if tag.startswith("case-")}
    assert {f"case-{case}" for case in CASES} == tags


def test_the_clone_and_the_early_lookup_are_two_programs():
    """E2 and E3 both run, and leave other gradients of the same shapes."""
    (clone,), (lookup,) = programs_of("E2"), programs_of("E3")
    first, second = clone(), lookup()
    assert {name: value.shape for name, value in first.items()} == {name: value.shape for name, value in second.items()}
    assert not agree(first, second)


@pytest.mark.parametrize("wrong", [
    pytest.param(Run("correct"), id="outcome"),
    pytest.param(Run("silently-wrong", {"w2": [4]}), id="gradient"),
    pytest.param(Run("silently-wrong", {"w3": [4]}), id="name"),
    pytest.param(Run("silently-wrong", error="version"), id="error"),
])  # fmt: skip
def test_a_wrong_row_is_told(wrong):
    """The comparison can fail: the program of D2 meets no row with another outcome, figure, name or error."""
    (program,) = programs_of("D2")
    assert meets(CASES["D2"].runs[0], program)
    assert not meets(wrong, program)
