"""What keeps bubblewrap from making namespaces, in a container or on the node below it, and the setting that allows it.

Each row is a fact that this machine shows in /proc; whether it is the one that refuses, only a trial can tell.
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

PROC = Path("/proc")

# File below /proc/sys, the value that refuses, and what to do on the machine, or on the node that a pod runs on.
SWITCHES = (
    ("user/max_user_namespaces", "0", "`sysctl user.max_user_namespaces=15000`"),
    ("kernel/unprivileged_userns_clone", "0", "`sysctl kernel.unprivileged_userns_clone=1`"),
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "`sysctl kernel.apparmor_restrict_unprivileged_userns=0`, or an AppArmor profile for bwrap",
    ),
)


def namespace_obstacles(proc: Path = PROC) -> list[str]:
    """Returns a sentence for each fact that may forbid namespaces here; none where nothing is known."""
    return [*_filter(proc), *_profile(proc), *_masks(proc), *_switches(proc)]


def _filter(proc: Path) -> list[str]:
    """Containers have a filter of system calls (seccomp), which refuses namespaces unless it is lifted."""
    if not re.search(r"^Seccomp:\s*2$", _text(proc / "self/status"), re.M):
        return []
    lifted = "`seccompProfile: {type: Unconfined}` in a pod, `--security-opt seccomp=unconfined` for Docker"
    return [f"a filter of system calls is set; {lifted}"]


def _profile(proc: Path) -> list[str]:
    """Docker's and containerd's AppArmor profiles refuse mounts, in namespaces of one's own too."""
    profile = _text(proc / "self/attr/current").strip("\0 \n")
    if not profile.endswith("(enforce)"):
        return []
    lifted = "`appArmorProfile: {type: Unconfined}` in a pod, `--security-opt apparmor=unconfined` for Docker"
    return [f"the AppArmor profile is {profile.removesuffix('(enforce)').strip()!r}; {lifted}"]


def _masks(proc: Path) -> list[str]:
    """The kernel mounts no new /proc for who sees only a masked one (Linux, `mount_too_revealing`)."""
    points = re.findall(r"^(?:\S+ ){4}(/proc/\S+) ", _text(proc / "self/mountinfo"), re.M)
    masks = [point for point in points if not point.startswith("/proc/sys/fs/binfmt_misc")]  # systemd's, on any machine
    if not masks:
        return []
    lifted = (
        "`procMount: Unmasked` with `hostUsers: false` in a pod, `--security-opt systempaths=unconfined` for Docker"
    )
    return [f"parts of /proc are masked ({masks[0]}, for instance); {lifted}"]


def _switches(proc: Path) -> list[str]:
    return [
        f"{file.replace('/', '.')} is {value}; on the machine itself, or the pod's node: {command}"
        for file, value, command in SWITCHES
        if _text(proc / "sys" / file).strip() == value
    ]


def _text(file: Path) -> str:
    with contextlib.suppress(OSError):
        return file.read_text("utf-8", "replace")
    return ""
