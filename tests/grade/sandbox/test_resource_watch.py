# ruff: noqa: E501 - a submission's text, or a row of a table, is easier to read on one line
"""All resources of a submission are counted: memory, processes, sockets, and processor time as well as real time."""

import contextlib
import multiprocessing
import os
import time

import pytest

from autograder.grade.sandbox.isolation import LEVELS
from autograder.grade.sandbox.launch import processor_shares
from autograder.grade.submission.server_client import GRACE_SECONDS, ServerClient, WorkerEnded
from autograder.grade.wire import messages
from autograder.grade.wire.limits import MEBIBYTE, Limits
from tests.grade.sandbox.test_worker import printed

LIMITS = Limits(cell_seconds=20, submission_seconds=20, processes=20, memory_bytes=300 * MEBIBYTE)

HOARDS = {
    "in several processes": """
import os, time
for _ in range(5):
    if os.fork() == 0:
        x = bytearray(100_000_000)
        time.sleep(9)
time.sleep(9)""",
    "in programs that inherit nothing": """
import subprocess, sys, time
for _ in range(4):
    subprocess.Popen([sys.executable, '-c', 'import time; x = bytearray(120_000_000); time.sleep(9)'])
time.sleep(9)""",
    "shared, filled by processes that have ended": """
import mmap, os, time
for _ in range(3):
    if os.fork() == 0:
        hoard = mmap.mmap(-1, 200_000_000)
        if os.fork() == 0:
            [hoard.write(b'x' * 1_000_000) for _ in range(200)]
            os._exit(0)
        time.sleep(9)
time.sleep(9)""",
    "shared, and not mapped but for a page": """
import ctypes, time
libc = ctypes.CDLL(None)
libc.mmap.restype, libc.mmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t] + 3 * [ctypes.c_int] + [ctypes.c_long]
size = 150_000_000
for _ in range(6):
    start = libc.mmap(None, size, 3, 0x21, -1, 0)
    ctypes.memset(start, 1, size)
    libc.munmap(ctypes.c_void_p(start + 4096), ctypes.c_size_t(size - 4096))
time.sleep(9)""",
    "of a device that gives zeros": """
import mmap, os, time
for _ in range(3):
    if os.fork() == 0:
        hoard = mmap.mmap(os.open('/dev/zero', os.O_RDWR), 200_000_000)
        [hoard.write(b'x' * 1_000_000) for _ in range(200)]
        time.sleep(9)
time.sleep(9)""",
}


@pytest.fixture(scope="module")
def small(bubblewrap):
    """A warm server whose submissions have 300 MiB."""
    with ServerClient(LEVELS["bubblewrap"], LIMITS) as server:
        yield server


@pytest.mark.parametrize("text", HOARDS.values(), ids=HOARDS)
def test_memory_of_every_kind_is_counted(small, text):
    """A submission that uses too much memory is ended with a reason."""
    with pytest.raises(WorkerEnded, match="300 MiB of memory"), small.worker({}) as worker:
        worker.ask(messages.RunCell(text), messages.CellRan)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("os.memfd_create('x')", id="files in memory"),
        pytest.param("import _posixshmem; [open(f'/dev/shm/{n}', 'wb').write(b'x' * 50_000_000) for n in range(9)]", id="shared files"),
        pytest.param("[open(f'/tmp/{n}', 'wb').write(b'x' * 50_000_000) for n in range(9)]", id="files"),
        pytest.param("[open(f'/tmp/{n}', 'wb') for n in range(200_000)]", id="empty files"),
    ],
)  # fmt: skip
def test_memory_of_files_ends_where_the_disk_does(small, text):
    """The kernel refuses files beyond the folder's size; the submission continues."""
    with small.worker({}) as worker:
        refused = printed(worker, f"import os\ntry:\n    {text}\nexcept OSError as error:\n    print(error.strerror)")
        assert refused.strip() in ("Function not implemented", "No space left on device", "Too many open files")
        assert "2\n" == printed(worker, "print(1 + 1)")


def test_honest_use_of_memory_is_within_the_limit(small):
    """Five forks with inherited memory and a list each; shared memory is used and released."""
    text = """
import mmap, multiprocessing, time
def work(number):
    rows = list(range(200_000))
    time.sleep(0.5)
    return number + len(rows)
with multiprocessing.get_context('fork').Pool(5) as pool:
    print(pool.map(work, range(5)))
with mmap.mmap(-1, 100_000_000) as shared:
    shared.write(b'x' * 100_000_000)
    time.sleep(0.5)"""
    with small.worker({}) as worker:
        assert "[200000, 200001, 200002, 200003, 200004]\n" == printed(worker, text)


def test_sockets_are_counted(small):
    """This includes sockets that wait inside another socket, when no process has opened them."""
    text = """
import os, socket, time
for _ in range(6):
    if os.fork() == 0:
        pairs = [socket.socketpair() for _ in range(100)]
        time.sleep(9)
time.sleep(9)"""
    with pytest.raises(WorkerEnded, match="256 sockets"), small.worker({}) as worker:
        worker.ask(messages.RunCell(text), messages.CellRan)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
@pytest.mark.parametrize("ended", [pytest.param("os.wait()", id="waited for"), pytest.param("", id="still there")])
def test_processor_time_of_all_processes_counts(bubblewrap, ended):
    """Two busy processes use two seconds of processor time in one second on the clock."""
    text = f"""
import os, time
while True:
    for _ in range(4):
        if os.fork() == 0:
            end = time.process_time() + 0.5
            while time.process_time() < end:
                pass
            os._exit(0)
    for _ in range(4):
        {ended or "time.sleep(1)"}"""
    limits = Limits(cell_seconds=20, submission_seconds=3)
    with (
        ServerClient(LEVELS["bubblewrap"], limits) as server,
        pytest.raises(WorkerEnded, match="3 seconds of processor time|exceeded its time limit"),
        server.worker({}) as worker,
    ):
        worker.ask(messages.RunCell(text), messages.CellRan)


@contextlib.contextmanager
def busy(count: int, processor: int):
    """Keep one processor busy with other processes, as a neighbor would."""
    processes = [
        multiprocessing.get_context("fork").Process(target=_spin, args=(processor,), daemon=True) for _ in range(count)
    ]
    try:
        for process in processes:
            process.start()
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()


def _spin(processor: int) -> None:
    os.setsid()  # Linux shares processors out among sessions first (sched_autogroup_enabled)
    os.sched_setaffinity(0, {processor})
    while True:
        pass


WORK = "import time\nend = time.process_time() + 1.0\nwhile time.process_time() < end:\n    pass\nprint('done')"


def test_who_is_kept_waiting_by_others_has_more_time(bubblewrap):
    """One second of work with three other busy processes takes two to four; the limit is one and a half, on the submission's clock."""
    processor = min(os.sched_getaffinity(0))
    limits = Limits(cell_seconds=30, submission_seconds=1.5)
    with ServerClient(LEVELS["bubblewrap"], limits) as server:
        server.start()
        os.sched_setaffinity(server._process.pid, {processor})
        with server.worker({}) as worker, busy(3, processor):
            start = time.monotonic()
            assert "done\n" == printed(worker, WORK)
            assert time.monotonic() - start > 1.5
        own = "import os\nfor _ in range(3):\n    if os.fork() == 0:\n        while True: pass\n" + WORK
        with pytest.raises(WorkerEnded, match="time"), server.worker({}) as worker:
            worker.ask(messages.RunCell(own), messages.CellRan)


FAIR = Limits(cell_seconds=1.5, submission_seconds=30)
SLEEP = "import time\ntime.sleep(20)"
OWN_NEIGHBOURS = "import os, time\nfor _ in range(20):\n    if os.fork() == 0:\n        time.sleep(20) if os.getpid() % 2 else None\n        while True: pass\n"


@pytest.fixture(scope="module")
def fair(bubblewrap):
    """A warm server on one processor, whose cells have a second and a half."""
    with ServerClient(LEVELS["bubblewrap"], FAIR) as server:
        server.start()
        os.sched_setaffinity(server._process.pid, {min(os.sched_getaffinity(0))})
        yield server


def test_a_cell_that_others_keep_waiting_has_its_seconds(fair):
    """One second of work with twenty other busy processes takes about twenty seconds, and is within a limit of one and a half."""
    with fair.worker({}) as worker, busy(20, min(os.sched_getaffinity(0))):
        start = time.monotonic()
        assert "done\n" == printed(worker, WORK)
        assert time.monotonic() - start > 3 * FAIR.cell_seconds


@pytest.mark.parametrize("neighbours", [0, 6], ids=["alone", "beside busy processes"])
@pytest.mark.parametrize("text", [SLEEP, "while True: pass"], ids=["sleeps", "is busy"])
def test_a_cell_ends_at_its_limit(fair, text, neighbours):
    """A sleeping cell does not get more time; a working cell is interrupted at its limit; both get an error and continue."""
    with fair.worker({}) as worker, busy(neighbours, min(os.sched_getaffinity(0))):
        start = time.monotonic()
        ran = worker.ask(messages.RunCell(text), messages.CellRan)
        assert b"stopped after 1.5 seconds" in ran.outputs
        assert FAIR.cell_seconds - 0.5 < time.monotonic() - start
        assert "2\n" == printed(worker, "print(1 + 1)")


def test_nobody_gains_time_by_being_its_own_neighbour(fair):
    """A cell whose own processes keep each other waiting does not get more time."""
    with fair.worker({}) as worker:
        with contextlib.suppress(WorkerEnded):
            worker.ask(messages.RunCell(OWN_NEIGHBOURS + "while True: pass"), messages.CellRan)
        assert worker._watch._processor.seconds < FAIR.cell_seconds + GRACE_SECONDS + 1


def test_processors_are_shared_out():
    """Submissions that are graded at once have separate processors if there are enough; each has at least one."""
    everyone = sorted(os.sched_getaffinity(0))
    shares = processor_shares(len(everyone))
    assert [{processor} for processor in everyone] == [set(share) for share in shares]
    assert [set(everyone)] == [set(share) for share in processor_shares(1)]
    crowded = processor_shares(3 * len(everyone))
    assert 3 * len(everyone) == len(crowded)
    assert all(crowded)
