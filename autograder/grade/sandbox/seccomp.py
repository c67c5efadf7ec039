"""Compiles the list of forbidden system calls with libseccomp, and sets the filter in this process for good.

libseccomp (2.4 or later) is a library of the system, which Debian's package manager itself needs.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterator

from autograder.errors import SetupError
from autograder.grade.sandbox.forbidden_calls import ARGUMENTS, CALLS, NETWORK

# Numbers of <seccomp.h>, <sys/prctl.h> and <linux/filter.h>.
ALLOW, KILL_PROCESS, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
BAD_ARCHITECTURE, OPTIMIZE = 2, 8  # attributes of a filter
BINARY_TREE = 2
MASKED_EQUAL = 7
PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
INSTRUCTION_BYTES = 8
LARGEST_NUMBER = 1023  # Linux 6.18 has calls up to 470
MISSING = "libseccomp is missing; install it: `sudo apt install libseccomp2`"


class FilterError(SetupError):
    """There is no filter for system calls on this machine; the message says why."""


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
    """Returns libseccomp; raises FilterError where it is missing."""
    try:
        found = ctypes.CDLL("libseccomp.so.2")
    except OSError:
        raise FilterError(MISSING) from None
    found.seccomp_init.restype = ctypes.c_void_p
    found.seccomp_init.argtypes = [ctypes.c_uint32]
    found.seccomp_rule_add_array.argtypes = [
        ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p,
    ]  # fmt: skip
    found.seccomp_attr_set.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32]
    found.seccomp_export_bpf.argtypes = [ctypes.c_void_p, ctypes.c_int]
    found.seccomp_release.argtypes = [ctypes.c_void_p]
    found.seccomp_syscall_resolve_num_arch.restype = ctypes.c_void_p
    return found


def obstacle() -> str:
    """Returns why no filter can be compiled here, and what to do about it; "" if it can."""
    try:
        library()
    except FilterError as error:
        return str(error)
    return ""


def call_number(name: str) -> int:
    """Returns the number of a system call on this architecture; negative if it has no such call."""
    return int(library().seccomp_syscall_resolve_name(name.encode()))


def compile_filter(*, network: bool = True) -> bytes:
    """Returns the filter as instructions for the kernel.

    Args:
        network: whether sockets of the internet may be opened.

    Raises:
        FilterError: libseccomp is missing, or it refuses a rule.
    """
    seccomp = library()
    context = seccomp.seccomp_init(ALLOW)
    try:
        _checked(seccomp.seccomp_attr_set(context, BAD_ARCHITECTURE, KILL_PROCESS), "the rule for foreign calls")
        seccomp.seccomp_attr_set(context, OPTIMIZE, BINARY_TREE)  # libseccomp 2.5; earlier ones are only slower
        for number, error, comparison in _rules(seccomp, network):
            count = 0 if comparison is None else 1
            pointer = None if comparison is None else ctypes.byref(comparison)
            _checked(seccomp.seccomp_rule_add_array(context, ERRNO | error, number, count, pointer), f"call {number}")
        return _exported(seccomp, context)
    finally:
        seccomp.seccomp_release(context)


def set_filter(instructions: bytes) -> None:
    """Sets a filter in this process and in all that it starts; it cannot be taken off. Needs `no_new_privs`.

    Raises:
        FilterError: the kernel refuses it.
    """
    program = _Program(len(instructions) // INSTRUCTION_BYTES, instructions)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0):
        raise FilterError(f"the kernel refuses the filter for system calls ({os.strerror(ctypes.get_errno())})")


def _rules(seccomp: ctypes.CDLL, network: bool) -> Iterator[tuple[int, int, _Comparison | None]]:
    """Yields the number of each call, the error that it reports, and when: None means always."""
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
