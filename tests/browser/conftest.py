"""A JupyterLab server and a browser, one of each for the whole run; every test gets its own page."""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Browser, Locator, Page
from playwright.sync_api import TimeoutError as PlaywrightTimeout

REPOSITORY = Path(__file__).resolve().parents[2]

ARTEFACTS = REPOSITORY / "test-artefacts"
"""Where each test leaves the last thing that its page showed; git ignores it."""

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
        """Return where to open a file of the root folder, alone in the window (JupyterLab's simple mode)."""
        return f"{self.url}/doc/tree/{path}?token={self.token}&reset"

    def open(self, page: Page, path: str) -> None:
        """Open a notebook and waits until its kernel is idle and the page is connected to it.

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
        """Return whether a notebook has an idle kernel with a page connected to it."""
        with urllib.request.urlopen(f"{self.url}/api/sessions?token={self.token}", timeout=10) as answer:
            kernels = [session["kernel"] for session in json.load(answer) if session["path"] == path]
        return any(kernel["execution_state"] == "idle" and kernel["connections"] > 0 for kernel in kernels)

    def run_all(self, page: Page) -> None:
        """Run all cells of the notebook that is open."""
        self.choose(page, "Run", "Run All Cells")

    def choose(self, page: Page, *path: str) -> None:
        """Chooses an entry of the menu bar, such as ("Settings", "Theme", "JupyterLab Dark").

        While another menu is closing, the pointer opens this one and the click closes it again; so each try is short, and the
        whole way is gone again. An entry that has gone away was not clicked.
        """
        for _ in range(6):
            with suppress(PlaywrightTimeout):
                page.locator(".lm-MenuBar-item", has_text=path[0]).first.click(timeout=5_000)
                for name in path[1:]:
                    _menu_item(page, name).click(timeout=5_000)
                return
            page.keyboard.press("Escape")
        pytest.fail(f"the menu {path[0]} does not open")

    def write(self, path: str, *cells: str) -> Path:
        """Write a notebook of code cells into the root folder, and returns its path."""
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(notebook, self.root / path)
        return self.root / path


def _menu_item(page: Page, name: str) -> Locator:
    """Return the menu entry that begins with the name: a menu may hold "Restart Kernel and Run All Cells…" alone for a moment."""
    return page.locator(".lm-Menu-item", has_text=re.compile(rf"^\s*{re.escape(name)}")).first


@pytest.fixture
def page(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page without stored state; errors in its scripts fail the test, and its last screenshot is kept as an artifact."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    opened, errors = context.new_page(), []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.set_default_timeout(30_000)
    yield opened
    opened.screenshot(path=ARTEFACTS / f"{re.sub('[^a-z0-9_-]+', '-', request.node.name.lower())}.png")
    context.close()
    assert [] == errors


@pytest.fixture(scope="session")
def jupyterlab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A JupyterLab at an empty folder, shared by all tests; it stops with the run."""
    root, private, token = (
        tmp_path_factory.mktemp("notebooks"),
        tmp_path_factory.mktemp("jupyter"),
        secrets.token_hex(8),
    )
    server = subprocess.Popen(_command(token, root), cwd=root, env=_environment(private), stderr=_log(private))
    try:
        yield Lab(server_address(server, private, token), token, root)
    finally:
        server.terminate()
        server.wait(30)


def _command(token: str, root: Path) -> list[str]:
    """Return the command that starts the server; Jupyter chooses the port, so no other process can take it meanwhile."""
    return [
        sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ServerApp.port=0",
        f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={root}",
        "--LabApp.extension_manager=readonly", "--ServerApp.log_level=WARN",
    ]  # fmt: skip


def _environment(private: Path) -> dict[str, str]:
    """Return an environment in which Jupyter does not read or write the user's files."""
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
    """Return the file for the server's log."""
    return (private / "log").open("w")


def server_address(server: subprocess.Popen, private: Path, token: str, seconds: float = 120) -> str:
    """Return the address that the server wrote into its runtime folder, once it answers there."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and server.poll() is None:
        for info in (private / "runtime").glob("jpserver-*.json"):
            with suppress(OSError, ValueError):  # not written to its end, or not listening yet
                address = f"http://127.0.0.1:{json.loads(info.read_text())['port']}"
                with urllib.request.urlopen(f"{address}/api/status?token={token}", timeout=2):
                    return address
        time.sleep(0.2)
    pytest.fail(f"JupyterLab did not start within {seconds:.0f} s:\n{(private / 'log').read_text()[-2000:]}")
