"""The system calls that are denied to a submission, and the filter that denies them, compiled by libseccomp (2.4 or later).

Calls that are not listed are allowed, so that ordinary programs work; calls that libseccomp does not know are denied.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass

from autograder.errors import SetupError


@dataclass(frozen=True)
class ForbiddenCalls:
    """System calls that are denied for one reason.

    Attributes:
        reason: the danger of the calls.
        names: the names in section 2 of the manual; names that an architecture does not have are skipped.
        error: the error that they report; ENOSYS if the C library or a program then uses an alternative.
    """

    reason: str
    names: str
    error: int = errno.EPERM


@dataclass(frozen=True)
class ForbiddenArgument:
    """A system call that is denied if one argument has certain bits or values.

    Attributes:
        reason: the danger of the call.
        name: the name in section 2 of the manual.
        position: the index of the argument, from 0.
        mask: the bits to compare; the kernel ignores the upper half of an argument that is an int.
        values: the denied values.
        error: the error that the call reports.
    """

    reason: str
    name: str
    position: int
    mask: int
    values: tuple[int, ...]
    error: int = errno.EPERM


INT = 0xFFFFFFFF
# <sched.h>: new mount, cgroup, UTS, IPC, user, process and network namespaces.
NAMESPACE_FLAGS = (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)
TIOCSTI, TIOCLINUX = 0x5412, 0x541C  # <asm-generic/ioctls.h>
F_SETLEASE, F_NOTIFY = 0x400, 0x402  # <linux/fcntl.h>
AF_UNIX, AF_INET, AF_INET6, AF_NETLINK, LAST_FAMILY = 1, 2, 10, 16, 63  # <sys/socket.h>
NETLINK_ROUTE, LAST_PROTOCOL = 0, 31  # <linux/netlink.h>
OTHER_FAMILIES = tuple(sorted({*range(LAST_FAMILY + 1)} - {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK}))

CALLS = (
    ForbiddenCalls("a new namespace gives privileges inside it", "unshare setns"),
    ForbiddenCalls(
        "its flags are in memory, where a filter cannot look; the C library then uses clone", "clone3", errno.ENOSYS
    ),
    ForbiddenCalls(
        "other files instead of those that were mounted",
        "mount umount umount2 pivot_root chroot move_mount open_tree fsopen fsconfig fsmount fspick mount_setattr "
        "open_tree_attr",
    ),
    ForbiddenCalls("keys stay in the kernel, for the next submission", "add_key request_key keyctl"),
    ForbiddenCalls(
        "memory that does not belong to a process, so it is not counted", "memfd_create memfd_secret", errno.ENOSYS
    ),
    ForbiddenCalls("the same, under System V names", "shmget msgget semget", errno.ENOSYS),
    ForbiddenCalls(
        "halts the kernel inside a call, a step of many attacks on it", "userfaultfd vmsplice", errno.ENOSYS
    ),
    ForbiddenCalls("runs calls that no filter sees", "io_uring_setup io_uring_enter io_uring_register", errno.ENOSYS),
    ForbiddenCalls("programs inside the kernel, and its counters", "bpf perf_event_open"),
    ForbiddenCalls(
        "memory and files of other processes",
        "ptrace process_vm_readv process_vm_writev process_madvise process_mrelease pidfd_getfd kcmp",
    ),
    ForbiddenCalls("files by number, past every mount", "open_by_handle_at name_to_handle_at"),
    ForbiddenCalls(
        "shows when another submission opens a shared file, and uses up what all of the teacher's programs share",
        "fanotify_init fanotify_mark inotify_init inotify_init1 lookup_dcookie",
        errno.ENOSYS,
    ),
    ForbiddenCalls(
        "a larger share of the machine's processors than was given",
        "sched_setaffinity sched_setscheduler sched_setattr",
    ),
    ForbiddenCalls(
        "other rules for addresses, and calls of old systems", "personality modify_ldt uselib _sysctl sysfs ustat"
    ),
    ForbiddenCalls(
        "the machine itself",
        "kexec_load kexec_file_load init_module finit_module delete_module create_module get_kernel_syms query_module "
        "reboot swapon swapoff quotactl quotactl_fd acct syslog iopl ioperm nfsservctl vhangup vserver "
        "settimeofday stime clock_settime clock_adjtime adjtimex sethostname setdomainname",
    ),
)

ARGUMENTS = (
    *(
        ForbiddenArgument("a new namespace gives privileges inside it", "clone", 0, flag, (flag,))
        for flag in NAMESPACE_FLAGS
    ),
    ForbiddenArgument("types into the teacher's terminal", "ioctl", 1, INT, (TIOCSTI, TIOCLINUX)),
    ForbiddenArgument(
        "halts others that open a shared file, or shows that they do", "fcntl", 1, INT, (F_SETLEASE, F_NOTIFY)
    ),
    ForbiddenArgument(
        "a virtual machine's host, the kernel's ciphers, and other networks without namespaces",
        "socket",
        0,
        INT,
        OTHER_FAMILIES,
        errno.EAFNOSUPPORT,
    ),
)

NETWORK = ForbiddenArgument(
    "the network, where no namespace keeps it away", "socket", 0, INT, (AF_INET, AF_INET6), errno.EAFNOSUPPORT
)


# Numbers from <seccomp.h>, <sys/prctl.h> and <linux/filter.h>.
ALLOW, KILL_PROCESS, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
BAD_ARCHITECTURE, OPTIMIZE = 2, 8  # attributes of a filter
BINARY_TREE = 2
MASKED_EQUAL = 7
PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
INSTRUCTION_BYTES = 8
LARGEST_NUMBER = 1023  # Linux 6.18 has system calls with numbers up to 470
MISSING = "libseccomp is missing; install it: `sudo apt install libseccomp2`"


class FilterError(SetupError):
    """This machine does not support a filter for system calls; the message gives the reason."""


class _Comparison(ctypes.Structure):
    _fields_ = (
        ("position", ctypes.c_uint),
        ("operation", ctypes.c_int),
        ("mask", ctypes.c_uint64),
        ("value", ctypes.c_uint64),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def library() -> ctypes.CDLL:
    """Return libseccomp; raise FilterError if it is missing."""
    try:
        library = ctypes.CDLL("libseccomp.so.2")
    except OSError:
        raise FilterError(MISSING) from None
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_init.argtypes = [ctypes.c_uint32]
    library.seccomp_rule_add_array.argtypes = [
        ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p,
    ]  # fmt: skip
    library.seccomp_attr_set.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32]
    library.seccomp_export_bpf.argtypes = [ctypes.c_void_p, ctypes.c_int]
    library.seccomp_release.argtypes = [ctypes.c_void_p]
    library.seccomp_syscall_resolve_num_arch.restype = ctypes.c_void_p
    return library


def obstacle() -> str:
    """Return the reason why no filter can be compiled here, and what to do; "" if it can."""
    try:
        library()
    except FilterError as error:
        return str(error)
    return ""


def call_number(name: str) -> int:
    """Return the number of a system call on this architecture; negative if it does not exist."""
    return int(library().seccomp_syscall_resolve_name(name.encode()))


def compile_filter(*, network: bool = True) -> bytes:
    """Return the filter as instructions for the kernel.

    Args:
        network: whether to allow internet sockets.

    Raises:
        FilterError: libseccomp is missing, or it rejects a rule.
    """
    seccomp = library()
    context = seccomp.seccomp_init(ALLOW)
    try:
        _checked(seccomp.seccomp_attr_set(context, BAD_ARCHITECTURE, KILL_PROCESS), "the rule for foreign calls")
        seccomp.seccomp_attr_set(context, OPTIMIZE, BINARY_TREE)  # libseccomp 2.5; earlier versions are only slower
        for number, error, comparison in _rules(seccomp, network):
            count = 0 if comparison is None else 1
            pointer = None if comparison is None else ctypes.byref(comparison)
            _checked(seccomp.seccomp_rule_add_array(context, ERRNO | error, number, count, pointer), f"call {number}")
        return _exported(seccomp, context)
    finally:
        seccomp.seccomp_release(context)


def set_filter(instructions: bytes) -> None:
    """Set a filter in this process and in all that it starts, permanently. Requires `no_new_privs`.

    Raises:
        FilterError: the kernel rejects the filter.
    """
    program = _Program(len(instructions) // INSTRUCTION_BYTES, instructions)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0):
        raise FilterError(f"the kernel refuses the filter for system calls ({os.strerror(ctypes.get_errno())})")


def _rules(seccomp: ctypes.CDLL, network: bool) -> Iterator[tuple[int, int, _Comparison | None]]:
    """Yield the number of each call, its error, and the condition; None means always."""
    for calls in CALLS:
        for name in calls.names.split():
            if (number := seccomp.seccomp_syscall_resolve_name(name.encode())) >= 0:
                yield number, calls.error, None
    for rule in ARGUMENTS if network else (*ARGUMENTS, NETWORK):
        number = seccomp.seccomp_syscall_resolve_name(rule.name.encode())
        for value in rule.values:
            yield number, rule.error, _Comparison(rule.position, MASKED_EQUAL, rule.mask, value)
    for number in range(LARGEST_NUMBER + 1):
        if not seccomp.seccomp_syscall_resolve_num_arch(0, number):
            yield number, errno.ENOSYS, None


def _exported(seccomp: ctypes.CDLL, context: int) -> bytes:
    descriptor = os.memfd_create("filter")
    with os.fdopen(descriptor, "rb") as file:
        _checked(seccomp.seccomp_export_bpf(context, descriptor), "the export")
        file.seek(0)
        return file.read()


def _checked(result: int, what: str) -> None:
    if result:
        raise FilterError(f"libseccomp refuses {what} ({os.strerror(-result)})")
