"""The system calls that a submission may not make: the written list from which the seccomp filter is compiled.

What is not listed is allowed, so that ordinary programs work; a call that libseccomp does not know is refused.
"""

from __future__ import annotations

import errno
from typing import NamedTuple


class ForbiddenCalls(NamedTuple):
    """System calls that are refused for one reason.

    Attributes:
        reason: what they would be good for.
        names: as in the manual, section 2; those that an architecture does not have are left out there.
        error: what they report. ENOSYS where the C library or a program then takes another way.
    """

    reason: str
    names: str
    error: int = errno.EPERM


class ForbiddenArgument(NamedTuple):
    """A system call that is refused if one argument has certain bits, or one of these values.

    Attributes:
        reason: what it would be good for.
        name: as in the manual, section 2.
        position: of the argument, from 0.
        mask: bits that are looked at; the kernel ignores the upper half of an argument that is an int.
        values: any of which is refused.
        error: what the call reports.
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
    ForbiddenCalls("memory that belongs to no process, so nobody counts it", "memfd_create memfd_secret", errno.ENOSYS),
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
