"""Isolation of a forked process by system calls that Python 3.11 does not provide: namespaces, mounts, capabilities, limits.

Linux only. bubblewrap isolates the warm server; these functions isolate each submission inside it, in about 4 ms,
whereas starting bubblewrap and PyTorch again would take seconds.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import re
import resource
import signal
import socket
import struct
from collections.abc import Iterable
from pathlib import Path

from autograder.grade.wire.limits import Limits

PRIVATE = "/private"  # a submission's /tmp is mounted here before it is moved into place

# Numbers from <sched.h>, <sys/mount.h>, <sys/mman.h> and <sys/prctl.h>; the same on every Linux.
# New mount, cgroup, UTS, IPC, user, process and network namespaces.
NAMESPACE_FLAGS = (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 0x1, 0x2, 0x4, 0x8
MS_BIND, MS_MOVE, MS_REC, MS_PRIVATE = 0x1000, 0x2000, 0x4000, 0x40000
SIOCSIFFLAGS, IFF_UP = 0x8914, 0x1  # <linux/sockios.h>, <linux/if.h>
KEYCTL_JOIN_SESSION_KEYRING = 1  # <linux/keyctl.h>
MADV_COLLAPSE, HUGE = 25, 2 << 20
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 4, 24, 36, 38
_LINUX_CAPABILITY_VERSION_3 = 0x20080522
LAST_CAPABILITY = 63

COUNTED_FOR_EACH_NAMESPACE = (5, 14)  # since this release of Linux
INIT_PROCESSES = 1
"""Processes of a worker's namespaces that do not run the submission's code: see `_first_process` in host.py."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc_with_lock = ctypes.PyDLL(None, use_errno=True)
"""The same, but a call keeps the interpreter's lock, so that a fork is complete before another thread could run."""


def fork_into_own_namespaces(clone: int) -> int:
    """Fork, and return the child's process id, or 0 in the child, which is process 1 of namespaces of its own.

    This saves one of three forks per submission, because `unshare` gives a new process namespace only to the children
    of a process. The steps before and after are those of `os.fork` (CPython 3.11, posixmodule.c). The child must fork
    before it runs other code, because the C library learns its new thread id only from its own `fork` (glibc 2.36).
    `clone` is the number of the system call. It raises OSError if the kernel does not allow it.
    """
    python = ctypes.pythonapi
    python.PyOS_BeforeFork()
    child: int = _libc_with_lock.syscall(clone, sum(NAMESPACE_FLAGS) | signal.SIGCHLD, None, None, None, None)
    problem = ctypes.get_errno()
    if child:
        python.PyOS_AfterFork_Parent()
    else:
        python.PyOS_AfterFork_Child()
    if child < 0:
        raise OSError(problem, f"clone: {os.strerror(problem)}")
    return child


def set_up_own_namespaces(uid: int, gid: int) -> None:
    """Keep the parent's user in the new namespaces, and set up a 127.0.0.1 of their own. Raise OSError if that is not allowed."""
    set_dumpable(True)  # otherwise the files of the process in /proc belong to root and are not writable
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    set_dumpable(False)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", IFF_UP))


def join_empty_keyring(keyctl: int) -> None:
    """Give the process an empty session keyring, by the system call of this number; it inherits that of the teacher's login.

    Raises:
        OSError: the kernel does not allow it. A kernel without keyrings is accepted.
    """
    if _libc.syscall(keyctl, KEYCTL_JOIN_SESSION_KEYRING, None) < 0 and ctypes.get_errno() != errno.ENOSYS:
        raise OSError(ctypes.get_errno(), f"keyctl: {os.strerror(ctypes.get_errno())}")


def mount_private_filesystems(disk_bytes: int, packages: Iterable[str]) -> None:
    """Give the first process of a namespace its own /tmp and /dev/shm, and a /proc that shows only its own processes.

    At most `disk_bytes` may be written there. The packages stay visible and read-only, even if they are in /tmp.
    It raises OSError if the kernel does not allow it.
    """
    files = disk_bytes // resource.getpagesize()  # empty files use kernel memory too
    _mount("none", "/", None, MS_REC | MS_PRIVATE)
    _mount("tmpfs", PRIVATE, "tmpfs", MS_NOSUID | MS_NODEV, f"size={disk_bytes},nr_inodes={files},mode=700")
    for package in packages:
        if package.startswith("/tmp/"):
            os.makedirs(mount_point := PRIVATE + package.removeprefix("/tmp"))
            _mount(package, mount_point, None, MS_BIND | MS_REC)
    _mount(PRIVATE, "/tmp", None, MS_MOVE)
    if os.path.isdir("/dev/shm"):
        os.mkdir("/tmp/.shm")
        _mount("/tmp/.shm", "/dev/shm", None, MS_BIND)
    try:
        _mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
        if os.path.exists("/proc/keys"):
            _mount(os.devnull, "/proc/keys", None, MS_BIND)  # contains the names of the teacher's keys
    except OSError:
        # Refused if parts of the outer /proc are covered, as bubblewrap does when root starts it (0.8.0). The outer /proc
        # lists the server's processes, so an empty folder covers it.
        _mount("tmpfs", "/proc", "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=4096,mode=555")


def drop_capabilities() -> None:
    """Drop every capability permanently, also in the user namespace, and forbid programs to gain any."""
    _forbid_capabilities()
    header = (ctypes.c_uint32 * 2)(_LINUX_CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    _checked(_libc.capset(header, nothing), "capset")


def become_user(uid: int) -> None:
    """Change this process from root to a dedicated user and group, permanently."""
    _forbid_capabilities()
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def _forbid_capabilities() -> None:
    _checked(_libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    for capability in range(LAST_CAPABILITY + 1):
        _libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # fails harmlessly for numbers that this kernel does not know


def address_space() -> int:
    """Return the size of this process's address space in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def limit(limits: Limits, used: int) -> None:
    """Set the kernel's limits per process, given the bytes of address space in use; the grader checks the totals of all processes."""
    for kind, value in (
        (resource.RLIMIT_AS, used + limits.memory_bytes),
        (resource.RLIMIT_CPU, int(limits.submission_seconds) + 1),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_NOFILE, 256),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
    ):
        lower_limit(kind, value)


def lower_limit(kind: int, value: int) -> None:
    """Set one of the kernel's limits to a value, or to its present maximum if that is lower."""
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


def limit_processes(most: int) -> None:
    """Make the kernel deny further processes and threads above a limit, in a user namespace without other users.

    Linux 5.14 and later count them for each user and user namespace (`RLIMIT_NPROC`, setrlimit(2)). The limit does not
    apply to the machine's root, for whom a control group is used (`control_group`). Older kernels count all processes
    of the user, including the teacher's own, so no limit is set there.
    """
    if tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) < COUNTED_FOR_EACH_NAMESPACE:
        return
    lower_limit(resource.RLIMIT_NPROC, most + INIT_PROCESSES)


def collapse_into_huge_pages() -> None:
    """Move this process's memory into huge pages, because a fork copies the page table, and a worker needs two forks.

    This halves the time to start and end a worker (Linux 6.1 and later; elsewhere it has no effect).
    """
    for line in Path("/proc/self/maps").read_text().splitlines():
        addresses, rights, *_, inode = line.split()[:5]
        start, stop = (int(address, 16) for address in addresses.split("-"))
        first, last = -(-start // HUGE) * HUGE, stop // HUGE * HUGE
        if rights.startswith("rw") and inode == "0" and first < last:
            _libc.madvise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), MADV_COLLAPSE)


def set_parent_death_signal() -> None:
    """Make the kernel kill this process when its parent ends."""
    _checked(_libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "pdeathsig")


def become_subreaper() -> None:
    """Make orphans of a submission children of this process, which kills them."""
    _checked(_libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "subreaper")


def set_dumpable(is_dumpable: bool) -> None:
    """Allow or forbid other processes of the same user to read this process's memory, and to open its files in /proc."""
    _checked(_libc.prctl(PR_SET_DUMPABLE, int(is_dumpable), 0, 0, 0), "dumpable")


def _mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    as_bytes = [None if text is None else text.encode() for text in (source, target, kind, options)]
    _checked(_libc.mount(*as_bytes[:3], ctypes.c_ulong(flags), as_bytes[3]), f"mount {target}")


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
