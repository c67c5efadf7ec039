"""Neither a submission nor a judge that runs a submission's code finds a secret in its memory, its descriptors or the files it reaches.

Each secret holds a random marker with one common beginning. The searching code spells its pattern so that it does not match itself.
"""

import re
import secrets
import struct
import time
from dataclasses import replace

import pytest

from autograder.grade.sandbox.isolation import LEVELS
from autograder.grade.submission.teacher.grading_plan import plan_of_source
from autograder.grade.where.grading_job import GradingTerms, Job
from autograder.grade.where.local_processes import LocalBackend
from tests.grade.conftest import EACH_LEVEL, LIMITS
from tests.grade.small_course import answer, graded_cell, hand_in, printed, source

BEGINNING = "vQz7"
PATIENT = replace(LIMITS, cell_seconds=60, submission_seconds=120)
KINDS = ["model answer", "hidden declarative", "hidden plain data", "expected value", "seed", "other submission", "own"]
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
    markers = {kind: BEGINNING + secrets.token_hex(10) for kind in KINDS}
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
    terms = GradingTerms({course.name: course}, level, PATIENT, seed)
    with LocalBackend(level, 1) as backend, backend.graders(terms) as lanes:
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
