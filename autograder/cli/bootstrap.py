"""Creates `.venv` next to this package and restarts the command in it. Uses only the standard library."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

AGAIN = "and run the command again; it continues from here."


def stage(lines: list[str], total: int = 0, unpacked: int = 0) -> str:
    """Return pip's current stage from its output, such as "fetching 12 of 150: jupyterlab (12.2 MB)".

    Args:
        lines: pip's output so far (pip 23 to 26, without its progress bar).
        total: the number of packages to install; 0 omits it from the text.
        unpacked: the number of packages installed so far, which pip does not print.
    """
    unpacking = [line for line in lines if line.startswith("Installing collected packages:")]
    if unpacking:
        count = unpacking[0].count(",") + 1
        return "unpacking" + (f" {min(unpacked, count)} of {count}" if count > 1 else ", up to two minutes")
    total -= sum(line.startswith("Ignoring ") for line in lines)  # needed only on other systems
    done = sum(line.startswith(("Collecting ", "Requirement already satisfied")) for line in lines)
    counted = f" {min(done, total)} of {total}" if total > 0 else ""
    sizes = [
        match for line in lines if (match := re.match(r"\s*Downloading (?:.*/)?([^-/\s]+)-\S+ (\([\d.]+ \w+\))", line))
    ]
    return f"fetching{counted}" + (f": {sizes[-1][1]} {sizes[-1][2]}" if sizes else "")


def reason(output: str, environment: Path) -> str | None:
    """Return the sentence for a failure that a user can correct, or None.

    Args:
        output: the complete output of pip or venv.
        environment: the folder to create.
    """
    if "No space left on device" in output:
        return f"the disk is full. Free some space at {environment.parent} {AGAIN}"
    if "NewConnectionError" in output or "name resolution" in output or "Network is unreachable" in output:
        return f"the package index could not be reached. Check the network {AGAIN}"
    if "Permission denied" in output or "Read-only file system" in output:
        return f"{environment} cannot be written. Clone the project to a folder of your own."
    if "DO NOT MATCH THE HASHES" in output:
        return f"the hash of a downloaded file differs from the one in the lock. Try another network or index {AGAIN}"
    if "No matching distribution" in output:
        missing = output.partition("No matching distribution found for ")[2].split("\n")[0].split(" (from")[0]
        return f"there is no {missing} for this Python ({sys.version.split()[0]}) and system. Try another Python from 3.11 on."
    return None


ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = ROOT / ".venv"
READY = ENVIRONMENT / "ready"
# The environment takes 1.8 GB with the CPU build of torch; downloads and unpacking need additional space.
NEEDED_BYTES = 4 * 10**9
# PyTorch's own index of CPU builds (https://pytorch.org/get-started/locally/), used if AUTOGRADER_TORCH=cpu is set.
CPU_INDEX = "https://download.pytorch.org/whl/cpu"


@dataclass(frozen=True)
class Lock:
    """The packages of the environment, from requirements/.

    Attributes:
        file: pip's requirements with hashes: all packages except torch.
        torch: torch's own requirement, such as "torch==2.13.0". It has no hash because its file differs between
            indexes.
        versions: package → version, including torch and packages of other systems.
    """

    file: Path
    torch: str
    versions: dict[str, str]


def ensure_environment(arguments: list[str]) -> None:
    """Return if the running Python has the locked packages, or the command needs none; else install them and run it there.

    Args:
        arguments: the command line after `python3 -m autograder`.

    Raises:
        SystemExit: with one sentence if the environment cannot be created, or with the command's own exit code.
    """
    if _asks_for_help(arguments):  # the parser needs the standard library only
        return
    if not (ROOT / "requirements" / "lock.txt").is_file():  # an installed package: the user has chosen the environment
        return
    lock = read_lock(ROOT / "requirements")
    if all(_installed_here(name, lock.versions[name]) for name in imported_packages(ROOT / "pyproject.toml")):
        return
    if not _is_ready(lock):
        _install_or_say_why(lock)
    elif Path(sys.prefix) == ENVIRONMENT:  # PYTHONPATH hides a locked package, also from the Python that would start
        return
    os.execve(_python(), [str(_python()), "-m", "autograder", *arguments], _environment())


def _asks_for_help(arguments: list[str]) -> bool:
    before_dashes = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return not before_dashes or before_dashes[0] == "--version" or not {"-h", "--help"}.isdisjoint(before_dashes)


def read_lock(folder: Path) -> Lock:
    """Return the pinned versions of requirements/; `python -m tests.lock` writes them."""
    file, torch = folder / "lock.txt", (folder / "torch.txt").read_text("utf-8")
    pins = re.findall(r"^([\w.-]+)==([^\s;]+)", file.read_text("utf-8") + torch, re.M)
    return Lock(file, "torch==" + dict(pins)["torch"], dict(pins))


def imported_packages(pyproject: Path) -> list[str]:
    """Return the names of the packages that the commands import directly: the requirements and two of the extras."""
    project = tomllib.loads(pyproject.read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    names = [re.split(r"[^\w.-]", line)[0] for line in [*project["dependencies"], *extras["course"], *extras["grade"]]]
    return [name for name in names if name != project["name"]]


def install(lock: Lock) -> None:
    """Create or complete `.venv`; after an interruption, the next call continues.

    Raises:
        SystemExit: with one sentence, if venv, the network, disk space or a package is missing.
    """
    torch_from_cpu_index = _wants_cpu_index()
    _check_disk_space()
    _make_venv()
    forget_incomplete(ENVIRONMENT)
    size = "2 GB, or several more if torch includes CUDA"
    _report(f"autograder: installing into {ENVIRONMENT} (once; 2 to 10 minutes; {size})")
    # The lock is complete, so pip need not resolve dependencies; torch is installed last, when its dependencies are present.
    hashed = ["--no-deps", "--require-hashes", "--requirement", str(lock.file)]
    _pip(*hashed, title="packages", total=len(lock.versions) - 1)
    _install_torch(lock.torch, torch_from_cpu_index)
    _pip("--no-build-isolation", "--no-deps", "--editable", str(ROOT), title="autograder itself")
    READY.write_text(_fingerprint(lock), encoding="utf-8")
    shutil.rmtree(ENVIRONMENT / "tmp", ignore_errors=True)


def _wants_cpu_index() -> bool:
    choice = os.environ.get("AUTOGRADER_TORCH", "")
    if choice not in ("", "cpu"):
        _stop(f"AUTOGRADER_TORCH is {choice!r}, which is not supported. Set it to cpu, or unset it.")
    return choice == "cpu"


def _install_torch(pin: str, from_cpu_index: bool) -> None:
    if from_cpu_index:
        index = ["--index-url", CPU_INDEX, "--retries", "1", "--timeout", "20"]
        if _run_pip(*index, pin, title="torch, the CPU build") is None:
            return
        _report(
            f"autograder: {CPU_INDEX} could not be used, so torch comes from the default index, "
            "whose build for Linux includes several GB of CUDA libraries."
        )
    _pip(pin, title="torch")


def _install_or_say_why(lock: Lock) -> None:
    try:
        install(lock)
    except KeyboardInterrupt:
        _stop("interrupted. Run the command again; it continues from here.")
    except OSError as error:
        _stop(reason(str(error), ENVIRONMENT) or f"the environment could not be created: {error}.")


def forget_incomplete(environment: Path) -> None:
    """Remove the metadata of packages with missing files, so that pip installs them again.

    pip 23 to 25 considers a package installed as soon as its metadata folder exists; a package whose installation was
    interrupted would otherwise stay broken.
    """
    for metadata in _installed_in(environment):
        files = importlib.metadata.Distribution.at(metadata).files
        if files is None or not all((metadata.parent / file).exists() for file in files if file.suffix != ".pyc"):
            shutil.rmtree(metadata)


def _installed_in(environment: Path) -> list[Path]:
    """Return the metadata folders of an environment's packages, which are in another folder on Windows."""
    return [path for lib in ("lib/python*", "Lib") for path in environment.glob(f"{lib}/site-packages/*.dist-info")]


def _installed_here(name: str, version: str) -> bool:
    try:
        return importlib.metadata.version(name).partition("+")[0] == version
    except importlib.metadata.PackageNotFoundError:
        return False


def _is_ready(lock: Lock) -> bool:
    return READY.exists() and READY.read_text(encoding="utf-8") == _fingerprint(lock) and _python().exists()


def _fingerprint(lock: Lock) -> str:
    parts = (lock.file.read_text("utf-8"), lock.torch, str(ROOT))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _python() -> Path:
    return ENVIRONMENT / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def _environment() -> dict[str, str]:
    """Return the environment without the user's own pip configuration and site-packages, and with all writes inside the clone."""
    empty = ENVIRONMENT / "pip.conf"
    # pip reads ~/.config/pip/pip.conf unless PIP_CONFIG_FILE names an existing file; site-packages in the home folder
    # shadow locked ones unless PYTHONNOUSERSITE is set (pip's and Python's documentation).
    return os.environ | {
        "PIP_CONFIG_FILE": str(empty),
        "PIP_CACHE_DIR": str(ENVIRONMENT / "tmp" / "cache"),
        "PYTHONNOUSERSITE": "1",
    }


def _check_disk_space() -> None:
    free = shutil.disk_usage(ROOT).free
    if not ENVIRONMENT.exists() and free < NEEDED_BYTES:
        _stop(
            f"only {free / 1e9:.1f} GB are free at {ROOT}, and the environment needs {NEEDED_BYTES / 1e9:.0f} GB. "
            "Free some space and run the command again."
        )


def _make_venv() -> None:
    if _runs(_python(), "-m", "pip", "--version"):
        return
    _report(f"autograder: creating an environment in {ENVIRONMENT}")
    made = subprocess.run([sys.executable, "-m", "venv", "--clear", str(ENVIRONMENT)], capture_output=True, text=True)
    if made.returncode or not _runs(_python(), "-m", "pip", "--version"):
        shutil.rmtree(ENVIRONMENT, ignore_errors=True)
        if "ensurepip" in made.stdout + made.stderr or "No module named venv" in made.stderr:
            _stop(
                "this Python has no venv module. On Debian and Ubuntu: `sudo apt install python3-venv`, then run the command again."
            )
        _stop(reason(made.stdout + made.stderr, ENVIRONMENT) or "the environment could not be created.")


def _runs(*command: object) -> bool:
    try:
        return subprocess.run([str(part) for part in command], capture_output=True).returncode == 0
    except OSError:
        return False


def _pip(*arguments: str, title: str, total: int = 0) -> None:
    output = _run_pip(*arguments, title=title, total=total)
    if output is not None:
        _stop(
            reason(output, ENVIRONMENT) or f"pip failed. Its last output: {' '.join(output.splitlines()[-3:]).strip()}"
        )


def _run_pip(*arguments: str, title: str, total: int = 0) -> str | None:
    """Run `pip install` with a progress line; return pip's output if it failed, else None."""
    temporary = ENVIRONMENT / "tmp"
    temporary.mkdir(exist_ok=True)
    (ENVIRONMENT / "pip.conf").touch()
    pip = [str(_python()), "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--progress-bar=off"]
    lines: list[str] = []
    process = subprocess.Popen(
        [*pip, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=_environment() | {"TMPDIR": str(temporary)},
    )
    with _progress(lines, title, total):
        lines.extend(iter(process.stdout.readline, "") if process.stdout else ())
    return "".join(lines) if process.wait() else None


@contextlib.contextmanager
def _progress(lines: list[str], title: str, total: int) -> Iterator[None]:
    """Show one line with the current stage of pip, its progress, and the elapsed time."""
    started, done, before = time.monotonic(), threading.Event(), len(_installed_in(ENVIRONMENT))

    def tell() -> None:
        pace = 1 if sys.stderr.isatty() else 20
        while not done.wait(pace):
            unpacked = len(_installed_in(ENVIRONMENT)) - before
            text = f"  {title} · {stage(list(lines), total, unpacked)} · {time.monotonic() - started:.0f} s"
            _report(f"\r{text:<78}" if sys.stderr.isatty() else text, end="" if sys.stderr.isatty() else "\n")

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        _report(f"\r{'':78}\r" if sys.stderr.isatty() else "", end="")


def _report(text: str, end: str = "\n") -> None:
    """Print a text to standard error: the command that follows may print JSON to standard output."""
    print(text, end=end, file=sys.stderr, flush=True)


def _stop(sentence: str) -> NoReturn:
    sys.exit(f"autograder: {sentence}")
