"""A rehearsal says of each test, before anybody is graded, where it can be judged and what to look at."""

import sqlite3

import nbformat
import pytest

from autograder.cli import main
from autograder.grade.batch.assignment import Options, grade_assignment
from autograder.grade.rehearsal.hand_in_variants import Variant, grade_variants, model_answers, with_answers
from autograder.grade.rehearsal.rehearsal import Rehearsal, rehearse
from autograder.grade.rehearsal.rehearsal_report import print_rehearsal
from autograder.grade.rehearsal.rehearsal_steps import shown_steps
from autograder.grade.rehearsal.rehearsed_cell import RehearsedCell
from autograder.grade.sandbox.isolation.levels import LEVELS
from autograder.grade.sandbox.launch import ServerPool
from autograder.grade.submission.teacher.judging_plan import JudgingPlan
from autograder.grade.submission.teacher.source import AssignmentSource
from autograder.grade.where.grading_job import GradingTerms
from autograder.grade.where.local_processes import GraderProcesses
from tests.grade.conftest import LIMITS
from tests.grade.small_course import KNOWN, answer, graded_cell, teacher

HIDDEN = "\n### BEGIN HIDDEN TESTS\nassert f(4) == 16\n### END HIDDEN TESTS"
BESIDE = "import sys\nassert sys._getframe().f_globals['f'] is f and 'In' in f.__globals__ and f(3) == 9"


def notebook(*tests):
    """Returns a source notebook with one answer, `f`, and these tests."""
    return nbformat.v4.new_notebook(cells=[teacher("import math"), answer("a", "def f(x):\n    return x * x"), *tests])


TESTS = {
    "right": graded_cell("right", "assert f(3) == 9" + HIDDEN),
    "beside": graded_cell("beside", BESIDE, points=2),
    "wrong": graded_cell("wrong", "assert f(3) == 10"),
    "given": graded_cell("given", "assert math.pi > 3"),
}


@pytest.fixture(scope="module")
def found(bubblewrap):
    """The rehearsal of all of these tests, by grade_id."""
    return {cell.id: cell for cell in rehearsed(notebook(*TESTS.values())).cells}


def rehearsed(cells, **options):
    """Returns the rehearsal of a source."""
    source = AssignmentSource("n", cells)
    terms = GradingTerms({"n": source}, LEVELS["bubblewrap"], LIMITS, 7)
    with ServerPool(terms.level, 1) as servers, GraderProcesses(terms, 1, servers) as processes:
        return rehearse(source, processes, **options)


def graded_as_rehearsed(cells):
    """Returns the tests that a source's plan runs beside its answers, and the points that its model answers get by the plan."""
    source = AssignmentSource("n", cells)
    terms = GradingTerms({"n": source}, LEVELS["bubblewrap"], LIMITS, 7)
    with ServerPool(terms.level, 1) as servers, GraderProcesses(terms, 1, servers) as processes:
        plan = rehearse(source, processes).plan
        graded = grade_variants(source, [Variant("model", model_answers(source), plan)], processes)["model"]
    return sorted(source.with_binders(plan.one), reverse=True), [cell.points for cell in graded.cells.values()]


def test_what_can_be_judged_in_two_processes_is(found):
    """Full points for the model answer, none for the notebook as handed out, and nothing to look at."""
    cell = found["right"]
    assert (1.0, 0.0, "two", "") == (cell.model, cell.untouched, cell.process, cell.remark)


def test_a_warning_moves_no_test_into_one_process(bubblewrap):
    """There nbgrader's rule, no points for text on stderr, would cost every right answer its points."""
    warns = nbformat.v4.new_notebook(
        cells=[
            answer("a", "import warnings\ndef f(x):\n    warnings.warn('old')\n    return x * x"),
            graded_cell("warns", "assert f(3) == 9"),
        ]
    )
    (cell,) = rehearsed(warns).cells
    assert (1.0, "two", "") == (cell.model, cell.process, cell.remark)


def test_what_cannot_is_judged_in_one_and_named(found):
    """With the reason, and the choice."""
    cell = found["beside"]
    assert (2.0, 0.0, "one") == (cell.model, cell.untouched, cell.process)
    assert cell.remark.startswith("in two processes the model answer gets 0 of 2 (")
    assert cell.remark.endswith("repair the test, or leave it to be judged in one process")


def test_the_line_that_ended_a_test_is_quoted(bubblewrap):
    """An `assert` without words says nothing by itself; in a function of the test's own, its line counts and not the call's."""
    inside = "def same(one):\n    assert one is f\n    assert 'In' in one.__globals__\nsame(f)\nassert f(3) == 9"
    (cell,) = rehearsed(notebook(graded_cell("inside", inside))).cells
    assert cell.process == "one"
    assert ", in line 3: assert 'In' in one.__globals__)" in cell.remark


def test_what_its_own_model_answer_fails_marks_nobody(found):
    """Until the teacher says that it counts."""
    cell = found["wrong"]
    assert (0.0, "nobody") == (cell.model, cell.process)
    assert "its own model answer gets 0 of 1 (AssertionError), so it marks nobody: repair it" in cell.remark
    counting = notebook(graded_cell("wrong", TESTS["wrong"].source, autograder={"counts": True}))
    [counted] = rehearsed(counting).cells
    assert ("two", "") == (counted.process, counted.remark)


def test_a_teachers_cell_that_fails_is_the_reason():
    """Not the name which is then missing: the cell that defines it, and its error."""
    cells = nbformat.v4.new_notebook(
        cells=[teacher("import no_such_module as lib"), answer("a", "x = 1"), graded_cell("t", "assert lib.one == x")]
    )
    [cell] = rehearsed(cells).cells
    assert "nobody" == cell.process
    assert "cannot be judged (the teacher's cell that defines lib ended with ModuleNotFoundError" in cell.remark


def test_a_missing_module_is_the_reason_whatever_else_cannot_be_done(bubblewrap):
    """The teacher has to install it, though the test also hands over what cannot cross."""
    [cell] = rehearsed(
        notebook(
            graded_cell(
                "t", "class Box:\n    def __mul__(self, other):\n        return self\n\nf(Box())\nimport no_such_module"
            )
        )
    ).cells
    assert "(No module named 'no_such_module'), so it marks nobody: install the module for this Python" in cell.remark


def test_a_reason_is_not_cut(bubblewrap):
    """What the test says stands in the remark to its last word."""
    message = "the value is not what it should be " * 6
    [cell] = rehearsed(notebook(graded_cell("t", f"assert f(3) == 10, {message + 'at all'!r}"))).cells
    assert f"{message}at all)" in cell.remark


def test_a_test_that_the_notebook_as_handed_out_passes_is_named(found):
    """It would give its points to everybody."""
    cell = found["given"]
    assert (1.0, "two") == (cell.untouched, cell.process)
    assert "it gives points to the notebook as handed out" in cell.remark


def test_a_teacher_can_forbid_one_process_and_can_settle_on_it():
    """Forbidden, the test marks nobody; said in its own cell, there is nothing left to look at."""
    forbidden = rehearsed(notebook(TESTS["beside"]), forbid_one_process=True)
    assert ["beside"] == list(forbidden.plan.nobody)
    assert "may not be judged in one process" in forbidden.cells[0].remark
    settled = rehearsed(notebook(graded_cell("beside", BESIDE, autograder={"process": "one"})))
    assert ({"beside"}, []) == (set(settled.plan.one), settled.remarks)


def test_a_test_whose_answer_reads_what_another_test_binds_is_judged_where_both_run():
    """The model answer gets in the grade what it gets in the rehearsal; a test that binds nothing of it stays where it was."""
    cells = nbformat.v4.new_notebook(
        cells=[
            answer("a", "def f(x):\n    return x * x"),
            graded_cell("binds", "given = 3\nassert f(given) == 9"),
            graded_cell("apart", "other = 4\nassert f(other) == 16"),
            answer("b", "def g():\n    return f(given)\nfound = g()"),
            graded_cell("beside", BESIDE + "\nassert found == 9"),
        ]
    )
    assert (["binds", "beside"], [1.0, 1.0, 1.0]) == graded_as_rehearsed(cells)


def test_a_test_that_fails_as_it_would_be_judged_marks_nobody():
    """What another test does there is not always seen in its text; then the rehearsal of the plan itself tells."""
    cells = nbformat.v4.new_notebook(
        cells=[
            answer("a", "def f(x):\n    return x * x"),
            graded_cell("binds", "exec('given = 3')\nassert f(3) == 9"),
            answer("b", "found = f(given)"),
            graded_cell("beside", BESIDE + "\nassert found == 9"),
        ]
    )
    found = rehearsed(cells)
    assert ["beside"] == list(found.plan.nobody)
    assert "without the other tests in its process the model answer gets 0 of 1" in found.cells[1].remark


def test_tests_of_which_the_model_answer_writes_no_argument_keep_theirs():
    """The plan tells the tests that want a write from those that must not see one."""
    cells = nbformat.v4.new_notebook(
        cells=[
            answer("a", "def f(x):\n    x.append(1)\n    return x\ndef g(x):\n    return len(x)"),
            graded_cell("writes", "x = []\nf(x)\nassert x == [1]"),
            graded_cell("reads", "assert g([1]) == 1"),
        ]
    )
    assert {"reads"} == rehearsed(cells).plan.keeps_inputs


def test_variants_of_a_source_are_graded_as_hand_ins(bubblewrap):
    """Any answers, by name, each with its grade."""
    source = AssignmentSource("n", notebook(TESTS["right"]))
    terms = GradingTerms({"n": source}, LEVELS["bubblewrap"], LIMITS, 7)
    texts = {"cubes": "def f(x):\n    return x ** 3", "squares": "f = lambda x: x ** 2", "none": "pass"}
    with ServerPool(terms.level, 1) as servers, GraderProcesses(terms, 1, servers) as processes:
        variants = [Variant(name, with_answers(source, {"a": text})) for name, text in texts.items()]
        graded = grade_variants(source, variants, processes)
    assert {"cubes": 0.0, "squares": 1.0, "none": 0.0} == {name: grade.points for name, grade in graded.items()}


@pytest.fixture
def course(tmp_path, bubblewrap):
    """A course with one assignment and one hand-in of it, the model answer."""
    cells = notebook(*TESTS.values())
    for folder, text in (("source", cells), ("submitted/ann", cells)):
        place = tmp_path / folder / "small"
        place.mkdir(parents=True)
        (place / "n.ipynb").write_text(nbformat.writes(text), "utf-8")
    return tmp_path


def test_the_command_prints_a_table_and_what_to_look_at(course, capsys):
    """Exit code 1 if there is something, and nothing is written."""
    before = sorted(course.rglob("*"))
    assert 1 == main(["rehearse", "small", "--course", str(course), "--jobs", "1"])
    said = capsys.readouterr().out
    assert all(
        word in said for word in ("right", "two processes", "one process", "marks nobody", "beside: in two processes")
    )
    assert before == sorted(course.rglob("*"))


def test_a_long_grade_id_is_not_cut_in_the_table(capsys):
    """It is what the teacher searches for in the notebook."""
    cell = RehearsedCell(
        id="test_plot_of_the_squared_exponential_end", max_points=1, model=1, untouched=0, process="two"
    )
    print_rehearsal(Rehearsal(notebook="n", cells=(cell,), plan=JudgingPlan()))
    assert "end" in capsys.readouterr().out


def test_grade_says_what_to_look_at_and_grades_as_rehearsed(course, capsys, monkeypatch):
    """The grade_ids are printed before the first student's folder is opened; the result is kept, and used while nothing changes."""
    opened = []
    monkeypatch.setattr("autograder.grade.batch.assignment.HandIn", _watched(opened, capsys))
    assert 1 == main(["grade", "small", "--course", str(course), "--jobs", "1", "--feedback", "off"])
    assert all(f"n, {name}: " in opened[0] for name in ("beside", "wrong", "given"))
    with sqlite3.connect(course / "gradebook.db") as database:
        [(notebook_name,)] = database.execute("SELECT notebook FROM autograder_rehearsal").fetchall()
    assert "n" == notebook_name
    monkeypatch.setattr("autograder.grade.batch.rehearsals.rehearse", None)
    [row] = grade_assignment("small", course, Options(jobs=1))
    assert row.unchanged
    judged = {name: (cell.points, cell.process) for name, cell in row.cells["n"].items()}
    assert {"right": (1.0, "two"), "beside": (2.0, "one"), "wrong": (None, ""), "given": (1.0, "two")} == judged


def _watched(opened, capsys):
    from autograder.grade.batch.course.hand_in import HandIn

    def open_it(*arguments):
        opened.append(capsys.readouterr().err)
        return HandIn(*arguments)

    return open_it


def test_an_answer_that_a_person_grades_is_a_model_answer_too(bubblewrap):
    """Later tests may use what it defines."""
    by_person = answer("by_person", "g = 3")
    by_person.metadata.nbgrader |= {"grade": True, "points": 2}
    found = rehearsed(nbformat.v4.new_notebook(cells=[by_person, graded_cell("later", "assert g == 3")]))
    assert [(1.0, 0.0, "two", "")] == [(c.model, c.untouched, c.process, c.remark) for c in found.cells]


def test_a_test_is_run_as_the_main_program(bubblewrap):
    """As in a kernel, also for the second submission of a process: what stands below the usual line is run."""
    found = rehearsed(notebook(graded_cell("main", "if __name__ == '__main__':\n    assert f(3) == 9")))
    assert [(1.0, 0.0, "two", "")] == [(c.model, c.untouched, c.process, c.remark) for c in found.cells]


def test_each_step_is_shown(bubblewrap, capsys):
    """A plain line on standard error for each hand-in that is begun, with its number; standard output has none."""
    with shown_steps() as on_step:
        rehearsed(notebook(TESTS["right"]), on_step=on_step)
    said = capsys.readouterr()
    lines = [line for line in said.err.splitlines() if line.startswith("rehearsing n: ")]
    assert "rehearsing n: model answers, two processes (1 of 4)" == lines[0]
    assert ["(1 of 4)", "(2 of 4)", "(3 of 4)", "(4 of 4)"] == [line[-8:] for line in lines]
    assert "" == said.out


def test_a_test_without_a_model_answer_shows_no_points_for_it(bubblewrap):
    """A prediction, say: what PyTorch does is the answer, so the source has none, and 0 would look like a fault."""
    asked = nbformat.v4.new_code_cell(
        "guess = None", metadata={"nbgrader": KNOWN | {"grade_id": "p", "solution": True}}
    )
    asked.metadata["tags"] = ["stub"]
    [cell] = rehearsed(nbformat.v4.new_notebook(cells=[asked, graded_cell("q", "assert guess == 'raises'")])).cells
    assert (None, 0.0, "two", "") == (cell.model, cell.untouched, cell.process, cell.remark)


def test_a_setup_cell_that_fails_after_an_answer_has_crossed_stops_nothing(bubblewrap):
    """What the cell would have bound is read from its text, which runs none of it."""
    cells = [
        teacher('missing = open("nowhere").read()  # as text'),
        graded_cell("second", "assert missing == 'x' and f(3) == 9"),
    ]
    found = rehearsed(notebook(TESTS["right"], *cells))
    assert ["two", "nobody"] == [cell.process for cell in found.cells]
