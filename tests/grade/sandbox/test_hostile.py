"""The hostile class, every kind of threat in it, between right and wrong controls: a dozen always, all of it where slow tests run."""

import json

import pytest

from autograder.grade.batch.assignment import Options, grade_assignment
from autograder.grade.wire.limits import MEBIBYTE, Limits
from tests.grade.hostile.honest import HONEST
from tests.grade.hostile.lesson import ASSIGNMENT, SECRET
from tests.grade.hostile.odd_files import ODD
from tests.grade.hostile.school import EVERY_ATTACK, FULL, enrol, listener, right_beside, wrong_beside
from tests.stored import assert_stored

LIMITS = Limits(cell_seconds=2, submission_seconds=8, memory_bytes=512 * MEBIBYTE)
FEW = (
    "swallow the traceback", "patch the worker that answers", "kill everybody", "visible cases by heart", "own memory",
    "network", "loop that swallows interrupts", "segfault", "test cells deleted", "too large", "a link to the source",
    "another way",
)  # fmt: skip
"""One of each kind of threat, and one honest oddity; the whole class is slow."""
EVERY = [*(attack.name for attack in EVERY_ATTACK), *ODD, *HONEST]

pytestmark = pytest.mark.parametrize(
    "school",
    [
        pytest.param(FEW, id="few"),
        pytest.param([name for name in EVERY if name not in FEW], id="others", marks=pytest.mark.slow),
    ],
    indirect=True,
)


@pytest.fixture(scope="module")
def school(request, bubblewrap, tmp_path_factory):
    """A class folder after grading, its rows by student, and its cases."""
    folder = tmp_path_factory.mktemp("school")
    cases = enrol(folder, only=request.param)
    with pytest.MonkeyPatch.context() as patch, listener():
        patch.setenv("GRADERS_TOKEN", "secret")
        rows = grade_assignment(ASSIGNMENT, folder, Options(limits=LIMITS, jobs=2, feedback="name"))
    return folder, {row.student: row for row in rows}, cases


def test_every_attack_is_contained_and_all_honest_work_is_right(school):
    """No case has more or less than it deserves, whatever it tried."""
    _, rows, cases = school
    assert {case.name: case.deserved for case in cases} == {case.name: rows[case.student].points for case in cases}


def test_each_cell_has_the_stored_grade_and_reason(school):
    """For each case, each cell's state, points, line, kind of test and reason are those that were stored."""
    _, rows, cases = school
    for case in (case for case in cases if case.name != "memory"):  # it may be ended, or get a MemoryError before that
        lines = []
        for name, cell in (item for cells in rows[case.student].cells.values() for item in cells.items()):
            points, reason = str(cell.points).removesuffix(".0"), cell.reason.partition("\n")[0]
            lines.append(f"{name}: {cell.status}, {points}, line {cell.line}, {cell.kind}, {reason}")
        assert_stored("hostile.txt", case.name, "\n".join(lines))


def test_no_attack_touches_its_neighbours(school):
    """The right submission graded just before has full points, the wrong one just after has none."""
    _, rows, cases = school
    found = {(rows[right_beside(case)].points, rows[wrong_beside(case)].points) for case in cases}
    assert {(FULL, 0.0)} == found


def test_every_grade_has_a_reason(school):
    """Every grade with missing points has a reason."""
    _, rows, _ = school
    cells = [cell for row in rows.values() for cells in row.cells.values() for cell in cells.values()]
    assert [] == [cell for cell in cells if cell.points != cell.max_points and not cell.reason]


def test_nothing_secret_was_seen(school):
    """The outputs of submissions do not contain secrets, and feedback pages do not show the hidden number."""
    folder, _, cases = school
    for case in cases:
        for path in (folder / "autograded" / case.student).rglob("*.ipynb"):
            outputs = [cell.get("outputs", []) for cell in json.loads(path.read_text("utf-8"))["cells"]]
            assert '"LEAKED' not in json.dumps(outputs), case.name
    pages = [path for path in (folder / "feedback").rglob("*.html") if not path.parent.parent.name.endswith("-1")]
    assert len(pages) > len(cases)
    # Honest answers hold the number themselves.
    assert [] == [page for page in pages if "honest" not in str(page) and str(SECRET) in page.read_text("utf-8")]
