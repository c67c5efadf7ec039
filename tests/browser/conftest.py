"""A real JupyterLab and a real browser, one of each for the whole run; every test gets a page of its own."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

REPOSITORY = Path(__file__).resolve().parents[2]

ARTEFACTS = REPOSITORY / "test-artefacts"
"""Where each test leaves the last thing that its page showed; git ignores it."""

FLAGS = [
    "--no-sandbox",  # containers run as root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

QUIET = {"fetchNews": "false", "checkForUpdates": False}
"""JupyterLab's notifications off: a question about news would cover the page."""


@dataclass
class Lab:
    """A running JupyterLab server.

    Attributes:
        url: its address, such as "http://127.0.0.1:40001"; `token` opens it.
        root: the folder that it serves.
    """

    url: str
    token: str
    root: Path

    def address(self, path: str) -> str:
        """Returns where to open a file of the root folder, alone in the window (JupyterLab's simple mode)."""
        return f"{self.url}/doc/tree/{path}?token={self.token}&reset"

    def open(self, page: Page, path: str) -> None:
        """Opens a notebook and waits until its kernel is idle and the page is connected to it.

        The server is asked, because JupyterLab 4.6 shows a kernel as idle before that; cells that are run then ask for a kernel.
        """
        page.goto(self.address(path))
        page.wait_for_selector(".jp-Notebook .jp-Cell")
        end = time.monotonic() + 60
        while not self._connected(path):
            assert time.monotonic() < end, f"no kernel answered for {path}"
            page.wait_for_timeout(100)
        page.wait_for_selector(".jp-Notebook-ExecutionIndicator[data-status=idle]")

    def _connected(self, path: str) -> bool:
        """Returns whether a notebook has an idle kernel with a page connected to it."""
        with urllib.request.urlopen(f"{self.url}/api/sessions?token={self.token}", timeout=10) as answer:
            kernels = [session["kernel"] for session in json.load(answer) if session["path"] == path]
        return any(kernel["execution_state"] == "idle" and kernel["connections"] > 0 for kernel in kernels)

    def run_all(self, page: Page) -> None:
        """Runs all cells of the notebook that is open."""
        self.choose(page, "Run", "Run All Cells")

    def choose(self, page: Page, *path: str) -> None:
        """Chooses an entry of the menu bar, such as ("Settings", "Theme", "JupyterLab Dark")."""
        page.locator(".lm-MenuBar-item", has_text=path[0]).first.click()
        for name in path[1:]:
            page.locator(".lm-Menu-item", has_text=name).first.click()

    def write(self, path: str, *cells: str) -> Path:
        """Writes a notebook of code cells into the root folder, and returns its path."""
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(notebook, self.root / path)
        return self.root / path


def chromium() -> str | None:
    """Returns the path of a Chromium on this machine, or None."""
    return next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A headless Chromium, shared by all tests."""
    path = chromium()
    if path is None:
        pytest.skip("no Chromium on this machine; `autograder doctor` says how to get one")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield running
        running.close()


@pytest.fixture
def page(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page with nothing remembered; errors that its scripts raise fail the test, and its last look is kept as an artefact."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    opened, errors = context.new_page(), []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.set_default_timeout(30_000)
    yield opened
    opened.screenshot(path=ARTEFACTS / f"{re.sub('[^a-z0-9_-]+', '-', request.node.name.lower())}.png")
    context.close()
    assert [] == errors


@pytest.fixture(scope="session")
def start_jupyterlab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Path], Lab]]:
    """A function that starts JupyterLab at a folder; every server it started stops with the run."""
    servers: list[subprocess.Popen] = []

    def start(root: Path) -> Lab:
        private = tmp_path_factory.mktemp("jupyter")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        lab = Lab(f"http://127.0.0.1:{port}", secrets.token_hex(8), root)
        servers.append(subprocess.Popen(_command(lab, port), cwd=root, env=_environment(private), stderr=_log(private)))
        _wait(lab, servers[-1], private / "log")
        return lab

    yield start
    for server in servers:
        server.terminate()
        server.wait(30)


@pytest.fixture(scope="session")
def jupyterlab(start_jupyterlab: Callable[[Path], Lab], tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """A JupyterLab at an empty folder, shared by all tests."""
    return start_jupyterlab(tmp_path_factory.mktemp("notebooks"))


def _command(lab: Lab, port: int) -> list[str]:
    """Returns the command that starts the server."""
    return [
        sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--ServerApp.port={port}",
        "--ServerApp.port_retries=0", f"--IdentityProvider.token={lab.token}", f"--ServerApp.root_dir={lab.root}",
        "--LabApp.extension_manager=readonly", "--ServerApp.log_level=WARN",
    ]  # fmt: skip


def _environment(private: Path) -> dict[str, str]:
    """Returns an environment in which Jupyter reads and writes nothing of the user's."""
    settings = private / "settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    (settings / "notification.jupyterlab-settings").write_text(json.dumps(QUIET))
    folders = {
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "JUPYTERLAB_SETTINGS_DIR": "settings",
        "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        "IPYTHONDIR": "ipython",
    }
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "IPYTHON", "NBGRADER"))
    }
    paths = {name: str(private / folder) for name, folder in folders.items()}
    return clean | paths | {"PYTHONPATH": str(REPOSITORY)}


def _log(private: Path):
    """Returns the file for the server's log."""
    return (private / "log").open("w")


def _wait(lab: Lab, server: subprocess.Popen, log: Path, seconds: float = 60) -> None:
    """Waits until the server answers."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and server.poll() is None:
        try:
            with urllib.request.urlopen(f"{lab.url}/api/status?token={lab.token}", timeout=2):
                return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"JupyterLab did not start within {seconds:.0f} s:\n{log.read_text()[-2000:]}")
