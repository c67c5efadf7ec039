"""Makes `.venv` beside this package and goes on inside it. Standard library only: nothing else is there yet."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv"
READY = ENVIRONMENT / "ready"
NEEDED_BYTES = (
    4 * 10**9
)  # the environment takes 1.8 GB with the CPU build of torch; downloads and unpacking come on top


def ensure_environment(arguments: list[str]) -> None:
    """Returns where the running Python has the pinned packages; else installs them into `.venv` and runs the command there.

    Args:
        arguments: the command line after `python3 -m autograder`.

    Raises:
        SystemExit: with one sentence where the environment cannot be made, or with the command's own exit code.
    """
    pyproject = ROOT / "pyproject.toml"
    if not pyproject.exists():  # an installed package: whoever installed it chose the environment
        return
    direct, pins = read_pins(pyproject)
    if all(_installed_here(pin) for pin in direct):
        return
    if not _is_ready(pins):
        _install_or_say_why(pins)
    os.execve(_python(), [str(_python()), "-m", "autograder", *arguments], _environment())


def read_pins(pyproject: Path) -> tuple[list[str], list[str]]:
    """Returns the packages that the project uses itself, such as "torch==2.13.0", and the whole set with all they bring along."""
    settings = tomllib.loads(pyproject.read_text(encoding="utf-8"))
    direct = settings["project"]["dependencies"]
    tests = settings["project"]["optional-dependencies"]["test"]
    return direct, [*direct, *tests, *settings["tool"]["autograder"]["pins"]]


def install(pins: list[str]) -> None:
    """Makes or completes `.venv`; interrupted at any point, the next call goes on from there.

    Raises:
        SystemExit: with one sentence, where venv, the network, disk space or a package is missing.
    """
    _make_room()
    _make_venv()
    forget_incomplete(ENVIRONMENT)
    print(f"autograder: installing {len(pins)} packages into {ENVIRONMENT} (once; about 2 GB)", flush=True)
    _pip("install", "--progress-bar=off", *pins, total=len(pins))
    _pip("install", "--no-build-isolation", "--no-deps", "--editable", str(ROOT), total=1)
    READY.write_text(_fingerprint(pins), encoding="utf-8")
    shutil.rmtree(ENVIRONMENT / "tmp", ignore_errors=True)


def _install_or_say_why(pins: list[str]) -> None:
    try:
        install(pins)
    except KeyboardInterrupt:
        _stop("interrupted. Run the command again; it goes on from here.")
    except OSError as error:
        _stop(_reason(str(error)) or f"the environment could not be made: {error}.")


def forget_incomplete(environment: Path) -> None:
    """Removes the metadata of packages whose files are not all there, so that pip installs these again.

    pip 23 to 25 takes a package for installed as soon as its metadata folder exists; one that was interrupted while its
    files were copied would stay broken for ever.
    """
    for folder in environment.glob("lib/python*/site-packages"):
        for metadata in folder.glob("*.dist-info"):
            files = importlib.metadata.Distribution.at(metadata).files
            if files is None or not all((folder / file).exists() for file in files if file.suffix != ".pyc"):
                shutil.rmtree(metadata)


def _installed_here(pin: str) -> bool:
    name, _, version = pin.partition("==")
    try:
        return importlib.metadata.version(name).partition("+")[0] == version
    except importlib.metadata.PackageNotFoundError:
        return False


def _is_ready(pins: list[str]) -> bool:
    return READY.exists() and READY.read_text(encoding="utf-8") == _fingerprint(pins) and _python().exists()


def _fingerprint(pins: list[str]) -> str:
    return hashlib.sha256("\n".join([*pins, str(ROOT)]).encode()).hexdigest()


def _python() -> Path:
    return ENVIRONMENT / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def _environment() -> dict[str, str]:
    """Returns the process environment with the user's own configuration out of reach and every write inside the clone."""
    empty = ENVIRONMENT / "pip.conf"
    # pip reads ~/.config/pip/pip.conf unless PIP_CONFIG_FILE names an existing file; site-packages in the home folder
    # shadow pinned ones unless PYTHONNOUSERSITE is set (pip's and Python's documentation).
    return os.environ | {
        "PIP_CONFIG_FILE": str(empty),
        "PIP_CACHE_DIR": str(ENVIRONMENT / "tmp" / "cache"),
        "PYTHONNOUSERSITE": "1",
    }


def _make_room() -> None:
    free = shutil.disk_usage(ROOT).free
    if not ENVIRONMENT.exists() and free < NEEDED_BYTES:
        _stop(
            f"only {free / 1e9:.1f} GB are free at {ROOT}, and the environment needs {NEEDED_BYTES / 1e9:.0f} GB. "
            "Free some space and run the command again."
        )


def _make_venv() -> None:
    if _runs(_python(), "-m", "pip", "--version"):
        return
    print(f"autograder: making an environment in {ENVIRONMENT}", flush=True)
    made = subprocess.run([sys.executable, "-m", "venv", "--clear", str(ENVIRONMENT)], capture_output=True, text=True)
    if made.returncode or not _runs(_python(), "-m", "pip", "--version"):
        shutil.rmtree(ENVIRONMENT, ignore_errors=True)
        if "ensurepip" in made.stdout + made.stderr or "No module named venv" in made.stderr:
            _stop(
                "this Python has no venv module. On Debian and Ubuntu: `sudo apt install python3-venv`, then run the command again."
            )
        _stop(_reason(made.stdout + made.stderr) or "the environment could not be made.")


def _runs(*command: object) -> bool:
    try:
        return subprocess.run([str(part) for part in command], capture_output=True).returncode == 0
    except OSError:
        return False


def _pip(*arguments: str, total: int) -> None:
    temporary = ENVIRONMENT / "tmp"
    temporary.mkdir(exist_ok=True)
    (ENVIRONMENT / "pip.conf").touch()
    command = [str(_python()), "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]
    lines: list[str] = []
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=_environment() | {"TMPDIR": str(temporary)},
    )
    with _progress(lines, total):
        lines.extend(iter(process.stdout.readline, "") if process.stdout else ())
    if process.wait():
        _stop(_reason("".join(lines)) or f"pip failed. Its last words: {''.join(lines[-3:]).strip()}")


def _reason(output: str) -> str | None:
    """Returns the sentence for a failure that a user can do something about, None for any other."""
    if "No space left on device" in output:
        return f"the disk is full. Free some space at {ROOT} and run the command again; it goes on from here."
    if "NewConnectionError" in output or "name resolution" in output or "Network is unreachable" in output:
        return (
            "the package index could not be reached. Check the network and run the command again; it goes on from here."
        )
    if "Permission denied" in output:
        return f"no permission to write in {ENVIRONMENT}. Clone the project to a folder of your own."
    if "No matching distribution" in output:
        missing = output.partition("No matching distribution found for ")[2].split("\n")[0]
        return f"there is no {missing} for this Python ({sys.version.split()[0]}) and system. Try another Python from 3.11 on."
    return None


@contextlib.contextmanager
def _progress(lines: list[str], total: int) -> Iterator[None]:
    """Keeps one line up to date while pip works: how many packages it has looked at, and for how long."""
    started, done = time.monotonic(), threading.Event()

    def tell() -> None:
        pace = 1 if sys.stdout.isatty() else 20
        while not done.wait(pace):
            found = sum(line.startswith(("Collecting", "Requirement already satisfied")) for line in list(lines))
            stage = "unpacking" if any(line.startswith("Installing collected") for line in list(lines)) else "fetching"
            text = f"  {stage} · {min(found, total)} of {total} packages · {time.monotonic() - started:.0f} s"
            print(f"\r{text}" if sys.stdout.isatty() else text, end="" if sys.stdout.isatty() else "\n", flush=True)

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        print("\r" if sys.stdout.isatty() else "", end="", flush=True)


def _stop(sentence: str) -> NoReturn:
    sys.exit(f"autograder: {sentence}")
