"""Measures the book: the size of a page at first load, the time until it is painted from disk, and the time to build the book.

    python -m tests.benchmarks.book              # with the stored recordings
    python -m tests.benchmarks.book --afresh     # also without stored recordings
    python -m tests.benchmarks.book --of site    # the pages of an existing book

Wire: the HTML, the styles and the scripts of a page, each compressed as by a server (gzip, level 6); pictures are
loaded when they come into view. Paint: `first-contentful-paint` of Chromium for the page opened from a file, median of
seven. The paint of a page with one word, and the load, show how busy the machine is.
"""

from __future__ import annotations

import gzip
import os
import re
import statistics
import sys
import tempfile
import time
from multiprocessing.forkserver import _forkserver
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from autograder.course.book.make_book import KEPT, make_book
from tests.conftest import chromium

MOST_KB, MOST_PAINT_MS, MOST_CACHED, MOST_AFRESH = 300, 100, 60, 600
NEEDED = re.compile(r'<(?:script src|link rel="stylesheet" href)="([^"]+)"')


def wire_kb(page: Path) -> float:
    """Return the kB that a page sends before anything is asked for."""
    files = [page, *(page.parent / name for name in NEEDED.findall(page.read_text("utf-8")))]
    return sum(len(gzip.compress(file.read_bytes(), 6)) for file in files) / 1000


def paint_ms(page: Page, address: str) -> float:
    """Return the milliseconds until something of a page is painted, the median of seven loads."""
    times = []
    for _ in range(7):
        page.goto(address)
        page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length")
        times.append(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
    return statistics.median(times)


def made_in(folder: Path, kept: Path | None) -> tuple[float, float]:
    """Return the seconds that both languages of the book take, by the clock and of processor time with that of ended children."""
    began, before = time.monotonic(), os.times()
    make_book(folder, "all", kept=kept)
    _forkserver._stop()  # type: ignore[attr-defined]  # the time of its children counts once it has ended
    spent = [now - then for now, then in zip(os.times()[:4], before[:4], strict=True)]
    return time.monotonic() - began, sum(spent)


def main(words: list[str]) -> None:
    """Print the figures with their targets."""
    with tempfile.TemporaryDirectory(prefix="book-") as name:
        folder = Path(name) / "book"
        if "--afresh" in words:
            print(
                "from nothing: {:.0f} s, {:.0f} s of processor time".format(*made_in(folder, None)),
                f"(≤ {MOST_AFRESH} s)",
            )
        made_in(
            folder, KEPT
        )  # keeps what is not kept yet, and ends the processes that made it: their time is not the next one's
        print("cached: {:.0f} s, {:.0f} s of processor time".format(*made_in(folder, KEPT)), f"(≤ {MOST_CACHED} s)")
        report_pages(folder)


def report_pages(folder: Path) -> None:
    """Print a row for each page: its kB and its first paint."""
    print(f"page, kB over the wire (≤ {MOST_KB}), first paint in ms (< {MOST_PAINT_MS}); load {os.getloadavg()[0]:.1f}")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        page = browser.new_page()
        print(f"{'one word':45} {'':6} {paint_ms(page, 'data:text/html,word'):6.0f}")
        for file in sorted(folder.glob("*/*.html")):
            kb, paint = wire_kb(file), paint_ms(page, file.as_uri())
            print(f"{file.relative_to(folder)!s:45} {kb:6.1f} {paint:6.0f}")
        browser.close()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--of"]:
        report_pages(Path(sys.argv[2]))
    else:
        main(sys.argv[1:])
