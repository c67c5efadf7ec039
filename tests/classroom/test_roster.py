"""Rosters of every platform: the same 42 students, whatever the columns are called."""

import pytest

from autograder.classroom.return_grades import match_rows
from autograder.classroom.roster import Person, Roster, is_student_id, joined, read_roster, words_of
from autograder.classroom.submission_record import CollectedSubmission
from autograder.errors import InputError
from tests.classroom import downloads
from tests.classroom.made_class import STUDENTS


@pytest.mark.parametrize(
    ("write", "ids"),
    [
        (downloads.canvas_gradebook, [s.login for s in STUDENTS]),
        (lambda path: downloads.canvas_gradebook(path, delimiter=";"), [s.login for s in STUDENTS]),
        (downloads.moodle_worksheet, [s.email for s in STUDENTS]),
        (lambda path: downloads.moodle_worksheet(path, german=True), [s.email for s in STUDENTS]),
        (lambda path: downloads.moodle_worksheet(path, anonymous=True), [f"participant-{downloads.participant(s)}" for s in STUDENTS]),
        (downloads.blackboard_gradebook, [s.login for s in STUDENTS]),
        (downloads.gradescope_roster, [str(s.number) for s in STUDENTS]),
    ],
    ids=["canvas", "with semicolons", "moodle", "moodle in German", "moodle anonymous", "blackboard", "gradescope"],
)  # fmt: skip
def test_each_platforms_file_is_a_roster(tmp_path, write, ids):
    """All students and no other rows: neither the row of points nor the test student."""
    people = read_roster(write(tmp_path / "roster.csv")).people
    assert ids == [person.student for person in people]


def test_the_column_for_ids_can_be_chosen(tmp_path):
    """Here Canvas' own numbers instead of logins."""
    path = downloads.canvas_gradebook(tmp_path / "roster.csv")
    assert [s.canvas for s in STUDENTS] == [person.student for person in read_roster(path, "ID").people]
    with pytest.raises(InputError, match="has no column 'NetID'; it has Student"):
        read_roster(path, "NetID")


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        pytest.param([["student_id", "name"], ["ann", "A"], ["ann", "B"]], "the student ann twice", id="an id twice"),
        pytest.param([["student_id", "email"], ["a", "x@y"], ["b", "X@y"]], "x@y twice", id="an address twice"),
        pytest.param([["student_id", "name"], ["../ann", "A"]], "cannot be the name", id="an id that leads elsewhere"),
        pytest.param([["name", "colour"], ["A", "red"], ["A", "blue"]], "Add a column student_id", id="no column tells them apart"),
        pytest.param([["colour", "shape"], ["red", "round"]], "is not a class list", id="no students"),
        pytest.param([["student_id", "name"]], "lists no student", id="empty"),
    ],
)  # fmt: skip
def test_a_roster_that_cannot_be_used_is_refused(tmp_path, rows, sentence):
    """In one sentence that names the row or the column."""
    with pytest.raises(InputError, match=sentence):
        read_roster(downloads.write_csv(tmp_path / "roster.csv", rows))


@pytest.mark.parametrize("heading", ["student_id", "SID", "Last Name"])
def test_a_first_column_with_numbers_is_not_moodles(tmp_path, heading):
    """A known heading decides, although all cells look like Moodle's "Participant 17"."""
    rows = [[f"s{number:03}", f"Ann {number}", f"a{number}@b.edu", "A", "X"] for number in range(3)]
    path = downloads.write_csv(
        tmp_path / "roster.csv", [[heading, "First Name", "Email", "Section", "Programme"], *rows]
    )
    expected = [row[2 if heading == "Last Name" else 0] for row in rows]
    assert expected == [person.student for person in read_roster(path).people]


def test_a_new_column_of_the_platform_does_no_harm(tmp_path):
    """Columns are found by name, in any position."""
    path = tmp_path / "roster.csv"
    downloads.canvas_gradebook(path)
    rows = [line.split(",", 1) for line in path.read_text("utf-8").splitlines()]
    assert 42 == len(read_roster(path).people)
    path.write_text(
        "\n".join(f"Pronouns,{','.join(row)}" if not n else f"x,{','.join(row)}" for n, row in enumerate(rows))
    )
    assert {s.login for s in STUDENTS} <= {person.student for person in read_roster(path).people}


def test_names_are_compared_as_people_write_them():
    """Order, case, accents and marks do not matter; different names stay different."""
    assert words_of("Núñez de la Peña, María") == words_of("maria NUNEZ de la pena")
    assert words_of("Jane Doe") != words_of("Jane Dow")
    assert joined("O'Brien, Seán") == "obrienseán"


@pytest.mark.parametrize("text", ["", ".", "..", "a/b", "a\\b", ".git", "-rf", " a", "a\n", "a+b", "x" * 300, "CON:"])
def test_ids_that_cannot_be_folders_are_refused(text):
    """Each would lead elsewhere, hide, or be taken for an option."""
    assert not is_student_id(text)
    assert is_student_id("ann.lee@example.edu")


def test_rows_are_matched_by_the_most_reliable_mark():
    """An identifier decides, then a name. A shared name, another name and a second row for a name belong to nobody."""
    record = {
        "ann": CollectedSubmission(platform="moodle", key="7", name="Ann Lee", known={"participant": "7"}),
        "bob": CollectedSubmission(platform="canvas", key="41"),  # who handed in for a group, which has no list
        "eve": CollectedSubmission(platform="csv", key="eve", name="Kim Po"),
        "kim": CollectedSubmission(platform="csv", key="kim", name="Po, Kim"),
    }
    roster = Roster([Person("cy", "Cy Dee", {"email": "cy@x.org"}), Person("fay", "Fay Ito", {})])
    rows = [
        ("Lee, Ann", {"participant": "7"}), ("Somebody", {"participant": "7"}), ("", {"canvas": "41"}),
        ("Other", {"email": "CY@x.org"}), ("Dee, Cy", {}), ("Kim Po", {}), ("Ito, Fay", {}), ("", {"login": "dan"}),
        ("", {"email": "cy@x.org", "canvas": "41"}),
    ]  # fmt: skip
    people = [(number, Person("", name, known)) for number, (name, known) in enumerate(rows)]
    found = match_rows(people, ["ann", "bob", "cy", "dan", "eve", "fay", "kim"], record, roster)
    assert ({0: "ann", 2: "bob", 3: "cy", 6: "fay", 7: "dan", 8: "bob"}, [6]) == found
