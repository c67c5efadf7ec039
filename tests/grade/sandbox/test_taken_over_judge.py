"""A judge under an attacker's control changes only the plain-data points of its own submission, and finds no secret.

A teacher's test runs the text that an answer returns, through an alias that no static rule detects; so each submission
has its own judge.
"""

import os
import re
import secrets
import struct
import time
from dataclasses import dataclass, replace

import pytest

from autograder.grade.backends.grading_job import GradingTerms, Job
from autograder.grade.backends.local_processes import LocalBackend
from autograder.grade.sandbox.isolation import LEVELS
from autograder.grade.submission.teacher.source import plan_of_source
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
    "results of other kinds": f"{FORGE}reply(M.Recorded(b'x'))\nreply(M.CellRan(b'[]', None, 1e9))\nreply(M.Done())",
    "a length of 2 ** 63": f"{FORGE}me.connection.sendall(struct.pack('!Q', 2 ** 63))",
    "nesting": f"{FORGE}raw(b'\\x91' * 1_000_000 + b'\\xc0')",
    "outputs of 60 MB": f"{FORGE}reply(M.TestRan(b'[{{\"a\":[' + b'[],' * 20_000_000 + b'[]]}}]', 'passed', 1e9))",
    "outputs that are not JSON": f"{FORGE}reply(M.TestRan(b'[' * 100_000, 'passed', 1e9))",
    "a long reason": f"{FORGE}reply(M.TestRan(b'[]', 'incorrect', 0.0, 'x' * 60_000_000))",
    "questions without end": f"{FORGE}while True:\n    me._ask_lane(M.DescribeName('f'))",
    "a call in a check's group": FORGE + "for group in range(0, 1 << 20, 1 << 8):\n    me._ask_lane(M.MakeCall('square', None, group))",
    "a recording that takes forever": f"{FORGE}me._ask_lane(M.RecordAttempt(M.Attempt(0, None), 1e300))",
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
    terms = GradingTerms({COURSE.name: COURSE}, level.name, SHORT, 7)
    with LocalBackend(terms, 1) as lanes:
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


BEGINNING = "vQz7"
PATIENT = replace(LIMITS, cell_seconds=60, submission_seconds=120)
KINDS_OF_SECRETS = [
    "model answer", "hidden declarative", "hidden plain data", "expected value", "seed", "other submission", "own",
]  # fmt: skip
NOT_FOR_A_JUDGE = {"model answer", "expected value", "other submission"}

SEARCH = r"""
import ctypes, gc, os, re, socket, stat
PATTERNS = [re.compile(form) for form in (rb"[v][Q][z][7][0-9a-f]{4,20}", rb"SEED", rb"REVERSED")]
HITS, CHUNK, PAGE = set(), 1 << 16, 1 << 12
LIBC = ctypes.CDLL(None)
LIBC.write.argtypes = ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t
LIBC.sbrk.restype = ctypes.c_void_p
OUT, IN = os.pipe()
def look(place, data):
    for pattern in PATTERNS:
        HITS.update(f"<{place}:{hit.decode()}>" for hit in pattern.findall(data))
def copied(address, size):  # through a pipe: the kernel refuses an address that cannot be read, instead of ending the process
    count = LIBC.write(IN, address, size)
    return os.read(OUT, count) if count > 0 else b""
def chunk(number):
    whole = copied(number * CHUNK, CHUNK)
    if len(whole) == CHUNK:
        return whole
    return b"".join(copied(number * CHUNK + page, PAGE) for page in range(0, CHUNK, PAGE))
def mapped():
    with open("/proc/self/maps") as maps:
        for line in maps:
            addresses, rights, _, _, _, *path = line.split()
            if rights[0] == "r" and (rights[1] == "w" or not path or path[0][0] != "/"):  # not a library's text
                start, stop = (int(address, 16) for address in addresses.split("-"))
                yield from range(start // CHUNK, -(-stop // CHUNK))
def reached():  # with an empty /proc: the memory around every object, the heap and the stack
    blocks = [bytes(1 << power) for power in range(8, 27)]
    starts = [*map(id, gc.get_objects()), *map(id, blocks), LIBC.sbrk(0) - 1]
    starts.append(ctypes.c_void_p.in_dll(LIBC, "__libc_stack_end").value)
    waiting, seen = {start // CHUNK for start in starts}, set()
    while waiting:
        number = waiting.pop()
        seen.add(number)
        if any(copied(number * CHUNK + page, 1) for page in range(0, CHUNK, PAGE)):
            yield number
            waiting |= set(range(number - 16, number + 17)) - seen
def memory():
    before, tail = 0, b""
    for number in sorted(set(mapped() if os.path.exists("/proc/self/maps") else reached())):
        data = chunk(number)
        look("memory", (tail if number == before + 1 else b"") + data)
        before, tail = number, data[-64:]
def descriptors():
    for number in range(256):
        try:
            look("descriptors", os.pread(number, 4 << 20, 0))
        except OSError:
            pass
        try:
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                with socket.socket(fileno=os.dup(number)) as one:
                    look("descriptors", one.recv(1 << 22, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except OSError:
            pass
def read(path):
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb", 0) as file:
            look("files", file.read(4 << 20) or b"")
    except OSError:
        pass
def files():
    for root in (".", os.environ["HOME"], "/tmp", "/dev/shm", "/var/tmp", "/run", "/home"):
        for folder, _, names in os.walk(root):
            for path in (os.path.join(folder, name) for name in names):
                if os.path.exists(path) and os.stat(path).st_mtime >= SINCE:
                    read(path)
    for process in filter(str.isdigit, os.listdir("/proc")):
        read(f"/proc/{process}/cmdline")
        read(f"/proc/{process}/environ")
        if int(process) == os.getpid():
            continue
        for name in ("mem", "fd"):
            if os.access(f"/proc/{process}/{name}", os.R_OK):
                HITS.add(f"<files:{name}>")
def search():
    kept = open("kept", "w+")
    kept.write(OWN)
    kept.flush()
    memory()
    descriptors()
    if FILES:
        files()
    return " ".join(sorted(HITS))
"""


@pytest.fixture(scope="module", params=EACH_LEVEL)
def found(request):
    """The secrets that a submission and a judge found at a level, by the place where they were found."""
    level = LEVELS[request.param]
    if level.obstacle:
        pytest.skip(level.obstacle)
    markers = {kind: BEGINNING + secrets.token_hex(10) for kind in KINDS_OF_SECRETS}
    seed = int.from_bytes(markers["seed"][:8].encode())  # a message with the seed has these eight characters, too
    course, search = _course(markers), _search(markers["own"], seed, reaches_files=level.name != "process")
    submissions = {
        "other": {"g": f'kept = "{markers["other submission"]}"\ndef g():\n    return f"other = {{kept!r}}"'},
        "searching": {
            "f": f"{search}\ndef f(d):\n    return d",
            "g": "def g():\n    search()\n    return ''",
            "h": "print(search())",
        },
        "judge": {"g": f"def g():\n    return {search + 'print(search())'!r}"},
    }
    plan = plan_of_source(course)
    assert {"declared": "declarative", "plain": "plain data"} == plan.kinds
    jobs = [Job(student, course.name, hand_in(course, given), {}, plan) for student, given in submissions.items()]
    terms = GradingTerms({course.name: course}, level.name, PATIENT, seed)
    with LocalBackend(terms, 1) as lanes:
        grades = {result.student: result.grade for result in lanes.grade(jobs)}
    forms = {kind: [marker] for kind, marker in markers.items()} | {"seed": _forms(seed)}
    return level.name, {
        student: {(place, _kind(marker, forms)) for place, marker in re.findall(r"<(\w+):(\w+)>", printed(grade))}
        for student, grade in grades.items()
    }


def _forms(seed):
    """Return the seed as a message has it, as the processor has it, and in digits."""
    as_text = seed.to_bytes(8).decode()
    return [as_text, as_text[::-1], str(seed)]


def _kind(found, forms):
    """Return the kind of a marker, of which a part may have been overwritten in memory."""
    return next((kind for kind, known in forms.items() if any(form.startswith(found) for form in known)), found)


def _course(markers):
    """Return a source with a marker in each of its secrets; the expected tensor's bytes are one themselves."""
    expected = list(struct.unpack("3d", markers["expected value"].encode()))
    declared = f"""from autograder.check import check, leaf
### BEGIN HIDDEN TESTS
import torch
def right(d):
    "{markers["hidden declarative"]}"
    return torch.cat([d * d, torch.tensor({expected}, dtype=d.dtype)])
check("f", like=right, d=leaf(3))
### END HIDDEN TESTS"""
    plain = f"""import builtins
### BEGIN HIDDEN TESTS
note = "{markers["hidden plain data"]}"
getattr(builtins, "ex" + "ec")(g())
### END HIDDEN TESTS"""
    return source(
        answer("f", f"def f(d):\n    return '{markers['model answer']}'"),
        graded_cell("declared", declared),
        answer("g", f"def g():\n    return '# {markers['model answer']}'"),
        graded_cell("plain", plain),
        answer("h", f"'{markers['model answer']}'"),
    )


def _search(own, seed, *, reaches_files):
    settings = f"OWN, SINCE, FILES = '{own}', {time.time() - 5}, {reaches_files}"
    code = SEARCH
    for name, form in zip(("REVERSED", "SEED"), _forms(seed)[1:], strict=True):
        code = code.replace(name, "".join(f"[{letter}]" for letter in form))
    return f"{settings}\n{code}"


def test_a_submission_finds_no_secret(found):
    """A submission finds its own marker everywhere, and no hidden test, model answer, expected value, seed or other submission."""
    level, by_student = found
    places = {"memory", "descriptors", *(["files"] if level != "process" else [])}
    assert {(place, "own") for place in places} == by_student["searching"]


def test_a_judge_that_was_taken_over_finds_its_own_tests_only(found):
    """A judge finds the test that it runs, and no model answer, no plan's expected value and no other submission."""
    level, by_student = found
    assert {("memory", "own"), ("descriptors", "own"), ("memory", "hidden plain data")} <= by_student["judge"]
    assert level == "process" or ("files", "own") in by_student["judge"]
    assert not NOT_FOR_A_JUDGE & {kind for _, kind in by_student["judge"]}
