"""The files for students: one zip or folder with working links, exact versions, and no answer."""

import json
import re
import subprocess
import zipfile
from pathlib import Path, PurePosixPath

import pytest
from bs4 import BeautifulSoup
from packaging.requirements import Requirement

from autograder import cli
from autograder.classroom import handout_package
from autograder.classroom.handout_package import PAGE, HandoutTerms, without_dead_links, write_packages
from autograder.course.catalogue import lessons
from autograder.course.paths import NOTEBOOKS, ROOT
from tests.grade.classes.test_own_notebooks import ASSIGNMENT, make_varied_course

WHEEL = "autograd_er-0.1.0-py3-none-any.whl"
LINK = re.compile(r'(?<!!)\]\(([^)\s"]+)|(?:href|src)="([^"]+)"')
"""Links and pictures as a reader without our code finds them."""


@pytest.fixture
def wheel(monkeypatch):
    """A file in the wheel's place, and one pin, because the real ones take seconds."""

    def build(folder):
        folder.mkdir(parents=True)
        (folder / WHEEL).write_bytes(b"wheel")
        return folder / WHEEL

    monkeypatch.setattr(handout_package, "_built_wheel", build)
    monkeypatch.setattr(handout_package, "_requirements", lambda wheel: f"torch==2.13.0\n./{wheel}\n")


def contents(path: Path) -> dict[str, bytes]:
    """Return the files of a zip by name."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def dead_links(files: dict[str, bytes]) -> list[str]:
    """Return the relative links in notebooks that lead to no file, or to no heading of the glossary."""
    dead = []
    for name, data in files.items():
        cells = json.loads(data)["cells"] if name.endswith(".ipynb") else []
        for cell in cells:
            text = re.sub(r"(?s)```.*?```|`[^`\n]+`", "", "".join(cell["source"]))
            for found in LINK.finditer(text) if cell["cell_type"] == "markdown" else ():
                link = found[1] or found[2]
                target, _, anchor = link.partition("#")
                goal = Path("/", PurePosixPath(name).parent, target).resolve().relative_to("/").as_posix()
                if "://" not in link and (
                    goal not in files or (anchor and f"## {anchor}" not in headings(files[goal]))
                ):
                    dead.append(f"{name}: {link}")
    return dead


def headings(notebook: bytes) -> set[str]:
    """Return the headings of a notebook, as JupyterLab writes them into anchors."""
    cells = json.loads(notebook)["cells"]
    lines = [line for cell in cells for line in "".join(cell["source"]).splitlines() if line.startswith("## ")]
    return {"## " + line[3:].replace("`", "").replace(" ", "-") for line in lines}


def test_no_link_of_a_package_is_dead(tmp_path, wheel):
    """All links of each lesson lead to files of its zip, and links to the glossary are kept."""
    glossary = NOTEBOOKS / "start" / "glossary.ipynb"
    for lesson in lessons():
        terms = HandoutTerms(lesson.name, "canvas")
        assert [f"{lesson.name}.zip"] == write_packages(
            tmp_path / lesson.name, terms, {"": NOTEBOOKS / lesson.name}, glossary
        )
        files = contents(tmp_path / lesson.name / f"{lesson.name}.zip")
        files = {name.removeprefix(f"{lesson.name}/"): data for name, data in files.items()}
        assert {PAGE, WHEEL, "requirements.txt", "start/glossary.ipynb"} < files.keys()
        assert [] == dead_links(files)
        assert b"../start/glossary.ipynb#" in files[f"{lesson.name}/{lesson.name}.ipynb"]


def test_the_course_of_the_page_has_all_sources(tmp_path):
    """The command in docs/classroom.md copies every lesson, the glossary that they link to, and the differences of variants."""
    page = (ROOT / "docs" / "classroom.md").read_text("utf-8")
    (tmp_path / "mycourse" / "source").mkdir(parents=True)
    (tmp_path / "solutions").symlink_to(ROOT / "solutions")
    subprocess.run(re.findall(r"^cp -r solutions.*$", page, re.MULTILINE)[0], shell=True, cwd=tmp_path, check=True)
    files = {path.relative_to(tmp_path / "mycourse" / "source").as_posix() for path in tmp_path.glob("mycourse/**/*.*")}
    needed = {f"{lesson.name}/{lesson.name}.ipynb" for lesson in lessons()}
    assert needed | {"start/glossary.ipynb", "variants.toml", "teaching.toml"} <= files


def test_a_dead_link_becomes_its_text():
    """A link to a missing lesson and a missing picture are replaced; code, other links and graded cells are not."""
    text = '[x `y[0]`](../b/b.ipynb) ![alt](no.png) `a[0](b)` [c](https://c.org) [d](#e) [f](f.csv "t")'
    graded = {"cell_type": "markdown", "metadata": {"nbgrader": {}}, "source": "[x](no.md)"}
    cells = [{"cell_type": "markdown", "metadata": {}, "source": [text]}, graded]
    found = json.loads(without_dead_links("a/a.ipynb", json.dumps({"cells": cells}).encode(), {"a/f.csv"}))["cells"]
    assert 'x `y[0]` alt `a[0](b)` [c](https://c.org) [d](#e) [f](f.csv "t")' == found[0]["source"]
    assert graded == found[1]


def test_the_versions_are_those_of_the_lock():
    """Every dependency of the extra `course` is pinned for each system as in the lock, and the wheel follows the pins."""
    lines = handout_package._requirements(WHEEL).splitlines()[1:]
    assert f"./{WHEEL}" == lines.pop()
    lock = (ROOT / "requirements" / "lock.txt").read_text("utf-8")
    pins = [Requirement(line) for line in lines]
    assert "torch==2.13.0" == lines[-1] == (ROOT / "requirements" / "torch.txt").read_text("utf-8").splitlines()[-1]
    assert all(f"\n{line} \\" in lock for line in lines[:-1])
    names = {pin.name for pin in pins}
    assert {"jupyterlab", "nbgrader", "sympy", "colorama", "pywinpty", "appnope"} < names
    assert names.isdisjoint({"pytest", "ruff", "distributed", "psycopg", "copydetect", "hatchling"})
    windows = {
        pin.name for pin in pins if not pin.marker or pin.marker.evaluate({"sys_platform": "win32", "os_name": "nt"})
    }
    assert "pywinpty" in windows
    assert "pexpect" not in windows


@pytest.mark.parametrize("platform", ["canvas", "moodle", "folder"])
def test_the_page_names_the_files_and_the_platform(tmp_path, wheel, platform):
    """It has commands for three systems, names the notebook to submit, and loads nothing."""
    folder = tmp_path / "first"
    folder.mkdir()
    (folder / "first.ipynb").write_text('{"cells": []}')
    files = handout_package._files(
        folder,
        HandoutTerms("first", platform, for_credit=True, any_prediction=True),
        {"requirements.txt": b"torch==2.13.0\n"},
    )
    page = BeautifulSoup(files[PAGE], "html.parser")
    text = " ".join(page.text.split())
    assert ["Windows", "macOS", "Linux"] == [heading.text for heading in page.find_all("h3")]
    assert 3 == len([block for block in page.find_all("pre") if "first/first.ipynb" in block.text])
    assert ({"canvas": "in Canvas", "moodle": "in Moodle", "folder": "as your teacher"}[platform]) in text
    assert "two hints" in text
    assert "whether it is right or wrong" in text
    assert {"https://www.python.org/downloads/"} == {link["href"] for link in page.find_all("a")}


@pytest.mark.thorough
def test_each_student_gets_a_zip_with_the_own_variant(tmp_path, wheel, capsys):
    """`--for-each --to` writes one zip for each student, with the data files, and for credit the mark and a table."""
    course = make_varied_course(tmp_path / "course")
    (course / "roster.csv").write_text("student_id,name\nann,Ann\nben,Ben\n")
    words = ["release", ASSIGNMENT, "--course", str(course), "--for-each", str(course / "roster.csv"), "--replace"]
    assert 0 == cli.main([*words, "--for-credit", "--to", "moodle", "--out", str(tmp_path / "out")])
    printed = capsys.readouterr().out
    assert re.search(r"^test_warm_days +\d+ of 2$", printed, re.M)
    assert "passes in another's notebook" in printed
    assert 2 == len(zips := sorted((tmp_path / "out").iterdir()))
    assert f"{ASSIGNMENT}-ann.zip" == zips[0].name
    files = contents(zips[0])
    inside = f"{ASSIGNMENT}/{ASSIGNMENT}/"
    own = (course / "handouts" / "ann" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb").read_text("utf-8")
    found = json.loads(files[f"{inside}{ASSIGNMENT}.ipynb"])
    assert json.loads(own)["metadata"] == found["metadata"]
    assert found["metadata"]["autograder_for_credit"] is True
    assert (course / "source" / ASSIGNMENT / "temperatures.csv").read_bytes() == files[f"{inside}temperatures.csv"]

    words = ["release", ASSIGNMENT, "--course", str(course), "--for-credit", "--to", "canvas"]
    assert 0 == cli.main([*words, "--out", str(tmp_path / "all")])
    assert "All students get the same notebook" in capsys.readouterr().out
    metadata = json.loads(contents(tmp_path / "all" / f"{ASSIGNMENT}.zip")[f"{inside}{ASSIGNMENT}.ipynb"])["metadata"]
    assert metadata["autograder_for_credit"] is True
    assert "autograder_variant" not in metadata


def test_a_shared_folder_has_the_same_files(tmp_path, wheel):
    """`--to folder` writes the files of the zip, for all students or in a folder for each; only the instructions differ."""
    source = tmp_path / "source"
    (source / "img").mkdir(parents=True)
    (source / "first.ipynb").write_text('{"cells": []}')
    (source / "img" / "plot.png").write_bytes(b"png")
    for platform in ("canvas", "folder"):
        write_packages(tmp_path / platform, HandoutTerms("first", platform), {"": source}, tmp_path / "none")
    zipped = contents(tmp_path / "canvas" / "first.zip")
    unpacked = {
        path.relative_to(tmp_path / "folder").as_posix(): path.read_bytes()
        for path in (tmp_path / "folder").rglob("*")
        if path.is_file()
    }
    inside = ("open-me-first.html", "requirements.txt", WHEEL, "first/first.ipynb", "first/img/plot.png")
    assert {f"first/{name}" for name in inside} == zipped.keys() == unpacked.keys()
    assert {f"first/{PAGE}"} == {name for name in zipped if zipped[name] != unpacked[name]}
    assert ["ann"] == write_packages(
        tmp_path / "each", HandoutTerms("first", "folder"), {"ann": source}, tmp_path / "none"
    )
    assert (tmp_path / "each" / "ann" / "first" / "first" / "img" / "plot.png").is_file()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("release first --to canvas", "--to and --out require each other"),
        ("release --to canvas --out out", "--to requires an assignment"),
        ("release first --to canvas --out full", "full contains other files, such as mine.txt. Name a new or empty folder"),
        ("release first --to folder --out first.zip", "first.zip contains other files, such as first.zip"),
        ("release first --to canvas --out file", "file cannot be used (Not a directory)"),
        ("release first --to canvas --out out --seed 3", "cannot be combined with --to"),
        ("release first --for-credit", "requires --for-each ROSTER.csv, the list of students, or --to PLATFORM"),
        ("release first --to blackboard --out out", "invalid choice: 'blackboard'"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence(tmp_path, capsys, monkeypatch, words, sentence):
    """A folder with other files, an unknown platform and missing options stop the command before it writes anything."""
    make_varied_course(tmp_path / "course")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    (tmp_path / "first.zip").mkdir()
    (tmp_path / "first.zip" / "first.zip").write_text("")
    (tmp_path / "file").write_text("")
    monkeypatch.chdir(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    try:
        code = cli.main([*words.split(), "--course", "course"])
    except SystemExit as stopped:
        code = stopped.code
    said = capsys.readouterr()
    assert (2, "") == (code, said.out)
    assert sentence in said.err
    assert 1 == len(said.err.splitlines())
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
