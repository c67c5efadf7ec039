# ruff: noqa: E501 - a submission's text, or a row of a table, is easier to read on one line
"""Walls between submissions, asked by a submission's own code, and a container that forbids them, with the setting to change."""

import contextlib
import ctypes
import errno
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from autograder.cli.doctor import examine
from autograder.course.paths import ROOT
from autograder.grade.sandbox import seccomp
from autograder.grade.sandbox.isolation import LEVELS, namespace_obstacles
from autograder.grade.sandbox.launch import HostProcess
from autograder.grade.submission.server_client import ServerClient, WorkerEnded
from autograder.grade.wire import messages
from autograder.grade.wire.limits import Limits
from tests.grade.sandbox.test_worker import printed

RAW = """
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *(ctypes.c_ulong(argument) for argument in arguments))
    return "allowed" if result >= 0 else errno.errorcode[ctypes.get_errno()]
"""
# Each with arguments that would do it, or that at least another error would answer. <sched.h>, <linux/keyctl.h>, <fcntl.h>
CALLS = [
    *(("unshare", (flag,), "EPERM") for flag in seccomp.NAMESPACE_FLAGS),
    *(("clone", (flag | 17,), "EPERM") for flag in seccomp.NAMESPACE_FLAGS),
    ("clone", (0x10000000 | 0x200000000 | 17,), "EPERM"),  # bits that the kernel ignores hide nothing
    ("clone3", (0, 0), "ENOSYS"),
    ("setns", (0, 0), "EPERM"),
    ("mount", (0, 0, 0, 0, 0), "EPERM"),
    ("fsopen", (0, 0), "EPERM"),
    ("open_tree", (0, 0, 0), "EPERM"),
    ("pivot_root", (0, 0), "EPERM"),
    ("keyctl", (0, 0xFFFFFFFD, 1), "EPERM"),
    ("add_key", (0, 0, 0, 0, 0), "EPERM"),
    ("memfd_create", (0, 0), "ENOSYS"),
    ("memfd_secret", (0,), "ENOSYS"),
    ("shmget", (0, 4096, 0o1600), "ENOSYS"),
    ("msgget", (0, 0o1600), "ENOSYS"),
    ("semget", (0, 1, 0o1600), "ENOSYS"),
    ("userfaultfd", (1,), "ENOSYS"),
    ("io_uring_setup", (1, 0), "ENOSYS"),
    ("bpf", (0, 0, 0), "EPERM"),
    ("perf_event_open", (0, 0, 0, 0, 0), "EPERM"),
    ("ptrace", (0, 0, 0, 0), "EPERM"),
    ("process_vm_readv", (1, 0, 0, 0, 0, 0), "EPERM"),
    ("pidfd_getfd", (0, 0, 0), "EPERM"),
    ("open_by_handle_at", (0, 0, 0), "EPERM"),
    ("inotify_init1", (0,), "ENOSYS"),
    ("sched_setaffinity", (0, 0, 0), "EPERM"),
    ("personality", (0x0040000,), "EPERM"),
    ("reboot", (0, 0, 0, 0), "EPERM"),
    ("ioctl", (0, 0x5412, 0), "EPERM"),
    ("ioctl", (0, 0x100005412, 0), "EPERM"),
    ("fcntl", (0, 0x400, 1), "EPERM"),
    ("socket", (40, 1, 0), "EAFNOSUPPORT"),  # AF_VSOCK: to the host of a virtual machine
    ("socket", (38, 5, 0), "EAFNOSUPPORT"),  # AF_ALG: the kernel's ciphers
    ("socket", (0x100000000 + 17, 3, 0), "EAFNOSUPPORT"),  # AF_PACKET
]


@pytest.fixture(scope="module", params=list(LEVELS))
def level(request):
    """Each level of isolation that this machine reaches."""
    if LEVELS[request.param].obstacle:
        pytest.skip(LEVELS[request.param].obstacle)
    if request.param == "user" and any(
        not folder.stat().st_mode & 0o001 for folder in Path(sys.executable).resolve().parents
    ):
        pytest.skip("Python lies in a folder that no second user may enter; run the tests with one in /usr or /opt")
    return LEVELS[request.param]


@pytest.fixture(scope="module")
def lanes(bubblewrap):
    """Two servers that grade at the same time, as a batch starts them: forks of one process."""
    host = HostProcess(LEVELS["bubblewrap"])
    first, second = (ServerClient(LEVELS["bubblewrap"], Limits(cell_seconds=5), host.fork("server")) for _ in range(2))
    with first, second:
        yield first, second
    host.close(5.0)


def test_one_server_serves_all_submissions(server):
    """Each gets its own namespaces inside those of the server, for root and for other users: a new server is not needed."""
    for _ in range(2):
        with server.worker({}) as worker:
            assert "2\n" == printed(worker, "import os; print(os.getpid())")
    assert server._has_namespaces


def test_forbidden_system_calls_are_refused(level):
    """As raw calls, at every level: the error is that of the filter, for all arguments, and in a program started later as well."""
    numbered = [(seccomp.call_number(name), arguments) for name, arguments, _ in CALLS]
    question = f"{RAW}\nprint([call(number, *arguments) for number, arguments in {numbered}])"
    later = f"import subprocess, sys\nprint(subprocess.run([sys.executable, '-c', {question!r}], capture_output=True, text=True).stdout)"
    expected = [(name, arguments, error) for name, arguments, error in CALLS]
    with ServerClient(level, Limits(cell_seconds=5)) as server, server.worker({}) as worker:
        for text in (question, later):
            found = zip(CALLS, eval(printed(worker, text)), strict=True)
            assert expected == [(name, arguments, error) for (name, arguments, _), error in found]


def test_a_call_that_nobody_knows_is_refused(server):
    """The kernel may be newer than the list: a number unknown to libseccomp is refused; a common one is allowed."""
    resolve = seccomp.library().seccomp_syscall_resolve_num_arch
    unknown = [number for number in [*range(440, 480), 600, 1023] if not resolve(0, number)]
    with server.worker({}) as worker:
        question = f"{RAW}\nprint({{call(number, -1, -1, -1) for number in {unknown}}}, call({seccomp.call_number('getppid')}))"
        assert "{'ENOSYS'} allowed" == printed(worker, question).strip()


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="calls of a second kind exist on x86-64 only")
def test_calls_of_another_architecture_end_the_process(server):
    """The kernel knows the calls of x32 under other numbers, which no rule names."""
    with server.worker({}) as worker:
        text = f"{RAW}\nimport os\nchild = os.fork()\nif child == 0:\n    call(0x40000000 + 39)\n    os._exit(0)\nprint(os.waitpid(child, 0)[1])"
        assert "31" == printed(worker, text).strip()  # SIGSYS


@pytest.mark.parametrize("name", [name for names in seccomp.CALLS for name in names.split()])
def test_the_list_has_no_name_that_does_not_exist(name):
    """A misspelled name would have no effect: libseccomp 2.5.4 knows each one, though this architecture may lack it."""
    later = {"open_tree_attr"}  # Linux 6.15; refused as a call that libseccomp does not know
    assert name in later or seccomp.call_number(name) != -1


HONEST = {
    "a pool of processes": "import multiprocessing as m\nwith m.get_context('fork').Pool(2) as pool:\n    print(pool.map(abs, [-1, -2]))",
    "a manager": "import multiprocessing as m\nwith m.get_context('fork').Manager() as manager:\n    print(len(manager.list([1, 2])))",
    "shared memory": "from multiprocessing import shared_memory as s\nm = s.SharedMemory(create=True, size=9)\nm.buf[0] = 3\nprint(m.buf[0])\nm.close(); m.unlink()",
    "a lock and a shared number": "import multiprocessing as m\nv = m.Value('i', 4)\nwith v.get_lock():\n    v.value += 1\nprint(v.value)",
    "threads": "import concurrent.futures as f\nwith f.ThreadPoolExecutor(4) as pool:\n    print(list(pool.map(abs, [-5])))",
    "another program": "import subprocess\nprint(subprocess.run(['sh', '-c', 'echo hi | cat'], capture_output=True, text=True).stdout)",
    "a program without waiting": "import subprocess\np = subprocess.Popen(['cat'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\nprint(p.communicate(b'y'))",
    "asyncio": "import asyncio\nasync def f():\n    p = await asyncio.create_subprocess_exec('true')\n    return await p.wait()\nprint(await f())",
    "a server of its own": "import socket, threading\ns = socket.create_server(('127.0.0.1', 0))\nc = socket.create_connection(s.getsockname())\nprint(s.accept()[0].fileno() > 0)",
    "a shared tensor": "import torch\nt = torch.ones(3).share_memory_()\nprint(t.is_shared())",
    "a data loader": "import torch\nprint(len(list(torch.utils.data.DataLoader(range(4), num_workers=2))))",
    "training": "import torch\nl = torch.nn.Linear(2, 1)\no = torch.optim.SGD(l.parameters(), 0.1)\nl(torch.ones(2)).backward()\no.step()\nprint('done')",
    "linear algebra": "import numpy\nprint(numpy.linalg.svd(numpy.ones((50, 50)))[1].shape)",
    "a picture": "import matplotlib.pyplot as p\np.plot([1, 2])\np.savefig('x.png')\nprint('saved')",
    "files": "import shutil, tempfile, os\nd = tempfile.mkdtemp()\nopen(d + '/a', 'w').write('1')\nshutil.copytree(d, d + 'x')\nprint(os.listdir(d + 'x'))",
    "a database": "import sqlite3\nprint(sqlite3.connect('x.db').execute('select 1').fetchall())",
    "names of addresses": "import socket\nprint(socket.getaddrinfo('127.0.0.1', 80)[0][4])",
}


@pytest.mark.parametrize("text", HONEST.values(), ids=HONEST)
def test_ordinary_programs_run_behind_the_filter(server, text):
    """The output is the same as in an ordinary process."""
    own = (
        "import asyncio\nasync def main():\n"
        + "".join(f"    {line}\n" for line in text.splitlines())
        + "asyncio.run(main())"
    )
    expected = subprocess.run(
        [sys.executable, "-c", own], capture_output=True, text=True, cwd="/tmp", check=True
    ).stdout
    with server.worker({}) as worker:
        assert expected == printed(worker, text)


def test_two_submissions_at_once_share_no_network(lanes):
    """Neither an abstract socket nor 127.0.0.1 of one is there for the other."""
    listening = "import socket\na = socket.socket(socket.AF_UNIX)\na.bind('\\0answers')\na.listen()\nb = socket.create_server(('127.0.0.1', 47999))"
    connects = """
import socket
for kind, address in ((socket.AF_UNIX, '\\0answers'), (socket.AF_INET, ('127.0.0.1', 47999))):
    print(socket.socket(kind).connect_ex(address) == 0)
"""
    with lanes[0].worker({}) as one, lanes[1].worker({}) as other:
        printed(one, listening)
        assert ("True\nTrue\n", "False\nFalse\n") == (printed(one, connects), printed(other, connects))


def test_two_submissions_at_once_share_no_messages(lanes):
    """A queue of POSIX messages has a name that only its own submission knows."""
    number = seccomp.call_number("mq_open")
    make = f"{RAW}\nprint(call(number, ctypes.addressof(name), 0o102, 0o600, 0))"
    start = f"import ctypes\nnumber = {number}\nname = ctypes.create_string_buffer(b'answers')\n"
    with lanes[0].worker({}) as one, lanes[1].worker({}) as other:
        assert "allowed\n" == printed(one, start + make)
        assert "ENOENT\n" == printed(other, start + make.replace("0o102", "0o2"))


def test_a_worker_has_no_keys_of_the_teachers():
    """Its session keyring is new and empty; before, it sees the key that was added to the login's keyring."""
    program = """
import ctypes, os
from autograder.grade.sandbox import namespaces, seccomp
libc = ctypes.CDLL(None, use_errno=True)
keyctl, add = seccomp.call_number("keyctl"), seccomp.call_number("add_key")
libc.syscall(keyctl, 1, None)
key = libc.syscall(add, b"user", b"teachers", b"secret", 6, -3)
search = lambda: libc.syscall(keyctl, 10, -3, b"user", b"teachers", 0) == key
before = search()
namespaces.join_empty_keyring(keyctl)
print(before, search())
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    if found.startswith("False"):
        pytest.skip("this kernel has no keyrings")
    assert "True False\n" == found


@pytest.mark.parametrize(("level", "made"), [("user", False), ("process", True)])
def test_a_submission_that_shares_the_network_makes_no_internet_sockets(level, made):
    """At the level of an own user, the filter for system calls refuses them; `process` does not promise that."""
    program = f"""
import socket
from autograder.grade.sandbox import host
from autograder.grade.sandbox.isolation import LEVELS
host._isolate(host._possible_isolation(LEVELS["{level}"]))
try:
    print(socket.socket().fileno() > 0)
except OSError:
    print(False)
"""
    assert f"{made}\n" == subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout


def test_without_libseccomp_nothing_is_graded(monkeypatch):
    """The filter is never silently absent: the level is not reached, and the message says how to reach it."""

    def missing(name, *arguments, **options):
        raise OSError(errno.ENOENT, name)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    with pytest.raises(seccomp.FilterError, match="sudo apt install libseccomp2"):
        seccomp.compile_filter()
    assert "libseccomp" in type(LEVELS["process"])().obstacle


BOMBS = {
    "children": "while True:\n    os.fork()",
    "double forks": "while True:\n    try:\n        if os.fork() == 0 and os.fork():\n            os._exit(0)\n    except OSError:\n        pass",
    "threads": "import threading, time\nwhile True:\n    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_the_kernel_refuses_too_many_processes(bubblewrap, bomb):
    """The number of processes never exceeds the limit by much, and none is left; the next submission has its full number."""
    limits = Limits(cell_seconds=3, submission_seconds=6, processes=30)
    with ServerClient(LEVELS["bubblewrap"], limits) as server:
        if {wall.found for wall in examine() if wall.what == "processes"} == {"counted ten times a second"}:
            pytest.skip("this machine has no such limit for root")
        before, seen = len(psutil.pids()), list[int]()
        counting = threading.Thread(target=lambda: seen.append(_most_processes(4)))
        with contextlib.suppress(WorkerEnded, KeyError), server.worker({}) as worker:
            counting.start()
            worker.ask(messages.RunCell(f"import os\n{bomb}"), messages.CellRan)
        counting.join()
        assert seen[0] - before < 300  # others start processes on this machine, too
        assert server._process.children(recursive=True) == []
        with server.worker({}) as worker:
            assert printed(worker, "print(1 + 1)") == "2\n"


def _most_processes(seconds: float) -> int:
    """Return the maximum number of simultaneous processes of the machine."""
    end, most = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        most = max(most, len(psutil.pids()))
        time.sleep(0.05)
    return most


PROBE = "from autograder.grade.sandbox.isolation import LEVELS; print(LEVELS['bubblewrap'].probe())"

# As Docker's default filter: `unshare`, `clone3`, and `clone` with a flag for a user namespace are refused.
FILTERED = """
import ctypes, platform, struct
unshare, clone, clone3 = (272, 56, 435) if platform.machine() == "x86_64" else (97, 220, 435)
NEW_USER, EPERM, ENOSYS = 0x10000000, 1, 38
def word(code, true, false, value): return struct.pack("HBBI", code, true, false, value)
program = b"".join([
    word(0x20, 0, 0, 0), word(0x15, 6, 0, unshare), word(0x15, 4, 0, clone3), word(0x15, 0, 2, clone),
    word(0x20, 0, 0, 16), word(0x45, 2, 0, NEW_USER), word(0x06, 0, 0, 0x7FFF0000),
    word(0x06, 0, 0, 0x00050000 | ENOSYS), word(0x06, 0, 0, 0x00050000 | EPERM),
])
buffer = ctypes.create_string_buffer(program, len(program))
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0  # no new privileges
assert libc.prctl(22, 2, ctypes.byref(Program(len(program) // 8, ctypes.addressof(buffer)))) == 0, ctypes.get_errno()
"""


def probed(*start: str, program: str = PROBE) -> str:
    """Return the result of the level's probe in a process that is started with other rights."""
    return subprocess.check_output([*start, sys.executable, "-c", program], text=True, cwd=ROOT).strip()


@pytest.mark.usefixtures("bubblewrap")
def test_a_filter_like_dockers_is_named():
    """Under a real filter that refuses user namespaces, the sentence names it, with the line for a pod and for Docker."""
    assert "" == probed()
    said = probed(program=FILTERED + PROBE)
    assert said.startswith("bubblewrap is not allowed to work here (")
    assert "a filter of system calls is set; `seccompProfile: {type: Unconfined}` in a pod" in said
    assert "seccomp=unconfined" in said
    assert "masked" not in said


@pytest.mark.usefixtures("bubblewrap")
def test_a_masked_proc_is_named():
    """If a part of /proc is covered, as in every container, bubblewrap fails, and the sentence names the setting to change."""
    masked = "bwrap --unshare-user --unshare-pid --dev-bind / / --proc /proc --ro-bind /dev/null /proc/uptime"
    said = probed(*masked.split())
    assert "parts of /proc are masked (/proc/" in said
    assert "`procMount: Unmasked` with `hostUsers: false` in a pod" in said
    assert "a filter of system calls" not in said


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("self/attr/current", "cri-containerd.apparmor.d (enforce)\n", "profile is 'cri-containerd.apparmor.d'; `appArmor"),
        ("self/attr/current", "unconfined\n", ""),
        ("self/status", "Name:\tpython\nSeccomp:\t2\nSeccomp_filters:\t1\n", "a filter of system calls is set"),
        ("self/status", "Name:\tpython\nSeccomp:\t0\n", ""),
        ("self/mountinfo", "29 22 0:25 / /proc/sys/fs/binfmt_misc rw - autofs x rw\n", ""),
        ("sys/user/max_user_namespaces", "0\n", "user.max_user_namespaces is 0; on the machine itself"),
        ("sys/user/max_user_namespaces", "95000\n", ""),
        ("sys/kernel/unprivileged_userns_clone", "0\n", "`sysctl kernel.unprivileged_userns_clone=1`"),
        ("sys/kernel/apparmor_restrict_unprivileged_userns", "1\n", "an AppArmor profile for bwrap"),
    ],
)  # fmt: skip
def test_each_fact_has_its_sentence(tmp_path: Path, file, text, said):
    """The kernel's facts on a profile, a filter, masks and switches each give a sentence; those of a plain machine do not."""
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text(text)
    found = list(namespace_obstacles(tmp_path))
    assert bool(said) == bool(found)
    assert said in "".join(found)
