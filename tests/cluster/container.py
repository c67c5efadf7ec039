"""The steps of `docs/cluster/Dockerfile`, carried out in a Debian made by debootstrap, and a class graded by what comes of it.

`python -m tests.cluster.container` needs root, debootstrap, bubblewrap, and a network that reaches Debian and PyPI. No Docker.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.cluster.small_class import make_class, without_seconds

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = ROOT / "docs" / "cluster" / "Dockerfile"
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def steps(text: str) -> Iterator[tuple[str, str]]:
    """Yields each instruction of a Dockerfile, such as RUN, with what stands behind it."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    for line in re.sub(r"\s*\\\n\s*", " ", "\n".join(lines)).splitlines():
        instruction, _, words = line.partition(" ")
        yield instruction, words.strip()


class DebianRoot:
    """A Debian system in a folder.

    Args:
        folder: made by debootstrap, if the system is not there yet.
        settings: values for the Dockerfile's ARG lines.
        shared: files and folders of this machine that the steps need, such as a folder of wheels.
    """

    def __init__(self, folder: Path, settings: dict[str, str], shared: list[str]) -> None:
        self.folder, self._settings, self._shared = folder, settings, shared
        self._variables = {"PATH": SYSTEM_PATH} | {k: v for k, v in os.environ.items() if k.startswith("PIP_")}
        self._user, self._workdir, self.command = "root", "/", ["/bin/sh"]

    def carry_out(self, instruction: str, words: str) -> None:
        """Does what an instruction of a Dockerfile says; ends the program where that fails.

        Raises:
            KeyError: the instruction is none of those that our Dockerfile uses.
        """
        print(f"{instruction} {words}", flush=True)
        known = {"FROM": self._debootstrap, "ARG": self._argument, "ENV": self._variable, "COPY": self._copy}
        known |= {"RUN": self._shell, "USER": self._become, "WORKDIR": self._enter, "CMD": self._default}
        known[instruction](words)

    def run(self, command: list[str], **how) -> subprocess.CompletedProcess[str]:
        """Runs a command in the system, as the user and in the folder that the steps have set."""
        # bubblewrap instead of chroot, inside of which the kernel allows nobody a user namespace, and so no isolation.
        # Its own /proc is masked, as a container's is; `procMount: Unmasked` of kubernetes.yaml gives a whole one.
        mounts = ["--bind", str(self.folder), "/", "--dev-bind", "/dev", "/dev", "--unshare-pid"]
        for path in ("/etc/resolv.conf", *self._shared):
            mounts += ["--ro-bind", path, path]
        user = f"mount -t proc proc /proc && exec setpriv --reuid={self._user} --regid={self._user} --init-groups"
        inside = ["sh", "-c", f'{user} "$@"', "sh", *command]
        whole = ["bwrap", *mounts, "--cap-add", "ALL", "--chdir", self._workdir, "--", *inside]
        return subprocess.run(whole, env=self._variables, text=True, **how)

    def _debootstrap(self, image: str) -> None:
        suite = image.removeprefix("debian:").removesuffix("-slim")
        if not (self.folder / "usr").is_dir():
            subprocess.run(["debootstrap", "--variant=minbase", suite, str(self.folder)], check=True)

    def _argument(self, words: str) -> None:
        name, _, value = words.partition("=")
        self._variables[name] = self._settings.get(name, value)

    def _variable(self, words: str) -> None:
        name, _, value = words.partition("=")
        self._variables[name] = value.replace("$PATH", self._variables["PATH"])

    def _copy(self, words: str) -> None:
        *sources, target = words.split()
        goal = self.folder / self._workdir.lstrip("/") / target
        for source in sources:
            if (ROOT / source).is_dir():
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(ROOT / source, goal, dirs_exist_ok=True, ignore=ignored)
            else:
                shutil.copy(ROOT / source, goal)

    def _shell(self, words: str) -> None:
        if status := self.run(["/bin/sh", "-c", words]).returncode:
            sys.exit(f"this step ended with status {status}")

    def _become(self, user: str) -> None:
        self._user, self._variables["HOME"] = user, f"/home/{user}"

    def _enter(self, folder: str) -> None:
        self._workdir = folder
        (self.folder / folder.lstrip("/")).mkdir(parents=True, exist_ok=True)

    def _default(self, words: str) -> None:
        self.command = json.loads(words)


def graded(system: DebianRoot, *options: str) -> list[object]:
    """Returns the rows of a small class that the system's user grades."""
    name = "class-" + "-".join(options).replace(":", "")
    make_class(system.folder / "tmp" / name, 8)
    subprocess.run(["chmod", "-R", "a+rwX", str(system.folder / "tmp" / name)], check=True)
    command = ["autograder", "grade", "small", "--course", f"/tmp/{name}", "--json", *options]
    done = system.run(command, stdout=subprocess.PIPE)
    assert done.returncode in (0, 1)
    return without_seconds(json.loads(done.stdout)["students"])


def main() -> None:
    """Carries out the steps, runs the image's command, and grades a class with two workers; ends with 1 if anything failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.container", description=__doc__)
    parser.add_argument("--build-arg", action="append", default=[], metavar="NAME=VALUE", help="as of docker build")
    parser.add_argument("--share", action="append", default=[], metavar="PATH", help="the steps need it; read-only")
    parser.add_argument("--root", type=Path, help="use this folder, and keep it")
    chosen = parser.parse_args()
    settings = dict(setting.split("=", 1) for setting in chosen.build_arg)
    with tempfile.TemporaryDirectory() as temporary:
        system = DebianRoot(chosen.root or Path(temporary) / "root", settings, chosen.share)
        for step in steps(DOCKERFILE.read_text("utf-8")):
            system.carry_out(*step)
        print(shlex.join(system.command), flush=True)
        system.run(system.command)
        same = graded(system) == graded(system, "--cluster", "local:2")
        print(f"a class of eight, alone and with two workers: {'equal rows' if same else 'rows differ'}")
    sys.exit(not same)


if __name__ == "__main__":
    main()
