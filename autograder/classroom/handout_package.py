"""All files that a student needs for an assignment, as a zip or a folder: `release --to`.

The notebooks, their files and the glossary have the same places as in the course, so that links between them work.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import subprocess
import sys
import tempfile
import urllib.parse
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from autograder.classroom.harness_zip import files_below, locked_requirements
from autograder.classroom.worksheet import zip_of
from autograder.course.paths import replace_file, write_files
from autograder.errors import InputError, printable
from autograder.locale.translations import translated_templates
from autograder.requirements import require_clone

PAGE, REQUIREMENTS, GLOSSARY = "open-me-first.html", "requirements.txt", "start/glossary.ipynb"
TEMPLATES = Path(__file__).parent / "template"
PIN = re.compile(r"^([\w.-]+)==[^\s;\\]+(?: ;[^\\\n]*)?", re.MULTILINE)
SYSTEMS = [
    {"os_name": name, "sys_platform": system, "platform_system": title, "python_version": python}
    | {"python_full_version": f"{python}.0"}
    for name, system, title in (("nt", "win32", "Windows"), ("posix", "darwin", "Darwin"), ("posix", "linux", "Linux"))
    for python in ("3.11", "3.12", "3.13", "3.14")
]
"""The systems and Pythons of requirements/lock.txt, as markers of requirements see them."""
# A link or picture of Markdown to a path; code, which may look like one, is matched first.
LINK = re.compile(
    r"```.*?```|`[^`\n]+`|!?\[(?P<text>(?:[^\[\]]|\[[^\[\]]*\])*)\]\((?P<path>(?!\w+:|#)[^)\s]+)(?:\s+\"[^\"]*\")?\)",
    re.DOTALL,
)


@dataclass(frozen=True)
class HandoutTerms:
    """The parts of an assignment's instructions that depend on the teacher's choice."""

    assignment: str  # the name of the assignment's folder
    platform: str  # "canvas", "moodle" or "folder"
    for_credit: bool = False  # whether the notebooks count for a grade
    any_prediction: bool = False  # whether a prediction earns its points by any outcome

    def name(self, student: str) -> str:
        """Return the name of a student's zip or folder; "" stands for all students."""
        if self.platform == "folder":
            return student or self.assignment
        return f"{self.assignment}-{student}.zip" if student else f"{self.assignment}.zip"


def check_target(out: Path, terms: HandoutTerms) -> None:
    """Raise InputError if a folder contains other files than earlier zips of this assignment."""
    try:
        names = sorted(os.listdir(out))
    except FileNotFoundError:
        return
    except OSError as error:
        raise InputError(f"{printable(str(out))} cannot be used ({error.strerror}). Name a folder with --out") from None
    pattern = re.compile(rf"{re.escape(terms.assignment)}(-.*)?\.zip")
    others = [name for name in names if terms.platform == "folder" or not pattern.fullmatch(name)]
    if others:
        raise InputError(
            f"{printable(str(out))} contains other files, such as {printable(others[0])}. Name a new or empty folder with --out"
        )


def write_packages(out: Path, terms: HandoutTerms, folders: Mapping[str, Path], glossary: Path) -> list[str]:
    """Write a zip or a folder for each student, completely or not at all, and return their names.

    `folders` contains the folder with each student's released notebooks; "" stands for all students. The glossary, to
    which the lessons link, is left out if it is missing.

    Raises:
        InputError: the folder contains other files or cannot be written, or the wheel cannot be built.
        SetupError: this is not a clone.
    """
    check_target(out, terms)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=out.parent, prefix=".handout-") as fresh:
            shared = _shared(Path(fresh, "wheel"), glossary)
            for student, folder in folders.items():
                files = {f"{terms.assignment}/{name}": data for name, data in _files(folder, terms, shared).items()}
                if terms.platform == "folder":
                    write_files(Path(fresh, "out", student), files)
                else:
                    replace_file(Path(fresh, "out", terms.name(student)), zip_of(files))
            out.mkdir(exist_ok=True)
            for path in Path(fresh, "out").iterdir():
                os.replace(path, out / path.name)
    except OSError as error:
        raise InputError(f"{printable(str(out))} cannot be written ({error.strerror})") from None
    return [terms.name(student) for student in folders]


def _shared(folder: Path, glossary: Path) -> dict[str, bytes]:
    """Return the files that all students get: the wheel, built in a folder, the versions, and the glossary."""
    wheel = _built_wheel(folder)
    files = {wheel.name: wheel.read_bytes(), REQUIREMENTS: _requirements(wheel.name).encode()}
    return files | ({GLOSSARY: glossary.read_bytes()} if glossary.is_file() else {})


def _built_wheel(folder: Path) -> Path:
    clone = require_clone("release --to")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    done = subprocess.run([*command, "--wheel-dir", str(folder), str(clone)], capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["pip gave no reason"])[-1]
        raise InputError(f"the wheel cannot be built ({last}). Run the command as `python3 -m autograder release`")
    return next(folder.glob("*.whl"))


def _requirements(wheel: str) -> str:
    """Return pip's requirements: the locked versions of everything that the course needs on any system, and the wheel."""
    folder = require_clone("release --to") / "requirements"
    needed = locked_requirements(extra="course", systems=SYSTEMS, leaves=())
    locked = [pin for file in ("lock.txt", "torch.txt") for pin in PIN.finditer((folder / file).read_text("utf-8"))]
    pins = [pin[0].strip() for pin in locked if canonicalize_name(pin[1]) in needed]
    return "\n".join([f"# {PAGE} describes the installation.", *pins, f"./{wheel}", ""])


def _files(folder: Path, terms: HandoutTerms, shared: Mapping[str, bytes]) -> dict[str, bytes]:
    files = dict(shared) | dict(files_below(folder, terms.assignment))
    notebooks = sorted(path.name for path in folder.glob("*.ipynb"))
    torch = next(line for line in shared[REQUIREMENTS].decode().splitlines() if line.startswith("torch=="))
    page = translated_templates(TEMPLATES).get_template("open_me_first.html.j2")
    files[PAGE] = page.render(terms=terms, notebooks=notebooks, torch=torch).encode()
    return {
        name: without_dead_links(name, data, files) if name.endswith(".ipynb") else data for name, data in files.items()
    }


def without_dead_links(name: str, notebook: bytes, files: Collection[str]) -> bytes:
    """Return the notebook at a path with the text of each Markdown link to a file that is missing in `files`, instead of the link.

    Cells with a checksum of nbgrader's are unchanged.
    """

    def kept(pin: re.Match[str]) -> str:
        path = urllib.parse.unquote((pin["path"] or "").partition("#")[0])
        goal = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
        return pin[0] if pin["path"] is None or goal in files else pin["text"]

    content = json.loads(notebook)
    for cell in content["cells"]:
        if cell["cell_type"] == "markdown" and "nbgrader" not in cell["metadata"]:
            cell["source"] = LINK.sub(kept, "".join(cell["source"]))
    return json.dumps(content, indent=1, ensure_ascii=False).encode()
