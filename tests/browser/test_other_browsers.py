"""The timeline in Firefox and WebKit has the geometry that it has in Chromium.

Debian's packages `firefox-esr` and `webkit2gtk-driver` are driven by their own protocols (WebDriver BiDi, WebDriver).
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import websocket

from autograder import view
from autograder.tape.recording.schema import from_json

pytestmark = pytest.mark.slow  # starts two more browsers

RECORDINGS = Path(__file__).parents[1] / "view" / "recordings"
SIZE = (900, 900)
TOLERANCE = 2
"""The maximum distance in pixels between the same place in two browsers; the width of text depends on its rasterization."""

PLACES = """JSON.stringify([...document.querySelectorAll(".column :is(text, circle, rect)")].map((one) => {
  const place = one.getBoundingClientRect();
  return [one.textContent, one.classList.contains("end") ? place.right : place.left, place.top + place.height / 2];
}))"""

Evaluate = Callable[[str], str]


def free_port() -> int:
    """Returns a port that no program uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def retried(call: Callable[[], object], seconds: float = 30) -> object:
    """Returns the result of a call that raises OSError until a program has started."""
    end = time.monotonic() + seconds
    while True:
        try:
            return call()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


@contextmanager
def running(*command: str | Path) -> Iterator[None]:
    """Runs a program while the block runs."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as program:
        try:
            yield
        finally:
            program.terminate()


@contextmanager
def firefox(address: str, folder: Path) -> Iterator[Evaluate]:
    """Opens a page in Firefox; yields a function that evaluates JavaScript there."""
    folder.mkdir()
    port = free_port()
    command = ("firefox-esr", "--headless", "--no-remote", "--profile", folder, f"--remote-debugging-port={port}")
    with running(*command):
        link = retried(lambda: websocket.create_connection(f"ws://127.0.0.1:{port}/session", suppress_origin=True))

        def send(method: str, **given: object) -> dict:
            link.send(json.dumps({"id": 1, "method": method, "params": given}))
            while "id" not in (answer := json.loads(link.recv())):
                pass
            assert answer["type"] == "success", answer
            return answer["result"]

        send("session.new", capabilities={})
        context = send("browsingContext.getTree")["contexts"][0]["context"]
        send("browsingContext.setViewport", context=context, viewport={"width": SIZE[0], "height": SIZE[1]})
        send("browsingContext.navigate", context=context, url=address, wait="complete")
        given = {"target": {"context": context}, "awaitPromise": False}
        yield lambda script: send("script.evaluate", expression=script, **given)["result"]["value"]
        link.close()


@contextmanager
def webkit(address: str, folder: Path) -> Iterator[Evaluate]:
    """Opens a page in WebKitGTK's MiniBrowser; yields a function that evaluates JavaScript there."""
    del folder
    port, display = free_port(), f":{90 + free_port() % 900}"
    program = str(next(Path("/usr/lib").glob("*/webkit2gtk-4*/MiniBrowser")))

    def send(path: str, method: str = "POST", **given: object) -> object:
        body = json.dumps(given).encode() if method == "POST" else None
        asked = urllib.request.Request(f"http://127.0.0.1:{port}/session{path}", body, method=method)
        return json.load(urllib.request.urlopen(asked, timeout=60))["value"]

    with (
        running("Xvfb", display, "-screen", "0", "1400x1200x24"),
        running("env", f"DISPLAY={display}", "WebKitWebDriver", f"--port={port}"),
    ):
        options = {
            "browserName": "MiniBrowser",
            "webkitgtk:browserOptions": {"binary": program, "args": ["--automation"]},
        }
        session = retried(lambda: send("", capabilities={"alwaysMatch": options}))["sessionId"]
        send(f"/{session}/window/rect", width=SIZE[0], height=SIZE[1])
        send(f"/{session}/url", url=address)
        yield lambda script: send(f"/{session}/execute/sync", script=f"return {script}", args=[])
        send(f"/{session}", method="DELETE")


@pytest.fixture(params=[firefox, webkit], ids=["firefox", "webkit"])
def other(request: pytest.FixtureRequest) -> Callable[..., Iterator[Evaluate]]:
    """One of the browsers, if it is installed."""
    needed = {"firefox": ["firefox-esr"], "webkit": ["WebKitWebDriver", "Xvfb"]}[request.node.callspec.id.split("-")[0]]
    if missing := [name for name in needed if shutil.which(name) is None]:
        pytest.skip(f"no {' and '.join(missing)}: `sudo apt install firefox-esr webkit2gtk-driver xvfb`")
    return request.param


@pytest.mark.parametrize("name", ["raises_backward", "silently_wrong", "training", "detached"])
def test_the_timeline_is_drawn_in_the_same_places(name, other, page, tmp_path):
    """Each text, ring, disc and highlighted line is within two pixels of its place in Chromium, at the same width."""
    file = tmp_path / "page.html"
    file.write_text(view.as_html(from_json((RECORDINGS / f"{name}.json").read_bytes())))
    with other(file.as_uri(), tmp_path / "profile") as evaluate:
        width = int(evaluate("String(document.documentElement.clientWidth)"))
        found = wait_for_places(evaluate)
    page.set_viewport_size({"width": width, "height": SIZE[1]})
    page.goto(file.as_uri())
    expected = wait_for_places(page.evaluate)
    assert [words for words, *_ in expected] == [words for words, *_ in found]
    distant = [
        (words, here, there)
        for (words, *here), (_, *there) in zip(expected, found, strict=True)
        if max(abs(one - another) for one, another in zip(here, there, strict=True)) > TOLERANCE
    ]
    assert not distant


def wait_for_places(evaluate: Evaluate) -> list[tuple[str, float, float]]:
    """Returns the text and the place of each part of the timeline; the page decompresses its scene first."""
    end = time.monotonic() + 20
    while not (places := json.loads(evaluate(PLACES))):
        assert time.monotonic() < end, "the page does not show a timeline"
        time.sleep(0.2)
    return places
