"""`return`: a platform reads each student's own grade and page from our files, and nothing else is changed."""

import csv
import io
import re
import resource
import shutil
import zipfile

import pytest

from autograder import cli
from autograder.classroom.collect.collection import collect
from autograder.classroom.report.class_report import course_lines
from autograder.classroom.report.grading_records import read_class_grades
from autograder.classroom.return_grades import return_grades
from autograder.classroom.roster import Roster, read_roster
from autograder.errors import InputError, printable_list
from autograder.grade.batch.course_folders import open_class
from tests.classroom import downloads, made_class
from tests.classroom.made_class import ASSIGNMENT, STUDENTS
from tests.classroom.made_grades import give_grades

NUMBER = {student.number: student for student in STUDENTS}


def points(number: int) -> float:
    """Return the points that the student of this number has; another for each."""
    return number / 16


def graded(tmp_path, download, roster):
    """Return a course whose class was collected and graded, and its roster's file."""
    course, listed = made_class.course(tmp_path), roster(tmp_path / "worksheet.csv")
    collect(download(tmp_path / "download"), ASSIGNMENT, course, read_roster(listed))
    marks = {student: points(int(login[1:])) for student, login in made_class.whose(course).items()}
    give_grades(course, {student: {"test_warm_days": most, "summary": 0.0} for student, most in marks.items()})
    return course, listed


def cells(data: bytes) -> list[list[str]]:
    """Return the rows that Python's csv module reads, whatever the encoding."""
    text = data.decode("utf-16") if data.startswith(b"\xff\xfe") else data.decode("utf-8-sig")
    first = text.partition("\n")[0]
    return list(csv.reader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=first.count)))


def differences(before: bytes, after: bytes) -> dict[tuple[int, int], str]:
    """Return the cells that changed."""
    old, new = cells(before), cells(after)
    assert [len(row) for row in old] == [len(row) for row in new]
    return {(r, c): cell for r, row in enumerate(new) for c, cell in enumerate(row) if cell != old[r][c]}


def pages(out) -> dict[str, str]:
    """Return the files of the zip."""
    with zipfile.ZipFile(out / "feedback.zip") as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def test_canvas_reads_every_grade_back(tmp_path):
    """By Canvas' rules: the student by ID, the assignment by the id in the header; EX and N/A stay; pages by two numbers."""
    course, listed = graded(tmp_path, downloads.canvas_zip, downloads.canvas_gradebook)
    roster, before = read_roster(listed), listed.read_bytes()
    gone = NUMBER[11].login  # excused, but no longer in the course: the cell stays as it is
    rules = f'left = ["{gone}"]\n[assignments.first]\nexcused = ["{NUMBER[10].login}", "{gone}"]'
    (course / "policy.toml").write_text(rules)
    done = return_grades(ASSIGNMENT, course, "canvas", listed, tmp_path / "out", roster, "First steps")

    header, *rows = cells((tmp_path / "out" / "grades.csv").read_bytes())
    column = header.index("First steps (311)")
    read = {row[1]: row[column] for row in rows if row[1]}
    kept = {10: "EX", 11: "", 20: "EX", 21: "N/A"}
    expected = {s.canvas: kept.get(s.number, f"{points(s.number):.2f}") for s in downloads.HERE}
    assert expected == {student: text for student, text in read.items() if student in expected}
    changed = differences(before, (tmp_path / "out" / "grades.csv").read_bytes())
    assert {column} == {c for _, c in changed}
    assert 37 == done.graded
    assert before == listed.read_bytes()

    for name, page in pages(tmp_path / "out").items():
        user, attachment = [part for part in name.split("_") if re.match(r"^\d+$", part)][
            :2
        ]  # app/models/assignment.rb
        assert int(attachment) == 90000 + int(user) - 4000
        assert page == f"<p>feedback of {NUMBER[int(user) - 4000].login}</p>"
    assert 40 == len(pages(tmp_path / "out")) == done.with_feedback
    for told in ("2 students marked EX, N/A by the platform, left unchanged", "grades were rounded to two decimals",
                 "2 students without a grade, whose cells were left as they are: u00041, u00042",
                 "1 student excused by policy.toml: u00010"):  # fmt: skip
        assert told in done.remarks


def moodle_user(name: str, participants: dict[int, str]) -> str | None:
    """Return whose file it is, as Moodle decides (importziplib.php, is_valid_filename_for_import)."""
    for part in name.split("/"):
        info = part.split("_", 4)
        if (
            len(info) >= 4
            and info[1].isnumeric()
            and int(info[1]) in participants
            and info[2:4] == ["assignfeedback", "file"]
        ):
            return participants[int(info[1])]
    return None


@pytest.mark.parametrize("german", [False, True])
@pytest.mark.parametrize("anonymous", [False, True])
def test_moodle_reads_every_grade_back(tmp_path, german, anonymous):
    """By Moodle's rules: the number at the end of the identifier, the grade before the maximum, and commas if it uses them."""
    course, listed = graded(
        tmp_path,
        lambda path: downloads.moodle_zip(path, anonymous=anonymous),
        lambda path: downloads.moodle_worksheet(path, german=german, anonymous=anonymous),
    )
    before = listed.read_bytes()
    done = return_grades(ASSIGNMENT, course, "moodle", listed, tmp_path / "out", Roster([]))
    header, *rows = cells((tmp_path / "out" / "grades.csv").read_bytes())
    column = header.index("Bewertung" if german else "Grade")
    read = {int(re.search(r"\d+$", row[0])[0]): row[column] for row in rows}
    absent = [f"participant {downloads.participant(s)}" if anonymous else s.email for s in made_class.ABSENT]
    assert f"2 students without a grade, whose cells were left as they are: {', '.join(absent)}" in done.remarks
    mark = "," if german else "."
    assert {downloads.participant(s): f"{points(s.number):.2f}".replace(".", mark) for s in downloads.HERE} == {
        number: text for number, text in read.items() if text
    }
    assert {column} == {c for _, c in differences(before, (tmp_path / "out" / "grades.csv").read_bytes())}

    whose = {downloads.participant(s): s for s in STUDENTS}
    names = {number: f"participant-{number}" if anonymous else s.email for number, s in whose.items()}
    assert {
        f"<p>feedback of {moodle_user(name, names)}</p>" == page for name, page in pages(tmp_path / "out").items()
    } == {True}
    assert 40 == len(pages(tmp_path / "out")) == done.with_feedback
    first = "Participant" if anonymous else STUDENTS[0].full
    assert any(name.startswith(f"{first}_{downloads.participant(STUDENTS[0])}_") for name in pages(tmp_path / "out"))


def test_blackboard_reads_every_grade_back(tmp_path):
    """The file stays UTF-16 with tabs; Username and the column's id are the keys."""
    course, listed = graded(tmp_path, downloads.blackboard_zip, downloads.blackboard_gradebook)
    before = listed.read_bytes()
    return_grades(ASSIGNMENT, course, "blackboard", listed, tmp_path / "out", Roster([]))
    after = (tmp_path / "out" / "grades.csv").read_bytes()
    header, *rows = cells(after)
    column = next(number for number, name in enumerate(header) if name.endswith("|1281892"))
    assert {s.login: f"{points(s.number):.2f}" for s in downloads.HERE} == {
        row[2]: row[column] for row in rows if row[column]
    }
    assert {column} == {c for _, c in differences(before, after)}
    assert {f"{s.login}/first.html" for s in downloads.HERE} == set(pages(tmp_path / "out"))


def test_feedback_that_the_platform_would_map_to_nobody_is_said(tmp_path):
    """A student who typed a text into Canvas has no file, and the numbers of a file are needed for a name in the zip."""
    course, student = made_class.course(tmp_path), STUDENTS[0]
    listed = downloads.canvas_gradebook(tmp_path / "gradebook.csv")
    typed = downloads.write_zip(tmp_path / "x.zip", {f"obrienseán_{student.canvas}_text.html": b"<p>no file</p>"})
    collect(typed, ASSIGNMENT, course, read_roster(listed))
    give_grades(course, {student.login: {"test_warm_days": 0.0, "summary": 0.0}})
    done = return_grades(ASSIGNMENT, course, "canvas", listed, tmp_path / "out", Roster([]), "First steps")
    assert ({}, 0) == (pages(tmp_path / "out"), done.with_feedback)
    assert f"1 student whose feedback the platform cannot assign: {student.login}" in done.remarks


def test_a_table_of_ones_own(tmp_path):
    """Gradescope's and shared folders' classes go into any CSV with a column that says who, such as the roster."""
    own = [["Email", "SID", "points", "remark"], *([s.email, str(s.number), "", "=1"] for s in STUDENTS)]
    course, _ = graded(tmp_path, downloads.gradescope_zip, downloads.gradescope_roster)
    listed = downloads.write_csv(tmp_path / "own.csv", own)
    return_grades(ASSIGNMENT, course, "csv", listed, tmp_path / "out", Roster([]))
    rows = cells((tmp_path / "out" / "grades.csv").read_bytes())[1:]
    expected = {s.email: f"{points(s.number):.2f}" for s in downloads.HERE if s.number != 9}
    assert expected == {row[0]: row[2] for row in rows if row[2] and row[0] != STUDENTS[8].email}
    assert {"=1"} == {row[3] for row in rows}, "what is not ours stays"


@pytest.mark.parametrize(("option", "maximum"), [
    pytest.param(["--scale"], 20, id="the platform's"),
    pytest.param(["--scale", "100"], 100, id="100"),
    pytest.param([], 5, id="not at all"),
])  # fmt: skip
def test_grades_are_scaled_and_the_rounding_is_stated(tmp_path, capsys, option, maximum):
    """Each grade is its share of 5 points times the new maximum, to two decimals, and the output states both."""
    course, listed = graded(tmp_path, downloads.canvas_zip, downloads.canvas_gradebook)
    listed.write_text(listed.read_text("utf-8").replace("5.00", "20.00", 1), "utf-8", newline="")
    words = ["return", ASSIGNMENT, "--course", str(course), "--to", "canvas", "--worksheet", str(listed)]
    assert 0 == cli.main([*words, "--out", str(tmp_path / "out"), "--column", "First steps", *option])
    said = capsys.readouterr().out
    assert (f"grades were scaled from 5 to {maximum} points, and rounded to two decimals" in said) == bool(option)
    assert ("20, and that of the grades 100: change one of the two, or omit the number" in said) == (maximum == 100)
    assert ("20, and that of the grades 5: change one of the two, or add --scale" in said) == (not option)
    changed = differences(listed.read_bytes(), (tmp_path / "out" / "grades.csv").read_bytes())
    rows = cells(listed.read_bytes())
    assert {r: f"{points(int(rows[r][1]) - 4000) / 5 * maximum:.2f}" for r, _ in changed} == {
        r: cell for (r, _), cell in changed.items()
    }
    assert len(changed) > 30


@pytest.mark.parametrize("missing", ["zero", "blank"])
def test_a_missing_submission_is_zero_or_blank_by_policy(tmp_path, missing):
    """With "zero", empty cells of students without a submission get 0, unless a row may belong to a graded student.

    That may be if a graded student has no row: then listed students get 0, and an unknown person's cell stays empty.
    """
    course, listed = graded(tmp_path, downloads.moodle_zip, downloads.moodle_worksheet)
    (course / "policy.toml").write_text(f'missing = "{missing}"')
    guest = "Participant 99,A Guest,guest@example.org,-,2.00,5.00,Yes,-,-,"
    listed.write_text(f"{listed.read_text('utf-8')}{guest}\r\n", "utf-8", newline="")
    done = return_grades(ASSIGNMENT, course, "moodle", listed, tmp_path / "out", Roster([]))
    rows, before = cells((tmp_path / "out" / "grades.csv").read_bytes()), cells(listed.read_bytes())
    absent = {student.email for student in made_class.ABSENT}
    found = {row[2]: row[rows[0].index("Grade")] for row in rows[1:] if row[2] in absent}
    left = {row[2]: row[before[0].index("Grade")] for row in before[1:] if row[2] in absent}
    assert (dict.fromkeys(absent, "0.00") if missing == "zero" else left) == found
    assert guest.split(",") == rows[-1], "only empty cells are filled in"
    assert (missing == "zero") == any(
        f"2 students without a submission, with 0 points: {', '.join(sorted(absent))}" in one for one in done.remarks
    )
    kept = "A Guest" if missing == "zero" else f"{', '.join(sorted(absent))}, A Guest"
    assert any(remark.endswith(f"whose cells were left as they are: {kept}") for remark in done.remarks)

    (course / "submitted" / made_class.ABSENT[0].email / ASSIGNMENT).mkdir(parents=True)
    return_grades(ASSIGNMENT, course, "moodle", listed, tmp_path / "waiting", Roster([]))
    rows = cells((tmp_path / "waiting" / "grades.csv").read_bytes())
    waiting = {row[2]: row[rows[0].index("Grade")] for row in rows[1:] if row[2] in absent}
    assert waiting[made_class.ABSENT[0].email] == "", "a submission that is not graded is not missing"
    shutil.rmtree(course / "submitted" / made_class.ABSENT[0].email)

    lines = listed.read_text("utf-8").splitlines()
    of_graded = next(line for line in lines[1:] if line.split(",")[2] not in absent)
    lines[lines.index(of_graded)] = "Participant 99999,Somebody Else,else@example.org," + of_graded.split(",", 3)[3]
    listed.write_text("\n".join(lines) + "\n", "utf-8")
    done = return_grades(ASSIGNMENT, course, "moodle", listed, tmp_path / "less", Roster([]))
    rows = cells((tmp_path / "less" / "grades.csv").read_bytes())
    assert (dict.fromkeys(absent, "0.00") if missing == "zero" else left) | {"else@example.org": ""} == {
        row[2]: row[rows[0].index("Grade")] for row in rows[1:] if row[2] in {*absent, "else@example.org"}
    }
    assert (missing == "zero") == any("missing submissions were left blank" in remark for remark in done.remarks)


def test_a_student_who_left_keeps_the_cell_and_is_in_no_list(tmp_path):
    """A grade without a row does not prevent zeros for others, and the course's table omits those who left."""
    course, listed = graded(tmp_path, downloads.moodle_zip, downloads.moodle_worksheet)
    folders = open_class(course, ASSIGNMENT, without_submissions=True)
    graded_students = sorted(read_class_grades(folders).scores)
    here, gone = graded_students[:2]
    assert {here, gone} < {line.student for line in course_lines(folders)}
    (course / "policy.toml").write_text(f'missing = "zero"\nleft = ["{here}", "{gone}"]')
    lines = [line for line in listed.read_text("utf-8").splitlines() if gone not in line]
    listed.write_text("\n".join(lines) + "\n", "utf-8")
    done = return_grades(ASSIGNMENT, course, "moodle", listed, tmp_path / "out", Roster([]))
    changed = differences(listed.read_bytes(), (tmp_path / "out" / "grades.csv").read_bytes())
    assert here not in {cells(listed.read_bytes())[row][2] for row, _ in changed}
    assert len(graded_students) - 2 + len(made_class.ABSENT) == len(changed)
    assert not any(gone in remark or "excused" in remark for remark in done.remarks)
    assert not {here, gone} & {line.student for line in course_lines(folders)}


def test_a_long_list_names_the_first_and_counts_the_others():
    """A list as long as allowed is complete; names with a comma are separated by a semicolon; escapes are made visible."""
    assert ["", "a, b", "a, b and 1 more"] == [printable_list(names, 2) for names in ([], ["a", "b"], ["a", "b", "c"])]
    assert r"Doe, Jane; \x1b and 3 more" == printable_list(["Doe, Jane", "\x1b", "c", "d", "e"], 2, "; ")


@pytest.mark.parametrize("maximum", ["nan", "inf", "1_0"])
def test_a_maximum_that_only_python_reads_as_a_number_is_refused(tmp_path, capsys, maximum):
    """Such a cell is not the platform's maximum: with it, `--scale` would write "nan" as each grade."""
    course, listed = graded(tmp_path, downloads.moodle_zip, downloads.moodle_worksheet)
    listed.write_text(listed.read_text("utf-8").replace("5.00", maximum), "utf-8", newline="")
    words = ["return", ASSIGNMENT, "--course", str(course), "--out", str(tmp_path / "out"), "--to", "moodle"]
    assert 2 == cli.main([*words, "--worksheet", str(listed), "--scale"])
    assert "does not state the platform's maximum" in capsys.readouterr().err


def test_a_scale_that_cannot_be_is_one_sentence(tmp_path, capsys):
    """A scale of 0 is refused, and so is the platform's maximum if the worksheet does not have it. Nothing is written."""
    course, listed = graded(tmp_path, downloads.canvas_zip, downloads.canvas_gradebook)
    own = downloads.write_csv(tmp_path / "own.csv", [["student_id", "points"], *([s.login, ""] for s in STUDENTS)])
    words = ["return", ASSIGNMENT, "--course", str(course), "--out", str(tmp_path / "out"), "--to", "csv"]
    with pytest.raises(SystemExit, match="2"):
        cli.main([*words, "--worksheet", str(own), "--scale", "0"])
    assert "'0' is not a positive number" in capsys.readouterr().err
    assert 2 == cli.main([*words, "--worksheet", str(own), "--scale"])
    assert "does not state the platform's maximum" in capsys.readouterr().err
    listed.write_text(listed.read_text("utf-8").replace("5.00", "0.00", 1), "utf-8", newline="")
    words[-1:] = ["canvas", "--worksheet", str(listed), "--column", "First steps", "--scale"]
    assert 2 == cli.main(words)
    assert "5 points cannot be scaled to 0. Omit --scale" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("to", "write", "sentence"),
    [
        pytest.param("moodle", downloads.canvas_gradebook, "is not Moodle's grading worksheet", id="of another platform"),
        pytest.param("canvas", downloads.moodle_worksheet, "is not Canvas' gradebook", id="of another platform, too"),
        pytest.param("moodle --column Mark", downloads.moodle_worksheet, "has no column 'Mark'", id="a typed name"),
        pytest.param("blackboard", downloads.canvas_gradebook, "is not Blackboard's", id="and another"),
        pytest.param("canvas", downloads.canvas_gradebook, "has no column of first. Name it with --column", id="no such column"),
    ],
)  # fmt: skip
def test_a_wrong_worksheet_is_refused(tmp_path, to, write, sentence, capsys):
    """One sentence, exit code 2, and nothing is written."""
    course, _ = graded(tmp_path, downloads.canvas_zip, downloads.canvas_gradebook)
    listed, out = write(tmp_path / "given.csv"), tmp_path / "out"
    words = ["return", ASSIGNMENT, "--course", str(course), "--worksheet", str(listed), "--out", str(out)]
    words += ["--to", *to.split()]
    assert 2 == cli.main(words)
    assert sentence in capsys.readouterr().err
    assert not out.exists()


def test_a_worksheet_of_another_course_is_refused(tmp_path):
    """No row is one of ours."""
    course, _ = graded(tmp_path, downloads.canvas_zip, downloads.canvas_gradebook)
    strangers = [made_class.MadeStudent(100 + number, f"Else{number}", "Some") for number in range(42)]
    listed = downloads.canvas_gradebook(tmp_path / "given.csv", strangers)
    with pytest.raises(InputError, match="no row of given.csv is one of the 40 students"):
        return_grades(ASSIGNMENT, course, "canvas", listed, tmp_path / "out", Roster([]), "First steps")


def test_moodles_numbers_of_another_assignment_do_not_mix_up_names(tmp_path):
    """The worksheet of another assignment numbers participants otherwise: names and addresses decide."""
    course, listed = graded(tmp_path, downloads.moodle_zip, downloads.moodle_worksheet)
    rows = cells(listed.read_bytes())
    turned = [[other[0], *row[1:]] for row, other in zip(rows[1:], [*rows[2:], rows[1]], strict=True)]
    given = downloads.write_csv(tmp_path / "given.csv", [rows[0], *turned])
    return_grades(ASSIGNMENT, course, "moodle", given, tmp_path / "out", Roster([]))
    read = {row[2]: row[4] for row in cells((tmp_path / "out" / "grades.csv").read_bytes())[1:]}
    assert {s.email: f"{points(s.number):.2f}" for s in downloads.HERE} == {
        mail: text for mail, text in read.items() if text
    }


def test_before_grading_nothing_is_written(tmp_path):
    """The sentence names the command."""
    course = made_class.course(tmp_path)
    listed = downloads.canvas_gradebook(tmp_path / "given.csv")
    with pytest.raises(InputError, match="Run `autograder grade first` first"):
        return_grades(ASSIGNMENT, course, "canvas", listed, tmp_path / "out", Roster([]))
    assert not (course / "gradebook.db").exists()


def test_the_worksheet_itself_is_never_written(tmp_path):
    """`--out` is the folder that contains it, under the name of our file."""
    course, listed = graded(tmp_path, downloads.canvas_zip, downloads.canvas_gradebook)
    there = listed.rename(tmp_path / "grades.csv")
    before = there.read_bytes()
    with pytest.raises(InputError, match="is the worksheet itself"):
        return_grades(ASSIGNMENT, course, "canvas", there, tmp_path, Roster([]), "First steps")
    assert before == there.read_bytes()


@pytest.mark.parametrize("other", ["the same row", "another email"])
def test_a_student_in_two_rows_is_refused(tmp_path, other):
    """Canvas lists who is in several sections once, with all of them in one cell: a second row is somebody's slip."""
    course, listed = graded(tmp_path, downloads.blackboard_zip, downloads.blackboard_gradebook)
    rows = cells(listed.read_bytes())
    again = rows[3] if other == "the same row" else ["Else", "Some", rows[3][2].upper(), "", *rows[3][4:]]
    given = downloads.write_csv(tmp_path / "given.csv", [*rows, again])
    with pytest.raises(InputError, match=rf"has the student {STUDENTS[2].login} in 2 rows \(4 and 44\)"):
        return_grades(ASSIGNMENT, course, "blackboard", given, tmp_path / "out", Roster([]))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("why", ["the disk is full", "a folder lies there"])
def test_both_files_are_written_or_neither(tmp_path, why):
    """If the second file cannot be written, the grades of an earlier return are unchanged, and no other file is left."""
    course, listed = graded(tmp_path, downloads.canvas_zip, downloads.canvas_gradebook)
    out = tmp_path / "out"
    out.mkdir()
    (out / "grades.csv").write_text("earlier")
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    if why == "a folder lies there":
        (out / "feedback.zip").mkdir()
    before = sorted(out.iterdir())
    try:
        if why == "the disk is full":
            resource.setrlimit(resource.RLIMIT_FSIZE, (len(listed.read_bytes()) + 500, unlimited[1]))
        with pytest.raises(InputError, match=r"out cannot be written to \((File too large|Is a directory)\)"):
            return_grades(ASSIGNMENT, course, "canvas", listed, out, Roster([]), "First steps")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    assert before == sorted(out.iterdir())
    assert "earlier" == (out / "grades.csv").read_text()
