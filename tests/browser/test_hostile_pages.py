"""A hostile submission in a real browser, in formgrader as served by nbgrader and in feedback: nothing runs or is requested."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import nbformat
import pytest
from nbgrader.api import Gradebook
from playwright.sync_api import Browser

from autograder.grade.batch.course_folders import open_class
from autograder.grade.batch.feedback_files import write_feedback
from autograder.grade.sandbox.isolation import LEVELS
from tests.browser.conftest import server_address
from tests.grade import plain_course
from tests.grade.clean.test_clean import HOSTILE_HTML, HOSTILE_MARKDOWN, png

pytestmark = pytest.mark.thorough
SETTINGS = """
c = get_config()
c.CourseDirectory.root = {root!r}
c.CourseDirectory.db_url = {database!r}
c.HTMLExporter.mathjax_url = ""
"""


SHOW_ALL = """
from IPython.display import display
for text in {texts!r}:
    for kind in ("html", "markdown", "latex", "plain"):
        display({{"text/" + kind: text}}, raw=True)
    display({{"image/svg+xml": text, "application/javascript": "fetch('//{address}/ran')"}}, raw=True)
display({{"image/png": {png!r}}}, metadata={{"image/png": {{"width": "1 onload=fetch('//{address}/ran')"}}}}, raw=True)
print("\\x1b]8;;http://{address}\\x1b\\\\link\\x1b]8;;\\x1b\\\\")
"""
"""A cell that shows all hostile texts."""

WEB = {"http:", "https:", "mailto:", ":"}
"""Schemes of links that a page may show; ":" is an invalid address, such as one with a quotation mark in its port."""


class Listener:
    """A port of this machine that a page may not ask for anything.

    Attributes:
        address: as in a URL, without its scheme.
        heard: the first line of each request.
    """

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address, self.heard = f"127.0.0.1:{self._socket.getsockname()[1]}", []
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                self.heard.append(connection.recv(2000).decode("latin-1").splitlines()[:1])
                connection.close()

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()


@pytest.fixture(scope="module")
def listener() -> Iterator[Listener]:
    """A listener for all tests here."""
    found = Listener()
    yield found
    found.close()


def aimed(text: str, listener: Listener) -> str:
    """Return a hostile text whose addresses lead to the listener, and whose scripts ask it for something."""
    script = f"fetch(String.fromCharCode(47,47)+&quot;{listener.address}/ran&quot;)"
    return (
        text.replace("evil.example", listener.address)
        .replace("//evil", f"//{listener.address}")
        .replace("alert(1)", script.replace("&quot;", "`"))
    )


def hostile(listener: Listener) -> nbformat.NotebookNode:
    """Return a submission that shows every hostile text in every way in which a notebook can show one."""
    notebook = plain_course.answered({"explain_mean": "\n\n".join(aimed(text, listener) for text in HOSTILE_MARKDOWN)})
    texts = [aimed(text, listener) for text in HOSTILE_HTML]
    code = SHOW_ALL.format(texts=texts, png=png(), address=listener.address)
    notebook.cells.append(nbformat.v4.new_code_cell(code))
    for text in [*texts, *(aimed(text, listener) for text in HOSTILE_MARKDOWN)]:
        notebook.cells += [nbformat.v4.new_markdown_cell(text), nbformat.v4.new_raw_cell(text)]
    return notebook


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory, listener: Listener) -> Path:
    """A graded class: "hostile" is stored by this grader, and "stored_raw" as by a careless one."""
    if LEVELS["bubblewrap"].obstacle:
        pytest.skip(LEVELS["bubblewrap"].obstacle)
    folder = tmp_path_factory.mktemp("hostile")
    plain_course.make_class(folder, {"hostile": hostile(listener), "stored_raw": plain_course.source()})
    plain_course.grade_class(folder, jobs=2)
    careless = folder / "autograded" / "stored_raw" / plain_course.ASSIGNMENT / f"{plain_course.ASSIGNMENT}.ipynb"
    notebook = nbformat.read(careless, 4)
    texts = [aimed(text, listener) for text in HOSTILE_HTML]
    outputs = [nbformat.v4.new_output("display_data", {"text/html": text}) for text in texts]
    notebook.cells.append(nbformat.v4.new_code_cell("show()", outputs=outputs))
    notebook.cells += [
        nbformat.v4.new_markdown_cell(aimed(text, listener)) for text in HOSTILE_MARKDOWN if "missing" not in text
    ]
    careless.chmod(0o644)
    nbformat.write(notebook, careless)
    return folder


@pytest.fixture(scope="module")
def formgrader(course: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Jupyter server with nbgrader's formgrader, and its token in the place of TOKEN."""
    private = tmp_path_factory.mktemp("server")
    settings = SETTINGS.format(root=str(course), database=f"sqlite:///{course / 'gradebook.db'}")
    (course / "nbgrader_config.py").write_text(settings)
    command = [
        sys.executable, "-m", "jupyter_server", "--no-browser", "--allow-root", "--ServerApp.port=0", "--IdentityProvider.token=secret",
        f"--ServerApp.root_dir={course}", "--ServerApp.jpserver_extensions", "nbgrader.server_extensions.formgrader=True",
    ]  # fmt: skip
    folders = {f"JUPYTER_{name.upper()}_DIR": str(private / name) for name in ("config", "data", "runtime")}
    with (private / "log").open("w") as log:
        server = subprocess.Popen(command, cwd=course, env=os.environ | folders, stderr=log)
        try:
            yield server_address(server, private, "secret")
        finally:
            server.terminate()
            server.wait(30)


def visited(browser: Browser, address: str, listener: Listener) -> tuple[list[str], set[str]]:
    """Return the requests of a page to the listener, and the schemes of the links that it shows."""
    context = browser.new_context()
    page, before = context.new_page(), len(listener.heard)
    page.on("dialog", lambda dialog: dialog.dismiss())
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if listener.address in request.url else None)
    page.goto(address, wait_until="domcontentloaded")
    page.wait_for_timeout(1500)
    schemes = set(page.evaluate("[...document.querySelectorAll('a[href]')].map((link) => link.protocol)"))
    context.close()
    return [*asked, *map(str, listener.heard[before:])], schemes


def in_formgrader(course: Path, formgrader: str, student: str) -> str:
    """Return the address of a student's graded notebook."""
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
        place = (plain_course.ASSIGNMENT, plain_course.ASSIGNMENT, student)
        return f"{formgrader}/formgrader/submissions/{gradebook.find_submission_notebook(*place).id}/?token=secret"


def test_nothing_acts_in_formgrader(browser: Browser, course: Path, formgrader: str, listener: Listener):
    """The page is of the teacher's Jupyter server; a script in it could start a kernel."""
    address = in_formgrader(course, formgrader, "hostile")
    asked, schemes = visited(browser, address, listener)
    assert [] == asked
    assert schemes <= WEB
    with urllib.request.urlopen(address, timeout=30) as answer:
        assert b"In your own words" in answer.read()  # it is the notebook, and no page about an error


def test_this_test_can_tell(browser: Browser, course: Path, formgrader: str, listener: Listener):
    """The same texts, stored as they are, run scripts and load pictures in formgrader (nbgrader 0.9.6)."""
    asked, _ = visited(browser, in_formgrader(course, formgrader, "stored_raw"), listener)
    assert any("/ran" in url for url in asked)
    assert any("/t.png" in url for url in asked)


@pytest.mark.parametrize("student", ["hostile", "stored_raw"])
def test_nothing_acts_in_feedback(browser: Browser, course: Path, listener: Listener, student: str):
    """Also where another program stored the notebook without cleaning it."""
    assert {} == write_feedback(open_class(course, plain_course.ASSIGNMENT), [student], "message", jobs=1)
    asked, schemes = visited(browser, plain_course.page(course, student).as_uri(), listener)
    assert [] == asked
    assert schemes <= WEB | {"file:"}  # "file:" is the page itself, "#exercise-1"
