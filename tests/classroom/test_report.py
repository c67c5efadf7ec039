"""The report on a simulated class finds the planted misconceptions, and its numbers agree with an independent computation."""

import json
import re
from dataclasses import replace

import numpy
import pytest
from bs4 import BeautifulSoup

from autograder import cli
from autograder.classroom.report.class_report import (
    AssignmentChange,
    change_since,
    course_lines,
    cronbach_alpha,
    item_statistics,
)
from autograder.classroom.report.grading_records import read_class_grades
from autograder.classroom.report.report_page import histogram, report_html
from autograder.classroom.report.report_page import report as report_on
from autograder.classroom.report.wrong_answers import (
    GivenAnswer,
    group_wrong_answers,
    normal_form,
    verdict_of,
    without_comments,
)
from autograder.desk.report import report as old_report
from autograder.errors import InputError
from autograder.grade.batch.course_folders import open_class
from autograder.grade.submission.notebook_grade import CellGrade
from tests.classroom import made_class
from tests.classroom.made_grades import give_grades
from tests.classroom.simulated_class import ASSIGNMENT, BELIEFS, simulate
from tests.stored import assert_stored, digest


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    """A class of 400, the answers of each student, and the report."""
    folder = tmp_path_factory.mktemp("simulated")
    truth = simulate(folder, 400)
    return folder, truth, report_on(ASSIGNMENT, folder).report


def test_the_former_import_path_works():
    """A teacher's notebook may contain `from autograder.desk.report import report`."""
    assert old_report is report_on


def test_the_planted_misconceptions_are_found_in_their_order(simulated):
    """Names, counts and order as planted, whatever names and comments the answers have; each student is counted once."""
    _, truth, report = simulated
    planted = {name: sum(name in one.answers.values() for one in truth) for name in BELIEFS}
    assert sorted(planted.items(), key=lambda one: -one[1]) == [(one.belief, one.students) for one in report.named]


def test_each_exercise_has_its_wrong_answers(simulated):
    """For every exercise, the number of each named answer, and the answers without a name by their results."""
    _, truth, report = simulated
    for exercise in report.exercises:
        given = [one.answers[exercise.id] for one in truth]
        assert {name: given.count(name) for name in BELIEFS} == {
            one.name: len(one.students) for one in exercise.wrong if one.name
        }
        unnamed = [one for one in exercise.wrong if not one.name]
        assert given.count("") == sum(len(one.students) for one in unnamed) == exercise.hidden_decided
        assert len(unnamed) <= 4
        assert given.count(None) == exercise.correct


def test_the_numbers_are_numpys(simulated):
    """Difficulty, corrected item-total correlation, Cronbach's alpha, mean and median, computed another way."""
    _, truth, report = simulated
    points = numpy.array([[2.0 * (answer is None) for answer in one.answers.values()] for one in truth])
    total = points.sum(axis=1)
    for number, exercise in enumerate(report.exercises):
        rest = total - points[:, number]
        assert exercise.statistics.difficulty == pytest.approx(points[:, number].mean() / 2)
        assert exercise.statistics.discrimination == pytest.approx(numpy.corrcoef(points[:, number], rest)[0, 1])
    cells = points.shape[1]
    alpha = cells / (cells - 1) * (1 - points.var(axis=0, ddof=1).sum() / total.var(ddof=1))
    assert (report.alpha, report.mean, report.median) == pytest.approx((alpha, total.mean(), numpy.median(total)))
    assert {one.student for one in report.behind} == {
        one.student for one, sum_ in zip(truth, total, strict=True) if sum_ < 0.4 * 12
    }


def test_what_cannot_be_computed_is_none():
    """All alike, one student, one cell; an empty answer does not stand for those that wait."""
    assert [None, None] == [one.discrimination for one in item_statistics([[1, 0], [1, 0], [1, 0]], [1, 1])]
    assert [None, 0.5] == [
        item_statistics(given, [2])[0].difficulty for given in ([[0], [None], [None]], [[0], [2], [None]])
    ]
    assert [None] * 3 == [cronbach_alpha([[1, 2]]), cronbach_alpha([[1], [2]]), cronbach_alpha([[1, 1], [1, 1]])]


@pytest.mark.parametrize("scores", [[0.0], [10.0], [12.0], [0, 1, 2, 5, 9.99, 10], []])
def test_the_bars_hold_everybody(scores):
    """No score is lost, at the ends and with extra credit too; edges are whole numbers, except the maximum."""
    assert len(scores) == sum(bar["students"] for bar in histogram(scores, 10))
    assert len(scores) == sum(bar["students"] for bar in histogram(scores, 0))
    assert [0, 3, 6, 9, 12, 15, 18, 21] == [bar["low"] for bar in histogram(scores, 22.5)]


def test_it_names_nobody_but_on_its_own_page(simulated, capsys):
    """Before the part for the teacher, the page has no student's id and no comment of an answer; it has no links.

    Its text and its drawings are those that were stored.
    """
    folder, truth, _ = simulated
    assert 0 == cli.main(["report", ASSIGNMENT, "--course", str(folder), "--out", str(folder / "page.html")])
    page = (folder / "page.html").read_text("utf-8")
    shown, _, named = page.partition("<h2>By name</h2>")
    assert "Ann Lee" not in page
    assert not any(one.student in shown for one in truth)
    assert any(one.student in named for one in truth)
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in page
    assert "<script" not in page
    assert_stored(
        "report.txt", "simulated", BeautifulSoup(page, "html.parser").get_text("\n", strip=True) + digest(page)
    )


def test_a_sentence_names_ten_students_at_most(simulated):
    """Of thirty who did not submit again, ten are named, and the others counted."""
    change = AssignmentChange("early", 0.5, 0.5, [], [f"s{number:02}" for number in range(30)])
    page = report_html(simulated[2], change)
    assert "not now: s00, s01, s02, s03, s04, s05, s06, s07, s08, s09 and 20 more." in page


def test_json_has_the_same_numbers(simulated, capsys):
    """`--json` prints exactly one object."""
    folder, _, report = simulated
    assert 0 == cli.main(["report", ASSIGNMENT, "--course", str(folder), "--json"])
    read = json.loads(capsys.readouterr().out)
    assert [one.students for one in report.named] == [one["students"] for one in read["report"]["named"]]
    assert 1 == read["version"]


def test_excused_students_do_not_count(tmp_path):
    """Their scores, answers and names are left out, and their number is reported."""
    truth = simulate(tmp_path, 20)
    out = [truth[0].student, truth[1].student]
    (tmp_path / "policy.toml").write_text(f"[assignments.{ASSIGNMENT}]\nexcused = {json.dumps(out)}\n")
    report = report_on(ASSIGNMENT, tmp_path).report
    assert (18, 2) == (len(report.scores), report.excused)
    assert not any(set(out) & set(group.students) for one in report.exercises for group in one.wrong)


def test_a_student_who_left_is_not_counted_as_excused(tmp_path):
    """A student in `left` is left out like an excused one, and only the excused one is counted, listed twice or not."""
    truth = simulate(tmp_path, 20)
    out = [one.student for one in truth[:3]]
    (tmp_path / "policy.toml").write_text(
        f"left = {json.dumps(out[1:])}\n[assignments.{ASSIGNMENT}]\nexcused = {json.dumps(out[:2])}\n"
    )
    report = report_on(ASSIGNMENT, tmp_path).report
    assert (17, 1) == (len(report.scores), report.excused)


def test_without_records_it_says_what_to_do(tmp_path):
    """Nothing is graded, or only nbgrader has graded."""
    course = made_class.course(tmp_path)
    with pytest.raises(InputError, match="has no grades yet"):
        report_on(made_class.ASSIGNMENT, course)
    give_grades(course, {"ann": {"test_warm_days": 1.0, "summary": 0.0}})
    with pytest.raises(InputError, match="was not graded by `autograder grade`"):
        report_on(made_class.ASSIGNMENT, course)


def test_damaged_notebooks_do_no_harm(tmp_path):
    """A graded notebook is missing, one is not JSON, one is a list."""
    truth = simulate(tmp_path, 12)
    paths = [tmp_path / "autograded" / one.student / ASSIGNMENT / f"{ASSIGNMENT}.ipynb" for one in truth]
    paths[0].unlink()
    paths[1].write_text("{")
    paths[2].write_text("[1]")
    assert 12 == len(report_on(ASSIGNMENT, tmp_path).report.scores)


@pytest.mark.parametrize(("one", "other", "same"), [
    ("def f(x):\n    y = x + 1\n    return y", "def f(a): # note\n\n  b=(a+1)\n  return b", True),
    ("def f(x):\n    'doc'\n    return x", "def f(x):\n    return x", True),
    ("def f(x):\n    return x.data", "def f(x):\n    return x.detach()", False),
    ("def f(x, y):\n    return x - y", "def f(x, y):\n    return y - x", False),
    ("def f(x):\n    return g(x)", "def f(x):\n    return h(x)", False),
    ("class A:\n    def f(self, x):\n        return x", "class A:\n    def f(self, y):\n        return y", True),
    ("f = lambda x: x", "f = lambda y: y", True),
    ("not python (", "not  python\n(", True),
    ("x = 1", "x = 2", False),
])  # fmt: skip
def test_normal_forms_are_equal_where_answers_do_the_same(one, other, same):
    """Layout, comments, docstrings and own names do not count; everything else does."""
    assert same == (normal_form(one) == normal_form(other))


def test_comments_are_taken_out_and_strings_are_not():
    """A `#` in a string is not a comment."""
    assert 'x = "#1"\ny = 2' == without_comments('x = "#1"  # Ann\ny = 2 # 4711\n')
    assert "not python ( # x" == without_comments("not python ( # x")


def test_a_notebook_shows_the_page_in_a_frame(simulated):
    """Found by the beginning of its name; the frame contains the exact page, runs nothing, and a terminal shows the beliefs."""
    folder, truth, whole = simulated
    shown = report_on("simul", folder)
    frame = BeautifulSoup(shown._repr_html_(), "html.parser").iframe
    assert not frame["sandbox"]
    assert shown.as_html() == frame["srcdoc"]
    first, second, *_ = repr(shown).splitlines()
    assert first.startswith("simulated: 400 students, mean")
    assert second.split(maxsplit=1) == [str(whole.named[0].students), whole.named[0].belief]
    shown.save(folder / "saved.html")
    assert frame["srcdoc"] == (folder / "saved.html").read_text("utf-8")
    with pytest.raises(InputError, match="there is no assignment 'other'"):
        report_on("other", folder)


@pytest.mark.parametrize("width", [360, 900])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_a_screen(simulated, browser, width, scheme):
    """Nothing overflows to the right, on a telephone either; text and background differ in both color schemes."""
    folder, _, _ = simulated
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page.set_content(report_on(ASSIGNMENT, folder).as_html())
    assert width >= page.evaluate("document.documentElement.scrollWidth")
    ink, paper = page.evaluate(
        "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
    )
    brightness = [sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in (ink, paper)]
    assert (brightness[0] < brightness[1]) == (scheme == "light")
    assert abs(brightness[0] - brightness[1]) > 400
    page.close()


def test_on_paper_every_example_is_seen(simulated, browser):
    """Printing opens folded parts, and the names begin on a new page."""
    folder, _, _ = simulated
    page = browser.new_page(viewport={"width": 900, "height": 800})
    page.set_content(report_on(ASSIGNMENT, folder).as_html())
    hidden = "[...document.querySelectorAll('details pre')].filter(one => !one.checkVisibility({contentVisibilityAuto: true})).length"
    assert page.evaluate(hidden) > 0
    page.emulate_media(media="print")
    assert 0 == page.evaluate(hidden)
    named = "getComputedStyle([...document.querySelectorAll('section')].at(-1)).breakBefore"
    assert "page" == page.evaluate(named)
    page.close()


@pytest.mark.parametrize(
    ("reason", "verdict"),
    [
        ("f: the gradient is wrong\n  saw  1", "the gradient is wrong"),
        ("f: you predicted\nraises-forward. It was correct.\n  saw  x", "you predicted raises-forward. It was correct"),
        ("NameError: name 'x' is not defined", "NameError: name 'x' is not defined"),
        ("", ""),
    ],
)  # fmt: skip
def test_the_verdict_is_the_whole_sentence(reason, verdict):
    """The verdict may take several lines, and does not include the exercise's name or the text after it."""
    assert verdict == verdict_of(reason)


@pytest.mark.parametrize(("answers", "shown_by", "example"), [
    pytest.param(
        {"ann": "x = 1  # ann", "ben": "x = 1 # fill in"}, "ben", "x = 1", id="the comment was handed out"
    ),
    pytest.param({"ann": "x = 1  # ann", "ben": "x  =  1"}, "ben", "x  =  1", id="one without"),
    pytest.param({"ann": "x = 1  # ann", "ben": "x = 1  # ben"}, "", "x = 1", id="all with"),
    pytest.param({"ann": "x = ( # ann"}, "", "x = ( # ann", id="no Python"),
])  # fmt: skip
def test_a_picture_is_of_the_example_and_shows_no_comment(answers, shown_by, example):
    """The picture belongs to the example's student, who has not written a comment, which could contain a name."""
    grade = CellGrade(status="incorrect", points=0.0, max_points=1.0, reason="f: wrong\n  saw 1.5")
    given = [GivenAnswer(student, code, grade) for student, code in answers.items()]
    [group] = group_wrong_answers(given, {}, "x = ...  # fill in")
    assert (shown_by, example) == (group.shown_by, group.example)


def test_the_change_since_the_previous_assignment_is_that_of_the_shares(tmp_path):
    """By hand: ann falls from 4 of 4 points to 1 of 2, ben has half of both, and cy is missing."""
    course = made_class.course(tmp_path)
    give_grades(course, {"ann": {"a": 4.0}, "ben": {"a": 2.0}, "cy": {"a": 1.0}}, "early", {"a": 4.0})
    waiting = {"ann": {"b": 1.0, "remark": None}, "ben": {"b": 1.0}}
    give_grades(course, waiting, made_class.ASSIGNMENT, {"b": 2.0, "remark": 0.0})
    folders = open_class(course, made_class.ASSIGNMENT, without_submissions=True)
    found = change_since(folders)
    assert ("early", ["cy"], [("ann", 1.0, 0.5)]) == (
        found.before, found.missing, [(one.student, one.before, one.now) for one in found.fell]
    )  # fmt: skip
    assert (pytest.approx(1.75 / 3), 0.5) == (found.mean_before, found.mean_now)
    assert change_since(replace(folders, assignment="early")) is None
    [(points, most)] = [(line.points, line.max_points) for line in course_lines(folders) if "cy" == line.student]
    assert (1.0, 6.0) == (points, most), "without `missing` in policy.toml, a missing submission counts 0"
    assert 0 == read_class_grades(folders).scores["ann"].waiting, "nobody waits for a cell of 0 points"


@pytest.mark.parametrize(("policy", "fell", "missing", "means"), [
    ('[assignments.early]\nexcused = ["ben"]', [("ann", 1.0, 0.5)], ["cy"], (2.5 / 4, 0.5)),
    ('[assignments.first]\nexcused = ["ann", "cy"]', [], [], (1.75 / 3, 0.5)),
    ('left = ["ann", "ben"]', [], ["cy"], (0.25, 0.5)),
])  # fmt: skip
def test_the_change_leaves_out_the_students_that_the_report_leaves_out(tmp_path, policy, fell, missing, means):
    """Excused students count in neither mean, and an excused student is not missing; if all have left, all of them count."""
    course = made_class.course(tmp_path)
    give_grades(course, {"ann": {"a": 4.0}, "ben": {"a": 2.0}, "cy": {"a": 1.0}}, "early", {"a": 4.0})
    give_grades(course, {"ann": {"b": 1.0}, "ben": {"b": 1.0}}, made_class.ASSIGNMENT, {"b": 2.0})
    (course / "policy.toml").write_text(policy)
    change = change_since(open_class(course, made_class.ASSIGNMENT, without_submissions=True))
    assert (fell, missing) == ([(one.student, one.before, one.now) for one in change.fell], change.missing)
    assert means == pytest.approx((change.mean_before, change.mean_now))
