"""`collect`: a class of 42 from each platform goes to the right folders, twice, and nothing newer is lost."""

import csv
import datetime
import json
import zoneinfo
from types import SimpleNamespace

import pytest

from autograder import cli
from autograder.classroom import graded_submission
from autograder.classroom.collect.collection import collect
from autograder.classroom.collect.download import DownloadError
from autograder.classroom.roster import Roster, read_roster
from autograder.classroom.worksheet import choose_column
from autograder.errors import InputError
from tests.classroom import downloads, made_class
from tests.classroom.made_class import ABSENT, ASSIGNMENT, LATE, NOTEBOOK, STUDENTS, whose

LOGINS = {student.login for student in downloads.HERE}


@pytest.fixture
def course(tmp_path):
    """A course without submissions."""
    return made_class.course(tmp_path)


def times(course) -> dict[str, str]:
    """Return each student's time of handing in, as nbgrader reads it."""
    return {path.parts[-3]: path.read_text() for path in (course / "submitted").glob(f"*/{ASSIGNMENT}/timestamp.txt")}


def contents(folder) -> dict[str, bytes]:
    """Return every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(("download", "roster"), [
    pytest.param(downloads.canvas_zip, downloads.canvas_gradebook, id="canvas"),
    pytest.param(downloads.moodle_zip, downloads.moodle_worksheet, id="moodle"),
    pytest.param(lambda p: downloads.moodle_zip(p, old=True), downloads.moodle_worksheet, id="moodle before 4.1"),
    pytest.param(downloads.moodle_zip, lambda p: downloads.moodle_worksheet(p, german=True), id="moodle in German"),
    pytest.param(downloads.blackboard_zip, downloads.blackboard_gradebook, id="blackboard"),
    pytest.param(downloads.gradescope_zip, downloads.gradescope_roster, id="gradescope"),
    pytest.param(downloads.exchange_folder, downloads.canvas_gradebook, id="exchange"),
    pytest.param(downloads.shared_folder, downloads.canvas_gradebook, id="shared folder"),
])  # fmt: skip
def test_everybody_gets_their_own_hand_in_and_a_second_run_changes_nothing(tmp_path, course, download, roster):
    """All 40 submissions of each platform reach their students' folders, also for equal names; the second run has the same result."""
    zipped, people = download(tmp_path / "download"), read_roster(roster(tmp_path / "roster.csv"))
    done = collect(zipped, ASSIGNMENT, course, people)

    logins = {person.student: person.known for person in people.people}
    found = {_login(logins[student], student): login for student, login in whose(course).items()}
    if done.platform == "gradescope":  # 8 and 9 handed in together
        found["u00009"] = {"u00008": "u00009"}.get(found["u00009"], "?")
    assert {login: login for login in LOGINS} == found
    assert {student.login for student in ABSENT} == {_login(person.known, person.student) for person in done.missing}

    before = contents(course)
    again = collect(zipped, ASSIGNMENT, course, people)
    assert {"as before"} == {line.placing for line in again.lines}
    assert before == contents(course)


def _login(known, student) -> str:
    return known.get("login") or known.get("email", student).partition("@")[0]


@pytest.mark.parametrize("german", [False, True], ids=["English", "German"])
def test_times_are_those_of_the_platform(tmp_path, course, german):
    """Moodle's worksheet has them, Blackboard's names and Gradescope's export; all are written as nbgrader does, in UTC."""
    roster = read_roster(downloads.moodle_worksheet(tmp_path / "roster.csv", german=german))
    zone = datetime.timezone(datetime.timedelta(hours=2))
    collect(downloads.moodle_zip(tmp_path / "zip"), ASSIGNMENT, course, roster, zone=zone)
    late = {student.email for student in LATE}
    expected = {s.email: f"2026-10-03 {'14' if s.email in late else '12'}:10:00 UTC" for s in downloads.HERE}
    assert expected == times(course)


def test_times_that_are_not_understood_are_said(tmp_path, course):
    """In a language whose times are not supported, no student gets a time, and one line reports that."""
    sheet = downloads.moodle_worksheet(tmp_path / "roster.csv")
    sheet.write_text(sheet.read_text("utf-8").replace("Saturday, 3 October", "thứ bảy, 3 tháng 10"), "utf-8")
    done = collect(downloads.moodle_zip(tmp_path / "zip"), ASSIGNMENT, course, read_roster(sheet))
    assert {} == times(course)
    assert ["2 times in the list could not be read, such as “thứ bảy, 3 tháng 10 2026, 2:10 PM”"] == [
        note.partition(":  ")[0].partition(": without")[0] for note in done.notes
    ]


def test_nbgraders_time_may_name_the_courses_zone(tmp_path, course):
    """`Exchange.timezone` writes "CEST"; that is two hours before UTC, and in no other course's zone it is guessed."""
    shared = downloads.shared_folder(tmp_path / "shared")
    for folder in shared.iterdir():
        (folder / "timestamp.txt").write_text("2026-10-03 14:10:00 CEST")
    collect(shared, ASSIGNMENT, course, Roster([]), zone=zoneinfo.ZoneInfo("Asia/Tokyo"))
    assert {} == times(course)
    collect(shared, ASSIGNMENT, course, Roster([]), zone=zoneinfo.ZoneInfo("Europe/Berlin"))
    assert {"2026-10-03 12:10:00 UTC"} == set(times(course).values())


@pytest.mark.parametrize(("policy", "option", "expected"), [
    pytest.param('timezone = "Europe/Berlin"', [], "22:10", id="the policy's zone"),
    pytest.param("", ["--timezone", "America/New_York"], "04:10", id="the option's zone"),
    pytest.param('timezone = "Asia/Tokyo"', ["--timezone", "Asia/Tokyo"], "15:10", id="both"),
])  # fmt: skip
def test_a_course_has_one_zone(tmp_path, course, capsys, policy, option, expected):
    """A time that a teacher wrote into to_match.csv has the zone of policy.toml, else of --timezone, and the command prints it."""
    (course / "policy.toml").write_text(policy)
    command = ["collect", str(downloads.canvas_zip(tmp_path / "zip")), ASSIGNMENT, "--course", str(course), *option]
    cli.main(command)
    table = course / "collected" / ASSIGNMENT / "to_match.csv"
    rows = list(csv.DictReader(table.read_text("utf-8-sig").splitlines()))
    for row in rows:
        row["handed_in"] = "2026-10-03 00:10"
    downloads.write_csv(table, [list(rows[0]), *(list(row.values()) for row in rows)])
    capsys.readouterr()
    cli.main(command)
    zone = option[-1] if option else "Europe/Berlin"
    assert f"Times without a zone were read as {zone}." in capsys.readouterr().out
    assert {f"{expected}:00 UTC"} == {time.partition(" ")[2] for time in times(course).values()}


def test_a_time_without_a_zone_is_refused_in_a_course_without_one(tmp_path, course, capsys):
    """One sentence names the time and both settings for a zone, the exit code is 2, and nothing is written."""
    roster, zipped = downloads.moodle_worksheet(tmp_path / "roster.csv"), downloads.moodle_zip(tmp_path / "zip")
    command = ["collect", str(zipped), ASSIGNMENT, "--course", str(course), "--roster", str(roster)]
    before = contents(course)
    with pytest.raises(SystemExit, match="2"):
        cli.main([*command, "--timezone", "Mars/Base"])
    assert "'Mars/Base' is not a time zone; use a name such as" in capsys.readouterr().err
    assert 2 == cli.main(command)
    error = capsys.readouterr().err
    assert all(part in error for part in ("2026-10-03 14:10:00 has no time zone", "policy.toml", "--timezone"))
    assert before == contents(course)
    (course / "policy.toml").write_text('timezone = "Europe/Berlin"')
    assert 2 == cli.main([*command, "--timezone", "Asia/Tokyo"])
    assert "policy.toml sets Europe/Berlin, and --timezone Asia/Tokyo" in capsys.readouterr().err
    (course / "policy.toml").write_text("[assignments.first]\ndue = 2026-10-03T14:00:00")
    assert 2 == cli.main([*command, "--timezone", "Asia/Tokyo"])
    assert 'Write `timezone = "Asia/Tokyo"` into it, and omit --timezone' in capsys.readouterr().err


def test_a_time_is_asked_for_each_late_submission(tmp_path, course, capsys):
    """The time that a teacher typed for one submission does not count for the next, and other downloads keep open questions."""
    (course / "policy.toml").write_text('timezone = "UTC"')
    student, table = made_class.LATE[0], course / "collected" / ASSIGNMENT / "to_match.csv"

    def collected(attachment: int, answer: str) -> dict[str, str]:
        name = downloads.canvas_name(student, attachment)
        zipped = downloads.write_zip(tmp_path / "zip", {name: made_class.notebook(student, f"x = {attachment}")})
        cli.main(["collect", str(zipped), ASSIGNMENT, "--course", str(course)])
        if answer:
            rows = list(csv.DictReader(table.read_text("utf-8-sig").splitlines()))
            rows[-1]["handed_in"] = answer
            downloads.write_csv(table, [list(rows[0]), *(list(row.values()) for row in rows)])
            cli.main(["collect", str(zipped), ASSIGNMENT, "--course", str(course)])
        return times(course)

    assert ["2026-10-03 15:00:00 UTC"] == list(collected(90001, "2026-10-03 15:00").values())
    assert [] == list(collected(90002, "").values())
    other = downloads.canvas_zip(tmp_path / "other", STUDENTS[:1])
    cli.main(["collect", str(other), ASSIGNMENT, "--course", str(course)])
    assert ["90001", "90002"] == [
        row["submission"] for row in csv.DictReader(table.read_text("utf-8-sig").splitlines())
    ]
    assert ["2026-10-05 15:00:00 UTC"] == list(collected(90002, "2026-10-05 15:00").values())


def test_an_ambiguous_time_is_refused_with_the_expected_form(tmp_path, course, capsys):
    """10/4/2026 9:00 in a spreadsheet may be in October or in April: one sentence shows the expected form, and nothing changes."""
    command = ["collect", str(downloads.canvas_zip(tmp_path / "zip")), ASSIGNMENT, "--course", str(course)]
    cli.main([*command, "--timezone", "UTC"])
    table = course / "collected" / ASSIGNMENT / "to_match.csv"
    rows = list(csv.DictReader(table.read_text("utf-8-sig").splitlines()))
    rows[0]["handed_in"] = "10/4/2026 9:00"
    downloads.write_csv(table, [list(rows[0]), *(list(row.values()) for row in rows)])
    before = contents(course)
    capsys.readouterr()
    assert 2 == cli.main([*command, "--timezone", "UTC"])
    assert "10/4/2026 9:00 is not a valid time; write it as 2026-10-03 14:10" in capsys.readouterr().err
    assert before == contents(course)


COUNTS = """counts = "{counts}"
late.grace_minutes = 15
[assignments.first]
due = 2026-10-03T14:00:00Z
extensions = {{"u00002" = "1 day"}}
"""


@pytest.mark.parametrize("counts", ["last", "last-in-time"])
def test_the_submission_that_counts_is_that_of_the_policy(tmp_path, course, counts):
    """By "last-in-time" a late submission replaces none in time, whatever comes first, by grace and extension; else the last counts."""
    (course / "policy.toml").write_text(COUNTS.format(counts=counts))
    minutes = {
        "u00001": ("13:00", "14:20"),
        "u00002": ("13:00", "14:20"),
        "u00003": ("13:00", "14:15"),
        "u00004": ("14:20", "14:30"),
    }
    for order in ((0, 1), (1, 0)):
        for number in order:
            shared = tmp_path / f"shared{order}{number}"
            for student in STUDENTS[:4]:
                folder = shared / student.login / ASSIGNMENT
                folder.mkdir(parents=True)
                (folder / NOTEBOOK).write_bytes(made_class.notebook(student, f"x = {number}"))
                (folder / "timestamp.txt").write_text(f"2026-10-03 {minutes[student.login][number]}:00 UTC")
            collect(shared, ASSIGNMENT, course, Roster([]))
    taken = {login: time[11:16] for login, time in times(course).items()}
    expected = {login: last for login, (_, last) in minutes.items()}
    assert expected | ({"u00001": "13:00"} if counts == "last-in-time" else {}) == taken


def test_a_later_download_does_not_say_that_earlier_students_handed_in_nothing(tmp_path, course, capsys):
    """Students of an earlier download are named apart from those who never submitted."""
    roster = downloads.canvas_gradebook(tmp_path / "roster.csv", STUDENTS[:4])
    for name, students in (("first", STUDENTS[:2]), ("late", STUDENTS[2:3])):
        zipped = downloads.canvas_zip(tmp_path / name, students)
        cli.main(["collect", str(zipped), ASSIGNMENT, "--course", str(course), "--roster", str(roster)])
    said = capsys.readouterr().out
    assert "2 submitted before and are not in this download: u00001, u00002" in said
    assert "1 without a submission: u00004" in said


def test_a_hand_in_without_the_notebook_is_said(tmp_path, course):
    """Instead of the notebook, there is Canvas' page for typed text; the line of the student names the missing notebook."""
    done = collect(downloads.canvas_zip(tmp_path / "zip"), ASSIGNMENT, course, Roster([]))
    assert [("77", ("there is no first.ipynb",))] == [
        (line.student, line.remarks) for line in done.lines if any("there is no" in one for one in line.remarks)
    ]


def test_gradescopes_time_has_its_zone(tmp_path, course):
    """07:10 at -07:00 is 14:10 UTC."""
    collect(downloads.gradescope_zip(tmp_path / "zip"), ASSIGNMENT, course, Roster([]))
    assert {"2026-10-03 14:10:00 UTC"} == set(times(course).values())


def test_of_several_attempts_the_last_is_graded_and_the_others_are_kept(tmp_path, course):
    """Blackboard's download contains all attempts; the earlier ones are stored in collected/ and are not graded."""
    roster = read_roster(downloads.blackboard_gradebook(tmp_path / "roster.txt"))
    collect(downloads.blackboard_zip(tmp_path / "zip"), ASSIGNMENT, course, roster)
    twice = {student.login for student in downloads.HERE if student.number % 7 == 0}
    kept = course / "collected" / ASSIGNMENT / "earlier"
    assert twice == {path.name for path in kept.iterdir()}
    earlier = [path.read_text() for path in kept.rglob(NOTEBOOK)]
    assert len(earlier) >= len(twice)
    assert all("old = 1" in text for text in earlier)


def test_late_marks_without_a_time_are_asked_for(tmp_path, course):
    """Canvas reports LATE without a time: the four students are in the table; a time that is filled in becomes the time stamp."""
    roster = read_roster(downloads.canvas_gradebook(tmp_path / "roster.csv"))
    zipped = downloads.canvas_zip(tmp_path / "zip")
    done = collect(zipped, ASSIGNMENT, course, roster)
    assert {student.canvas for student in LATE} == {one.hand_in for one in done.questions if "late" in one.why}

    fill(done.table, lambda row: {"handed_in": "2026-10-04 08:00"} if row["hand_in"] == LATE[0].canvas else {})
    done = collect(zipped, ASSIGNMENT, course, roster)
    assert {LATE[0].login: "2026-10-04 08:00:00 UTC"} == times(course)
    assert LATE[0].canvas not in {one.hand_in for one in done.questions}


def fill(table, change) -> None:
    """Fill in a table as a person does with a spreadsheet."""
    with open(table, encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    with open(table, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), delimiter=";")
        writer.writeheader()
        writer.writerows(row | change(row) for row in rows)


def test_two_students_of_one_name_are_never_mixed_up(tmp_path, course):
    """Without the platform's number they cannot be distinguished: the command asks for both, and reads the answer."""
    roster = downloads.write_csv(
        tmp_path / "roster.csv", [["student_id", "name"], *([s.login, s.full] for s in STUDENTS)]
    )
    zipped = downloads.moodle_zip(tmp_path / "zip")
    done = collect(zipped, ASSIGNMENT, course, read_roster(roster))
    twins = STUDENTS[3:5]
    assert {str(downloads.participant(one)) for one in twins} == {one.hand_in for one in done.questions}
    assert LOGINS - {one.login for one in twins} == set(whose(course))

    numbers = {str(downloads.participant(one)): one.login for one in twins}
    fill(done.table, lambda row: {"student": numbers.get(row["hand_in"], "")})
    done = collect(zipped, ASSIGNMENT, course, read_roster(roster))
    assert {login: login for login in LOGINS} == whose(course)
    assert [] == done.questions


def test_anonymous_hand_ins_keep_the_platforms_name(tmp_path, course):
    """Canvas' anonymous ids and Moodle's participants become the students' ids, so that grades can go back."""
    names = {
        f"{'LATE_' if s in LATE else ''}anon_aB{s.number}x_{90000 + s.number}_{NOTEBOOK}": s for s in downloads.HERE
    }
    zipped = downloads.write_zip(tmp_path / "zip", {name: made_class.notebook(one) for name, one in names.items()})
    collect(zipped, ASSIGNMENT, course, Roster([]))
    assert {f"anon_aB{s.number}x": s.login for s in downloads.HERE} == whose(course)


def test_a_later_download_replaces_what_is_older_and_never_what_is_newer(tmp_path, course):
    """Downloads of two days, read in both orders: submitted/ contains the later submission each time."""
    roster = read_roster(downloads.canvas_gradebook(tmp_path / "roster.csv"))
    one = STUDENTS[20]
    old = downloads.write_zip(tmp_path / "old", {downloads.canvas_name(one, 500): made_class.notebook(one, "old = 1")})
    new = downloads.write_zip(tmp_path / "new", {downloads.canvas_name(one, 600): made_class.notebook(one)})
    for zipped, placing in (
        (old, "new"),
        (new, "newer than before"),
        (old, "older than what is there"),
        (new, "as before"),
    ):
        [line] = collect(zipped, ASSIGNMENT, course, roster).lines
        assert placing == line.placing
    assert {one.login: one.login} == whose(course)
    [earlier] = (course / "collected").rglob(NOTEBOOK)
    assert "old = 1" == made_class.answer_of(earlier)

    # With "best", `grade` may exchange the two, and a further `collect` leaves them so.
    (course / "policy.toml").write_text('counts = "best"')
    present = course / "submitted" / one.login / ASSIGNMENT / NOTEBOOK
    for path, data in ((present, earlier.read_bytes()), (earlier, present.read_bytes())):
        path.write_bytes(data)
    assert ["as before"] == [line.placing for line in collect(new, ASSIGNMENT, course, roster).lines]
    assert "old = 1" == made_class.answer_of(present)


def test_work_that_was_changed_by_hand_is_kept(tmp_path, course):
    """A teacher repaired a file in submitted/; the same download is read again."""
    roster = read_roster(downloads.canvas_gradebook(tmp_path / "roster.csv"))
    zipped = downloads.canvas_zip(tmp_path / "zip", [STUDENTS[0]])
    collect(zipped, ASSIGNMENT, course, roster)
    path = course / "submitted" / STUDENTS[0].login / ASSIGNMENT / NOTEBOOK
    path.write_bytes(made_class.notebook(STUDENTS[0], "repaired = 1"))
    [line] = collect(zipped, ASSIGNMENT, course, roster).lines
    assert ("kept as it is", "repaired = 1") == (line.placing, made_class.answer_of(path))


def test_a_group_of_the_roster_gets_what_one_of_it_handed_in(tmp_path, course):
    """Canvas names one member of a group; the others have the same files, unless they handed in themselves."""
    rows = [[one.login, one.sortable, one.canvas, "red" if one.number in (1, 2, 3) else ""] for one in STUDENTS]
    roster = downloads.write_csv(tmp_path / "r.csv", [["student_id", "Name", "ID", "Group"], *rows])
    files = {downloads.canvas_name(STUDENTS[n], 900 + n): made_class.notebook(STUDENTS[n]) for n in (0, 2)}
    collect(downloads.write_zip(tmp_path / "zip", files), ASSIGNMENT, course, read_roster(roster))
    assert {"u00001": "u00001", "u00002": "u00003", "u00003": "u00003"} == whose(course), "the later one counts"


def test_a_zip_of_another_assignment_changes_nothing(tmp_path, course, capsys):
    """One sentence, exit code 2, no file."""
    files = {
        downloads.canvas_name(s, 9000 + s.number, "second.ipynb"): made_class.notebook(s, source="second")
        for s in STUDENTS
    }
    before = contents(course)
    assert 2 == cli.main(
        ["collect", str(downloads.write_zip(tmp_path / "zip", files)), ASSIGNMENT, "--course", str(course)]
    )
    assert "none of the 42 notebooks" in capsys.readouterr().err
    assert before == contents(course)


def test_the_command_says_what_it_could_not_match(tmp_path, course, capsys):
    """The table is named, in the JSON too, the exit code is 1; a file in no platform's form is refused.

    The roster that the command names counts, not that of the course.
    """
    downloads.canvas_gradebook(course / "roster.csv", STUDENTS)
    roster = downloads.canvas_gradebook(tmp_path / "roster.csv", STUDENTS[1:])
    zipped = downloads.canvas_zip(tmp_path / "zip", STUDENTS[:3])
    words = ["collect", str(zipped), ASSIGNMENT, "--course", str(course), "--roster", str(roster)]
    assert 1 == cli.main(words)
    said = capsys.readouterr().out
    assert "obrienseán, 4001, no student of the roster" in said
    assert str(course / "collected" / ASSIGNMENT / "to_match.csv") in said.replace("\n", "")
    assert 1 == cli.main([*words, "--json"])
    told = json.loads(capsys.readouterr().out)
    question = ["4001", "", "obrienseán", "no student of the roster has this name or number"]
    assert (1, "canvas", question) == (told["version"], told["platform"], told["questions"][0][:4])

    other = downloads.write_zip(tmp_path / "x", {"ann+second+2026-10-09 00:00:00 UTC/first.ipynb": b"{}"})
    with pytest.raises(DownloadError, match="x contains no submission"):
        collect(other, ASSIGNMENT, course, Roster([]))
    with pytest.raises(DownloadError, match="do not match a known platform"):
        collect(downloads.write_zip(tmp_path / "odd", {"a.ipynb": b"{}"}), ASSIGNMENT, course, Roster([]))


def test_a_named_column_is_not_replaced_by_the_only_one():
    """A typo in --column writes no grades into another column."""
    table = SimpleNamespace(name="w.csv", header=["Grade"])
    assert 0 == choose_column(table, {0: "Grade"}, "first", None)
    assert 1 == choose_column(SimpleNamespace(header=["first", "Two"]), {0: "first", 1: "Two"}, "first", "two")
    with pytest.raises(InputError, match="has no column of Grad"):
        choose_column(table, {0: "Grade"}, "first", "Grad")


@pytest.mark.parametrize("status", ["incorrect", "partly", "timed out"])
def test_gradescope_tells_no_reason_of_a_hidden_test(status):
    """Its message may contain the right values, also if the test gave a part of its points."""
    grade = SimpleNamespace(points=0.5, hidden=True, status=status, reason="expected 42", kind="plain data")
    assert "42" not in graded_submission._reason(SimpleNamespace(hidden=()), grade, "none")
    for reason, told in (("expected 42", "expected 42"), ("", f"{status.capitalize()}.")):
        grade = SimpleNamespace(points=0.5, hidden=False, status=status, reason=reason)
        assert told == graded_submission._reason(SimpleNamespace(hidden=()), grade, "none")
