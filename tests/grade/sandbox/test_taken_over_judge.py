"""A judge under an attacker's control changes only the points of the plain-data cells of its own submission.

A teacher's test runs the text that an answer returns, through an alias that no static rule detects; so each submission
has its own judge.
"""

import os
from dataclasses import dataclass, replace

import pytest

from autograder.grade.sandbox.isolation import LEVELS
from autograder.grade.submission.teacher.grading_plan import plan_of_source
from autograder.grade.where.grading_job import GradingTerms, Job
from autograder.grade.where.local_processes import LocalBackend
from tests.grade.conftest import EACH_LEVEL, LIMITS
from tests.grade.small_course import answer, graded_cell, hand_in, points, printed, source

RUNS_TEXT = """import builtins
getattr(builtins, "ex" + "ec")(text())
assert f(1) == 2"""
DECLARED = """from autograder.check import check, leaf
check("square", like=lambda d: d * d, d=leaf(2))"""
COURSE = source(
    answer("text", "def text():\n    return ''"),
    answer("f", "def f(x):\n    return x + 1"),
    answer("square", "def square(d):\n    return d * d"),
    graded_cell("before", DECLARED, 2),
    graded_cell("opened", RUNS_TEXT, 3),
    graded_cell("plain", "assert f(5) == 6", 4),
    graded_cell("inside", "assert id(f) and f(2) == 3", 5),
    graded_cell("after", DECLARED.replace("leaf(2)", "leaf(3)"), 6),
)
SHORT = replace(LIMITS, cell_seconds=1, submission_seconds=3)
KINDS = {
    "before": "declarative",
    "opened": "plain data",
    "plain": "plain data",
    "inside": "in process",
    "after": "declarative",
}
MOST = {"before": 2.0, "opened": 3.0, "plain": 4.0, "inside": 5.0, "after": 6.0}
WRONG = {"f": "def f(x):\n    return 0", "square": "def square(d):\n    return d"}
RIGHT = {"f": "f = lambda x: 1 + x", "square": "def square(d):\n    return d ** 2"}

FORGE = r"""
import gc, os, struct, msgspec
from autograder.grade.wire import messages as M
me = next(one for one in gc.get_objects() if type(one).__name__ == "_Worker")
def raw(payload):
    me.connection.sendall(struct.pack("!Q", len(payload)) + payload)
def reply(answer, number=None):
    raw(msgspec.msgpack.encode(M.Reply(me.number if number is None else number, answer)))
"""
PASSED = "M.TestRan(b'[]', 'passed', 1e9)"
ATTACKS = {
    "a result of 1e9 points": f"{FORGE}reply({PASSED})",
    "results for every later request": f"{FORGE}for number in range(1, 200):\n    reply({PASSED}, number)",
    "points that are not a number": f"{FORGE}reply(M.TestRan(b'[]', 'passed', float('nan')))",
    "negative points": f"{FORGE}reply(M.TestRan(b'[]', 'passed', -1e9))",
    "the grade of another process": f"{FORGE}raw(msgspec.msgpack.encode([me.number, dict(type='JobResult', points=1e9)]))",
    "results of other kinds": f"{FORGE}reply(M.Recorded([b'x']))\nreply(M.CellRan(b'[]', None, 1e9))\nreply(M.Done())",
    "a length of 2 ** 63": f"{FORGE}me.connection.sendall(struct.pack('!Q', 2 ** 63))",
    "nesting": f"{FORGE}raw(b'\\x91' * 1_000_000 + b'\\xc0')",
    "outputs of 60 MB": f"{FORGE}reply(M.TestRan(b'[{{\"a\":[' + b'[],' * 20_000_000 + b'[]]}}]', 'passed', 1e9))",
    "outputs that are not JSON": f"{FORGE}reply(M.TestRan(b'[' * 100_000, 'passed', 1e9))",
    "a long reason": f"{FORGE}reply(M.TestRan(b'[]', 'incorrect', 0.0, 'x' * 60_000_000))",
    "questions without end": f"{FORGE}while True:\n    me._ask_lane(M.DescribeName('f'))",
    "a call in a check's group": FORGE + "for group in range(0, 1 << 20, 1 << 8):\n    me._ask_lane(M.RunProgram('square', group))",
    "a recording that takes forever": f"{FORGE}me._ask_lane(M.RecordAttempts([M.Attempt(0, None)] * 1000, 1e300, -(1 << 40)))",
    "the end of its process": "import os\nos._exit(0)",
    "too much memory": "kept = []\nwhile True:\n    kept.append(b'x' * (32 << 20))",
    "too many processes": "import os, time\nwhile True:\n    if os.fork() == 0:\n        time.sleep(60)",
    "no end": "while True:\n    try:\n        while True:\n            pass\n    except BaseException:\n        pass",
}  # fmt: skip
ENDS_ALL = """
import os
for process in [-1, *(pid for pid in range(1, 1 << 16) if pid != os.getpid())]:
    try:
        os.kill(process, 9)
    except OSError:
        pass"""
LEAVES = """
import os, time
open("/tmp/left", "w").write("left")
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    time.sleep(600)
print("left")"""
LOOKS = """
import os
try:
    os.kill(-1, 0)
    print("a process")
except ProcessLookupError:
    print(os.path.exists("/tmp/left"))"""


@dataclass
class Lane:
    """One lane of a level, in which a right submission follows each other one."""

    level: str
    lanes: object

    def results(self, text, answers):
        """Return the result of a submission whose judge runs this text, and of a right one that follows it."""
        given = [
            {"text": f"def text():\n    return {text!r}", **answers},
            {"text": "def text():\n    return 'pass'", **RIGHT},
        ]
        plan = plan_of_source(COURSE)
        jobs = [
            Job(f"student {number}", COURSE.name, hand_in(COURSE, one), {}, plan) for number, one in enumerate(given)
        ]
        found = {result.student: result for result in self.lanes.grade(jobs)}
        return found["student 0"], found["student 1"]


@pytest.fixture(scope="module", params=EACH_LEVEL)
def lane(request):
    """A lane at each level that this machine reaches."""
    level = LEVELS[request.param]
    if level.obstacle:
        pytest.skip(level.obstacle)
    terms = GradingTerms({COURSE.name: COURSE}, level, SHORT, 7)
    with LocalBackend(level, 1) as backend, backend.graders(terms) as lanes:
        yield Lane(level.name, lanes)


def assert_contained(taken_over, following):
    """The plain-data cells alone may have points, at most their maximum or a person's decision; the next submission has all."""
    assert taken_over.failure == following.failure == ""
    found = points(taken_over.grade)
    assert {"before": 0.0, "inside": 0.0, "after": 0.0} == {name: found[name] for name in ("before", "inside", "after")}
    assert all(0 <= (found[name] or 0.0) <= MOST[name] for name in ("opened", "plain"))
    assert points(following.grade) == MOST


def test_a_right_and_a_wrong_submission(lane):
    """Right answers have full points, wrong ones none, and each kind of test occurs."""
    wrong, right = lane.results("pass", WRONG)
    assert plan_of_source(COURSE).kinds == KINDS
    assert points(right.grade) == MOST
    assert points(wrong.grade) == dict.fromkeys(MOST, 0.0)


@pytest.mark.parametrize("name", ATTACKS)
def test_a_judge_changes_its_own_cells_only(lane, name):
    """Forged, huge and endless answers of a judge do not change other cells, exceed the maximum, or stop other submissions."""
    taken_over, following = lane.results(ATTACKS[name], WRONG)
    assert_contained(taken_over, following)
    if name == "a result of 1e9 points":  # the attacks reach the lane: it counts, up to the cell's maximum
        assert 3.0 == points(taken_over.grade)["opened"]


def test_a_judge_reaches_no_file_of_the_teacher(lane, tmp_path):
    """A judge neither reads nor changes the course's folder, its gradebook and the package itself."""
    if lane.level == "process":
        pytest.skip("at this level files are open to every submission")
    tmp_path.chmod(0o700)
    book = tmp_path / "gradebook.db"
    book.write_text("points")
    tries = [
        (str(book), "r"),
        (str(book), "w"),
        (str(tmp_path / "new"), "w"),
        (os.path.dirname(source.__code__.co_filename) + "/new", "w"),
        ("/etc/new", "w"),
    ]
    text = f"""for path, mode in {tries}:
    try:
        open(path, mode)
        print(path, "opened")
    except OSError:
        print("refused")"""
    taken_over, following = lane.results(text, WRONG)
    assert ["refused"] * len(tries) == printed(taken_over.grade).split()
    assert ([book], "points") == (list(tmp_path.iterdir()), book.read_text())
    assert_contained(taken_over, following)


def test_a_judge_ends_no_other_process(lane):
    """A judge that ends every process which it can name ends neither the lane nor the worker, and the next has its grade."""
    if lane.level == "process":
        pytest.skip("at this level a submission ends every process of the grader's user")
    assert_contained(*lane.results(ENDS_ALL, WRONG))


def test_a_judge_leaves_nothing_for_the_next(lane):
    """A file in /tmp and a process that leaves its session are gone when the next judge looks; here, it is another student's."""
    if lane.level != "bubblewrap":
        pytest.skip("at these levels /tmp and process numbers are shared")
    left, _ = lane.results(LEAVES, RIGHT)
    looking, following = lane.results(LOOKS, RIGHT)
    assert "left" in printed(left.grade).splitlines()
    assert "False" in printed(looking.grade).splitlines()
    assert points(left.grade) == points(looking.grade) == points(following.grade) == MOST
