"""The zip for Gradescope: its contents, and its results for submissions in a folder laid out like Gradescope's."""

import io
import json
import shutil
import subprocess
import zipfile
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import pytest

from autograder import cli
from autograder.classroom import graded_submission, harness_zip
from autograder.classroom.graded_submission import LONGEST_OUTPUT, failed_results, results_of
from autograder.classroom.harness_zip import HarnessTerms, locked_requirements
from autograder.cli.bootstrap import read_lock
from autograder.course.new_course import ASSIGNMENT, make_course
from autograder.course.paths import ROOT
from autograder.grade.sandbox.isolation import LEVELS
from autograder.grade.submission.notebook_grade import CellGrade, NotebookGrade
from autograder.grade.wire.limits import Limits
from tests.grade import small_course

WORDS = {"enum": ["visible", "hidden", "after_due_date", "after_published"]}
FORMATS = {"enum": ["text", "html", "simple_format", "md", "ansi"]}
# What Gradescope publishes (gradescope/autograder_samples, docs/specs.md), so far as it is used here; nothing else may stand there.
SCHEMA = {
    "type": "object",
    "required": ["score", "tests"],
    "additionalProperties": False,
    "properties": {
        "score": {"type": "number"}, "execution_time": {"type": "number"}, "output": {"type": "string"}, "output_format": FORMATS,
        "test_output_format": FORMATS, "visibility": WORDS, "stdout_visibility": WORDS, "extra_data": {"type": "object"},
        "tests": {"type": "array", "items": {
            "type": "object", "additionalProperties": False,
            "properties": {
                "score": {"type": "number"}, "max_score": {"type": "number"}, "status": {"enum": ["passed", "failed"]},
                "name": {"type": "string"}, "output": {"type": "string"}, "output_format": FORMATS, "visibility": WORDS,
                "extra_data": {"type": "object"},
            },
        }},
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """The course's zip, unpacked where Gradescope unpacks it; it grades at any level, so that every machine can try it."""
    folder = tmp_path_factory.mktemp("gradescope")
    make_course(folder / "course")
    words = ["harness", "gradescope", ASSIGNMENT, "--course", str(folder / "course"), "--out", str(folder / "made.zip")]
    assert 0 == cli.main([*words, "--isolation", "process", "--hidden-tests", "after_due_date"])
    with zipfile.ZipFile(folder / "made.zip") as archive:
        archive.extractall(folder / "source")
        modes = {info.filename: info.external_attr >> 16 for info in archive.infolist()}
    return folder, modes


def submitted(folder: Path, files: dict[str, bytes]) -> dict:
    """Return the results of a submission of these files, as a reader of JSON finds them."""
    shutil.rmtree(folder / "submission", ignore_errors=True)
    for name, data in files.items():
        (folder / "submission" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "submission" / name).write_bytes(data)
    (folder / "submission").mkdir(exist_ok=True)
    graded_submission.main(folder)
    results = json.loads((folder / "results" / "results.json").read_text("utf-8"))
    jsonschema.validate(results, SCHEMA)
    return results


def hand_in(folder: Path, student: str, old: str = "", new: str = "") -> bytes:
    """Return the submission of one of the course's invented students, with a change."""
    text = (folder / "course" / "submitted" / student / ASSIGNMENT / f"{ASSIGNMENT}.ipynb").read_text("utf-8")
    assert old in text
    return text.replace(old, new).encode()


@pytest.mark.thorough
def test_the_zip_has_gradescopes_form(unpacked):
    """Both programs are executable and at the top level; the zip contains sources, terms and this package, but no submissions."""
    folder, modes = unpacked
    assert {0o755} == {modes["setup.sh"], modes["run_autograder"]}
    assert f"course/source/{ASSIGNMENT}/{ASSIGNMENT}.ipynb" in modes
    assert "package/autograder/grade/sandbox/host.py" in modes
    assert not [name for name in modes if "course/submitted" in name or "__pycache__" in name]
    subprocess.run(["bash", "-n", folder / "source" / "setup.sh"], check=True)
    subprocess.run(["sh", "-n", folder / "source" / "run_autograder"], check=True)


@pytest.mark.thorough
def test_right_and_wrong_work_get_what_grade_gives(unpacked):
    """Each test has its points; a hidden test has its name and is hidden until the due date; manual cells have no points yet."""
    folder, _ = unpacked
    right = submitted(folder, {f"{ASSIGNMENT}.ipynb": hand_in(folder, "ann")})
    tests = {test["name"]: test for test in right["tests"]}
    assert (3.0, "passed", "") == tuple(tests["test warm days"][key] for key in ("score", "status", "output"))
    assert "after_due_date" == tests["test warm days"]["visibility"]
    assert "A person grades this." == tests["summary"]["output"]
    assert {"score", "max_score", "status"}.isdisjoint(tests["summary"])
    assert 3.0 == right["score"]

    wrong = submitted(folder, {f"{ASSIGNMENT} (1).ipynb": hand_in(folder, "ben")})
    told = {test["name"]: test for test in wrong["tests"]}["test warm days"]
    assert (0.0, "failed") == (told["score"], told["status"])
    assert "A hidden test did not pass: a limit that is reached." == told["output"]
    assert "15.1" not in json.dumps(wrong)
    assert f"{ASSIGNMENT} (1).ipynb was graded as {ASSIGNMENT}.ipynb." in wrong["output"]
    assert "Graded at isolation level" in wrong["output"]


@pytest.mark.slow
def test_odd_submissions_have_results_too(unpacked):
    """An empty folder, no notebook, bytes, a nested zip, links, and a program that ends itself get no points or the right ones."""
    folder, _ = unpacked
    name = f"{ASSIGNMENT}.ipynb"
    assert "no file first.ipynb was submitted" in submitted(folder, {})["output"]
    assert 0.0 == submitted(folder, {"notes.txt": b"hello", "essay.pdf": bytes(100)})["score"]
    assert 0.0 == submitted(folder, {name: bytes(range(256))})["score"]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(f"work/{name}", hand_in(folder, "ann"))
    assert 3.0 == submitted(folder, {"work.zip": packed.getvalue()})["score"]
    ended = submitted(folder, {name: hand_in(folder, "ann", "return len(", "import os; os._exit(0); return len(")})
    assert 0.0 == ended["score"]
    assert "the process exited" in ended["tests"][0]["output"]
    forged = "open('results.json', 'w').write('{\\\\\\\"score\\\\\\\": 99}'); return len("
    assert submitted(folder, {name: hand_in(folder, "ann", "return len(", forged)})["score"] <= 3.0


@pytest.mark.thorough
def test_a_weaker_container_grades_nothing(unpacked, monkeypatch):
    """There are results with the reason but without points; submissions are not graded below the requested level."""
    folder, _ = unpacked
    for level in LEVELS.values():
        monkeypatch.setitem(vars(level), "obstacle", "it is not allowed here")
    results = submitted(folder, {f"{ASSIGNMENT}.ipynb": hand_in(folder, "ann")})
    assert (0.0, []) == (results["score"], results["tests"])
    assert "the container does not reach the isolation level 'process'" in results["output"]


def test_a_grader_that_fails_leaves_results(tmp_path):
    """`run_autograder` writes results itself if Python ends without them; those of an earlier run do not count."""
    shutil.copy(harness_zip.TEMPLATES / "run_autograder", tmp_path)
    python = tmp_path / "grader" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\nexit 1\n")
    for path in (python, tmp_path / "run_autograder"):
        path.chmod(0o755)
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "results.json").write_text('{"score": 99}')
    subprocess.run([tmp_path / "run_autograder"], cwd="/", check=True, timeout=60)
    results = json.loads((tmp_path / "results" / "results.json").read_text())
    jsonschema.validate(results, SCHEMA)
    assert 0 == results["score"]
    assert "the grader itself failed" in results["output"]


def test_what_a_submission_writes_cannot_break_the_results():
    """Control characters, lone surrogates, megabytes of text: valid JSON, at a length that can be read."""
    source = small_course.source(small_course.answer("f", "1"), small_course.graded_cell("test_f", "assert f"))
    reason = "\x1b]8;;http://example.org\x07\udc80\x00" + "x" * 10**6
    cell = CellGrade(status="incorrect", points=0.0, max_points=1, reason=reason)
    graded = NotebookGrade(cells={"test_f": cell}, comments={}, notebook="", ended=reason)
    results = results_of({"small": source}, {"small": graded}, terms(), [reason])
    read = json.loads(json.dumps(results, allow_nan=False).encode("ascii"))
    jsonschema.validate(read, SCHEMA)
    read["output"].encode()
    assert len(read["output"]) < LONGEST_OUTPUT + 20
    assert "\x1b]" not in read["tests"][0]["output"]
    jsonschema.validate(failed_results(reason), SCHEMA)


def terms(**changed: str) -> HarnessTerms:
    """Return terms as the command makes them."""
    words = {"assignment": "small", "isolation": "process", "hidden_tests": "name", "visibility": "visible"} | changed
    return HarnessTerms(limits=Limits(), plans={}, **words)


@pytest.mark.parametrize(("level", "told"), [
    ("none", "A hidden test did not pass."),
    ("name", "A hidden test did not pass: the empty list."),
    ("message", "A hidden test did not pass: the empty list.\nAssertionError: secret"),
])  # fmt: skip
def test_hidden_tests_are_told_as_the_teacher_set(level, told):
    """The message, and the time at which it is visible; a test without a hidden part is always visible."""
    text = "assert f\n### BEGIN HIDDEN TESTS: the empty list\nassert f([])\n### END HIDDEN TESTS"
    cells = [small_course.graded_cell("hides", text), small_course.graded_cell("open", "assert f")]
    source = small_course.source(small_course.answer("f", "1"), *cells)
    failed = CellGrade(status="incorrect", points=0.0, max_points=1, reason="AssertionError: secret", hidden=True)
    graded = NotebookGrade(
        cells={"hides": failed, "open": CellGrade(status="correct", points=1.0, max_points=1)}, comments={}, notebook=""
    )
    hides, seen = results_of({"small": source}, {"small": graded}, terms(hidden_tests=level, visibility="hidden"), [])[
        "tests"
    ]
    assert (told, "hidden") == (hides["output"], hides["visibility"])
    assert "visible" == seen["visibility"]


def test_the_container_gets_the_versions_of_the_lock():
    """Each package that grading needs, at the version that uv has locked, without packages of the tests."""
    locked = {
        name.lower().replace("_", "-"): version for name, version in read_lock(ROOT / "requirements").versions.items()
    }
    found = locked_requirements()
    assert {"torch", "nbgrader", "msgspec", "psutil"} <= set(found)
    assert {"pytest", "ruff", "playwright", "copydetect"}.isdisjoint(found)
    assert {} == {name: version for name, version in found.items() if locked.get(name) != version}


def test_bad_input_is_one_sentence(tmp_path, capsys, monkeypatch):
    """A missing course or an invalid requirements file: nothing is written."""
    monkeypatch.chdir(tmp_path)
    assert 2 == cli.main(["harness", "gradescope", "first", "--course", "nowhere"])
    make_course(tmp_path / "course")
    words = ["harness", "gradescope", "first", "--course", "course", "--requirements"]
    assert 2 == cli.main([*words, "missing.txt"])
    (tmp_path / "bytes.txt").write_bytes(b"\xff")
    assert 2 == cli.main([*words, "bytes.txt"])
    said = capsys.readouterr().err.splitlines()
    assert 3 == len(said), said
    assert "Name a pip requirements file" in said[1]
    assert [] == list(tmp_path.glob("*.zip"))


def test_the_weakest_allowed_level_is_used_if_no_other_is_reached(monkeypatch):
    """A container without bubblewrap, and without a second user, grades at the level that the terms allow."""
    levels = {name: SimpleNamespace(name=name, obstacle=name != "process") for name in LEVELS}
    monkeypatch.setattr(graded_submission, "LEVELS", levels)
    assert "process" == graded_submission.strongest_level("process").name
