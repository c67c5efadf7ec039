"""The pages for readers and contributors refer only to existing files, folders, links, anchors and modules."""

from __future__ import annotations

import functools
import json
import re
import subprocess
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

import pytest

from tests import api_page

ROOT = Path(__file__).resolve().parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
SUFFIXES = {".py", ".md", ".toml", ".js", ".ts", ".css", ".yml", ".yaml", ".cff", ".svg"}
FENCE = re.compile(r"^```.*?^```", re.M | re.S)


@functools.cache
def tracked() -> frozenset[str]:
    """Return every tracked file and every folder that holds one, relative to the repository."""
    files = subprocess.check_output(["git", "ls-files"], text=True, cwd=ROOT).splitlines()
    folders = {str(folder) for file in files for folder in PurePosixPath(file).parents}
    return frozenset(files) | folders


def is_missing(name: str) -> bool:
    """Return whether a code span is the name of a missing file or folder of this project.

    A path counts if it begins with a top-level folder or a folder of the package, a bare name if it has a suffix of our
    files. `<kind>` represents any name.
    """
    path = re.sub(r"<[\w ]+>", "*", name.rstrip("/"))
    first = path.partition("/")[0]
    if re.search(r"[^\w./*-]", path) or path.startswith("/"):
        return False
    if "/" in path and {first, f"autograder/{first}"} & tracked():
        return not any(fnmatchcase(known, pattern) for known in tracked() for pattern in (path, f"autograder/{path}"))
    if "/" not in path and PurePosixPath(path).suffix in SUFFIXES:
        return not any(fnmatchcase(PurePosixPath(known).name, path) for known in tracked())
    return False


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text("utf-8")), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def is_broken(link: str, page: Path) -> bool:
    """Return whether a link of a page leads to a file or an anchor of this project that is not there."""
    target, _, anchor = link.partition("#")
    if "://" in link or link.startswith("mailto:"):
        return False
    goal = (page.parent / target).resolve() if target else page
    if not goal.is_relative_to(ROOT) or str(goal.relative_to(ROOT)) not in tracked():
        return True
    return bool(anchor) and anchor not in anchors(goal)


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=lambda page: page.name)
def test_every_path_that_a_page_names_exists(page):
    """A path or file name between backticks exists in the repository, except in the changelog, which may name old files."""
    spans = re.findall(r"`([^`\n]+)`", FENCE.sub("", page.read_text("utf-8")))
    assert [] == [span for span in spans if is_missing(span)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_within_the_project_leads_somewhere(page):
    """Each relative link and picture is a tracked file, and its anchor a heading there."""
    text = FENCE.sub("", page.read_text("utf-8"))
    links = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'(?:src|srcset|href)="([^"]+)"', text)
    assert [] == [link for link in links if is_broken(link, page)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_of_the_tests_exists(page):
    """`python -m tests.…` names a module of tests/."""
    modules = re.findall(r"python3? -m (tests[\w.]*\w)", page.read_text("utf-8"))
    known = {name.removesuffix(".py").removesuffix("/__main__").replace("/", ".") for name in tracked()}
    assert [] == [module for module in modules if module not in known]


def test_what_is_missing_is_noticed():
    """The tests above can fail, and they ignore names that do not belong to this project."""
    page = ROOT / "README.md"
    assert is_missing("autograder/no_such_file.py")
    assert is_missing("grade/no_such_folder/")
    assert is_missing("no_such_file.py")
    assert is_missing("autograder/course/lessons/<lesson>.py")
    assert is_broken("docs/no_such_page.md", page)
    assert is_broken("SECURITY.md#no-such-part", page)

    assert not is_missing("autograder/course/lessons/<lesson>.toml")
    assert not is_missing("explain --json")
    assert not is_missing("work/mine.ipynb")
    assert not is_broken("SECURITY.md#three-kinds-of-test", page)
    assert not is_broken("https://pytorch.org/nowhere", page)


def test_every_page_clones_the_repository_of_the_citation():
    """README.md and docs/install.md clone the address in CITATION.cff, so that a new address is set in all places."""
    (address,) = re.findall(r"^repository-code: (\S+)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.M)
    cloned = [re.findall(r"^git clone (\S+)$", page.read_text("utf-8"), re.M) for page in PAGES]
    assert [[address]] * 3 == [found for found in cloned if found]


def test_installation_is_described_as_it_was_tested():
    """No page installs this package from an index, which does not have it, and the README has the systems of install.md."""
    texts = {page.name: page.read_text("utf-8") for page in PAGES if page.name != "CHANGELOG.md"}
    assert [] == [name for name, text in texts.items() if re.search(r"pip install [\"']?autograd-er", text)]
    rows = dict(re.findall(r"^\| (operating system|Python) \| (\w[\w.]+)", texts["install.md"], re.MULTILINE))
    tested = f"tested on {rows['operating system']} with Python {rows['Python']}"
    assert f"Autograder was {tested}; [docs/install.md](docs/install.md#tested-systems)" in texts["README.md"]


def test_the_readme_is_short():
    """README.md has at most 120 lines, so that a visitor reads all of it."""
    assert 120 >= len((ROOT / "README.md").read_text("utf-8").splitlines())


def test_the_page_of_public_names_is_current():
    """docs/api.md and the list of modules are what `python -m tests.api_page` writes from the docstrings."""
    assert api_page.page() == api_page.PAGE.read_text("utf-8")
    assert api_page.architecture() == api_page.ARCHITECTURE.read_text("utf-8")


def test_the_table_of_lessons_has_the_numbers_of_the_lessons():
    """docs/classroom.md lists each lesson's minutes, points and ways to shorten it as the lessons' own files have them."""
    texts = tomllib.loads((ROOT / "solutions" / "teaching.toml").read_text("utf-8"))
    rows = []
    for number, path in enumerate(sorted((ROOT / "notebooks").glob("0*/*.ipynb"))):
        lesson = tomllib.loads((ROOT / "autograder" / "course" / "lessons" / f"{path.stem}.toml").read_text("utf-8"))
        cells = [cell["metadata"].get("nbgrader", {}) for cell in json.loads(path.read_text("utf-8"))["cells"]]
        points = sum(cell.get("points", 0) for cell in cells)
        weeks, title = f"{2 * number + 1} and {2 * number + 2}", f"{path.stem[:2]} · {lesson['title']}"
        rows.append(f"| {weeks} | {title} | {lesson['minutes']} | {points} | {texts[path.stem]['shorten']} |")
    page = (ROOT / "docs" / "classroom.md").read_text("utf-8")
    assert rows == re.findall(r"^\| \d+ and \d+ \| \d\d · .*$", page, re.M)
