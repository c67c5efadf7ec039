"""The system calls that are denied to a submission, and the filter that denies them, compiled by libseccomp (2.4 or later).

Calls that are not listed are allowed, so that ordinary programs work; calls that libseccomp does not know are denied.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterator

from autograder.errors import SetupError
from autograder.grade.sandbox.namespaces import NAMESPACE_FLAGS

LOW_32_BITS = 0xFFFFFFFF
TIOCSTI, TIOCLINUX = 0x5412, 0x541C  # <asm-generic/ioctls.h>
F_SETLEASE, F_NOTIFY = 0x400, 0x402  # <linux/fcntl.h>
AF_UNIX, AF_INET, AF_INET6, AF_NETLINK, LAST_FAMILY = 1, 2, 10, 16, 63  # <sys/socket.h>
OTHER_FAMILIES = tuple(sorted({*range(LAST_FAMILY + 1)} - {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK}))

CALLS = {
    # A new namespace gives privileges inside it.
    "unshare setns": errno.EPERM,
    # Its flags are in memory, where a filter cannot look; the C library then uses clone.
    "clone3": errno.ENOSYS,
    # Other files instead of those that were mounted.
    "mount umount umount2 pivot_root chroot move_mount open_tree fsopen fsconfig fsmount fspick mount_setattr "
    "open_tree_attr": errno.EPERM,
    # Keys stay in the kernel, for the next submission.
    "add_key request_key keyctl": errno.EPERM,
    # Memory that does not belong to a process, so it is not counted; and the same, under System V names.
    "memfd_create memfd_secret shmget msgget semget": errno.ENOSYS,
    # Halts the kernel inside a call, a step of many attacks on it.
    "userfaultfd vmsplice": errno.ENOSYS,
    # Runs calls that no filter sees.
    "io_uring_setup io_uring_enter io_uring_register": errno.ENOSYS,
    # Programs inside the kernel, and its counters.
    "bpf perf_event_open": errno.EPERM,
    # Memory and files of other processes.
    "ptrace process_vm_readv process_vm_writev process_madvise process_mrelease pidfd_getfd kcmp": errno.EPERM,
    # Files by number, past every mount.
    "open_by_handle_at name_to_handle_at": errno.EPERM,
    # Shows when another submission opens a shared file, and uses up what all of the teacher's programs share.
    "fanotify_init fanotify_mark inotify_init inotify_init1 lookup_dcookie": errno.ENOSYS,
    # A larger share of the machine's processors than was given.
    "sched_setaffinity sched_setscheduler sched_setattr": errno.EPERM,
    # Other rules for addresses, and calls of old systems.
    "personality modify_ldt uselib _sysctl sysfs ustat": errno.EPERM,
    # The machine itself.
    "kexec_load kexec_file_load init_module finit_module delete_module create_module get_kernel_syms query_module "
    "reboot swapon swapoff quotactl quotactl_fd acct syslog iopl ioperm nfsservctl vhangup vserver "
    "settimeofday stime clock_settime clock_adjtime adjtimex sethostname setdomainname": errno.EPERM,
}
"""The names of denied system calls (section 2 of the manual) → the error that they report.

Names that an architecture does not have are skipped. After ENOSYS, the C library or a program uses an alternative.
"""

ARGUMENTS = (
    # A new namespace gives privileges inside it.
    *(("clone", 0, flag, (flag,), errno.EPERM) for flag in NAMESPACE_FLAGS),
    # Types into the teacher's terminal.
    ("ioctl", 1, LOW_32_BITS, (TIOCSTI, TIOCLINUX), errno.EPERM),
    # Halts others that open a shared file, or shows that they do.
    ("fcntl", 1, LOW_32_BITS, (F_SETLEASE, F_NOTIFY), errno.EPERM),
    # A virtual machine's host, the kernel's ciphers, and other networks without namespaces.
    ("socket", 0, LOW_32_BITS, OTHER_FAMILIES, errno.EAFNOSUPPORT),
)
"""System calls that are denied if one argument has certain bits or values: the name, the index of the argument (from 0),
the bits to compare, the denied values, and the error. The kernel ignores the upper half of an argument that is an int.
"""

# The network, where no namespace keeps it away.
NETWORK = ("socket", 0, LOW_32_BITS, (AF_INET, AF_INET6), errno.EAFNOSUPPORT)


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
        ("position", ctypes.c_uint), ("operation", ctypes.c_int), ("mask", ctypes.c_uint64), ("value", ctypes.c_uint64),
    )  # fmt: skip


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def library() -> ctypes.CDLL:
    """Return libseccomp. Raise FilterError if it is missing."""
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
    """Return the filter, with or without internet sockets, as instructions for the kernel. Raise FilterError if that fails."""
    seccomp = library()
    context = seccomp.seccomp_init(ALLOW)
    try:
        _checked(seccomp.seccomp_attr_set(context, BAD_ARCHITECTURE, KILL_PROCESS), "the rule for foreign calls")
        seccomp.seccomp_attr_set(context, OPTIMIZE, BINARY_TREE)  # libseccomp 2.5; earlier versions are only slower
        for number, error, comparison in _rules(seccomp, network):
            count = 0 if comparison is None else 1
            pointer = None if comparison is None else ctypes.byref(comparison)
            _checked(seccomp.seccomp_rule_add_array(context, ERRNO | error, number, count, pointer), f"call {number}")
        with os.fdopen(os.memfd_create("filter"), "rb") as file:
            _checked(seccomp.seccomp_export_bpf(context, file.fileno()), "the export")
            file.seek(0)
            return file.read()
    finally:
        seccomp.seccomp_release(context)


def set_filter(instructions: bytes) -> None:
    """Set a filter for this process and all that it starts. Raise FilterError if the kernel rejects it. Requires `no_new_privs`."""
    program = _Program(len(instructions) // INSTRUCTION_BYTES, instructions)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0):
        raise FilterError(f"the kernel refuses the filter for system calls ({os.strerror(ctypes.get_errno())})")


def _rules(seccomp: ctypes.CDLL, network: bool) -> Iterator[tuple[int, int, _Comparison | None]]:
    """Yield the number of each call, its error, and the condition; None means always."""
    for names, error in CALLS.items():
        for name in names.split():
            if (number := seccomp.seccomp_syscall_resolve_name(name.encode())) >= 0:
                yield number, error, None
    for name, position, mask, values, error in ARGUMENTS if network else (*ARGUMENTS, NETWORK):
        number = seccomp.seccomp_syscall_resolve_name(name.encode())
        for value in values:
            yield number, error, _Comparison(position, MASKED_EQUAL, mask, value)
    for number in range(LARGEST_NUMBER + 1):
        if not seccomp.seccomp_syscall_resolve_num_arch(0, number):
            yield number, errno.ENOSYS, None


def _checked(result: int, what: str) -> None:
    if result:
        raise FilterError(f"libseccomp refuses {what} ({os.strerror(-result)})")
