# ruff: noqa: E501 - a submission's text is easier to read on one line
"""Attacks on the walls between submissions, and on the limits of each. An attack that gets through a wall prints that it leaked."""

from __future__ import annotations

from tests.grade.hostile.attacks import WRONG, Attack

LIBC = """
import ctypes, mmap, os, resource, signal, socket, struct, subprocess, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
def leaked(what, result):
    if result >= 0:
        print('LEAKED', what)
def quietly(act, *arguments):
    try:
        return act(*arguments)
    except (OSError, ValueError, MemoryError):
        return None
def children(count, act):
    for _ in range(count):
        if os.fork() == 0:
            act()
            os._exit(0)
"""
FOREVER = "\nwhile True:\n    time.sleep(1)"
SOCKETS = """
def sockets():
    for number in range(3, 64):
        try:
            yield socket.socket(fileno=os.dup(number))
        except OSError:
            pass
"""


def _wall(threat: str, name: str, code: str) -> Attack:
    return Attack(threat, name, WRONG + LIBC + code)


WALLS = [
    _wall("E", "namespaces inside its own", "for flag in (0x20000, 0x10000000, 0x40000000, 0x20000000):\n    leaked('namespace', libc.unshare(flag))"),
    _wall("E", "mounts over the package", "leaked('mount', libc.mount(b'none', b'/usr', b'tmpfs', 0, None))\nleaked('mount', libc.syscall(430, b'tmpfs', 0))"),
    _wall("E", "keys for the next one", "leaked('key', libc.syscall(248, b'user', b'answers', b'52428', 5, -3))\nleaked('key', libc.syscall(250, 10, -3, b'user', b'answers', 0))"),
    _wall("E", "segments for the next one", "leaked('segment', libc.shmget(4711, 4096, 0o1666))\nleaked('queue', libc.msgget(4711, 0o1666))\nleaked('semaphore', libc.semget(4711, 1, 0o1666))"),
    _wall(
        "E",
        "a socket for the one beside",
        "for kind, address in ((socket.AF_UNIX, '\\0answers'), (socket.AF_INET, ('127.0.0.1', 47999))):\n    if socket.socket(kind).connect_ex(address) == 0:\n        print('LEAKED socket')\nkept = socket.socket(socket.AF_UNIX)\nkept.bind('\\0answers')\nkept.listen()\nmore = socket.create_server(('127.0.0.1', 47999))",
    ),
    _wall("E", "a virtual machine's host", "for family in (40, 38, 17, 29, 31):\n    if quietly(socket.socket, family, socket.SOCK_RAW):\n        print('LEAKED family')"),
    _wall("E", "other processes by number", "for number in range(1, 60000):\n    if number not in (1, os.getpid(), os.getppid()):\n        leaked('trace', libc.ptrace(16, number, 0, 0))\nleaked('memory', libc.syscall(310, 1, 0, 0, 0, 0, 0))"),
    _wall("D", "leases on shared files", "import glob\nfor path in glob.glob(os.path.dirname(os.__file__) + '/*.py'):\n    leaked('lease', libc.fcntl(os.open(path, os.O_RDONLY), 1024, 1))"),
    _wall("D", "watches on shared files", "leaked('watch', libc.inotify_init1(0))\nleaked('watch', libc.fanotify_init(0, 0))"),
    _wall("D", "a foreign architecture", "libc.syscall(0x40000000 + 39)"),
    _wall("D", "memory without a process", "kept = [os.memfd_create(str(n)) for n in range(200)]\nfor one in kept:\n    os.write(one, b'x' * 60_000_000)"),
    _wall("D", "memory in programs that inherit nothing", "for _ in range(12):\n    subprocess.Popen([sys.executable, '-c', 'import time; x = bytearray(150_000_000); time.sleep(60)'])" + FOREVER),
    _wall("D", "memory of which a page is mapped", "libc.mmap.restype = ctypes.c_void_p\nfor _ in range(40):\n    start = libc.mmap(None, ctypes.c_size_t(100_000_000), 3, 0x21, -1, ctypes.c_long(0))\n    ctypes.memset(start, 1, 100_000_000)\n    libc.munmap(ctypes.c_void_p(start + 4096), ctypes.c_size_t(100_000_000 - 4096))" + FOREVER),
    _wall("D", "memory in sockets", "def fill():\n    kept = []\n    for _ in range(100):\n        pair = socket.socketpair()\n        kept.append(pair)\n        for one in pair:\n            one.setblocking(False)\n            while quietly(one.send, b'x' * 65536):\n                pass\n    time.sleep(60)\nchildren(50, fill)" + FOREVER),
    _wall("D", "fifty-eight busy processes", "def spin():\n    while True:\n        pass\nchildren(58, spin)" + FOREVER),
    _wall("D", "processes that leave their parents", "def leave():\n    os.setsid()\n    libc.prctl(1, 0, 0, 0, 0)\n    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):\n        signal.signal(number, signal.SIG_IGN)\n    if os.fork() == 0:\n        time.sleep(300)\nchildren(20, leave)"),
    _wall("D", "its own halt", "os.kill(os.getpid(), signal.SIGSTOP)"),
    _wall("D", "a halt of the first process", "for number in (signal.SIGSTOP, signal.SIGKILL, signal.SIGTERM):\n    quietly(os.kill, 1, number)\nresource.prlimit(1, resource.RLIMIT_CPU, (0, 0))\nresource.prlimit(1, resource.RLIMIT_AS, (0, 0))"),
    _wall("D", "the first place in the queue", "leaked('priority', libc.sched_setscheduler(0, 1, ctypes.byref(ctypes.c_int(50))))\nleaked('processors', -1 if quietly(os.sched_setaffinity, 0, {0, 1}) is None and libc.syscall(203, 0, 8, b'\\xff' * 8) < 0 else 0)"),
    _wall("D", "a process that the kernel must not end", "try:\n    open('/proc/self/oom_score_adj', 'w').write('-1000')\n    print('LEAKED oom')\nexcept OSError:\n    pass"),
    _wall("D", "all terminals", "kept = []\nwhile (pair := quietly(os.openpty)):\n    kept.append(pair)"),
    _wall("D", "a tree a thousand folders deep", "for _ in range(1500):\n    os.mkdir('d' * 200)\n    os.chdir('d' * 200)"),
    _wall("D", "timers without end", "while libc.timer_create(0, None, ctypes.byref(ctypes.c_void_p())) == 0:\n    pass"),
    _wall("A", "files sent through the grader's socket", SOCKETS + "for one in sockets():\n    for _ in range(100):\n        quietly(socket.send_fds, one, [b'\\x00'], [0, 1, 2])"),
    _wall("A", "a reply of many small values", SOCKETS + "payload = b'\\xdd\\x03\\x00\\x00\\x00' + b'\\x90' * 60_000_000\nfor one in sockets():\n    quietly(one.sendall, struct.pack('!Q', len(payload)) + payload)"),
    _wall("A", "a reply that announces too much", SOCKETS + "for one in sockets():\n    quietly(one.sendall, struct.pack('!Q', 6) + b'\\xdd\\xff\\xff\\xff\\xff\\xc0')"),
    _wall("A", "a reply one byte at a time", SOCKETS + "found = list(sockets())\nfor one in found:\n    quietly(one.sendall, struct.pack('!Q', 60_000_000))\nwhile True:\n    time.sleep(0.03)\n    for one in found:\n        quietly(one.send, b'x')"),
]  # fmt: skip
