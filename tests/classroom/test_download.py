"""Downloads may be hostile: their contents are read within limits, and their file names are never used as paths."""

import io
import os
import stat
import zipfile

import pytest

from autograder.classroom.collect import download as module
from autograder.classroom.collect.collection import collect
from autograder.classroom.collect.download import DownloadedFile, DownloadError, open_download, unpacked
from autograder.classroom.collect.submission_files import writable_names
from autograder.classroom.roster import Roster
from tests.classroom import made_class
from tests.classroom.downloads import canvas_name, write_zip
from tests.classroom.made_class import ASSIGNMENT, NOTEBOOK, STUDENTS, notebook

ANN, BEN = STUDENTS[20], STUDENTS[21]


def zipped(files) -> bytes:
    """Return a zip of these files."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return data.getvalue()


def link(name: str, to: str) -> zipfile.ZipInfo:
    """Return a zip's entry that is a symbolic link."""
    info = zipfile.ZipInfo(name)
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


def collected(tmp_path, files) -> dict[str, bytes]:
    """Collect the submissions of Ann and Ben, and return the contents of the course's folders for submissions."""
    course = made_class.course(tmp_path)
    before = {path for path in tmp_path.rglob("*")}
    names = {canvas_name(ANN, 100 + number, name): data for number, (name, data) in enumerate(files.items())}
    download = write_zip(tmp_path / "download", {**names, canvas_name(BEN, 99): notebook(BEN)})
    collect(download, ASSIGNMENT, course, Roster([]))
    new = {path for path in tmp_path.rglob("*") if path.is_file()} - before - {download}
    inside = (course / "submitted", course / "collected")
    assert [] == [path for path in new if not any(path.is_relative_to(folder) for folder in inside)]
    assert BEN.canvas in made_class.whose(course), "another student's work is collected whatever Ann does"
    folder = course / "submitted" / ANN.canvas / ASSIGNMENT
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "name",
    ["../evil.txt", "a/../../evil.txt", "/tmp/evil.txt", "..\\..\\evil.txt", "C:\\evil.txt", "\\\\host\\evil.txt"],
)
def test_no_name_leads_out_of_the_folder(tmp_path, name):
    """Parent, absolute, drive and backslash paths: the file is left out, and the notebook next to it is collected."""
    files = collected(tmp_path, {"work.zip": zipped({name: b"evil", NOTEBOOK: notebook(ANN)})})
    assert {NOTEBOOK: notebook(ANN)} == files


def test_links_in_a_zip_are_not_followed_and_not_made(tmp_path):
    """A link to the gradebook's folder, and a file below it."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr(link("out", ".."), "/etc")
        archive.writestr("out/passwd", b"evil")
        archive.writestr(NOTEBOOK, notebook(ANN))
    files = collected(tmp_path, {"work.zip": data.getvalue()})
    assert {NOTEBOOK, "out/passwd"} == set(files)


def test_a_linked_student_folder_is_not_written_to(tmp_path):
    """Somebody made submitted/STUDENT a link to a folder elsewhere."""
    course = made_class.course(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    os.symlink(tmp_path / "elsewhere", course / "submitted" / ANN.canvas)
    download = write_zip(tmp_path / "download", {canvas_name(ANN, 1): notebook(ANN)})
    [line] = collect(download, ASSIGNMENT, course, Roster([])).lines
    assert ("cannot be placed", []) == (line.placing, list((tmp_path / "elsewhere").iterdir()))


@pytest.mark.thorough
def test_a_bomb_costs_only_its_own_student(tmp_path, monkeypatch):
    """60 MiB of zeros in 60 KiB, nested zips, and thousands of files are left out, and the notebook next to them is collected."""
    big = zipped({"zeros": bytes(90 * 2**20)})
    deep = zipped({"3.zip": zipped({"2.zip": zipped({"1.zip": zipped({"x": b"x"})})})})
    many = zipped({f"{number}.txt": b"" for number in range(5000)})
    files = collected(tmp_path, {"big.zip": big, "deep.zip": deep, "many.zip": many, NOTEBOOK: notebook(ANN)})
    assert NOTEBOOK in files
    assert 1 > sum(map(len, files.values())) / 2**20
    assert len(files) <= 2001


def test_zips_in_a_zip_are_opened_once():
    """Their folders are no files, and a limit of one byte is enough for one byte."""
    inner = zipped({"deep.zip": zipped({"x": b"x"}), "a/": b"", "a/b": b"b"})
    deep, file = unpacked(DownloadedFile("work.zip", lambda most: zipped({"one.zip": inner})), 10**6).files
    assert ("deep.zip", "a/b", b"b") == (deep.path, file.path, file.read(1))
    with pytest.raises(DownloadError, match="it has more than 0 MiB"):
        file.read(0)


def test_sizes_that_a_zip_tells_are_not_believed():
    """The entry says 10 bytes; a megabyte comes out, and a limit of 100 is held."""
    data = bytearray(zipped({"a": bytes(2**20)}))
    for at in (data.find(b"PK\x01\x02") + 24, data.find(b"PK\x03\x04") + 22):
        data[at : at + 4] = (10).to_bytes(4, "little")
    [file] = unpacked(DownloadedFile("a.zip", lambda most: bytes(data)), 2**20).files
    with pytest.raises(DownloadError):
        file.read(5)


@pytest.mark.parametrize("data", [b"", b"PK", b"no zip at all", None], ids=["empty", "too short", "text", "cut off"])
def test_what_is_no_zip_is_said(tmp_path, data):
    """One sentence for a download; a note for a student's file."""
    data = zipped({"a": b"b"})[:-30] if data is None else data
    (tmp_path / "a.zip").write_bytes(data)
    for name, reason in (("a.zip", "cannot be read as a zip"), ("b.zip", "there is no file")):
        with pytest.raises(DownloadError, match=reason), open_download(tmp_path / name):
            pass
    inside = unpacked(DownloadedFile("a.zip", lambda most: data), 1000)
    assert ([], 1) == (inside.files, len(inside.notes))


def test_a_damaged_or_encrypted_entry_is_left_out(tmp_path):
    """The checksum of one entry is wrong, another is encrypted; the notebook is read."""
    data = bytearray(zipped({"damaged.txt": b"abc", "secret.txt": b"xyz"}))
    data[data.find(b"abc")] = ord("z") if b"abc" in data else data[0]
    at = data.find(b"PK\x01\x02", data.find(b"PK\x01\x02") + 1)
    data[at + 8] |= 1
    files = collected(tmp_path, {"work.zip": bytes(data), NOTEBOOK: notebook(ANN)})
    assert "secret.txt" not in files
    assert NOTEBOOK in files


def test_too_many_files_are_refused(tmp_path, monkeypatch):
    """A download with more entries than any class hands in ends with one sentence."""
    monkeypatch.setattr(module, "MOST_FILES", 10)
    monkeypatch.setattr(module._listed, "__defaults__", (10,))
    write_zip(tmp_path / "a.zip", {f"{number}": b"" for number in range(11)})
    with pytest.raises(DownloadError, match="more than 10"), open_download(tmp_path / "a.zip"):
        pass


def test_names_are_read_in_utf8_with_and_without_its_flag(tmp_path):
    """Info-ZIP writes UTF-8 without the flag, for which the format demands CP437."""
    data = zipped({"Übung.ipynb": b"{}"}).replace("Übung".encode(), b"\xc3\x9cbung")
    flag = bytearray(data)
    for at in (flag.find(b"PK\x01\x02") + 9, flag.find(b"PK\x03\x04") + 7):
        flag[at] &= ~8
    for content in (data, bytes(flag)):
        (tmp_path / "a.zip").write_bytes(content)
        with open_download(tmp_path / "a.zip") as files:
            assert ["Übung.ipynb"] == [file.path for file in files.files]


@pytest.mark.parametrize(("paths", "names"), [
    pytest.param(["a.txt", "A.TXT"], ["a.txt", "A (2).TXT"], id="only the case differs"),
    pytest.param(["con", "aux.txt", "lpt1"], ["_con", "_aux.txt", "_lpt1"], id="reserved on Windows"),
    pytest.param(["a?:b.txt", "c. ", "-rf"], ["a__b.txt", "c", "_-rf"], id="letters that some systems refuse"),
    pytest.param(["a\x1b[2Jb", "‮cba"], ["a_[2Jb", "_cba"], id="control characters"),
    pytest.param(["FIRST.ipynb", "timestamp.txt"], ["FIRST (2).ipynb", "timestamp (2).txt"], id="taken"),
])  # fmt: skip
def test_names_can_be_written_everywhere(paths, names):
    """Names differ by more than case, are not reserved, and do not contain control sequences or special characters."""
    assert names == list(writable_names(paths, [NOTEBOOK, "timestamp.txt"]).values())


def test_long_names_are_cut_before_their_ending():
    """255 bytes are the most that file systems take; letters of several bytes are not cut in two."""
    [name] = writable_names(["é" * 300 + ".csv"], []).values()
    assert name.endswith("é.csv")
    assert len(name.encode()) <= 120


def test_a_folder_with_links_and_pipes_is_read_without_them(tmp_path):
    """A shared folder may hold anything; a pipe would block its reader forever."""
    folder = tmp_path / "shared" / "ann"
    folder.mkdir(parents=True)
    (folder / NOTEBOOK).write_bytes(notebook(ANN))
    os.symlink("/etc/passwd", folder / "passwd")
    os.mkfifo(folder / "pipe.txt")
    course = made_class.course(tmp_path)
    collect(tmp_path / "shared", ASSIGNMENT, course, Roster([]))
    assert {NOTEBOOK} == {path.name for path in (course / "submitted" / "ann" / ASSIGNMENT).iterdir()}
