"""Feedback states results and next steps; hidden tests stay hidden, and nothing on a page can run."""

import contextlib
import datetime
import re
import time
import zoneinfo

import nbformat
import pytest
from bs4 import BeautifulSoup
from nbgrader.api import Gradebook
from traitlets.config import Config

from autograder.classroom.report.report_page import report
from autograder.grade.batch import feedback_files, feedback_page
from autograder.grade.batch.course_folders import open_class
from autograder.grade.batch.feedback_files import CoverHiddenTests, configure_feedback, write_feedback
from autograder.grade.batch.feedback_page import (
    as_mathml,
    error_html,
    list_exercises,
    markdown_html,
    output_html,
    outputs_html,
    page_html,
    title_of,
)
from autograder.grade.clean.harmless_cells import ProcessorBudget
from autograder.grade.wire.limits import Limits
from autograder.tape.run.time_limit import TimeUp
from autograder.view.notebook import drawn_mimebundle
from tests.grade import plain_course
from tests.grade.clean.test_clean import HOSTILE_HTML, HOSTILE_MARKDOWN, dangers
from tests.view.conftest import NAMES, stored

TEXT = "assert f(1) == 2\n### BEGIN HIDDEN TESTS: large numbers\nassert f(41317) == 82634\n### END HIDDEN TESTS"
ERROR = nbformat.v4.new_output(
    "error", ename="AssertionError", evalue="not 82634", traceback=["----> 3 assert f(41317) == 82634"]
)
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def covered(level: str, hidden: bool = True, **about):
    """Return the test's cell as its feedback shows it at a level, after its error came from a hidden line or a visible one."""
    known = {"autograder": {"hidden": hidden, **about}}
    cell = nbformat.v4.new_code_cell(TEXT, outputs=[nbformat.from_dict(dict(ERROR))], metadata=known)
    cover = CoverHiddenTests(config=Config(CoverHiddenTests={"level": level}))
    return cover.preprocess_cell(cell, {}, 0)[0]


@pytest.mark.parametrize(("level", "kind", "told"), [
    ("none", "plain data", "A hidden test did not pass."),
    ("name", "plain data", "A hidden test did not pass: large numbers."),
    ("message", "declarative", "A hidden test did not pass: large numbers.\nAssertionError: not 82634"),
    ("name", "in process", "A line of this test or a hidden part did not pass."),
])  # fmt: skip
def test_hidden_tests_are_told_as_far_as_the_teacher_wants(level, kind, told):
    """The page shows nothing, the name, or the message, but never the code; a submission can forge the place in process."""
    cell = covered(level, kind=kind)
    assert told == cell.outputs[0].evalue.partition(" Run")[0]
    assert told in BeautifulSoup(error_html(cell.outputs[0]), "html.parser").text
    assert "41317" not in str(cell)
    assert "f(1) == 2" in cell.source


def test_a_page_says_how_each_test_was_judged_and_why_one_waits():
    """The kind is next to the test; a test that could not be judged has its reason, unless it is hidden."""
    about = {
        "plain": {"kind": "plain data", "reason": "plain is no function"},
        "inside": {"kind": "in process"},
        "waits": {"kind": "", "reason": "this test waits"},
    }
    cells = [plain_course.known(nbformat.v4.new_code_cell(f"assert {name}"), name, points=1) for name in about]
    for cell in cells:
        cell.metadata["autograder"] = about[cell.metadata.nbgrader.grade_id]
    page = page_html(nbformat.v4.new_notebook(cells=cells), {"notebook": "n", "score": 0, "max_score": 3})
    found = [part.text for part in BeautifulSoup(page, "html.parser").select(".found summary")]
    ways = ("run in a separate process", "run in the process of your answers")
    assert [*(f"The test ({way})" for way in ways), "The test"] == found
    assert "<p>This test waits</p>" in page
    assert "<p>plain is no function</p>" in page


def test_a_visible_error_is_told_without_the_lines_around_it():
    """A traceback quotes the lines before and after it, and hidden ones may be among them."""
    visible, hidden = (covered("none", hidden=False, line=line).outputs[0].traceback for line in (1, 3))
    assert ["----> 1 assert f(1) == 2", *hidden] == visible == [visible[0], "AssertionError: not 82634"]


@pytest.mark.parametrize("text", [*HOSTILE_HTML, *HOSTILE_MARKDOWN])
def test_a_page_of_a_notebook_that_stock_nbgrader_graded_is_harmless(text):
    """Such a notebook was stored as the student made it; in the page, every text and output is cleaned again."""
    shown = [markdown_html(text)] + [
        output_html(nbformat.v4.new_output("display_data", {kind: text}))
        for kind in ("text/html", "text/markdown", "text/latex", "text/plain", "image/svg+xml")
    ]
    page = BeautifulSoup("".join(shown).replace('<div class="shown">', "<div>"), "html.parser")
    for drawing in page.find_all("img", src=re.compile("^data:image/svg")):
        del drawing["src"]  # runs and loads nothing as a picture
    for formula in page.find_all("math", display=True):
        formula.unwrap()  # ours; see the next tests
    assert [] == dangers(str(page))


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_arrives_as_it_was_drawn(name):
    """A timeline keeps its rows, words and bars; a picture's data URL contains markup and a style, and stays as it is."""
    for predict in (False, True):
        drawn = drawn_mimebundle(stored(name), predict)["text/html"]
        shown = output_html(nbformat.v4.new_output("display_data", {"text/html": drawn}))
        pages = [BeautifulSoup(html, "html.parser") for html in (drawn, shown)]
        # nh3 writes a semicolon after the last declaration, and blanks into lists of numbers
        tables, images = (
            [[re.sub(r';(?=")| ', "", str(part)) for part in page.find_all(tag)] for page in pages]
            for tag in ("tr", "img")
        )
        assert tables[0] == tables[1]
        assert images[0] == images[1]
        assert bool(images[0]) == predict
        assert bool(tables[0]) != predict


@pytest.mark.parametrize(
    "style", ["background:url(x)", "background-color:url(//x)", "position:fixed", "width:expression(1)"]
)
def test_a_style_of_a_table_cannot_load_or_cover(style):
    """Only the properties of the grader's tables remain, and values without an address."""
    shown = output_html(nbformat.v4.new_output("display_data", {"text/html": f'<table style="{style}"><tr><td>x'}))
    assert not {"url", "position", "expression"} & set(re.findall(r"\w+", shown.partition("<table")[2]))


@pytest.mark.parametrize(
    "latex",
    ["\\text{<script>alert(1)</script>}", "\\href{javascript:alert(1)}{x}", "\\style{x}{y}", "{" * 3000, "\\frac{"],
)
def test_mathematics_is_drawn_without_a_script_and_cannot_act(latex):
    """latex2mathml copies text into its elements and creates links; a formula that it cannot convert is shown as its source."""
    page = BeautifulSoup(as_mathml(latex), "html.parser")
    assert not page.find_all(["script", "a", "img"])
    assert {"display"} >= {name for element in page.find_all(True) for name in element.attrs}


def test_ordinary_formulas_become_mathml():
    """In texts, in blocks, in environments, and with the characters that a stored text has for safety."""
    page = BeautifulSoup(
        markdown_html("$a<\u2060b$ and $$\\frac{1}{n}$$\n\n\\begin{align}x&=1\\end{align}"), "html.parser"
    )
    assert ["a<b", "1n", "x=1"] == [formula.text for formula in page.find_all("math")]


def test_plain_nbgrader_writes_the_same_pages():
    """One function configures both, so `nbgrader generate_feedback` leaks no more than we do."""
    config = Config()
    configure_feedback(config, "none")
    names = [preprocessor.__name__ for preprocessor in config.GenerateFeedback.preprocessors]
    assert ["GetGradesAndWaiting", "CoverHiddenTests"] == names
    assert "none" == config.CoverHiddenTests.level
    assert "FeedbackExporter" == config.GenerateFeedback.exporter_class.__name__


@pytest.fixture(scope="module")
def folder(tmp_path_factory, bubblewrap):
    """A class of the plain course, graded once, with a manual grade, a comment and a late penalty for "some"."""
    answers = {
        "answer_mean": "import numpy as np\n\ndef mean(x):\n    return sum(x) / 3",
        "answer_scale": "def scale(x, by):\n    return np.asarray(x) + by",
        "answer_slow": "def count(n):\n    while True:\n        pass\ncount(1)",
        "explain_mean": "There is **none**: $0/0$",
    }
    hand_ins = {
        "good": plain_course.answered({"explain_mean": "none"}),
        "some": plain_course.answered(answers),
        "spelling": plain_course.answered({"answer_mean": "def mean(x)\n    return 1"}),
        "cut_off": b'{"cells": [',
    }
    folder = plain_course.make_class(tmp_path_factory.mktemp("course"), hand_ins)
    plain_course.grade_class(folder, limits=Limits(cell_seconds=2))
    with Gradebook(f"sqlite:///{folder / 'gradebook.db'}") as gradebook:
        place = (plain_course.ASSIGNMENT, plain_course.ASSIGNMENT, "some")
        grade = gradebook.find_grade("explain_mean", *place)
        grade.manual_score, grade.needs_manual_grade = 1.5, False
        gradebook.find_comment("explain_mean", *place).manual_comment = "Half of <b>it</b>."
        gradebook.find_submission_notebook(*place).late_submission_penalty = 0.5
        gradebook.db.commit()
    return folder


def shown(folder, student, level="name") -> BeautifulSoup:
    """Return a student's page, written afresh."""
    assert {} == write_feedback(open_class(folder, plain_course.ASSIGNMENT), [student], level, jobs=1)
    return BeautifulSoup(plain_course.page(folder, student).read_text("utf-8"), "html.parser")


def words(element) -> str:
    """Return an element's text with single spaces."""
    return " ".join(element.text.split())


def test_the_summary_names_each_exercise(folder):
    """By its heading, with status and points, the sum as the student will get it, and what to do next."""
    page = shown(folder, "some")
    rows = [words(row) for row in page.select(".summary li")]
    assert [
        "◐ The mean partly correct 1 of 3",
        "○ Scaling not correct yet 0 of 2",
        "○ Counting not correct yet 0 of 1",
        "◐ In your own words partly correct 1.5 of 3",
    ] == rows
    assert "2 of 9 points, after 0.5 for a late submission" == words(page.select_one(".total"))
    assert words(page.select_one(".next")).startswith("Next: The mean. Read the result there")
    assert "Half of <b>it</b>." == page.select_one(".comment").text
    assert "Test cell" not in page.text


def test_the_answer_stands_beside_what_was_found(folder):
    """Each exercise has the student's code, and the message of its test; a program that does not end is reported as such."""
    mean, scale, count, _ = shown(folder, "some").select(".exercise")
    assert "return sum(x) / 3" in mean.select_one(".answer").text
    assert "A hidden test did not pass: large numbers." == words(mean.select(".found .message")[0])
    assert "AssertionError: scale([1, 2], 2) is [2, 4]" == words(scale.select_one(".found .message"))
    assert "Your code took too long: it was stopped after 2 seconds." == words(count.select_one(".answer .message"))
    assert "Your code took too long: it was stopped after 2 seconds." == words(count.select_one(".found .message"))


def test_an_error_of_spelling_shows_its_place(folder):
    """For a syntax error, the student sees the line and the mark below it."""
    answer = shown(folder, "spelling").select_one(".answer .message").text
    assert "def mean(x)" in answer
    assert "^" in answer
    assert "The cell that defines mean ended with an error: SyntaxError: " in shown(folder, "spelling").text


def test_a_hand_in_that_could_not_be_graded_is_one_sentence_and_a_way_out(folder):
    """Not the whole notebook at 0."""
    page = shown(folder, "cut_off")
    assert "could not be graded: the file is not JSON" in page.select_one(".ended").text
    assert "submit it again" in page.text
    assert [] == page.select(".exercise, .summary, .whole")


def test_everything_correct_says_so(folder):
    """Answers that a person grades are marked as such."""
    page = shown(folder, "good")
    assert ["correct"] * 3 + ["a person will grade this"] == [row.text for row in page.select(".summary .words")]
    assert "1 answer is still to be graded by a person" in words(page.select_one("header"))


def test_a_page_asks_for_nothing_and_names_no_path(folder):
    """The page has no script and no address to load, and its content policy forbids both."""
    for student in ("good", "some", "spelling", "cut_off"):
        page = shown(folder, student)
        assert POLICY == page.find("meta", {"http-equiv": "Content-Security-Policy"})["content"]
        assert [] == page.find_all(["script", "link", "iframe"])
        sources = {element.get("src", "data:")[:5] for element in page.find_all("img")}
        assert sources <= {"data:"}
        stored_notebook = (folder / "autograded" / student / plain_course.ASSIGNMENT).glob("*.ipynb")
        for text in (str(page), next(stored_notebook).read_text("utf-8")):
            assert str(folder) not in text
            assert str(nbformat.__file__).rpartition("/site-packages")[0] not in text


def test_demonstrations_are_folded(folder):
    """Cells without a task appear only in the whole notebook, which is folded."""
    folded = shown(folder, "good").select_one(".whole details.cell")
    assert "plt.plot" in folded.text
    assert folded.img["src"].startswith("data:image/png;base64,")
    assert not folded.has_attr("open")


def test_a_page_that_cannot_be_written_is_told_and_the_others_are_written(folder):
    """A file has the name of the folder; the line begins with the student's name."""
    import shutil

    blocked = folder / "feedback" / "good"
    shutil.rmtree(blocked, ignore_errors=True)
    blocked.write_text("in the way")
    plain_course.page(folder, "some").unlink(missing_ok=True)
    try:
        problems = write_feedback(open_class(folder, plain_course.ASSIGNMENT), ["good", "some"], "name", jobs=1)
    finally:
        blocked.unlink()
    assert ["good"] == list(problems)
    assert re.match(r"there is no feedback page \((File exists|Not a directory): .*good", problems["good"])
    assert plain_course.page(folder, "some").is_file()


def test_a_correct_prediction_of_an_error_is_a_success():
    """The picture of a program that raises is not marked with a cross, since the student was right."""
    assert all("✗  raises" not in drawn_mimebundle(stored(name))["text/html"] for name in NAMES)
    cells = [
        nbformat.v4.new_markdown_cell("## A late write"),
        plain_course.known(nbformat.v4.new_code_cell("p = 'raises-backward'"), "answer_p", solution=True),
        plain_course.known(nbformat.v4.new_code_cell("@predicted('p')"), "prediction_p", points=1),
    ]
    cells[2].metadata.nbgrader["score"] = 1.0
    notebook = nbformat.v4.new_notebook(cells=cells)
    page = BeautifulSoup(page_html(notebook, {"notebook": "n", "score": 1, "max_score": 1}), "html.parser")
    assert "✓ A late write correct 1 of 1" == words(page.select_one(".summary li"))
    assert "Everything is correct." in page.text


@pytest.mark.parametrize("points", [0, 2])
def test_an_answer_that_waits_promises_no_points_that_it_does_not_give(points):
    """The sentence on waiting answers says that points may increase if one of the answers gives points, otherwise not."""
    text = plain_course.known(nbformat.v4.new_markdown_cell("Because."), "words", solution=True, points=points)
    text.metadata.nbgrader.update(grade=True, score=0.0, waiting=True)
    page = page_html(nbformat.v4.new_notebook(cells=[text]), {"notebook": "n", "score": 0, "max_score": points})
    assert bool(points) == ("the points above may increase" in page) == ("up to 2 points" in page)
    assert bool(points) != ("1 answer, which gives no points, is still to be read by a person." in page)


def test_a_penalty_is_shown_with_its_times_and_a_persons_decision_with_its_test():
    """Times, which nbgrader stores in UTC, are those of the course's zone; only a test with points of a person says so."""
    notebook = nbformat.v4.new_notebook(
        cells=[plain_course.known(nbformat.v4.new_code_cell(name), name, points=2) for name in ("one", "two")]
    )
    notebook.cells[1].metadata.nbgrader.update(score=2.0, manual=True)
    times = {"due": datetime.datetime(2026, 10, 3, 12), "submitted": datetime.datetime(2026, 10, 25, 1, 30)}
    grades = {"notebook": "n", "score": 1, "max_score": 4, "late_penalty": 1, **times}
    page = page_html(notebook, grades, zone=zoneinfo.ZoneInfo("Europe/Berlin"))
    assert "Due 2026-10-03 14:00, submitted 2026-10-25 02:30 (Europe/Berlin)." in page
    assert 1 == page.count("A person decided the points of this test.")
    assert "submitted 2026" not in page_html(notebook, grades | {"late_penalty": 0})


@pytest.mark.parametrize("points", [0, 2])
def test_an_answer_that_nobody_gave_is_not_correct(points):
    """This includes answers without points; a student with all points is not sent to an answer without points."""
    cells = [
        nbformat.v4.new_markdown_cell("# In your own words"),
        plain_course.known(nbformat.v4.new_markdown_cell("YOUR ANSWER HERE"), "words", solution=True, points=points),
    ]
    cells[1].metadata.nbgrader.update(grade=True, score=0.0, comment="No response.")
    made = page_html(nbformat.v4.new_notebook(cells=cells), {"notebook": "n", "score": 0, "max_score": points})
    page = BeautifulSoup(made, "html.parser")
    expected = f"0 of {points}" if points else "no points"
    assert f"– In your own words not attempted {expected}" == words(page.select_one(".summary li"))
    assert (bool(points), False) == ("Next:" in page.text, "No response." in page.text)


def test_a_notebook_whose_first_heading_is_an_exercise_is_called_by_its_own_name():
    """nbgrader's example begins with its first exercise; the page is not named after that."""
    known, code, text = plain_course.known, nbformat.v4.new_code_cell, nbformat.v4.new_markdown_cell
    parts = [(text(f"# Part {part}"), known(code(""), f"test_{part}", points=1)) for part in "AB"]
    notebook = nbformat.v4.new_notebook(cells=[cell for pair in parts for cell in pair])
    assert "n" == title_of(notebook, list_exercises(notebook), "n")
    alone = nbformat.v4.new_notebook(cells=list(parts[0]))
    assert "Part A" == title_of(alone, list_exercises(alone), "n")


def test_a_notebook_without_headings_names_exercises_by_their_cells():
    """Exercises are named by `test_squares_1` in words, also below a title; tests belong to the answer before them."""
    known, code = plain_course.known, nbformat.v4.new_code_cell
    cells = [
        known(code("a"), "squares", solution=True),
        known(code("b"), "test_squares_1", points=1),
        known(code("c"), "test_squares_2", points=2),
        known(code("d"), "cubes", solution=True, points=3),
    ]
    for above in ([], [nbformat.v4.new_markdown_cell("# Numbers")]):
        found = list_exercises(nbformat.v4.new_notebook(cells=[*above, *cells]))
        shown = [(one.name, len(one.answers), len(one.tests), one.max_points) for one in found]
        assert [("squares 1", 1, 2, 3.0), ("cubes", 1, 0, 3.0)] == shown


SLOW = {
    "code": nbformat.v4.new_code_cell("(" * 200_000),
    "formulas": nbformat.v4.new_markdown_cell(
        "\n\n".join(f"$$ {n} {'a over b ' * 300} {'&' * 2000} $$" for n in range(200))
    ),
    "dollars": nbformat.v4.new_markdown_cell("$ a" * 60_000),
    "brackets": nbformat.v4.new_markdown_cell("\\\\[" * 60_000),
}


@pytest.mark.parametrize("cell", SLOW.values(), ids=SLOW)
def test_what_takes_too_long_to_typeset_is_plain(cell, monkeypatch):
    """A page with ten such cells takes the seconds of processor time that it may, not hours, and shows the cells as they are."""
    monkeypatch.setattr(feedback_page, "SECONDS_OF_A_PART", 0.2)
    monkeypatch.setattr(feedback_page, "SECONDS", 1.0)
    start = time.process_time()  # other tests have filled this process: a garbage collection may be in it
    notebook = nbformat.v4.new_notebook(cells=[cell] * 10)
    page = page_html(notebook, {"notebook": "a", "score": 0, "max_score": 1, "late_penalty": 0})
    assert time.process_time() - start < 20
    assert f"<pre>{cell.source[:10]}" in page


def test_the_budget_ends_with_what_swallows_errors():
    """Errors of latex2mathml are caught for each formula; the end of the time limit is not such an error."""

    def stubborn() -> str:
        while True:
            with contextlib.suppress(Exception):
                sum(range(10_000))

    start = time.process_time()
    with pytest.raises(TimeUp), ProcessorBudget(0.5).limit():
        stubborn()
    assert time.process_time() - start < 3


def test_a_page_that_takes_too_long_is_named(folder, monkeypatch):
    """The rendering is stopped, and the line reports it."""
    monkeypatch.setattr(feedback_files, "PAGE_SECONDS", 0.2)
    monkeypatch.setattr(feedback_files, "page_html", lambda *_: time.sleep(60))
    start = time.monotonic()
    folders = open_class(folder, plain_course.ASSIGNMENT)
    expected = {"some": "there is no feedback page (it took more than 0.2 seconds)"}
    assert expected == write_feedback(folders, ["some"], "name", 1)
    assert time.monotonic() - start < 30


def test_a_cell_that_was_missing_is_said_to_be_where_it_stands(bubblewrap, tmp_path):
    """A deleted cell of a test or an answer is reported in its place; the tests of a deleted answer stay in its exercise."""
    notebook = plain_course.answered({})
    gone = {"answer_slow", "test_mean", "explain_mean"}
    notebook.cells = [cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade_id") not in gone]
    folder = plain_course.make_class(tmp_path, {"deleted": notebook, "whole": plain_course.answered({})})
    plain_course.grade_class(folder)
    said = "This cell was missing from your submission."
    page = BeautifulSoup(plain_course.page(folder, "deleted").read_text(), "html.parser")
    sections = [part.h2.text.split()[-1] for part in page.select("section") if said in part.text]
    assert sections == ["mean", "Counting", "words"]
    assert said not in plain_course.page(folder, "whole").read_text()


def test_the_report_shows_the_answer_of_each_test_and_counts_no_unchanged_one(bubblewrap, tmp_path):
    """Two tests have one answer; the released one is not attempted, on the page and in the report. Another level is shown at once."""
    released = "import numpy as np\n\ndef mean(x):\n    # YOUR CODE HERE\n    raise NotImplementedError()"
    given = {"stub": released, "wrong": "def mean(x):\n    return 0"}
    hand_ins = {student: plain_course.answered({"answer_mean": text}) for student, text in given.items()}
    folder = plain_course.make_class(tmp_path, hand_ins)
    plain_course.grade_class(folder)
    tests = report(plain_course.ASSIGNMENT, folder).report.exercises[:2]
    assert [(1, [given["wrong"]])] * 2 == [
        (test.not_attempted, [group.example for group in test.wrong]) for test in tests
    ]
    assert "not attempted" in plain_course.page(folder, "stub").read_text()
    plain_course.grade_class(folder, feedback="none")
    said = plain_course.page(folder, "wrong").read_text()
    assert (True, False) == ("A hidden test did not pass." in said, "A hidden test did not pass: large numbers" in said)


def test_an_explanation_follows_the_message_once():
    """A check prints its message with an explanation, and raises the message: the page shows both once, the message first."""
    printed = nbformat.v4.new_output("stream", name="stdout", text="late_write: it raised\nYou may think so.\n")
    raised = nbformat.v4.new_output("error", ename="Incorrect", evalue="late_write: it raised", traceback=[])
    page = outputs_html([printed, raised])
    assert 1 == page.count("late_write: it raised")
    assert page.index("late_write") < page.index("You may think so.")
