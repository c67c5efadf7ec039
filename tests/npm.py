"""Packages from npm for tests: they are installed for the run, or the test is skipped with the reason."""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from playwright.sync_api import Page

AXE = "axe-core@4.14.1"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]


def installed(package: str, folder: Path) -> Path:
    """Return `node_modules` with a package in it; skip the test if npm is missing, or does not reach its registry."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("no npm: install Node.js 20 or later")
    command = [npm, "install", "--prefix", folder, "--cache", folder / "cache", "--no-audit", "--no-fund", package]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        reason = (done.stderr.splitlines() or ["no reason given"])[0]
        pytest.skip(f"npm could not install {package} ({reason}); it has to reach its registry once")
    return folder / "node_modules"


@functools.cache
def _axe() -> str:
    with tempfile.TemporaryDirectory(prefix="axe-") as folder:
        return (installed(AXE, Path(folder)) / "axe-core" / "axe.min.js").read_text("utf-8")


def violations(page: Page) -> list[str]:
    """Return the violations of WCAG 2.1 A and AA that axe-core finds on a page, each with the first element."""
    page.evaluate(_axe())
    found = page.evaluate("(rules) => axe.run(document, { runOnly: rules, resultTypes: ['violations'] })", RULES)
    return [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found["violations"]]
