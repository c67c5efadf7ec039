"""A container that forbids namespaces gets a message with the setting that forbids them, and the one that allows them."""

import subprocess
import sys
from pathlib import Path

import pytest

from autograder.course.paths import ROOT
from autograder.grade.sandbox.isolation import LEVELS, namespace_obstacles

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


@pytest.fixture
def isolated():
    """Skip where bubblewrap does not work anyway."""
    if LEVELS["bubblewrap"].obstacle:
        pytest.skip(LEVELS["bubblewrap"].obstacle)


def probed(*start: str, program: str = PROBE) -> str:
    """Return the result of the level's probe in a process that is started with other rights."""
    return subprocess.check_output([*start, sys.executable, "-c", program], text=True, cwd=ROOT).strip()


@pytest.mark.usefixtures("isolated")
def test_a_filter_like_dockers_is_named():
    """Under a real filter that refuses user namespaces, the sentence names it, with the line for a pod and for Docker."""
    assert "" == probed()
    said = probed(program=FILTERED + PROBE)
    assert said.startswith("bubblewrap is not allowed to work here (")
    assert "a filter of system calls is set; `seccompProfile: {type: Unconfined}` in a pod" in said
    assert "seccomp=unconfined" in said
    assert "masked" not in said


@pytest.mark.usefixtures("isolated")
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
        (
            "self/attr/current",
            "cri-containerd.apparmor.d (enforce)\n",
            "profile is 'cri-containerd.apparmor.d'; `appArmor",
        ),
        ("self/attr/current", "unconfined\n", ""),
        ("self/status", "Name:\tpython\nSeccomp:\t2\nSeccomp_filters:\t1\n", "a filter of system calls is set"),
        ("self/status", "Name:\tpython\nSeccomp:\t0\n", ""),
        ("self/mountinfo", "29 22 0:25 / /proc/sys/fs/binfmt_misc rw - autofs x rw\n", ""),
        ("sys/user/max_user_namespaces", "0\n", "user.max_user_namespaces is 0; on the machine itself"),
        ("sys/user/max_user_namespaces", "95000\n", ""),
        ("sys/kernel/unprivileged_userns_clone", "0\n", "`sysctl kernel.unprivileged_userns_clone=1`"),
        ("sys/kernel/apparmor_restrict_unprivileged_userns", "1\n", "an AppArmor profile for bwrap"),
    ],
)
def test_each_fact_has_its_sentence(tmp_path: Path, file, text, said):
    """The kernel's facts on a profile, a filter, masks and switches each give a sentence; those of a plain machine do not."""
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text(text)
    found = namespace_obstacles(tmp_path)
    assert bool(said) == bool(found)
    assert said in "".join(found)
