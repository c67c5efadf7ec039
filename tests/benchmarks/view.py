"""Measures the picture and prints each figure with its target: `python tests/benchmarks/view.py`.

The scenes have a timeline with an open graph. Sizes are exact. Times are medians in the page, from the rendering call to
the frame after layout, and are valid for the machine on which they were measured. The exit code is 1 if a target is
missed.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from shutil import which
from statistics import median

import msgspec
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from autograder import tape, view  # noqa: E402
from autograder.tape.recording.schema import Recording, from_json  # noqa: E402
from autograder.view.assets import pictures, read_asset  # noqa: E402
from autograder.view.draw.timeline import scene_timeline  # noqa: E402
from autograder.view.scene.composition import Scene, build_scene  # noqa: E402
from autograder.view.scene.timeline import timeline_of  # noqa: E402

SCRIPTS = sorted((ROOT / "tests" / "benchmarks" / "programs").glob("*.py"))
SNIPPETS = ["raises_backward", "silently_wrong", "correct", "raises_forward", "views"]

LOOP = """\
import torch
w = torch.ones(4, requires_grad=True)
h = torch.zeros(4)
for t in range({rounds}):
    a = h * w
    b = a + 1
    c = b.exp()
    h = c.tanh()
h.add_(1)
h.sum().backward()
"""

PAINT = """async (data) => {
  const el = document.querySelector("main");
  const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  const times = [];
  for (let i = 0; i < 7; i++) {
    const began = performance.now();
    const stop = graph.render({ model: { get: () => data, on() {}, off() {} }, el });
    el.getBoundingClientRect();
    await frame();
    times.push(performance.now() - began);
    stop();
  }
  return times.sort((a, b) => a - b)[3];
}"""

STEPS = """async (data) => {
  const el = document.querySelector("main");
  const stop = graph.render({ model: { get: () => data, on() {}, off() {} }, el });
  await new Promise((done) => setTimeout(done, 100)); // the graph below the timeline opens
  const [next, first] = ["forward", "first step"].map((name) => el.querySelector(`[aria-label="${name}"]`));
  const times = [];
  const walk = (count) => {
    for (let i = 0; i < count; i++) {
      if (i % data.frames.length === data.frames.length - 1) first.click();
      const began = performance.now();
      next.click();
      el.getBoundingClientRect();
      times.push(performance.now() - began);
    }
  };
  walk(1000);
  globalThis.gc?.();
  const before = [performance.memory.usedJSHeapSize, document.querySelectorAll("*").length];
  walk(1000);
  globalThis.gc?.();
  const after = [performance.memory.usedJSHeapSize, document.querySelectorAll("*").length];
  stop();
  times.sort((a, b) => a - b);
  return { step: times[1000], worst: times[1900], heap: after[0] - before[0], elements: after[1] - before[1] };
}"""


def row(what: str, seen: float, unit: str, target: float) -> bool:
    """Print one figure with its target, and return whether it meets the target."""
    good = seen <= target
    print(f"{what:<58} {seen:>10,.1f} {unit:<5} target {target:>9,.0f}   {'ok' if good else 'MISSED'}")
    return good


def stored(name: str) -> Recording:
    """Return one of the recordings of the view's tests."""
    return from_json((ROOT / "tests" / "view" / "recordings" / f"{name}.json").read_bytes())


def sizes() -> list[bool]:
    """Print the size of the saved output of each lesson snippet, and of the output and the page of each whole script."""
    good = [size(name, stored(name)) for name in SNIPPETS]
    for script in SCRIPTS:
        recording = tape.record_file(script, function=None)
        good += [size(script.name, recording), page_size(script.name, recording)]
    return good


def size(name: str, recording: Recording) -> bool:
    """Print the size of a saved output."""
    forms = view.mimebundle(recording).values()
    return row(f"saved output of {name}, all forms", sum(len(form.encode()) for form in forms), "B", 30_000)


def page_size(name: str, recording: Recording) -> bool:
    """Print the size of a page of `--html`."""
    return row(f"self-contained page of {name}", len(view.as_html(recording).encode()) / 1000, "kB", 300)


def whole_scene(recording: Recording) -> Scene:
    """Return a scene with its timeline, below which the graph is open."""
    scene, timeline = build_scene(recording), timeline_of(recording)
    scene.timeline = timeline and scene_timeline(timeline, recording, scene, graph_first=True)
    return scene


def python_side(recording: Recording, what: str, target: float) -> bool:
    """Print how long the scene of a recording takes to build."""
    times = []
    for _ in range(3):
        began = time.perf_counter()
        whole_scene(recording)
        times.append(1000 * (time.perf_counter() - began))
    return row(f"scene of {what} (Python)", median(times), "ms", target)


def measure(page: Page) -> list[bool]:
    """Print the figures of the front end."""
    lesson, sixty, thousand = (
        stored("silently_wrong"),
        tape.record(LOOP.format(rounds=15)),
        tape.record(LOOP.format(rounds=250)),
    )
    scenes = [msgspec.to_builtins(whole_scene(recording)) for recording in (lesson, sixty, thousand)]
    walked = page.evaluate(STEPS, scenes[1])
    return [
        python_side(lesson, "a lesson snippet", 50),
        python_side(thousand, f"{len(thousand.nodes)} nodes", 1000),
        row("first paint, lesson snippet", page.evaluate(PAINT, scenes[0]), "ms", 100),
        row(f"first paint, {len(sixty.nodes)} nodes", page.evaluate(PAINT, scenes[1]), "ms", 100),
        row(f"first paint, {len(thousand.nodes)} nodes", page.evaluate(PAINT, scenes[2]), "ms", 1000),
        row(f"a step at {len(sixty.nodes)} nodes, median of 2,000", walked["step"], "ms", 16),
        row(f"a step at {len(sixty.nodes)} nodes, 95 of 100", walked["worst"], "ms", 16),
        row("memory over 1,000 steps, after collection", walked["heap"] / 1000, "kB", 50),
        row("elements over 1,000 steps", walked["elements"], "", 0),
        page_size(f"{len(thousand.nodes)} nodes", thousand),
    ]


def main() -> int:
    """Measures all, and returns the exit code."""
    good = sizes()
    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu", "--js-flags=--expose-gc", "--enable-precise-memory-info"]
        browser = playwright.chromium.launch(executable_path=which("chromium") or which("google-chrome"), args=flags)
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        page.set_content("<main></main>")
        page.add_style_tag(content=read_asset("graph.css"))
        page.add_script_tag(content=pictures("var") + "\nwindow.graph = graph;", type="module")
        page.wait_for_function("window.graph")
        good += measure(page)
        browser.close()
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
