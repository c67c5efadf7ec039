"""Validation says of each test, before anybody is graded, how it is judged and what to look at."""

import contextlib
import sqlite3

import nbformat
import pytest

from autograder.cli import main
from autograder.grade.backends.grading_job import GradingTerms
from autograder.grade.backends.local_processes import LocalBackend
from autograder.grade.batch.assignment import Options, grade_assignment
from autograder.grade.batch.student_submission import StudentSubmission
from autograder.grade.sandbox.isolation import LEVELS
from autograder.grade.sandbox.launch import HostProcess
from autograder.grade.submission.teacher.source import GradingPlan
from autograder.grade.validation.validate import (
    CellReport,
    SourceReport,
    grade_submissions,
    ignore_step,
    model_answers,
    print_report,
    shown_steps,
    validate_source,
    with_answers,
)
from tests.grade.conftest import LIMITS
from tests.grade.small_course import KNOWN, answer, graded_cell, source_of, teacher

OUTSIDE, IN_PROCESS = "plain data", "in process"
HIDDEN = "\n### BEGIN HIDDEN TESTS\nassert f(4) == 16\n### END HIDDEN TESTS"
BESIDE = "import sys\nassert sys._getframe().f_globals['f'] is f and 'In' in f.__globals__ and f(3) == 9"
MOVED = "found = getattr(f, '__glob' + 'als__')\nassert 'In' in found and f(3) == 9"
INSIDE = "def same(value):\n    found = getattr(value, '__glob' + 'als__')\n    assert 'In' in found\nsame(f)\nassert f(3) == 9"
BOX = "class Box:\n    def __mul__(self, other):\n        return self\n\nf(Box())\nimport no_such_module"
LONG = "the value is not what it should be " * 6 + "at all"


def notebook(*tests):
    """Return a source notebook with one answer, `f`, and these tests."""
    return nbformat.v4.new_notebook(cells=[teacher("import math"), answer("a", "def f(x):\n    return x * x"), *tests])


TESTS = {
    "right": graded_cell("right", "assert f(3) == 9" + HIDDEN),
    "beside": graded_cell("beside", BESIDE, points=2),
    "moved": graded_cell("moved", MOVED, points=2),
    "wrong": graded_cell("wrong", "assert f(3) == 10"),
    "given": graded_cell("given", "assert math.pi > 3"),
}
MORE = {
    "inside": graded_cell("inside", INSIDE),
    "settled": graded_cell("settled", BESIDE, autograder={"process": "one"}),
    "never": graded_cell("never", BESIDE, autograder={"process": "two"}),
    "counts": graded_cell("counts", "assert f(3) == 10", autograder={"counts": True}),
    "above": graded_cell("above", "f(2) + 1", points=4),
    "partly": graded_cell("partly", "f(1) + 1", points=4),
    "missing": graded_cell("missing", BOX),
    "long": graded_cell("long", f"assert f(3) == 10, {LONG!r}"),
    "indented": graded_cell("indented", " assert f(3) == 9" + HIDDEN),
    "main": graded_cell("main", "if __name__ == '__main__':\n    assert f(3) == 9"),
}


@pytest.fixture(scope="module")
def backend(bubblewrap):
    """One warm host for all sources of this file."""
    with contextlib.closing(HostProcess(LEVELS["bubblewrap"])) as host:
        yield lambda source: LocalBackend(terms_of(source), 1, host)


@pytest.fixture(scope="module")
def graded(backend):
    """Return the grades of made-up submissions of a source."""

    def grade(source, submissions):
        with backend(source) as graders:
            return grade_submissions(source, submissions, graders)

    return grade


@pytest.fixture(scope="module")
def validated(backend):
    """Return the report on a source."""

    def validate(cells, on_step=ignore_step, files=None, **options):
        source = source_of("n", cells, files)
        with backend(source) as graders:
            return validate_source(source, graders, on_step=on_step, **options)

    return validate


@pytest.fixture(scope="module")
def cells(validated):
    """The reports on all of these tests, by grade_id."""
    return {cell.id: cell for cell in validated(notebook(*TESTS.values(), *MORE.values())).cells}


def terms_of(source):
    """Return the terms by which a source is graded here."""
    return GradingTerms({"n": source}, "bubblewrap", LIMITS, 7)


def in_short(cell):
    """Return the points, the kind and the findings of a test."""
    return cell.model, cell.release, cell.kind, cell.findings


@pytest.mark.parametrize("name", ["right", "main"])
def test_a_good_test_has_no_finding(cells, name):
    """Full points for the model answer and none for the release; a test runs as the main program, as in a kernel."""
    assert (1.0, 0.0, OUTSIDE, ()) == in_short(cells[name])


def test_a_warning_moves_no_test_into_the_process(validated):
    """There nbgrader's rule, no points for text on stderr, would cost every right answer its points."""
    text = "import warnings\ndef f(x):\n    warnings.warn('old')\n    return x * x"
    (cell,) = validated(nbformat.v4.new_notebook(cells=[answer("a", text), graded_cell("warns", "f(3)\n1")])).cells
    assert (1.0, 0.0, OUTSIDE, ()) == in_short(cell)


def test_a_test_that_needs_the_process_is_judged_there_and_named(cells):
    """With the reason; where the text of the test does not show it, the teacher has a choice to make."""
    assert (2.0, 0.0, IN_PROCESS, ()) == in_short(cells["beside"])
    assert "judged in process, because it compares the identity of two objects" == cells["beside"].note
    assert (2.0, 0.0, IN_PROCESS) == in_short(cells["moved"])[:3]
    (finding,) = cells["moved"].findings
    assert "judged in process, because outside the submission's process the model answer gets 0 of 2 (" in finding
    assert finding.endswith('fix the test, or accept that with {"autograder": {"process": "one"}} in its metadata')


def test_a_teacher_settles_where_a_test_is_judged(cells, validated):
    """ "one" in the metadata accepts it, and is noted; "two", or the option, forbids it, so that a person has to grade the test."""
    assert (1.0, 0.0, IN_PROCESS, ()) == in_short(cells["settled"])
    assert "judged in process, as its metadata say" == cells["settled"].note
    forbidden = validated(notebook(TESTS["beside"]), forbid_in_process=True)
    for cell in (cells["never"], *forbidden.cells):
        assert cell.kind is None
        assert "may not be judged in process, so a person has to grade it" in cell.findings[0]
    assert {"beside": forbidden.cells[0].findings[0]} == forbidden.plan.nobody


def test_all_tests_in_process_need_no_reason(validated):
    """`--one-process` is the teacher's choice; a test that its model answer fails still does not give points."""
    report = validated(notebook(*TESTS.values()), all_in_process=True)
    assert [IN_PROCESS, IN_PROCESS, IN_PROCESS, None, IN_PROCESS] == [cell.kind for cell in report.cells]
    assert [] == report.notes
    assert ["beside"] == [note.partition(":")[0] for note in validated(notebook(TESTS["beside"])).notes]
    assert ["wrong", "given"] == [finding.partition(":")[0] for finding in report.findings]


def test_the_line_that_ended_a_test_is_quoted(cells, validated):
    """For a function of the test, its line is quoted and not the call; for a module, the line that imports it. No message is cut."""
    assert cells["inside"].kind == IN_PROCESS
    assert ", in line 3: assert 'In' in found)" in cells["inside"].findings[0]
    assert f"(AssertionError: {LONG}, in line 1: " in cells["long"].findings[0]
    assert "(unexpected indent, in line 1: assert f(3) == 9)" in cells["indented"].findings[0]
    [cell] = validated(notebook(graded_cell("t", "import helper")), files={"helper.py": b"\n\n1 / 0"}).cells
    assert "(ZeroDivisionError: division by zero, in line 1: import helper)" in cell.findings[0]


def test_what_its_own_model_answer_fails_gives_points_to_nobody(cells):
    """Unless the teacher's metadata say that it counts."""
    assert (0.0, 0.0, None) == in_short(cells["wrong"])[:3]
    assert "its own model answer gets 0 of 1 (AssertionError" in cells["wrong"].findings[0]
    assert "so a person has to grade it: fix it, or write" in cells["wrong"].findings[0]
    assert (0.0, 0.0, OUTSIDE, ()) == in_short(cells["counts"])


def test_a_model_answer_with_part_of_the_points_is_named(cells):
    """The test still counts."""
    assert (2.0, 0.0, OUTSIDE) == in_short(cells["partly"])[:3]
    assert "the model answer gets 2 of 4" in cells["partly"].findings[0]


def test_a_last_line_that_is_more_than_the_maximum_is_named(cells):
    """Stock nbgrader stops at it; here it counts as the maximum."""
    assert (4.0, 0.0, OUTSIDE) == in_short(cells["above"])[:3]
    assert "its last line can be 5, which is more than its maximum" in cells["above"].findings[0]


def test_a_missing_module_is_the_reason_whatever_else_cannot_be_done(cells):
    """The teacher has to install it, although the test also passes an object that cannot cross."""
    (finding,) = cells["missing"].findings
    assert "(No module named 'no_such_module')" in finding
    assert "so a person has to grade it: install the module for this Python" in finding


def test_a_teachers_cell_that_fails_is_the_reason(validated):
    """Not the name which is then missing, but the error of the cell that defines it."""
    cells = [teacher("import no_such_module as lib"), answer("a", "x = 1"), graded_cell("t", "assert lib.one == x")]
    cells += [answer("b", "open('nowhere')\ny = 1"), graded_cell("u", "assert y == 1")]
    [cell, other] = validated(nbformat.v4.new_notebook(cells=cells)).cells
    assert "; the cell that defines y ended with FileNotFoundError: " in other.findings[0]
    assert cell.kind is None
    assert "(the teacher's cell ended with ModuleNotFoundError: No module named 'no_such_module')" in cell.findings[0]


def test_the_first_cell_that_failed_is_the_reason(validated):
    """A test in process finds a name missing for want of another, which a module should give: the teacher has to install that."""
    cells = [teacher("import no_such_module\nfrom math import pi"), answer("a", "x = pi"), answer("b", "y = x")]
    inside = graded_cell("t", "assert y > 3", autograder={"process": "one"})
    later = [answer("c", "z = y"), graded_cell("u", "assert late"), answer("d", "late = 1\n1 / 0")]
    cell, other = validated(nbformat.v4.new_notebook(cells=[*cells, inside, *later])).cells
    assert "the cell that defines" not in other.findings[0]  # a later cell is not the reason
    said = "(name 'y' is not defined; the cell that defines pi ended with ModuleNotFoundError: "
    assert (
        said + "No module named 'no_such_module'), so a person has to grade it: install the module" in cell.findings[0]
    )


def test_that_a_value_cannot_cross_is_no_reason_if_the_test_fails_anyway(validated):
    """Such as the test of a value whose type a new release of a library has changed: the teacher has to repair that."""
    cells = [
        answer("a", "rows = (row for row in [1])"),
        graded_cell("t", "assert isinstance(rows, list), 'not a list'"),
    ]
    (cell,) = validated(nbformat.v4.new_notebook(cells=cells)).cells
    assert "its own model answer gets 0 of 1 (not a list), so a person has to" in cell.findings[0]


def test_a_class_is_called_a_class(validated):
    """Not by the name of its type, as in "a ABCMeta"."""
    cells = [answer("a", "import abc\nBox = abc.ABC\nbox = Box()"), graded_cell("t", "assert isinstance(box, Box)")]
    (cell,) = validated(nbformat.v4.new_notebook(cells=cells)).cells
    assert "(the value of Box cannot leave its process: a class)" in cell.findings[0]


def test_a_setup_cell_that_fails_after_an_answer_stops_nothing(validated):
    """Only the test that needs the cell does not give points."""
    cells = [teacher('missing = open("nowhere").read()'), graded_cell("second", "assert missing == 'x' and f(3) == 9")]
    report = validated(notebook(TESTS["right"], *cells))
    assert [OUTSIDE, None] == [cell.kind for cell in report.cells]


def test_a_test_that_the_release_passes_is_named(cells):
    """It would give its points to everybody."""
    assert (1.0, 1.0, OUTSIDE) == in_short(cells["given"])[:3]
    assert "it gives points to the release" in cells["given"].findings[0]


def test_a_test_that_the_release_passes_only_in_process_is_named(validated):
    """The release is graded as the students will be: in process, where the model answer needs it."""
    text = (
        "try:\n    found = f.__globals__\nexcept NameError:\n    found = (lambda: 0).__globals__\nassert 'In' in found"
    )
    (cell,) = validated(notebook(graded_cell("t", text))).cells
    assert (1.0, 1.0, IN_PROCESS) == in_short(cell)[:3]


def test_a_test_is_judged_where_the_names_are_that_its_answer_reads(validated, graded):
    """A test that binds them runs in process as well; a test that binds none of them is not moved."""
    source = nbformat.v4.new_notebook(
        cells=[
            answer("a", "def f(x):\n    return x * x"),
            graded_cell("binds", "given = 3\nassert f(given) == 9"),
            graded_cell("apart", "other = 4\nassert f(other) == 16"),
            answer("b", "def g():\n    return f(given)\nfound = g()"),
            graded_cell("beside", BESIDE + "\nassert found == 9"),
        ]
    )
    plan = validated(source).plan
    known = source_of("n", source)
    grade = graded(known, {"model": (model_answers(known), plan)})["model"]
    assert ["beside", "binds"] == sorted(known.with_required_tests(plan.in_process(known)))
    assert [1.0, 1.0, 1.0] == [cell.points for cell in grade.cells.values()]


def test_a_test_that_fails_as_planned_gives_points_to_nobody(validated):
    """Effects of another test in the process are not always visible in its text; then a run of the plan itself finds them."""
    report = validated(
        nbformat.v4.new_notebook(
            cells=[
                answer("a", "def f(x):\n    return x * x"),
                graded_cell("binds", "dict.update(globals(), given=3)\nassert f(3) == 9"),
                answer("b", "found = f(given)"),
                graded_cell("beside", BESIDE + "\nassert found == 9"),
            ]
        )
    )
    assert ["beside"] == list(report.plan.nobody)
    assert "if the test runs alone in its process, the model answer gets 0 of 1" in report.cells[1].findings[0]


@pytest.mark.parametrize(
    "unanswered",
    [
        "# YOUR CODE HERE\nraise NotImplementedError()",
        "### BEGIN SOLUTION\n\n### END SOLUTION",
        "def f(x):\n    ### BEGIN SOLUTION\n    pass\n    ### END SOLUTION",
        "def f(x):\n    # the square\n    ...",
    ],
)
def test_no_test_of_an_unanswered_source_is_called_wrong(validated, unanswered):
    """Not the second test of an answer either; nor if the course has a solution that does nothing, which nbgrader grades as any."""
    cells = [answer("a", ""), graded_cell("t", "assert f(3) == 9"), graded_cell("u", "assert f(4) == 16")]
    cells[0].source = unanswered
    assert [(None, 0.0, OUTSIDE, ())] * 2 == list(map(in_short, validated(nbformat.v4.new_notebook(cells=cells)).cells))


def test_an_answer_that_a_person_grades_is_a_model_answer_too(validated):
    """Later tests may use its names."""
    by_person = answer("by_person", "g = 3")
    by_person.metadata.nbgrader |= {"grade": True, "points": 2}
    (cell,) = validated(nbformat.v4.new_notebook(cells=[by_person, graded_cell("later", "assert g == 3")])).cells
    assert (1.0, 0.0, OUTSIDE, ()) == in_short(cell)


def test_a_test_without_a_model_answer_shows_no_points_for_it(validated):
    """The right answer to a prediction is PyTorch's result, so the source has none, and 0 would look like an error."""
    asked = nbformat.v4.new_code_cell(
        "guess = None", metadata={"nbgrader": KNOWN | {"grade_id": "p", "solution": True}, "tags": ["stub"]}
    )
    (cell,) = validated(nbformat.v4.new_notebook(cells=[asked, graded_cell("q", "assert guess == 'raises'")])).cells
    assert (None, 0.0, OUTSIDE, ()) == in_short(cell)


def test_made_up_submissions_are_graded_like_others(graded):
    """Any answers, each with its grade."""
    source = source_of("n", notebook(TESTS["right"]))
    texts = {"cubes": "def f(x):\n    return x ** 3", "squares": "f = lambda x: x ** 2", "none": "pass"}
    submissions = {name: (with_answers(source, {"a": text}), GradingPlan()) for name, text in texts.items()}
    grades = graded(source, submissions)
    assert {"cubes": 0.0, "squares": 1.0, "none": 0.0} == {name: grade.points for name, grade in grades.items()}


def test_an_answer_whose_source_is_not_known_waits_for_a_person(graded):
    """In one kernel, `inspect.getsource` finds the line of a `lambda`, so 0 points would be wrong."""
    source = source_of("n", notebook(graded_cell("t", "import inspect\nassert '**' not in inspect.getsource(f)")))
    submissions = {"": (with_answers(source, {"a": "f = lambda x: x * x"}), GradingPlan(kinds={"t": OUTSIDE}))}
    (cell,) = graded(source, submissions)[""].cells.values()
    reason = "the value of f cannot leave its process: a function that no `def` in the notebook defines"
    assert (None, "for a person", f"this test could not be judged: {reason}") == (cell.points, cell.status, cell.reason)


def test_each_step_is_shown(validated, capsys):
    """A line on standard error for each run that begins, with its number; standard output has none."""
    with shown_steps() as on_step:
        validated(notebook(TESTS["right"]), on_step=on_step)
    printed = capsys.readouterr()
    runs = ("model answers", "model answers, in process", "release")
    lines = [line for line in printed.err.splitlines() if line.startswith("validating ")]
    assert [f"validating n: {name} ({number} of 3)" for number, name in enumerate(runs, 1)] == lines
    assert "" == printed.out


def test_a_long_grade_id_is_not_cut_in_the_table(capsys):
    """The teacher searches for the id in the notebook."""
    cell = CellReport(id="test_plot_of_the_squared_exponential_end", max_points=1, model=1, release=0, kind=OUTSIDE)
    print_report(SourceReport(notebook="n", cells=(cell,), plan=GradingPlan()))
    assert "end" in capsys.readouterr().out


@pytest.fixture
def course(tmp_path, bubblewrap):
    """A course with one assignment and one submission of it, the model answer."""
    cells = notebook(*TESTS.values(), MORE["settled"])
    for folder, text in (("source", cells), ("submitted/ann", cells)):
        place = tmp_path / folder / "small"
        place.mkdir(parents=True)
        (place / "n.ipynb").write_text(nbformat.writes(text), "utf-8")
    return tmp_path


@pytest.mark.parametrize("command", ["validate-source", "rehearse"])
def test_the_command_prints_a_table_and_the_findings(course, capsys, command):
    """The exit code is 1 if there are findings, and nothing is written."""
    before = sorted(course.rglob("*"))
    assert 1 == main([command, "small", "--course", str(course), "--jobs", "1", "--mutants", "0"])
    printed = capsys.readouterr().out
    for words in (
        "plain data",
        "in process",
        "by a person",
        "beside: judged in process, because it compares",
        "moved: judged in process, because outside",
        "settled: judged",
    ):
        assert words in printed
    assert before == sorted(course.rglob("*"))


def test_grade_prints_the_findings_and_grades_by_the_plan(course, capsys, monkeypatch):
    """The findings come before the first student's folder is opened; the report is stored in the gradebook until something changes."""
    opened = []
    monkeypatch.setattr(
        "autograder.grade.batch.assignment.StudentSubmission",
        lambda *arguments: opened.append(capsys.readouterr().err) or StudentSubmission(*arguments),
    )
    assert 1 == main(["grade", "small", "--course", str(course), "--jobs", "1", "--feedback", "off"])
    assert all(f"n, {name}: " in opened[0] for name in ("beside", "moved", "wrong", "given", "settled"))
    with sqlite3.connect(course / "gradebook.db") as database:
        assert [("n",)] == database.execute("SELECT notebook FROM autograder_rehearsal").fetchall()
    monkeypatch.setattr("autograder.grade.batch.assignment.validate_source", None)
    [row] = grade_assignment("small", course, Options(jobs=1))
    assert row.unchanged
    judged = {name: (cell.points, cell.kind) for name, cell in row.cells["n"].items()}
    assert (1.0, OUTSIDE) == judged.pop("right") == judged.pop("given")
    assert (2.0, IN_PROCESS) == judged.pop("beside") == judged.pop("moved")
    assert {"wrong": (None, ""), "settled": (1.0, IN_PROCESS)} == judged
