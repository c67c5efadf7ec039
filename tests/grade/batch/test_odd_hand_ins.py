"""Unusual names and files in a class's folder, and obstacles in the place of results, do not stop the batch."""

import json
import os
import re
import shutil
import socket
import stat

import pytest

from autograder.grade.batch.assignment import Options, ProgressCallbacks, grade_assignment
from autograder.grade.batch.student_rows import as_json, as_table, look_here
from autograder.grade.submission.submitted_files import UnreadableSubmission, plain_file
from tests.grade.hostile.lesson import ASSIGNMENT, RIGHT, WRONG, write_source
from tests.grade.hostile.school import FULL, hand_in, place
from tests.grade.names import ODD_NAMES

NOTEBOOK = f"{ASSIGNMENT}.ipynb"
NOT_UTF8 = os.fsdecode(b"M\xfcller")
LONG = "n" * 255  # NAME_MAX on Linux


def _many(folder):
    for number in range(5000):
        (folder / f"{number}.txt").touch()


def _deep(folder):
    for name in ("a" * 50,) * 60:
        folder = folder / name
        folder.mkdir()
        if len(str(folder)) < 3000:
            (folder / "x").touch()


def _loop(folder):
    (folder / "loop").symlink_to("loop")
    (folder / "up").symlink_to("..")
    (folder / "gone").symlink_to("nowhere")
    (folder / "[").mkdir()
    (folder / "[" / "bold]").symlink_to("nowhere")


def _socket(folder):
    here = os.getcwd()
    os.chdir(folder)  # a socket's address is at most 108 bytes long
    try:
        socket.socket(socket.AF_UNIX).bind("socket")
    finally:
        os.chdir(here)


def _sparse(folder):
    with (folder / "huge.bin").open("wb") as file:
        file.truncate(2**40)


def _hard_link(folder):
    os.link(folder / NOTEBOOK, folder / "again.txt")


def _folder(*parts):
    def make(folder):
        folder.joinpath(*parts).mkdir(parents=True)
        (folder.joinpath(*parts) / "x.txt").write_text("x")

    return make


def _unreadable(folder):
    (folder / "closed").mkdir()
    (folder / "closed" / "x.txt").touch()
    (folder / "closed").chmod(0)
    (folder / "secret.txt").touch(mode=0)


def _devices(folder):
    try:
        os.mknod(folder / "zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
        os.mknod(folder / "disk", stat.S_IFBLK | 0o666, os.makedev(7, 0))
    except PermissionError:  # only root may
        os.mkfifo(folder / "zero")


BESIDE = {
    "devices": _devices,
    "a file where the teacher has a folder": lambda folder: (folder / "img").write_text("x"),
    "a folder where the teacher has a file": _folder("data.csv"),
    "a folder below a teacher's file": _folder("data.csv", "deeper"),
    "a folder for the time": _folder("timestamp.txt"),
    "a time of bytes": lambda folder: (folder / "timestamp.txt").write_bytes(b"\xff\x00" * 10**6),
    "a folder named as a notebook": _folder("other.ipynb"),
    "names not UTF-8": lambda folder: (folder / NOT_UTF8).write_text("x"),
    "a long name": lambda folder: (folder / LONG).write_text("x"),
    "names that are escape sequences": lambda folder: [(folder / name).touch() for name in ODD_NAMES],
    "many files": _many,
    "deep folders": _deep,
    "links": _loop,
    "a socket": _socket,
    "a pipe": lambda folder: os.mkfifo(folder / "pipe"),
    "a sparse file": _sparse,
    "a hard link": _hard_link,
    "unreadable": _unreadable,
    "our own names": _folder(".autograder-writing"),
}
"""Files next to a right notebook, which must get its points nevertheless."""


@pytest.fixture(scope="module")
def graded(bubblewrap, tmp_path_factory):
    """A graded class of unusual submissions, and its rows."""
    folder = tmp_path_factory.mktemp("class") / "C++ [2026] (*"
    write_source(folder)
    (folder / "source" / ASSIGNMENT / "img").mkdir()
    (folder / "source" / ASSIGNMENT / "img" / "a.png").write_bytes(b"picture")
    (folder / "source" / ASSIGNMENT / "data.csv").write_text("1,2")
    for name in (*ODD_NAMES, NOT_UTF8, LONG):
        hand_in(folder, name, RIGHT)
    for name, make in BESIDE.items():
        hand_in(folder, name, RIGHT)
        make(place(folder, name))
    _occupied(folder)
    return folder, {row.student: row for row in grade_assignment(ASSIGNMENT, folder, Options(feedback="name"))}


def _occupied(folder):
    """Put an obstacle in the place of graded notebooks or a submission."""
    for student in ("file", "link", "student_file"):
        hand_in(folder, f"target is a {student}", RIGHT)
    for parent in ("autograded", "feedback"):
        (folder / parent / "target is a file").mkdir(parents=True)
        (folder / parent / "target is a file" / ASSIGNMENT).write_text("in the way")
        (folder / parent / "target is a link").mkdir()
        (folder / parent / "target is a link" / ASSIGNMENT).symlink_to(folder / "source")
        (folder / parent / "target is a student_file").write_text("in the way")
    (folder / "submitted" / "linked").symlink_to("wrong")
    (folder / "submitted" / "a file").write_text("no folder")
    (folder / "submitted" / "assignment is a file").mkdir()
    (folder / "submitted" / "assignment is a file" / ASSIGNMENT).write_text("no folder")
    (place(folder, "notebook is a folder") / NOTEBOOK).mkdir()
    (place(folder, "notebook is a folder") / NOTEBOOK / "x.txt").write_text("x")
    hand_in(folder, "wrong", WRONG)


@pytest.mark.parametrize("student", [*BESIDE, *ODD_NAMES, LONG, "target is a file", "target is a link"])
def test_right_work_has_its_points(graded, student):
    """For any name, and for any files next to the notebook."""
    _, rows = graded
    assert (FULL, FULL) == (rows[student].points, rows[student].score)


@pytest.mark.parametrize("student", ODD_NAMES)
def test_odd_names_have_their_pages_and_nothing_else(graded, student):
    """Spaces at the ends, brackets and asterisks, which nbgrader treats as patterns, as in the course's own path.

    The graded notebook contains the hidden tests, and is not in the folder of the page.
    """
    folder, _ = graded
    feedback = folder / "feedback" / student / ASSIGNMENT
    assert "attacked" in (feedback / f"{ASSIGNMENT}.html").read_text("utf-8")
    assert [] == list(feedback.rglob("*.ipynb"))


def test_everyone_else_has_a_reason(graded):
    """A submission that cannot be graded has no points, but a reason."""
    _, rows = graded
    others = {"linked", "assignment is a file", "notebook is a folder", r"M\xfcller"}
    assert others <= rows.keys()
    for student in others:
        assert 0 == rows[student].points
        assert rows[student].problems


def test_what_was_left_out_is_noted(graded):
    """Each unusual file has a note, and an obstacle does not replace a teacher's file."""
    folder, rows = graded
    silent = {"a hard link", "a time of bytes", "our own names", "names that are escape sequences", "a long name"}
    silent |= {"unreadable"} if os.geteuid() == 0 else set()  # who may read everything has nothing to note
    assert [] == [name for name in BESIDE.keys() - silent if not rows[name].notes]
    there = folder / "autograded" / "a file where the teacher has a folder" / ASSIGNMENT
    assert b"picture" == (there / "img" / "a.png").read_bytes()
    assert (folder / "source" / ASSIGNMENT / "data.csv").exists()


def test_what_cannot_be_written_is_told(graded):
    """A file instead of a student's folder is left as it is; the line names the student."""
    folder, rows = graded
    assert (FULL, FULL) == (rows["target is a student_file"].points, rows["target is a student_file"].score)
    told = [line for line in look_here(list(rows.values())) if line.startswith("target is a student_file, ")]
    assert ["the graded notebooks cannot be written", "there is no feedback page"] == [
        line.partition(", ")[2].partition(" (")[0] for line in told
    ]
    assert "in the way" == (folder / "autograded" / "target is a student_file").read_text()


def test_nothing_reaches_the_terminal_unescaped(graded):
    """The table, the lines below it and the JSON hold no control character, and no markup is carried out."""
    from rich.console import Console

    _, rows = graded
    console = Console(width=200, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(as_table(list(rows.values())))
    text = console.export_text() + "\n".join(look_here(list(rows.values())))
    assert [] == re.findall(r"[^\n\x20-\x7e]", re.sub("[äöß😀…]", "", text))
    assert "[/bold]" in text
    told = as_json(students=list(rows.values()))
    assert told.isascii()
    assert set(rows) == {student["student"] for student in json.loads(told)["students"]}


def test_a_second_run_ends_alike(graded):
    """A later `--resume` grades submissions without a graded folder, keeps the others, and finds the same points."""
    folder, rows = graded
    again = {row.student: row for row in grade_assignment(ASSIGNMENT, folder, Options(feedback="name", resume=True))}
    assert {name: row.points for name, row in rows.items()} == {name: row.points for name, row in again.items()}
    assert {"target is a student_file", r"M\xfcller"} == {name for name, row in again.items() if not row.unchanged}


def test_what_is_no_plain_file_is_not_even_opened(tmp_path, monkeypatch):
    """Opening some devices does something by itself: it rewinds a tape, or starts a watchdog."""
    os.mkfifo(tmp_path / "odd")
    monkeypatch.setattr("os.open", lambda *_: pytest.fail("it is opened"))
    with pytest.raises(UnreadableSubmission, match="odd is not a plain file"):
        plain_file(tmp_path / "odd", 10)


def test_a_folder_that_may_not_be_looked_into_is_a_reason(bubblewrap, tmp_path, monkeypatch):
    """For an ordinary user, a student's folder of mode 000; root may look into any, so the refusal is made here."""
    write_source(tmp_path)
    for name in ("closed", "right"):
        hand_in(tmp_path, name, RIGHT)
    closed, status = str(place(tmp_path, "closed")), os.stat

    def refuse(path, **options):
        if not isinstance(path, int) and os.fspath(path) == closed:
            raise PermissionError(13, "Permission denied", path)
        return status(path, **options)

    monkeypatch.setattr("os.stat", refuse)
    rows = {row.student: row for row in grade_assignment(ASSIGNMENT, tmp_path, Options(jobs=1))}
    assert (0, FULL) == (rows["closed"].points, rows["right"].points)
    assert "cannot be opened (Permission denied)" in rows["closed"].problems[0]


def test_folders_that_go_while_others_are_graded_are_a_reason(bubblewrap, tmp_path):
    """And the students who are still there get their points."""
    write_source(tmp_path)
    names = "abcdefghijklmnopqrstuvwxyz"
    for name in names:
        hand_in(tmp_path, name, RIGHT)

    def remove(*_):
        for name in names[-2:]:
            shutil.rmtree(tmp_path / "submitted" / name, ignore_errors=True)

    rows = grade_assignment(ASSIGNMENT, tmp_path, Options(jobs=1), ProgressCallbacks(remove))
    assert [FULL] * 24 + [0, 0] == [row.points for row in rows]
    assert all("cannot be opened (No such file or directory)" in row.problems[0] for row in rows[-2:])


def test_odd_things_beside_the_source_are_named(bubblewrap, tmp_path):
    """A pipe would block nbgrader's own copy of the folder, and a device would fill the disk."""
    write_source(tmp_path)
    hand_in(tmp_path, "right", RIGHT)
    beside = tmp_path / "source" / ASSIGNMENT
    _devices(beside)
    (beside / "dangling").symlink_to("nowhere")
    (beside / NOT_UTF8).touch()
    [row] = grade_assignment(ASSIGNMENT, tmp_path, Options(jobs=1))
    assert FULL == row.points
    assert any("zero, next to the source, was left out: zero is not a plain file" in note for note in row.notes)
    assert any("was left out: its name is not UTF-8" in note for note in row.notes)
