"""The names that platforms give to files, taken apart."""

import datetime

import pytest

from autograder.classroom.collect.download import Download, DownloadedFile, DownloadError, open_download
from autograder.classroom.platforms.registry import PLATFORMS, platform_of
from tests.classroom import downloads


def read(platform: str, *paths: str):
    """Return the submissions that a platform finds in files with these names."""
    files = [DownloadedFile(path, lambda most: b"") for path in paths]
    return PLATFORMS[platform].hand_ins(Download(files, []), datetime.UTC, "first")


@pytest.mark.parametrize(
    ("path", "key", "late", "file"),
    [
        ("doejane_4711_90001_first.ipynb", "4711", False, "first.ipynb"),
        ("doejane_LATE_4711_90001_first.ipynb", "4711", True, "first.ipynb"),
        ("anon_aB3dE_90001_first.ipynb", "anon_aB3dE", False, "first.ipynb"),
        ("LATE_anon_aB3dE_90001_first.ipynb", "anon_aB3dE", True, "first.ipynb"),
        ("李小龙_4711_90001_a_b_12_c.ipynb", "4711", False, "a_b_12_c.ipynb"),
        ("doejane_4711_90001_17_first.ipynb", "4711", False, "17_first.ipynb"),
        ("submissions/doe2jane_4711_90001_x y (1).ipynb", "4711", False, "x y (1).ipynb"),
        ("doejane_4711_text.html", "4711", False, "text.html"),
        ("doejane_LATE_4711_link.html", "4711", True, "link.html"),
    ],
)
def test_canvas(path, key, late, file):
    """Names, late marks, anonymous ids, typed texts, numbers in file names."""
    [hand_in] = read("canvas", path)
    assert (key, late, [file]) == (hand_in.key, hand_in.late, list(hand_in.files))


@pytest.mark.parametrize(
    ("path", "name", "file"),
    [
        ("Ann Lee_17_assignsubmission_file/first.ipynb", "Ann Lee", "first.ipynb"),
        ("Ann Lee_17_assignsubmission_file_/a/first.ipynb", "Ann Lee", "a/first.ipynb"),
        ("Ann Lee_17_assignsubmission_file_first.ipynb", "Ann Lee", "first.ipynb"),
        ("Red-Ann-Marie Lee_17_assignsubmission_file/x_y.ipynb", "Red-Ann-Marie Lee", "x_y.ipynb"),
        ("Participant_17_assignsubmission_onlinetext/onlinetext.html", "Participant", "onlinetext.html"),
        ("all/Ann Lee_17_assignsubmission_file/first.ipynb", "Ann Lee", "first.ipynb"),
    ],
)
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


@pytest.mark.parametrize(
    ("platform", "write"),
    [
        ("canvas", downloads.canvas_zip),
        ("moodle", downloads.moodle_zip),
        ("blackboard", downloads.blackboard_zip),
        ("gradescope", downloads.gradescope_zip),
        ("nbgrader", downloads.exchange_folder),
        ("nbgrader", downloads.shared_folder),
    ],
)
def test_the_platform_is_seen_by_the_names(tmp_path, platform, write):
    """`--from auto` takes the one whose form the files have."""
    with open_download(write(tmp_path / "download")) as files:
        assert platform == platform_of(files, "auto").name


def gradescopes(text: str):
    """Return the submissions that Gradescope's metadata file lists."""
    files = [DownloadedFile("x/submission_metadata.yml", lambda most: text.encode())]
    return PLATFORMS["gradescope"].hand_ins(Download(files, []), datetime.UTC, "first")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "lists no submission"),
        ("[1]", "lists no submission"),
        ("a: [", "cannot be read"),
        ("a: !!python/name:os.system", "cannot be read"),
    ],
)
def test_gradescopes_file_without_submissions_is_refused(text, reason):
    """A safe loader reads the file, and one sentence states why it cannot be used."""
    with pytest.raises(DownloadError, match=reason):
        gradescopes(text)


@pytest.mark.parametrize(
    ("text", "keys"), [("submission_1: 5", []), ("submission_1: {':submitters': 3}", ["submission_1"])]
)
def test_gradescopes_submission_of_another_form_has_no_owner(text, keys):
    """An invalid entry is skipped; a submission without a list of students does not belong to anyone."""
    assert [(key, ()) for key in keys] == [(one.key, one.identities) for one in gradescopes(text)]


@pytest.mark.parametrize(
    ("holder", "beside"),
    [
        pytest.param("inbound", ("outbound/first/first.ipynb", "feedback/x.html"), id="the exchange's course folder"),
        pytest.param("submitted", ("source/first/first.ipynb", "gradebook/x", "ann/first.ipynb"), id="a course"),
    ],
)
def test_what_lies_beside_the_hand_ins_is_no_hand_in(holder, beside):
    """Files and folders such as outbound or source are not students; the files that were left out are listed."""
    files = [DownloadedFile(path, lambda most: b"") for path in (f"{holder}/doejane/first/first.ipynb", *beside)]
    download = Download(files, [])
    found = PLATFORMS["nbgrader"].hand_ins(download, datetime.UTC, "first")
    assert [("doejane", ["first.ipynb"])] == [
        (one.key, [path.removeprefix("first/") for path in one.files]) for one in found
    ]
    [note] = download.notes
    assert note.endswith(f"left out, because the submissions are in {holder}")
    assert all(path.partition("/")[0] in note for path in beside)
