"""policy.toml: late work, extensions and excuses, computed again by every run and in both directions."""

import csv
import datetime
import sqlite3

import nbformat
import pytest
from nbgrader.api import Gradebook
from nbgrader.plugins import CsvExportPlugin

from autograder.classroom.collect.collection import collect
from autograder.classroom.roster import Roster
from autograder.errors import InputError
from autograder.grade.batch.course_folders import open_class
from autograder.grade.batch.gradebook import GradingRecords, Score
from autograder.grade.policy import AssignmentPolicy, CoursePolicy, DropLowest, LateRule, course_total, read_policy
from tests.classroom import made_class
from tests.classroom.made_class import ASSIGNMENT
from tests.classroom.made_grades import give_grades
from tests.grade import plain_course

DUE = datetime.datetime(2026, 10, 3, 12, 0)
HOURS = {"early": -1, "exact": 0, "minute": 1 / 60, "hour": 1, "day": 24, "two": 25, "week": 24 * 7}
POLICY = """
timezone = "Europe/Berlin"
[late]
grace_minutes = 15
percent_a_day = 10
most_percent = 50
[assignments.first]
due = 2026-10-03T14:00:00  # 12:00 in UTC
"""


@pytest.fixture
def course(tmp_path):
    """A course in which seven students have 4 of 5 points, handed in at times around the due date."""
    made = made_class.course(tmp_path)
    times = {student: DUE + datetime.timedelta(hours=hours) for student, hours in HOURS.items()}
    give_grades(made, {student: {"test_warm_days": 3.0, "summary": 1.0} for student in HOURS}, handed_in=times)
    return made


def penalties(course, policy: str | None) -> dict[str, float]:
    """Apply a policy as `grade` does to unchanged submissions, and return the penalty of each student."""
    path = course / "policy.toml"
    path.unlink(missing_ok=True)
    if policy is not None:
        path.write_text(policy, "utf-8")
    folders = open_class(course, ASSIGNMENT, without_submissions=True)
    with GradingRecords(folders.gradebook, ASSIGNMENT, folders.settings()) as records:
        records.renew_penalties({student: DUE + datetime.timedelta(hours=hours) for student, hours in HOURS.items()})
        return {student: score.late_penalty for student, score in records.scores().items()}


def test_predictions_are_counted_by_the_policy_of_their_assignment(course):
    """Only `predictions = "completion"` of this assignment counts any prediction, and another word is refused."""
    path, folders = course / "policy.toml", open_class(course, ASSIGNMENT, without_submissions=True)
    path.unlink(missing_ok=True)
    assert not folders.any_prediction()
    for assignment, counted in (("second", False), (ASSIGNMENT, True)):
        path.write_text(f'[assignments.{assignment}]\npredictions = "completion"\n', "utf-8")
        assert counted is folders.any_prediction()
    path.write_text(f'[assignments.{ASSIGNMENT}]\npredictions = "some"\n', "utf-8")
    with pytest.raises(InputError, match="predictions"):
        folders.any_prediction()


def test_each_begun_day_costs_its_percentage(course):
    """By hand: 4 points; no penalty up to 15 minutes, 10 % for each started day, at most half of the points."""
    expected = {"early": 0, "exact": 0, "minute": 0, "hour": 0.4, "day": 0.4, "two": 0.8, "week": 2.0}
    assert expected == penalties(course, POLICY)


def test_extensions_move_the_due_date_of_one_student(course):
    """A later time, a span; and taken back when they are taken out of the file."""
    extended = (
        POLICY + '[assignments.first.extensions]\nweek = 2026-10-10T14:00:00+02:00\ntwo = "1 day"\nhour = "2 hours"\n'
    )
    assert {"week": 0, "two": 0.4, "hour": 0, "day": 0.4} == {
        s: penalties(course, extended)[s] for s in ("week", "two", "hour", "day")
    }
    assert {"week": 2.0, "two": 0.8, "hour": 0.4} == {s: penalties(course, POLICY)[s] for s in ("week", "two", "hour")}


@pytest.mark.parametrize(("span", "hours"), [("10 days", 241), ("240 hours", 240)])
def test_days_of_an_extension_end_at_the_same_time_of_day(span, hours):
    """From 20 October 14:00 in Berlin, ten days end at 14:00, one hour more than 240 hours: clocks go back on the 25th."""
    policy = CoursePolicy("Europe/Berlin", assignments={ASSIGNMENT: AssignmentPolicy(extensions={"ann": span})})
    due = datetime.datetime(2026, 10, 20, 12)
    assert datetime.timedelta(hours=hours) == policy.extension(ASSIGNMENT, "ann", due)


def test_steps_and_the_maximum(course):
    """Steps instead of days, of the points that could be had: 5."""
    steps = POLICY.replace(
        "percent_a_day = 10", 'of = "maximum"\nsteps = [{hours = 24, percent = 40}, {hours = 0.5, percent = 20}]'
    )
    expected = {"early": 0, "exact": 0, "minute": 0, "hour": 1.0, "day": 1.0, "two": 2.0, "week": 2.0}
    assert expected == penalties(course, steps)


def test_a_rule_of_one_assignment_goes_before_the_courses(course):
    """The penalty never exceeds the student's points."""
    own = POLICY + "[assignments.first.late]\npercent_a_day = 100\n"
    assert {"minute": 4.0, "week": 4.0, "exact": 0.0} == {
        s: penalties(course, own)[s] for s in ("minute", "week", "exact")
    }


def test_without_a_file_nbgraders_own_count(course):
    """The due date that a person entered, and the plugin of nbgrader_config.py; a file that is silent on them changes neither."""
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}", "course") as book:
        book.update_or_create_assignment(ASSIGNMENT, duedate=DUE)
    assert {0.0} == set(penalties(course, None).values()), "nbgrader's plugin takes nothing off unless it is asked to"
    config = course / "nbgrader_config.py"
    config.write_text(config.read_text() + "\nc.LateSubmissionPlugin.penalty_method = 'zero'\n")
    for policy in (None, 'timezone = "UTC"\n'):
        assert {"early": 0.0, "exact": 0.0, "minute": 4.0} == {
            s: penalties(course, policy)[s] for s in ("early", "exact", "minute")
        }
    assert 0.4 == penalties(course, POLICY)["hour"]
    assert 4.0 == penalties(course, None)["hour"]


def test_gradebook_and_export_say_the_same(course, tmp_path):
    """formgrader (submission.score, late penalty, due date) and `nbgrader export` have the values of the table."""
    lost = penalties(course, POLICY + '[assignments.first.extensions]\nweek = "3 days"\n')
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}", "course") as book:
        found = {one.student_id: one for one in book.assignment_submissions(ASSIGNMENT)}
        assert lost == {student: one.late_submission_penalty or 0.0 for student, one in found.items()}
        assert DUE + datetime.timedelta(days=3) == found["week"].duedate
        assert DUE == found["day"].duedate
        exporter = CsvExportPlugin(parent=None)
        exporter.to = str(tmp_path / "grades.csv")
        exporter.export(book)
    with open(tmp_path / "grades.csv", newline="") as file:
        rows = {row["student_id"]: float(row["score"]) for row in csv.DictReader(file)}
    assert {student: 4.0 - points for student, points in lost.items()} == pytest.approx(rows)


def test_the_files_hash_stands_with_each_grade(course):
    """It changes with the file, and is empty without one."""
    hashes = []
    for policy in (POLICY, POLICY + "\n", None):
        penalties(course, policy)
        with sqlite3.connect(course / "gradebook.db") as book:
            [(digest,)] = set(book.execute("SELECT policy FROM autograder_policy"))
        hashes.append(digest)
        assert digest == read_policy(course)[1]
    assert (3, "") == (len(set(hashes)), hashes[-1])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        pytest.param("[late", "Expected ']'", id="no TOML"),
        pytest.param("lat = 3", "unknown field `lat`", id="an unknown setting"),
        pytest.param('timezone = "Mars/Base"', "'Mars/Base' is not a time zone", id="an unknown zone"),
        pytest.param("late.percent_a_day = 120", "late: percentages must be from 0 to 100", id="more than everything"),
        pytest.param("late.percent_a_day = -1", "late: percentages must be from 0 to 100", id="a reward"),
        pytest.param("late.grace_minutes = nan", "late: percentages", id="no number"),
        pytest.param("[late]\npercent_a_day = 1\nsteps = [{hours = 1, percent = 1}]", "not both", id="two rules"),
        pytest.param('[assignments.a.extensions]\nann = "soon"', "extensions.ann: 'soon' is neither a time", id="no span"),
        pytest.param('[assignments.a]\ndue = "tomorrow"', "Invalid RFC3339", id="no time"),
        pytest.param("[assignments.a]\ndue = 2026-10-03", "a day and a time, such as 2026-10-03T23:59:00", id="a day"),
        pytest.param('missing = "none"', '\'none\' .*use "zero" or "blank"', id="an unknown word"),
        pytest.param('[[drop_lowest]]\nassignments = ["a"]', "count = 1 of 1 assignments leaves none", id="all dropped"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_used_is_refused(tmp_path, text, sentence):
    """One sentence, with the file's name and the setting."""
    (tmp_path / "policy.toml").write_text(text, "utf-8")
    with pytest.raises(InputError, match=sentence) as caught:
        read_policy(tmp_path)
    assert "policy.toml" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("scores", "points", "most", "dropped"), [
    pytest.param({"a": (8, 20), "b": (9, 10), "c": (5, 5)}, 14, 15, ("a",), id="the lowest share goes"),
    pytest.param({"a": (1, 10), "b": (0, 10), "exam": (0, 20)}, 1, 30, ("b",), id="only of those named"),
    pytest.param({"a": (1, 10)}, 1, 10, (), id="the last one stays"),
    pytest.param({"a": (1, 10), "b": (2, 10), "out": (10, 10)}, 2, 10, ("a",), id="an excused one does not count"),
])  # fmt: skip
def test_the_lowest_is_dropped(scores, points, most, dropped):
    """One of a, b and c may be dropped; `out` is excused."""
    policy = CoursePolicy(
        drop_lowest=(DropLowest(("a", "b", "c")),), assignments={"out": AssignmentPolicy(excused=("ann",))}
    )
    assert (points, most, dropped) == course_total(policy, "ann", scores)


def test_a_step_begins_after_its_hours():
    """Exactly 24 hours are not more than 24 hours; a second more is."""
    rule = LateRule(percent_a_day=10)
    assert [10, 10, 20] == [rule.percent(seconds) for seconds in (1, 86_400, 86_401)]


def test_work_is_in_time_until_extension_and_grace_are_over():
    """Due at noon UTC, ten minutes of grace, an hour more for ann: the last minute of each counts, and the next one does not."""
    noon = datetime.datetime(2026, 10, 3, 12, tzinfo=datetime.UTC)
    given = AssignmentPolicy(due=noon, extensions={"ann": "1 hours"})
    policy = CoursePolicy(late=LateRule(grace_minutes=10), assignments={"first": given})
    for student, minutes in (("ann", 70), ("bob", 10)):
        times = [noon + datetime.timedelta(minutes=late) for late in (minutes, minutes + 1)]
        assert [True, False] == [policy.is_in_time("first", student, time) for time in times]


def test_a_penalty_takes_no_more_than_the_points():
    """A late penalty of the maximum can exceed the points; `nbgrader export` (0.9.6) writes 0 then, not a negative number."""
    assert [0.0, 0.0, 1.5] == [Score(2.0, lost, 0).total for lost in (2.5, 2.0, 0.5)]


def test_the_best_of_several_submissions_counts_after_its_penalty(tmp_path, bubblewrap):
    """By hand, of 6: full in time beats 3 late; 0 loses against half of 6; 4 beats half of 6, and not 6 without a penalty."""
    nothing = {"answer_mean": "import numpy as np", "answer_scale": "", "answer_slow": ""}
    answers = {
        "ann": ({}, {"answer_mean": "import numpy as np"}),
        "bob": (nothing, {}),
        "cem": ({"answer_scale": ""}, {}),
    }
    course, late = plain_course.make_class(tmp_path / "course", {}), "[late]\npercent_a_day = 50\n"
    (course / "submitted").mkdir(exist_ok=True)
    policy = f'counts = "best"\n{{}}[assignments.{plain_course.ASSIGNMENT}]\ndue = 2026-10-03T12:00:00Z\n'
    (course / "policy.toml").write_text(policy.format(late), "utf-8")
    for number, hour in enumerate((11, 13)):
        for student, versions in answers.items():
            folder = tmp_path / str(hour) / student / plain_course.ASSIGNMENT
            folder.mkdir(parents=True)
            nbformat.write(plain_course.answered(versions[number]), folder / f"{plain_course.ASSIGNMENT}.ipynb")
            (folder / "timestamp.txt").write_text(f"2026-10-03 {hour}:00:00 UTC")
        collect(tmp_path / str(hour), plain_course.ASSIGNMENT, course, Roster([]))

    def scores() -> dict[str, float | None]:
        return {row.student: row.score for row in plain_course.grade_class(course)}

    def hours() -> list[str]:
        return [(course / f"submitted/{name}/vectors/timestamp.txt").read_text()[11:13] for name in answers]

    assert (["13"] * 3, {"ann": 6, "bob": 3, "cem": 4}) == (hours(), scores())
    assert ["11", "13", "11"] == hours()
    collect(tmp_path / "13", plain_course.ASSIGNMENT, course, Roster([]))
    assert all(row.unchanged for row in plain_course.grade_class(course))
    (course / "policy.toml").write_text(policy.format(""), "utf-8")
    assert {("ann", 6), ("bob", 6), ("cem", 6)} == set(scores().items())
    assert ["11", "13", "13"] == hours()
