"""Names that platforms, browsers and students give to files, and tables of platforms, which keep every other byte."""

import csv
import datetime
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autograder.classroom.collect.download import (
    Download,
    DownloadedFile,
    DownloadedSubmission,
    DownloadError,
    open_download,
)
from autograder.classroom.collect.questions import Answers, attribute_submissions, match_people
from autograder.classroom.collect.submission_files import (
    LIMITS,
    FoundNotebook,
    ReadableSubmission,
    find_notebooks,
    like_name,
    readable,
)
from autograder.classroom.platforms import PLATFORMS, platform_of
from autograder.classroom.roster import Person, Roster
from autograder.classroom.table_file import TableFile, read_table
from autograder.errors import InputError
from tests.classroom import downloads
from tests.classroom.made_class import STUDENTS, notebook


def read(platform: str, *paths: str):
    """Return the submissions that a platform finds in files with these names."""
    files = [DownloadedFile(path, lambda most: b"") for path in paths]
    return PLATFORMS[platform].submissions(Download(files, []), datetime.UTC, "first")


@pytest.mark.parametrize(("path", "key", "late", "file"), [
    ("doejane_4711_90001_first.ipynb", "4711", False, "first.ipynb"),
    ("doejane_LATE_4711_90001_first.ipynb", "4711", True, "first.ipynb"),
    ("anon_aB3dE_90001_first.ipynb", "anon_aB3dE", False, "first.ipynb"),
    ("LATE_anon_aB3dE_90001_first.ipynb", "anon_aB3dE", True, "first.ipynb"),
    ("李小龙_4711_90001_a_b_12_c.ipynb", "4711", False, "a_b_12_c.ipynb"),
    ("doejane_4711_90001_17_first.ipynb", "4711", False, "17_first.ipynb"),
    ("submissions/doe2jane_4711_90001_x y (1).ipynb", "4711", False, "x y (1).ipynb"),
    ("doejane_4711_text.html", "4711", False, "text.html"),
    ("doejane_LATE_4711_link.html", "4711", True, "link.html"),
])  # fmt: skip
def test_canvas(path, key, late, file):
    """Names, late marks, anonymous ids, typed texts, numbers in file names."""
    [hand_in] = read("canvas", path)
    assert (key, late, [file]) == (hand_in.key, hand_in.late, list(hand_in.files))


@pytest.mark.parametrize(("path", "name", "file"), [
    ("Ann Lee_17_assignsubmission_file/first.ipynb", "Ann Lee", "first.ipynb"),
    ("Ann Lee_17_assignsubmission_file_/a/first.ipynb", "Ann Lee", "a/first.ipynb"),
    ("Ann Lee_17_assignsubmission_file_first.ipynb", "Ann Lee", "first.ipynb"),
    ("Red-Ann-Marie Lee_17_assignsubmission_file/x_y.ipynb", "Red-Ann-Marie Lee", "x_y.ipynb"),
    ("Participant_17_assignsubmission_onlinetext/onlinetext.html", "Participant", "onlinetext.html"),
    ("all/Ann Lee_17_assignsubmission_file/first.ipynb", "Ann Lee", "first.ipynb"),
])  # fmt: skip
def test_moodle(path, name, file):
    """Folders of old and new releases, names without folders, groups, online texts."""
    [hand_in] = read("moodle", path)
    assert ("17", name, [file]) == (hand_in.key, hand_in.name, list(hand_in.files))


def test_one_odd_folder_does_not_change_the_platform():
    """A download in which most files have a platform's format is read as that platform's; a note names the file and the option."""
    names = ["Ann Lee_17_assignsubmission_file", "Bob Ray_18_assignsubmission_file", "Cy_Dee_19_submission"]
    download = Download([DownloadedFile(f"{name}/first.ipynb", lambda most: b"") for name in names], [])
    assert "moodle" == platform_of(download, "auto").name
    assert "Cy_Dee_19_submission/first.ipynb does not" in download.notes[0]
    assert "--from nbgrader" in download.notes[0]
    assert "nbgrader" == platform_of(Download(download.files[1:], []), "auto").name
    assert "nbgrader" == platform_of(download, "nbgrader").name, "--from decides"


@pytest.mark.parametrize("platform", ["canvas", "moodle", "blackboard", "nbgrader"])
def test_a_file_in_another_form_is_left_out(platform):
    """A note names the file, and nobody has submitted it."""
    download = Download([DownloadedFile("odd.ipynb", lambda most: b"")], [])
    assert [] == PLATFORMS[platform].submissions(download, datetime.UTC, "first")
    assert ["odd.ipynb was left out"] == [note.partition(":")[0] for note in download.notes]


def test_blackboard():
    """Underscores in the names of the assignment and the user; the text file of an attempt is not a file of the student."""
    one, two = read(
        "blackboard",
        "Lab_1_part_2_ann_lee_attempt_2026-10-03-14-10-00_first.ipynb",
        "Lab_1_part_2_ann_lee_attempt_2026-10-03-14-10-00.txt",
        "Lab_1_part_2_ben_attempt_2026-13-45-14-10-00.txt",
    )
    assert (["first.ipynb"], []) == (list(one.files), list(two.files))
    assert {"lee", "ann_lee"} < set(one.identities[0].values())
    assert (datetime.datetime(2026, 10, 3, 14, 10, tzinfo=datetime.UTC), None) == (one.handed_in, two.handed_in)


@pytest.mark.parametrize(("platform", "write"), [
    ("canvas", downloads.canvas_zip),
    ("moodle", downloads.moodle_zip),
    ("blackboard", downloads.blackboard_zip),
    ("gradescope", downloads.gradescope_zip),
    ("nbgrader", downloads.exchange_folder),
    ("nbgrader", downloads.shared_folder),
])  # fmt: skip
def test_the_platform_is_seen_by_the_names(tmp_path, platform, write):
    """`--from auto` takes the one whose form the files have."""
    with open_download(write(tmp_path / "download")) as files:
        assert platform == platform_of(files, "auto").name


def gradescopes(text: str):
    """Return the submissions that Gradescope's metadata file lists."""
    files = [
        DownloadedFile(f"x/{name}", lambda most: text.encode()) for name in ("submission_metadata.yml", "2/a.ipynb")
    ]
    download = Download(files, [])
    found = PLATFORMS["gradescope"].submissions(download, datetime.UTC, "first")
    assert ["x/2/a.ipynb was left out: submission_metadata.yml does not name its folder"] == download.notes
    return found


@pytest.mark.parametrize(("text", "reason"), [
    ("", "lists no submission"),
    ("[1]", "lists no submission"),
    ("a: [", "cannot be read"),
    ("a: !!python/name:os.system", "cannot be read"),
])  # fmt: skip
def test_gradescopes_file_without_submissions_is_refused(text, reason):
    """A safe loader reads the file, and one sentence states why it cannot be used."""
    with pytest.raises(DownloadError, match=reason):
        gradescopes(text)


@pytest.mark.parametrize(("entry", "times"), [
    ("5", []),
    ("{':submitters': 3}", [None]),
    ("{':created_at': '2026-10-03T07:10:00-07:00'}", [downloads.TIME]),
    ("{':created_at': 2026-10-03 14:10:00}", [downloads.TIME]),
    ("{':created_at': soon}", [None]),
])  # fmt: skip
def test_gradescopes_submission_of_another_form_has_no_owner(entry, times):
    """An invalid entry is skipped; a submission without a list of students does not belong to anyone, and may have a time."""
    found = gradescopes(f"submission_1: {entry}")
    assert [("submission_1", (), time) for time in times] == [(one.key, one.identities, one.handed_in) for one in found]


@pytest.mark.parametrize(("holder", "beside"), [
    pytest.param("inbound", ("outbound/first/first.ipynb", "feedback/x.html"), id="the exchange's course folder"),
    pytest.param("submitted", ("source/first/first.ipynb", "gradebook/x", "ann/first.ipynb"), id="a course"),
])  # fmt: skip
def test_what_lies_beside_the_hand_ins_is_no_hand_in(holder, beside):
    """Files and folders such as outbound or source are not students; the files that were left out are listed."""
    files = [DownloadedFile(path, lambda most: b"") for path in (f"{holder}/doejane/first/first.ipynb", *beside)]
    download = Download(files, [])
    found = PLATFORMS["nbgrader"].submissions(download, datetime.UTC, "first")
    assert [("doejane", ["first.ipynb"])] == [
        (one.key, [path.removeprefix("first/") for path in one.files]) for one in found
    ]
    [note] = download.notes
    assert note.endswith(f"left out, because the submissions are in {holder}")
    assert all(path.partition("/")[0] in note for path in beside)
    assert [] == read("nbgrader", "ann+second+2026-10-09 00:00:00 UTC/first.ipynb"), (
        "another assignment of the exchange"
    )


SHAPES = {
    "first": frozenset({"setup", "warm_days", "test_warm_days", "summary"}),
    "second": frozenset({f"second_{number}" for number in range(4)}),
}


def files(*paths: str, data: bytes | None = None) -> dict[str, DownloadedFile]:
    """Return files of these names that hold the first notebook, or what is given."""
    content = notebook(STUDENTS[0]) if data is None else data
    return {path: DownloadedFile(path, lambda most: content) for path in paths}


@pytest.mark.parametrize(
    "name",
    [
        "first.ipynb", "First.ipynb", "FIRST.IPYNB", "first (1).ipynb", "first (12).ipynb", "first-1.ipynb", "first - Copy.ipynb",
        "first-Copy1.ipynb", "first copy.ipynb", "first copy 2.ipynb", "Copy of first.ipynb", " first .ipynb", "first.ipynb.txt",
        "first.ipynb.json", "first (1).ipynb.txt", "first.ipynb.ipynb", "folder/first.ipynb", "ﬁrst.ipynb",
    ],
)  # fmt: skip
def test_like_names_are_recognised(name):
    """Copy, other case, blanks, added endings; even where the cells have lost their ids."""
    for data in (None, b'{"cells": []}'):
        assert name == find_notebooks(files(name, data=data), SHAPES, {}).found["first"].path


@pytest.mark.parametrize("name", ["homework.ipynb", "final version.ipynb", "Untitled.ipynb", "hw.txt", "hw.json", "hw"])
def test_a_renamed_notebook_is_recognised_by_its_cells(name):
    """No name helps, more than half of the cells do."""
    assert FoundNotebook(name, "by its cells") == find_notebooks(files(name), SHAPES, {}).found["first"]


def test_the_name_of_one_and_the_cells_of_another(tmp_path):
    """first.ipynb holds the cells of second: it is second."""
    found = find_notebooks(files("first.ipynb", data=notebook(STUDENTS[0], source="second")), SHAPES, {})
    assert {"second"} == found.found.keys()


@pytest.mark.parametrize(("name", "data"), [
    pytest.param("other.ipynb", notebook(STUDENTS[0], source="third"), id="of another assignment"),
    pytest.param("other.ipynb", b"not json", id="damaged"),
    pytest.param("other.ipynb", b"[" * 100_000, id="nested deeply"),
    pytest.param("other.ipynb", b'{"cells": [{"metadata": {"nbgrader": []}}, 1]}', id="odd cells"),
])  # fmt: skip
def test_what_is_no_notebook_of_the_assignment_is_said(name, data):
    """The command does not guess; a teacher can specify the notebook."""
    given = files(name, data=data)
    assert {name} == find_notebooks(given, SHAPES, {}).unknown.keys()
    assert "as you said" == find_notebooks(given, SHAPES, {name: "first"}).found["first"].how


def test_texts_and_data_are_no_notebooks():
    """The command does not ask about a README, a data file or a picture."""
    others = ("README.txt", b"hello"), ("data.json", b'{"a": 1}'), ("data.json", b"[1]"), ("plot.png", b"\x89PNG")
    for name, data in others:
        notebooks = find_notebooks(files(name, data=data), SHAPES, {})
        assert ({}, {}) == (notebooks.found, notebooks.unknown)


def test_of_several_copies_the_latest_counts():
    """A browser numbers copies upwards; the others are named as left out."""
    found = find_notebooks(files("first.ipynb", "first (2).ipynb", "first (1).ipynb"), SHAPES, {})
    assert "first (2).ipynb" == found.found["first"].path
    assert ["first (1).ipynb", "first.ipynb"] == sorted(found.spare)
    for names in (["first.ipynb", "first copy 2.ipynb", "first copy.ipynb"], ["first.ipynb", "first - Copy.ipynb"]):
        assert names[1] == find_notebooks(files(*names), SHAPES, {}).found["first"].path


def test_names_that_are_alike_by_chance_stay_apart():
    """first and first2 are two notebooks of one assignment, and first-1 is a copy of the first."""
    shapes = {
        "hw1": frozenset({"a"}),
        "hw2": frozenset({"b"}),
        "hw-1": frozenset(),
    }
    assert like_name("hw1") != like_name("hw2")
    given = {
        name: one
        for name in ("hw1.ipynb", "hw2.ipynb")
        for one in [DownloadedFile(name, lambda most: b'{"cells": []}')]
    }
    found = find_notebooks(given, shapes, {}).found
    assert {"hw1": "hw1.ipynb", "hw2": "hw2.ipynb"} == {name: one.path for name, one in found.items()}


def test_more_files_than_a_submission_may_have_are_left_out():
    """The first files and the notebook are kept; a note has the number of the others, and one names an archive."""
    names = ["a.RAR", *(f"{number}.txt" for number in range(LIMITS.attachment_count + 1)), "first.ipynb"]
    work = readable(DownloadedSubmission("77", "", (), files(*names, data=b"x")), SHAPES, {})
    assert {*names[:-3], "first.ipynb"} == work.names.keys()
    assert [f"2 files more than {LIMITS.attachment_count} were left out"] == work.notes[1:]
    assert "a.RAR is an archive that is not unpacked; only zips are" == work.notes[0]


ANN, BEN = Person("ann", "Ann Lee", {"canvas": "1"}, "Red"), Person("ben", "Lee, Ann", {"canvas": "2"})
CLASS = Roster([ANN, BEN, Person("kim", "Kim Po", {"participant": "9"})])


@pytest.mark.parametrize(("name", "identity", "answer", "student", "how"), [
    ("", {"canvas": "1"}, "kim", "kim", "as you said"),
    ("", {"canvas": "1"}, "new", "new", "as you said"),
    ("", {"canvas": "1"}, "a/b", None, "'a/b' cannot be the name of a student's folder"),
    ("", {"canvas": "2", "words": "Kim Po"}, "", "ben", ""),
    ("", {"words": "Ann Lee"}, "", None, "2 students have this name"),
    ("", {"words": "po, kim"}, "", "kim", "by name"),
    ("Red", {"participant": "9"}, "", "ann", "by the group Red"),
    ("Other", {"participant": "9"}, "", None, "no student of the roster has this name or number"),
    ("Kim P.", {"participant": "9"}, "", "kim", ""),
    ("", {"anonymous": "x7"}, "", "x7", ""),
    ("", None, "", None, "the download does not say whose it is"),
])  # fmt: skip
def test_whose_submission_it_is(name, identity, answer, student, how):
    """The teacher's answer decides, then an identifier, then a name that only one student has; anything else is asked for."""
    hand_in = DownloadedSubmission("77", name, (identity,) if identity else (), {})
    [match] = match_people(hand_in, CLASS, {"77": answer} if answer else {})
    assert (student, how) == (match.person and match.person.student, match.how)


def test_without_a_roster_the_platforms_name_is_the_students():
    """A name that cannot be that of a folder is asked for."""
    for name, expected in (("López, María", "lopez-maria"), ("!", None)):
        [match] = match_people(DownloadedSubmission("77", name, ({"words": name},), {}), Roster([]), {})
        assert expected == (match.person and match.person.student)


def test_two_people_with_the_name_of_one_student_are_asked_about():
    """Neither gets the folder; a submission that the teacher told to ignore counts for nothing."""
    works = [
        ReadableSubmission(
            DownloadedSubmission(key, "Kim Po", ({"words": "Kim Po"},), {}), {}, find_notebooks({}, {}, {}), {}, []
        )
        for key in "456"
    ]
    for number, expected in ((2, ([], ["4", "5"])), (1, (["kim"], []))):
        claims, asked = attribute_submissions([*works[:number], works[2]], CLASS, Answers({"6": "-"}, {}, {}, []))
        assert expected == (list(claims), [one.hand_in for one in asked])


CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=12)


def table_of(path, data: bytes) -> TableFile:
    """Return the table in some bytes."""
    return TableFile(path / "grades.csv", data)


def written(rows, **options) -> str:
    """Return the output of Python's csv module."""
    text = io.StringIO(newline="")
    csv.writer(text, **options).writerows(rows)
    return text.getvalue()


@given(
    rows=st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=5),
    delimiter=st.sampled_from(",;\t"),
    end=st.sampled_from(["\n", "\r\n"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
    change=CELLS,
)
def test_every_cell_is_read_and_written_back(tmp_path_factory, rows, delimiter, end, quoting, encoding, change):
    """For any contents, one cell is changed, and all others are unchanged, according to Python's own reader."""
    rows = [("a", "b", "c"), *(row for row in rows if any(cell.strip() for cell in row))]
    data = written(rows, delimiter=delimiter, lineterminator=end, quoting=quoting).encode(encoding)
    table = table_of(tmp_path_factory.getbasetemp(), data)
    assert [list(row) for row in rows[1:]] == table.rows
    assert data == table.with_cells({})
    if table.rows:
        after = list(
            csv.reader(
                io.StringIO(table.with_cells({(0, 1): change}).decode(encoding), newline=""), delimiter=delimiter
            )
        )
        expected = [list(row) for row in rows]
        expected[1][1] = change
        assert expected == after


def test_bytes_around_a_change_stay(tmp_path):
    """Quotes that were not needed, blanks, a lone carriage return, an empty line, no line at the end: all as it was."""
    data = b'\xef\xbb\xbf"Student",ID ,"x"\r\n\r\n "a" ,1,"- "\r"b", 2,"=1"'
    table = table_of(tmp_path, data)
    assert data.replace(b",1,", b',"1,5",') == table.with_cells({(0, 1): "1,5"})


@pytest.mark.parametrize(("data", "sentence"), [
    pytest.param("Name;Größe\nJörg;1\n".encode("cp1252"), "is not UTF-8", id="another encoding"),
    pytest.param(b"a,b\n1,2,3\n", "row 2 has 3 cells, the first has 2", id="rows of several lengths"),
    pytest.param(b"", "contains no table", id="empty"),
    pytest.param(b"\x89PNG\r\n\x1a\n\xff", "is not UTF-8", id="no text"),
    pytest.param(b"just words\n", "contains no table", id="no columns"),
    pytest.param(b'a,b\n"open,2\n', "is not closed", id="a quote that never ends"),
])  # fmt: skip
def test_what_is_no_table_is_said_in_one_sentence(tmp_path, data, sentence):
    """The file is named, and what is wrong with it."""
    with pytest.raises(InputError, match=sentence) as caught:
        table_of(tmp_path, data)
    assert "\n" not in str(caught.value)


def test_a_missing_or_huge_file_is_said(tmp_path, monkeypatch):
    """One sentence each."""
    with pytest.raises(InputError, match="cannot be read"):
        read_table(tmp_path / "nothing.csv")
    monkeypatch.setattr("autograder.classroom.table_file.LARGEST", 10)
    with pytest.raises(InputError, match="too many for a class list"):
        read_table(downloads.write_csv(tmp_path / "a.csv", [["abcdef", "abcdef"]]))
