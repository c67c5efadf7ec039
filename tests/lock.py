"""Writes requirements/: one exact version of every package, with hashes. `python -m tests.lock` keeps what is locked.

The versions hold for Linux, macOS and Windows and for every Python that the project names, so uv resolves them for all at
once; pip can only resolve for the Python that it runs in (pip 25.3, `pip lock`).
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
LOCK, TORCH = ROOT / "requirements" / "lock.txt", ROOT / "requirements" / "torch.txt"
OLDEST_PYTHON = "3.11"
HEADER = """\
# Everything but PyTorch, for Linux, macOS and Windows and Python 3.11 to 3.14. Written by `python -m tests.lock`.
# pip install --no-deps --require-hashes --requirement requirements/lock.txt
"""
TORCH_HEADER = """\
# PyTorch alone, without a hash: its file differs from one index to the next. Written by `python -m tests.lock`.
# pip install --requirement requirements/torch.txt
"""
CONDA_NAMES = {"pytorch": "torch"}


class Locked(NamedTuple):
    """One package of the lock.

    Attributes:
        name: name as in the index, such as "jupyter-core".
        version: the exact version.
        marker: condition under which it is needed, such as "sys_platform == 'win32'"; "" if always.
        hashes: hashes of all files of the version, each as "sha256:…".
        needed_by: names of the packages that require it.
    """

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]
    needed_by: frozenset[str]

    def __str__(self) -> str:
        pin = f"{self.name}=={self.version}" + (f" ; {self.marker}" if self.marker else "")
        return " \\\n    ".join([pin, *(f"--hash={known}" for known in self.hashes)])


def main(arguments: Sequence[str] | None = None) -> None:
    """Resolves pyproject.toml with all its extras, and writes requirements/ and the versions in environment.yml."""
    parser = argparse.ArgumentParser(prog="python -m tests.lock", description=__doc__)
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions instead of the locked ones")
    packages = parse(resolve(keep=not parser.parse_args(arguments).upgrade))
    versions = {package.name: package.version for package in packages}
    kept = without_cuda(packages)
    LOCK.write_text(HEADER + "".join(f"{package}\n" for package in kept), "utf-8")
    TORCH.write_text(f"{TORCH_HEADER}torch=={versions['torch']}\n", "utf-8")
    conda = ROOT / "environment.yml"
    conda.write_text(in_step(conda.read_text("utf-8"), versions), "utf-8")
    print(f"locked {len(kept)} packages and torch {versions['torch']}")


def resolve(keep: bool) -> str:
    """Return uv's answer as a requirements file of pip; with `keep`, locked versions are kept if possible.

    Raises:
        SystemExit: uv is missing, or no set of versions fits.
    """
    program = shutil.which("uv", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
    if program is None:
        sys.exit("uv is missing, which resolves for all systems at once: `pip install uv`.")
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "lock.txt"
        if keep and LOCK.exists():
            answer.write_text(
                LOCK.read_text("utf-8") + TORCH.read_text("utf-8"), "utf-8"
            )  # uv prefers what stands there
        command = [program, "pip", "compile", "--no-config", "--universal", "--python-version", OLDEST_PYTHON]
        command += ["--fork-strategy", "fewest", "--all-extras", "--generate-hashes", "--no-header"]
        command += ["--output-file", str(answer), "pyproject.toml"]
        done = subprocess.run(command, cwd=ROOT, env=_environment(), capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr)
        return answer.read_text("utf-8")


def parse(text: str) -> list[Locked]:
    """Return the packages of a requirements file with uv's annotations, in its order."""
    return [_package(block) for block in re.split(r"\n(?=\w)", f"\n{text}")[1:]]


def _package(block: str) -> Locked:
    name, version, marker = re.match(r"([\w.-]+)==([^\s\\]+)(?: ; ([^\\\n]+))?", block).groups()  # type: ignore[union-attr]
    notes = block.partition("# via")[2]
    return Locked(
        name,
        version,
        (marker or "").strip(),
        tuple(re.findall(r"--hash=(sha256:\w+)", block)),
        frozenset(re.findall(r"^[ #]*([\w.-]+)", notes, re.M)),
    )


def without_cuda(packages: list[Locked]) -> list[Locked]:
    """Remove torch, and the packages that only its CUDA build for Linux needs; pip finds them when it installs torch."""
    gone = {"torch"}
    while found := {p.name for p in packages if "linux" in p.marker and p.needed_by <= gone} - gone:
        gone |= found
    return [package for package in packages if package.name not in gone]


def in_step(conda: str, versions: dict[str, str]) -> str:
    """Return environment.yml with the locked version of every package that it names with one."""

    def pin(found: re.Match[str]) -> str:
        name = found["name"]
        return f"{found['dash']}{name}={versions.get(CONDA_NAMES.get(name, name), found['version'])}"

    return re.sub(r"(?P<dash>^ *- )(?P<name>[\w-]+)=(?P<version>[\w.]+)", pin, conda, flags=re.M)


def _environment() -> dict[str, str]:
    """Return the environment without settings of uv, which could name another index; no index is written to the file."""
    return {name: value for name, value in os.environ.items() if not name.startswith("UV_")}


if __name__ == "__main__":
    main()
