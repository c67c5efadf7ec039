"""policy.toml may only name known assignments and students; a student without a submission is known as well."""

import pytest

from autograder import cli
from autograder.classroom.collect.collection import collect
from autograder.classroom.policy_names import checked_policy
from autograder.classroom.roster import Roster, read_roster
from autograder.course.new_course import make_course
from autograder.errors import InputError
from autograder.grade.batch.course_folders import open_class
from tests.classroom import downloads, made_class
from tests.classroom.made_class import ABSENT, ASSIGNMENT, STUDENTS
from tests.classroom.made_grades import give_grades

HERE, AWAY = STUDENTS[0].login, ABSENT[0].login


@pytest.fixture
def course(tmp_path):
    """A course in which one student has grades, and whose next assignment is a folder that is still empty."""
    made = made_class.course(tmp_path)
    give_grades(made, {HERE: {"test_warm_days": 3.0, "summary": 1.0}})
    (made / "source" / "second").mkdir()
    return made


def files(folder):
    """Return every file below a folder and its bytes."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        pytest.param("[assignments.firsd]", r"assignments has “firsd” \(is “first” meant\?\)", id="an assignment"),
        pytest.param(
            '[[drop_lowest]]\nassignments = ["first", "secnod"]',
            r"drop_lowest has “secnod” \(is “second” meant\?\)",
            id="one to be dropped",
        ),
        pytest.param('[assignments.first]\nexcused = ["u0001"]', r"assignments.first.excused has “u0001” \(is “u000", id="excused"),
        pytest.param(
            '[assignments.second.extensions]\n"who else" = "2 days"',
            r"assignments.second.extensions has “who else”, which is not a known student",
            id="nobody like it",
        ),
        pytest.param('[assignments.first]\nexcused = ["U00001"]', "has “U00001”", id="another case"),
        pytest.param('[assignments.first]\nexcused = [""]', "has “''”", id="no name"),
    ],
)  # fmt: skip
def test_a_name_that_nobody_knows_is_refused(course, text, sentence):
    """For every place in the file, the error has the setting, its value, and the most similar known name."""
    (course / "policy.toml").write_text(text, "utf-8")
    with pytest.raises(InputError, match=sentence) as caught:
        checked_policy(open_class(course, ASSIGNMENT, without_submissions=True))
    assert "\n" not in str(caught.value)


def test_no_command_works_by_such_a_file(course, tmp_path, capsys, monkeypatch):
    """`grade`, `report` and `return` report it with exit code 2, and write nothing."""
    collect(downloads.shared_folder(tmp_path / "download"), ASSIGNMENT, course, Roster([]))
    worksheet = downloads.canvas_gradebook(tmp_path / "gradebook.csv")
    (course / "policy.toml").write_text('[assignments.first]\nexcused = ["u0001"]', "utf-8")
    monkeypatch.chdir(tmp_path)
    before = files(tmp_path)
    for words in (
        ["grade", ASSIGNMENT],
        ["grade", ASSIGNMENT, "--dry-run"],
        ["report", ASSIGNMENT],
        ["report", "all", "--json"],
        [
            "return",
            ASSIGNMENT,
            "--to",
            "canvas",
            "--worksheet",
            str(worksheet),
            "--out",
            "out",
            "--column",
            "First steps",
        ],
    ):
        assert 2 == cli.main([*words, "--course", str(course)]), words
        assert "excused has “u0001” (is “u000" in capsys.readouterr().err
    assert before == files(tmp_path)


@pytest.mark.parametrize("known_by", ["roster.csv", "the list that collect was given", "the gradebook", "a variant"])
def test_who_has_handed_in_nothing_yet_is_known(course, tmp_path, known_by):
    """Each list of the class that a course may have is enough, also when another command gets no list."""
    (course / "policy.toml").write_text(
        f'[assignments.first]\nexcused = ["{AWAY}"]\n[assignments.second.extensions]\n{HERE} = "3 days"\n', "utf-8"
    )
    folders = open_class(course, ASSIGNMENT, without_submissions=True)
    with pytest.raises(InputError, match=f"has “{AWAY}”"):
        checked_policy(folders)
    if known_by == "roster.csv":
        (course / "roster.csv").write_text(f"student_id,name\n{AWAY},Away\n{HERE},Here\n", "utf-8")
    elif known_by == "the list that collect was given":
        listed = downloads.canvas_gradebook(tmp_path / "gradebook.csv")
        collect(downloads.canvas_zip(tmp_path / "x.zip"), ASSIGNMENT, course, read_roster(listed))
        assert not (course / "submitted" / AWAY).exists()
    elif known_by == "the gradebook":
        give_grades(course, {AWAY: {"test_warm_days": 0.0, "summary": 0.0}}, "second")
    else:
        (course / "variants.json").write_text(
            f'{{"seed": "1", "assignments": {{"first": {{"changes": "", "students": {{"{AWAY}": 1}}}}}}}}', "utf-8"
        )
    assert {AWAY} == checked_policy(folders).excluded("first")


def test_what_the_course_keeps_of_a_list_grows(course, tmp_path):
    """A later list with other students does not remove anyone."""
    download = downloads.canvas_zip(tmp_path / "x.zip")
    for number, students in enumerate((STUDENTS, STUDENTS[:40])):
        listed = downloads.canvas_gradebook(tmp_path / f"{number}.csv", students)
        collect(download, ASSIGNMENT, course, read_roster(listed))
    (course / "policy.toml").write_text(f'[assignments.first]\nexcused = ["{AWAY}"]', "utf-8")
    assert checked_policy(open_class(course, ASSIGNMENT, without_submissions=True))


def test_the_lessons_of_the_clone_are_known(tmp_path):
    """A class without its own configuration may use any of them."""
    make_course(tmp_path / "made")
    (tmp_path / "made" / "nbgrader_config.py").unlink()
    (tmp_path / "made" / "policy.toml").write_text("[assignments.02_mutating_a_saved_tensor]\n", "utf-8")
    assert checked_policy(open_class(tmp_path / "made", ASSIGNMENT, without_submissions=True))
