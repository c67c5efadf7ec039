"""Settings for all tests: student progress is not recorded, and a run on several cores is divided into units instead of files."""

import asyncio
import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from autograder.cli.parser import TESTS
from tests.stored import outputs_are_the_stored_ones  # noqa: F401 - it is used by every test
from tests.units import SLOW, THOROUGH, is_slow, part_of, rank, skipped_lines, unit_of

os.environ["AUTOGRADER_PROGRESS"] = str(Path(tempfile.mkdtemp(prefix="autograder-tests-")) / "progress.json")
# Small tensors gain nothing from threads; threads of kernels and commands that wait for a busy core cost much.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# jsonschema, which nbformat imports, builds grammars for a second to check IRIs, which no notebook has; it can do without.
sys.modules.setdefault("rfc3987_syntax", None)

ELSEWHERE = {"browser", "jupyterlab", "bubblewrap", "made_once"}
"""Fixtures that start other programs."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files of which `test` and `test --quick` run no test, before they are imported."""
    file = collection_path.relative_to(Path(__file__).parent).as_posix() if collection_path.suffix == ".py" else ""
    marks = config.option.markexpr
    if marks in ("not slow", TESTS["--quick"]) and SLOW.get(file) == ():
        return True
    return True if marks == TESTS["--quick"] and file in THOROUGH else None


@pytest.hookimpl(tryfirst=True)  # before pytest chooses by `-m`
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark slow tests, their part, and tests that `test --quick` skips; the longest units come first."""
    for item in items:
        unit = unit_of(item.nodeid)
        elsewhere = ELSEWHERE & set(getattr(item, "fixturenames", ()))
        if elsewhere or unit in THOROUGH:
            item.add_marker(pytest.mark.thorough)
        if is_slow(item.nodeid):
            item.add_marker(pytest.mark.slow)
        item.add_marker(pytest.mark.part(number=part_of(unit)))
    items.sort(key=lambda item: rank(unit_of(item.nodeid)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item):
    """Hide playwright's event loop, which runs in this thread until the session ends, from tests without a browser.

    `asyncio.run` raises if another loop is running.
    """
    loop = None if "browser" in getattr(item, "fixturenames", ()) else asyncio._get_running_loop()
    if loop is not None:
        asyncio._set_running_loop(None)
    try:
        return (yield)
    finally:
        if loop is not None and not loop.is_closed():
            asyncio._set_running_loop(loop)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection():
    """Collect without the garbage collector, which would examine each of thousands of tests again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Leave the collected tests out of later garbage collections."""
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """With `--dist loadscope`: deals out units instead of files."""
    from xdist.scheduler import LoadScopeScheduling

    class Units(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return unit_of(nodeid)

    return Units(config, log) if config.getvalue("dist") == "loadscope" else None


def pytest_terminal_summary(terminalreporter) -> None:
    """Say how many tests were skipped for want of what, and how to have it; after slow tests, how to measure coverage."""
    for line in skipped_lines([report.longrepr[2] for report in terminalreporter.stats.get("skipped", [])]):
        terminalreporter.line(line)
    if terminalreporter.config.option.markexpr == TESTS["--slow"]:
        terminalreporter.line("coverage: python -m tests.coverage_report --slow")


@pytest.fixture(autouse=True, scope="module")
def no_shell_stays() -> Iterator:
    """End the module's IPython shell: `get_ipython()` would find it in every later test, and views would take that for a notebook."""
    yield
    loaded = sys.modules.get("IPython.core.interactiveshell")
    if loaded is not None and loaded.InteractiveShell.initialized():
        type(loaded.InteractiveShell.instance()).clear_instance()


def chromium() -> str | None:
    """Return the path of a Chromium on this machine, or None."""
    return next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None)


@pytest.fixture(scope="session")
def browser() -> Iterator:
    """A headless Chromium, one for all tests of a worker."""
    path = chromium()
    if path is None:
        pytest.skip("no Chromium: `sudo apt install chromium`")
    from playwright.sync_api import sync_playwright

    flags = [
        "--no-sandbox",  # containers run as root
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ]
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=flags)
        loop = asyncio._get_running_loop()
        yield running
        asyncio._set_running_loop(loop)
        running.close()
