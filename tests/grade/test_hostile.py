"""A third of the hostile class, with every kind of threat, between right and wrong controls. All of it: tests/benchmarks."""

import json

import pytest

from autograder.grade.batch.assignment import Options, grade_assignment
from autograder.grade.wire.limits import MEBIBYTE, Limits
from tests.grade.hostile.lesson import ASSIGNMENT, SECRET
from tests.grade.hostile.school import FULL, enrol, listener, right_beside, wrong_beside

LIMITS = Limits(cell_seconds=2, submission_seconds=8, memory_bytes=512 * MEBIBYTE)
TELLING = (
    "swallow the traceback",
    "write the gradebook",
    "end with status 0",
    "send a pickle",
    "write into every open file",
    "patch the worker that answers",
    "kill everybody",
    "objects that equal everything",
    "tensor subclass",
    "function mode left open",
    "replaced functions",
    "replaced check",
    "no asserts",
    "visible cases by heart",
    "right every second time",
    "frames",
    "own memory",
    "every file",
    "network",
    "environment",
    "loop that swallows interrupts",
    "memory",
    "a daemon that outlives the run",
    "segfault",
    "a cell that forks and comes back",
    "start-up files",
    "files for the next one",
    "test cells deleted",
    "points raised",
    "schema version 99",
    "everything twice",
    "tests made markdown",
    "truncated",
    "deeply nested JSON",
    "too large",
    "a pipe",
    "a link to the source",
    "links beside it",
    "modules beside it",
    "a warning in every call",
    "another order",
    "another way",
    "one left untouched",
)


@pytest.fixture(scope="module")
def school(bubblewrap, tmp_path_factory):
    """A class folder after grading, its rows by student, and its cases."""
    folder = tmp_path_factory.mktemp("school")
    cases = enrol(folder, only=TELLING)
    with pytest.MonkeyPatch.context() as patch, listener():
        patch.setenv("GRADERS_TOKEN", "secret")
        rows = grade_assignment(ASSIGNMENT, folder, Options(limits=LIMITS, jobs=2, feedback="name"))
    return folder, {row.student: row for row in rows}, cases


def test_every_attack_is_contained_and_all_honest_work_is_right(school):
    """No case has more or less than it deserves, whatever it tried."""
    _, rows, cases = school
    assert {case.name: case.deserved for case in cases} == {case.name: rows[case.student].points for case in cases}


def test_no_attack_touches_its_neighbours(school):
    """The right work graded just before has full points, the wrong work just after has none."""
    _, rows, cases = school
    found = {(rows[right_beside(case)].points, rows[wrong_beside(case)].points) for case in cases}
    assert {(FULL, 0.0)} == found


def test_every_grade_has_a_reason(school):
    """Wherever points are missing, the grade says why."""
    _, rows, _ = school
    cells = [cell for row in rows.values() for cells in row.cells.values() for cell in cells.values()]
    assert [] == [cell for cell in cells if cell.points != cell.max_points and not cell.reason]


def test_nothing_secret_was_seen(school):
    """No submission's output shows what it must not see, and no feedback page shows the hidden number."""
    folder, _, cases = school
    for case in cases:
        for path in (folder / "autograded" / case.student).rglob("*.ipynb"):
            outputs = [cell.get("outputs", []) for cell in json.loads(path.read_text("utf-8"))["cells"]]
            assert '"LEAKED' not in json.dumps(outputs), case.name
    pages = [path for path in (folder / "feedback").rglob("*.html") if not path.parent.parent.name.endswith("-1")]
    assert len(pages) > 50
    # Honest answers hold the number themselves.
    assert [] == [page for page in pages if "honest" not in str(page) and str(SECRET) in page.read_text("utf-8")]
