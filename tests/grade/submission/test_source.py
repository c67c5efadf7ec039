"""A source is read as nbgrader releases it: with the course's own settings, header, footer and preprocessors.

Oracle: `generate_assignment` of nbgrader itself, with its release and its rows in the gradebook.
"""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import nbformat
import pytest
from nbgrader.api import Gradebook
from nbgrader.apps import NbGraderAPI
from nbgrader.preprocessors import ClearHiddenTests, NbGraderPreprocessor, SaveCells
from traitlets.config import Config, PyFileConfigLoader

from autograder.course.canonical import KERNEL
from autograder.errors import InputError
from autograder.grade.sandbox.isolation import LEVELS
from autograder.grade.submission.teacher.source import AssignmentSource, files_next_to_source
from autograder.grade.submission.teacher.source_reader import SourceReader
from tests.grade.conftest import LIMITS
from tests.grade.plain_course import known
from tests.grade.small_course import KNOWN, answer, graded_cell, source, source_of, teacher

HIDE = """
from nbgrader.preprocessors import NbGraderPreprocessor

class HideChecks(NbGraderPreprocessor):
    def preprocess_cell(self, cell, resources, index):
        lines = [line for line in cell.source.split("\\n") if "# secret" not in line]
        cell.source = "\\n".join(lines)
        return cell, resources

class DropTests(NbGraderPreprocessor):
    def preprocess(self, nb, resources):
        nb.cells = [cell for cell in nb.cells if cell.metadata.get("nbgrader", {}).get("grade_id") != "t2"]
        return nb, resources
"""
SETTINGS = {
    "nbgrader's own": "",
    "other marks": """
c.ClearSolutions.begin_solution_delimeter = "SOLUTION >"
c.ClearSolutions.end_solution_delimeter = "< SOLUTION"
c.ClearHiddenTests.begin_test_delimeter = "SECRET >"
c.ClearHiddenTests.end_test_delimeter = "< SECRET"
c.ClearMarkScheme.begin_mark_scheme_delimeter = "SCHEME >"
c.ClearMarkScheme.end_mark_scheme_delimeter = "< SCHEME"
""",
    "stubs": 'c.ClearSolutions.code_stub = {"python": "..."}\nc.ClearSolutions.text_stub = "Write here."',
    "a stub as nbgrader had it before": 'c.ClearSolutions.code_stub = "pass"',
    "nothing enforced": "c.ClearHiddenTests.enforce_metadata = False\nc.ClearSolutions.enforce_metadata = False",
    "hidden tests are kept": "c.ClearHiddenTests.enabled = False",
    "a preprocessor of the course's own": 'c.GenerateAssignment.preprocessors.append("hide.HideChecks")',
    "another list": """
from nbgrader.preprocessors import *
import hide
c.GenerateAssignment.preprocessors = [
    IncludeHeaderFooter, LockCells, ClearSolutions, "nbgrader.preprocessors.ComputeChecksums", SaveCells,
    hide.HideChecks, hide.DropTests, "nbgrader.preprocessors.ComputeChecksums"]
""",
    "header and footer": 'c.IncludeHeaderFooter.header = "parts/h.ipynb"\nc.IncludeHeaderFooter.footer = "f.ipynb"',
}
CELLS = [
    nbformat.v4.new_markdown_cell("# Title\n\n---"),
    teacher("import math"),
    nbformat.v4.new_code_cell("RATE = 2  # secret", metadata={"nbgrader": KNOWN | {"grade_id": "setup", "locked": True}}),
    answer("a", "def f(x):\n    return x"),
    known(nbformat.v4.new_code_cell("y = 1\n# SOLUTION >\nz = 2\n# < SOLUTION"), "b", solution=True),
    graded_cell("t", "assert f(1) == 1\n### BEGIN HIDDEN TESTS: one\nassert f(2) == 2\n### END HIDDEN TESTS\nassert f(3)"),
    graded_cell("t2", "assert f(1)\n# SECRET > two\nassert f(9)\n# < SECRET\nassert f(4)  # secret"),
    known(nbformat.v4.new_markdown_cell("Because."), "w", solution=True, points=2),
    nbformat.v4.new_markdown_cell(
        "Draw.\n=== BEGIN MARK SCHEME ===\nOne point.\n=== END MARK SCHEME ===\nSCHEME >\nTwo.\n< SCHEME",
        metadata={"nbgrader": KNOWN | {"grade_id": "task", "task": True, "locked": True, "points": 3}},
    ),
]  # fmt: skip


def course(folder, settings):
    """Write a course with one assignment and returns its settings."""
    written = {
        "source/one/n.ipynb": CELLS,
        "parts/h.ipynb": [teacher("import sys"), answer("h", "header = 1")],
        "f.ipynb": [graded_cell("end", "assert header == 1")],
    }
    for name, cells in written.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=KERNEL), folder / name)
    (folder / "hide.py").write_text(HIDE)
    (folder / "nbgrader_config.py").write_text(f"c = get_config()\n{settings}")
    config = PyFileConfigLoader("nbgrader_config.py", path=str(folder)).load_config()
    config.CourseDirectory.root = str(folder)
    config.CourseDirectory.db_url = f"sqlite:///{folder / 'gradebook.db'}"
    return config


def read(folder, config):
    """Return the source as the grader reads it."""
    with SourceReader(LEVELS["process"], LIMITS, config, folder) as reader:
        path = folder / "source" / "one" / "n.ipynb"
        return reader.read(path, files_next_to_source(path.parent)[0])


@pytest.mark.parametrize("name", SETTINGS)
def test_what_is_released_and_graded_is_what_nbgrader_releases_and_grades(tmp_path, monkeypatch, name):
    """Text, hidden text, solutions' stubs, header and footer, and each checksum in the gradebook."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PATH", os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]))
    sys.modules.pop("hide", None)
    config = course(tmp_path, SETTINGS[name])
    found = read(tmp_path, config)
    stock = NbGraderAPI(config=config).generate_assignment("one")
    assert stock["success"], stock
    released = nbformat.read(tmp_path / "release" / "one" / "n.ipynb", 4)
    assert [(c.cell_type, c.source) for c in released.cells if c.source] == [
        (cell.cell.cell_type, cell.visible) for cell in found.cells if cell.visible
    ]
    with Gradebook(config.CourseDirectory.db_url) as gradebook:
        cells = gradebook.find_notebook("n", "one").source_cells
        stored = {cell.name: (cell.source, cell.checksum, cell.locked) for cell in cells}
    ours = {
        cell.id: (cell.text, cell.cell.metadata.nbgrader.checksum, cell.is_locked) for cell in found.cells if cell.id
    }
    assert stored == ours


def test_hidden_parts_are_found_by_the_courses_own_rule(tmp_path, monkeypatch):
    """The lines and the name of a part, for any delimiter of the course, and with the course's own preprocessor."""
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("hide", None)
    parts = {}
    for name in ("nbgrader's own", "other marks", "a preprocessor of the course's own", "another list"):
        found = read(tmp_path, course(tmp_path, SETTINGS[name])).by_id
        parts[name] = {one: tuple(map(msgspec.structs.astuple, found[one].hidden)) for one in ("t", "t2", "task")}
    assert {
        "nbgrader's own": {"t": ((2, 4, "one"),), "t2": (), "task": ((2, 4, ""),)},
        "other marks": {"t": (), "t2": ((2, 4, "two"),), "task": ((5, 7, ""),)},
        "a preprocessor of the course's own": {"t": ((2, 4, "one"),), "t2": ((5, 5, ""),), "task": ((2, 4, ""),)},
        "another list": {"t": (), "t2": ((1, 5, ""),), "task": ()},
    } == parts


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("a\n### BEGIN HIDDEN TESTS\na\n### END HIDDEN TESTS", {1, 2, 3, 4}),  # which of the equal lines is shown?
        ("### BEGIN HIDDEN TESTS\na\n### END HIDDEN TESTS\nb\n### BEGIN HIDDEN TESTS\nc\n### END HIDDEN TESTS", {1, 2, 3, 5, 6, 7}),
        ("\n\na\n### BEGIN HIDDEN TESTS\nb\n### END HIDDEN TESTS\nc", {2, 3, 4}),  # IPython removes the blank lines
        ("%%time\na\n### BEGIN HIDDEN TESTS\nb\n### END HIDDEN TESTS", {1, 2, 3, 4, 5}),
        ("a\nb", set()),
    ],
)  # fmt: skip
def test_a_line_counts_as_hidden_where_that_is_in_doubt(text, hidden):
    """Lines are counted as IPython runs them; the message of a line that may be hidden is not shown."""
    [cell] = source(graded_cell("t", text)).cells
    lines = range(1, len(text.strip().split("\n")) + 1)
    assert hidden == {line for line in lines if any(first <= line <= last for first, last in cell.hidden_lines)}


def test_a_source_crosses_as_plain_data():
    """Another process reads the same source, and creates the same variants."""
    tags = {"tags": ["stub"]}
    stub = nbformat.v4.new_code_cell(
        "def g():\n    return 0", metadata=tags | {"nbgrader": KNOWN | {"grade_id": "g", "solution": True}}
    )
    author = nbformat.v4.new_code_cell("# answer: one\ndef g():\n    return 1", metadata={"tags": ["answer"]})
    vary = nbformat.v4.new_code_cell("w = torch.tensor([1.0, 2.0])", metadata={"tags": ["vary"]})
    of = source(vary, stub, author, *CELLS[3:], files={"data.csv": b"1"})
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(of), type=AssignmentSource)
    assert (of.digest, of.cells, of.files) == (again.digest, again.cells, again.files)
    assert "# answer: one\ndef g():\n    return 1" == again.by_id["g"].full
    assert of.variant(7).cells == again.variant(7).cells
    assert of.variant(7).cells[0].text == of.variant(7).cells[0].visible != of.cells[0].text
    assert (False, True) == (again.is_variant, again.variant(7).is_variant)


@pytest.mark.parametrize("module", ["source", "source_reader"])
def test_reading_a_source_imports_no_torch(module):
    """So that the process which writes the gradebook starts soon."""
    code = f"import sys, autograder.grade.submission.teacher.{module}; print('torch' in sys.modules)"
    assert "False\n" == subprocess.check_output([sys.executable, "-c", code], text=True)


def test_a_source_is_read_without_torch(tmp_path):
    """Reading a source imports no PyTorch; only judging needs it."""
    (tmp_path / "bundle").write_bytes(msgspec.msgpack.encode(source(*CELLS)))
    code = (
        "import sys, msgspec; from autograder.grade.submission.teacher.source import *\n"
        f"data = open({str(tmp_path / 'bundle')!r}, 'rb').read()\n"
        "source = msgspec.msgpack.decode(data, type=AssignmentSource)\n"
        "print(len(source.cells), len(source.digest), 'torch' in sys.modules, 'nbgrader' in sys.modules)"
    )
    assert f"{len(CELLS)} 64 False False\n" == subprocess.check_output([sys.executable, "-c", code], text=True)


@pytest.mark.parametrize(
    ("cells", "settings", "said"),
    [
        ([graded_cell("t", "### BEGIN HIDDEN TESTS")], {}, "ClearHiddenTests says 'No end hidden tests statement found'"),
        ([teacher("### BEGIN HIDDEN TESTS\n### END HIDDEN TESTS")], {}, 'ClearHiddenTests says "Hidden test region'),
        ([graded_cell("t", ""), graded_cell("t", "")], {}, "CheckCellMetadata says 'Duplicate grade id: t'"),
        ([graded_cell("t", "", nbgrader={"schema_version": 1})], {}, r"\(expected 3\)': run `nbgrader update \.`"),
        ([graded_cell("t", "")], {"GenerateAssignment": {"preprocessors": [ClearHiddenTests]}}, "has no SaveCells"),
        ([graded_cell("t", "")], {"IncludeHeaderFooter": {"header": "gone.ipynb"}}, "No such file or directory: 'gone"),
        ([graded_cell("t", "", autograder={"process": "three"})], {}, "the cell 't' has the metadata"),
    ],
)  # fmt: skip
def test_what_nbgrader_would_not_release_is_one_sentence(cells, settings, said):
    """It names the notebook or the cell, and states the reason."""
    with pytest.raises(InputError, match=said.replace("[", r"\[")):
        source_of("n", nbformat.v4.new_notebook(cells=cells), settings=Config(settings))


def test_a_preprocessor_may_be_any_callable_and_fail():
    """As nbconvert takes it: a class, the name of a class, or a function."""

    class Broken(NbGraderPreprocessor):
        def preprocess(self, nb, resources):
            raise KeyError("gone")

    def upper(nb, resources):
        for cell in nb.cells:
            cell.source = cell.source.upper()
        return nb, resources

    def read_with(*steps):
        settings = Config(GenerateAssignment={"preprocessors": [*steps, SaveCells]})
        return source_of("n", nbformat.v4.new_notebook(cells=[teacher("x")]), settings=settings)

    assert "X" == read_with(upper).cells[0].visible
    with pytest.raises(InputError, match="nbgrader's Broken says \"'gone'\""):
        read_with(Broken)


def test_files_that_students_may_replace_are_kept_apart():
    """`Autograde.exclude_overwriting` names them by assignment."""
    from autograder.grade.submission.teacher.source_reader import bundle_of

    settings = Config(Autograde={"exclude_overwriting": {"one": ["helper.py", "./data/a.csv"], "two": ["b.csv"]}})
    files = {"helper.py": b"1", "data/a.csv": b"2", "b.csv": b"3"}
    bundle = bundle_of("n", nbformat.v4.new_notebook(cells=CELLS), files, settings, Path("one"))
    assert ({"b.csv"}, {"helper.py", "data/a.csv"}) == (bundle.files.keys(), bundle.student_files.keys())
