"""The settings in a course's own nbgrader_config.py are followed, and a mistake in it is reported in one sentence."""

import re

import pytest

from autograder import cli
from autograder.errors import InputError
from autograder.grade.batch.assignment import Options, grade_assignment
from autograder.grade.batch.course_folders import limits_of, read_config, read_course
from autograder.grade.wire.limits import MEBIBYTE, SETTINGS, Limits, configuration_lines
from tests.grade.hostile.lesson import ASSIGNMENT, RIGHT, write_source
from tests.grade.hostile.school import FULL, hand_in

ELSEWHERE = """
c = get_config()
c.CourseDirectory.course_id = "torch101"
c.CourseDirectory.source_directory = "teaching/sources"
c.CourseDirectory.submitted_directory = "teaching/in"
c.CourseDirectory.autograded_directory = "out/graded"
c.CourseDirectory.feedback_directory = "out/pages"
c.CourseDirectory.db_url = "sqlite:///book/marks.db"
"""


def configured(folder, *lines):
    """Return the limits in a course whose configuration has these lines."""
    (folder / "nbgrader_config.py").write_text("\n".join(["c = get_config()", *lines]))
    return limits_of(read_config(folder), {})


def test_a_course_may_keep_its_files_elsewhere(bubblewrap, tmp_path):
    """Sources and submissions are found in the configured folders, and everything is written to the configured folders."""
    (tmp_path / "nbgrader_config.py").write_text(ELSEWHERE)
    write_source(tmp_path)
    hand_in(tmp_path, "ann", RIGHT)
    (tmp_path / "teaching").mkdir()
    (tmp_path / "source").rename(tmp_path / "teaching" / "sources")
    (tmp_path / "submitted").rename(tmp_path / "teaching" / "in")
    [row] = grade_assignment(ASSIGNMENT, tmp_path, Options(jobs=1, feedback="name"))
    assert FULL == row.score
    assert (tmp_path / "out" / "graded" / "ann" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb").is_file()
    assert (tmp_path / "out" / "pages" / "ann" / ASSIGNMENT / f"{ASSIGNMENT}.html").is_file()
    assert {"nbgrader_config.py", "book", "out", "teaching"} == {path.name for path in tmp_path.iterdir()}


def test_without_a_configuration_the_layout_is_nbgraders(tmp_path):
    """source, submitted, autograded, feedback and gradebook.db in the course's folder."""
    course = read_course(tmp_path)
    assert (tmp_path / "source", f"sqlite:///{tmp_path}/gradebook.db") == (course.sources, course.gradebook)
    assert {step: tmp_path / step for step in ("submitted", "autograded", "feedback")} == course.steps


def test_limits_come_from_the_option_the_course_and_nbgrader_in_this_order(tmp_path):
    """An option goes before c.Autograder, and that before nbgrader's own timeout for a cell."""
    assert Limits() == configured(tmp_path)
    assert 7 == configured(tmp_path, "c.Execute.timeout = 7").cell_seconds
    assert 7 == configured(tmp_path, "c.ExecutePreprocessor.timeout = 7").cell_seconds
    assert 9 == configured(tmp_path, "c.Execute.timeout = 7", "c.Autograder.cell_seconds = 9").cell_seconds
    assert Limits().submission_seconds == configured(tmp_path, "c.Execute.timeout = None").cell_seconds
    limits = configured(tmp_path, "c.Autograder.memory_mib = 700", "c.Autograder.cell_seconds = 9")
    assert 700 * MEBIBYTE == limits.memory_bytes
    assert 3 == limits_of(read_config(tmp_path), {"cell_seconds": 3}).cell_seconds


def test_every_limit_has_one_definition(tmp_path):
    """Each setting, set to its standard value, gives the standard limits; those with an option are in a new course."""
    lines = [f"c.Autograder.{name} = {field.default:g}" for name, field in SETTINGS.items()]
    assert Limits() == configured(tmp_path, *lines)
    assert Limits() == configured(tmp_path, configuration_lines())
    options = [name for name, field in SETTINGS.items() if field.is_option]
    assert options == re.findall(r"c\.Autograder\.(\w+) = ", configuration_lines())
    for name, field in SETTINGS.items():
        too_small = field.least - 1
        with pytest.raises(InputError, match=name):
            configured(tmp_path, f"c.Autograder.{name} = {too_small}")


@pytest.mark.parametrize(("line", "said"), [
    ("c.Autograder.cell_secnods = 3", "cell_secnods is not a setting; use one of cell_seconds"),
    ("c.Autograder.memory_mib = 'much'", "memory_mib"),
    ("c.Autograder.processes = 0", "processes"),
    ("c.Autograder.submission_seconds = -1", "submission_seconds"),
    ("1 / 0", "ZeroDivisionError"),
    ("c.CourseDirectory.db_url = 'mysql://host/marks'", "db_url"),
    ("c.CourseDirectory.directory_structure = '{student_id}/{nbgrader_step}/{assignment_id}'", "STEP/STUDENT"),
    ("c.CourseDirectory.source_directory = 5", "source_directory"),
])  # fmt: skip
def test_a_mistake_is_one_sentence(tmp_path, line, said):
    """The sentence names the setting, so that a teacher finds it."""
    (tmp_path / "nbgrader_config.py").write_text(f"c = get_config()\n{line}\n")
    with pytest.raises(InputError, match=said):
        limits_of(read_config(tmp_path), {}) and read_course(tmp_path)


@pytest.mark.parametrize("setting", [{"two_processes": True}, {}], ids=["option", "configuration"])
def test_tests_in_the_process_and_outside_of_it_contradict_each_other(bubblewrap, tmp_path, setting):
    """One sentence, and no gradebook: the safer setting is not dropped silently."""
    write_source(tmp_path)
    hand_in(tmp_path, "ann", RIGHT)
    (tmp_path / "nbgrader_config.py").write_text(f"c = get_config()\nc.Autograder.two_processes = {not setting}\n")
    with pytest.raises(InputError, match="--one-process contradicts --two-processes"):
        grade_assignment(ASSIGNMENT, tmp_path, Options(jobs=1, one_process=True, **setting))
    assert not (tmp_path / "autograded").exists()


@pytest.mark.parametrize(
    "words", [["--cell-seconds", "-3"], ["--memory-mib", "much"], ["--jobs", "-1"], ["--submission-seconds", "inf"]]
)
def test_a_wrong_option_is_one_sentence(words, capsys):
    """Exit code 2, and one line that names the option."""
    with pytest.raises(SystemExit) as ended:
        cli.main(["grade", ASSIGNMENT, *words])
    told = capsys.readouterr().err
    assert (2, 1) == (ended.value.code, told.count("\n"))
    assert words[0] in told


@pytest.mark.parametrize("python", ["/nowhere/python", "true", "/usr/bin/python3"])
def test_a_python_that_cannot_grade_is_told(python, capsys):
    """No program, not Python, and a Python that lacks packages for grading: one sentence that names it."""
    assert 2 == cli.main(["grade", ASSIGNMENT, "--python", python])
    assert python in capsys.readouterr().err
