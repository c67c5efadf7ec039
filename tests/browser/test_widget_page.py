"""The self-contained page, opened from disk with the network off: every control, for every reader."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from playwright.sync_api import Browser, Page, expect

from autograder import view
from autograder.tape.recording.schema import Recording, from_json

RECORDINGS = Path(__file__).parents[1] / "view" / "recordings"


def stored(name: str) -> Recording:
    """Return a stored recording."""
    return from_json((RECORDINGS / f"{name}.json").read_bytes())


@pytest.fixture
def opened(page: Page, tmp_path: Path):
    """A function that writes a recording's page to disk and opens it offline; requests and policy violations fail the test."""
    refused: list[str] = []
    page.context.set_offline(True)
    page.on("console", lambda message: refused.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: refused.append(request.url) if request.url.startswith("http") else None)

    def show(name: str, **options) -> Page:
        file = tmp_path / f"{name}.html"
        file.write_text(view.as_html(stored(name), **options), encoding="utf-8")
        page.goto(file.as_uri())
        page.wait_for_selector(".autograder")
        if not options:
            page.click(".more > summary")
            page.click("[aria-label='first step']")
        return page

    yield show
    assert [] == refused


def sentence(page: Page) -> str:
    """Return the text of the live region."""
    return page.inner_text(".sentence")


def test_every_control_steps(opened):
    """Buttons, slider, arrow keys, Home and End, and a click on a line of code all lead to the frame they promise."""
    page = opened("raises_backward")
    step = page.locator(".step")
    for act, at in (
        (lambda: page.click("[aria-label=forward]"), 2),
        (lambda: page.click("[aria-label='last step']"), 10),
        (lambda: page.click("[aria-label=back]"), 9),
        (lambda: page.click("[aria-label='first step']"), 1),
        (lambda: page.keyboard.press("End"), 10),
        (lambda: page.keyboard.press("ArrowLeft"), 9),
        (lambda: page.keyboard.press("Home"), 1),
        (lambda: page.keyboard.press("ArrowRight"), 2),
        (lambda: page.locator(".slider").fill("5"), 6),
        (lambda: page.locator(".line button", has_text="f = d * w2").click(), 5),
    ):
        act()
        expect(step).to_have_text(f"step {at} of 10")


def test_it_plays_to_the_end_and_stops(opened):
    """Play goes on by itself; pressed again it pauses."""
    page = opened("raises_forward")
    page.click("[aria-label=play]")
    expect(page.locator(".step")).to_have_text("step 3 of 3", timeout=6000)
    expect(page.locator("[aria-label=play]")).to_be_visible(timeout=6000)

    page.click("[aria-label=play]")
    page.click("[aria-label=pause]")
    expect(page.locator("[aria-label=play]")).to_be_visible()


def test_a_long_line_wraps(opened, page):
    """A line wider than its pane wraps with an indent; the code pane never scrolls sideways."""
    page.set_viewport_size({"width": 920, "height": 900})
    opened("modules")
    heights = page.eval_on_selector_all(".line", "lines => lines.map((line) => line.getBoundingClientRect().height)")
    beside = page.eval_on_selector_all(".code, .line", "all => all.filter((e) => e.scrollWidth > e.clientWidth).length")

    assert 2 * min(heights) <= max(heights)
    assert 0 == beside


@pytest.mark.parametrize(("width", "columns"), [(1600, 2), (1000, 2), (860, 1), (360, 1)])
def test_two_columns_only_where_both_can_be_read(opened, page, width, columns):
    """The code is next to the graph if the graph keeps 440 pixels, and above it otherwise; the picture does not overflow."""
    page.set_viewport_size({"width": width, "height": 900})
    opened("raises_backward")
    code, graph = (page.locator(pane).bounding_box() for pane in (".pane.code", ".pane.graph"))
    beside = graph["x"] >= code["x"] + code["width"]
    assert columns == 1 + beside
    assert beside or graph["y"] >= code["y"] + code["height"]
    assert graph["width"] >= (440 if beside else 0.8 * width)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_a_refused_program_is_not_praised(page, tmp_path):
    """Its gradients are right and its values are not: the badge and the sentence name the check, and no outcome is green."""
    recording = from_json((RECORDINGS / "correct.json").read_bytes())
    verdict = msgspec.structs.replace(recording.verdict, refusal="wrong return value")
    file = tmp_path / "refused.html"
    file.write_text(view.as_html(msgspec.structs.replace(recording, verdict=verdict)), encoding="utf-8")
    page.goto(file.as_uri())
    page.click(".more > summary")
    page.click("[aria-label='last step']")

    assert "The check: ✗ not passed" == page.inner_text(".badge")
    assert sentence(page).startswith("The check fails: wrong return value.")
    assert 0 == page.locator(".badge.correct, .headline:not(.refused)").count()
    assert "not passed: wrong return value" == page.title()


def test_the_harm_is_shown_and_described(opened):
    """At the `.data` write: the badge, the sentence, the same version twice, the alias, the arrow."""
    page = opened("silently_wrong")
    page.locator(".slider").fill("5")

    assert "silently wrong" in page.inner_text(".badge")
    assert "the gradient will be wrong" in sentence(page)
    assert "cannot detect this write" in (page.text_content(".details p") or "")
    assert "saved v0, now v0" in page.text_content(".graph .kept.silent")
    assert "did not count it" in page.text_content(".memory .lane.unseen")
    assert 1 == page.locator(".links path.silent").count()
    assert "unseen" in page.get_attribute(".line.now", "class")


def test_a_row_of_the_timeline_lights_its_line_and_its_node(opened):
    """The pointer on the row of line 8, and the focus on it, light that line and the node that it made; leaving it lights nothing."""
    page = opened("silently_wrong")
    row = page.locator(".moment", has_text="MulBackward0 saves d")
    for enter, leave in [(row.hover, page.locator(".aside").first.hover), (row.focus, page.locator(".slider").focus)]:
        enter()
        assert page.locator(".line.lit").all_inner_texts() == ["f = d * w2"]
        assert "MulBackward0" in page.locator(".graph .block.lit").first.text_content()
        leave()
        assert page.locator(".line.lit, .graph .lit").count() == 0


def test_the_arrow_ends_at_the_line_that_wrote(opened):
    """The arrow goes from the harmed row to line 9, in a wide window and in a narrow one."""
    page = opened("raises_backward")
    page.locator(".slider").fill("5")
    for width in (1200, 360):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_timeout(150)
        end, line = page.evaluate(
            """() => {
                const path = document.querySelector(".links path");
                const frame = document.querySelector(".below").getBoundingClientRect();
                const line = document.querySelector(".line.hit").getBoundingClientRect();
                const tip = path.getPointAtLength(path.getTotalLength() - 9);
                return [tip.y + frame.top, line.top + line.height / 2];
            }"""
        )

        assert abs(end - line) < 12


def test_the_gradients_come_with_the_verdict(opened):
    """The gradient panel is shown at the last step, and not before."""
    page = opened("silently_wrong")
    assert not page.is_visible(".gradients")
    page.click("[aria-label='last step']")

    assert page.is_visible(".gradients")
    assert "w2.grad[0]✗ 14" in page.text_content(".gradients .row.wrong")


def test_the_gradients_above_the_blocks_are_whole(opened):
    """At the last step, the text of the graph stays inside its drawing, where it is not cut off."""
    page = opened("silently_wrong")
    page.click("[aria-label='last step']")
    cut = """() => {
        const edge = document.querySelector(".graph svg").getBoundingClientRect();
        const texts = [...document.querySelectorAll(".graph text")].filter((text) => text.textContent && text.getClientRects().length);
        const boxes = texts.map((text) => [text.textContent, text.getBoundingClientRect()]);
        return [boxes.length, boxes.filter(([, box]) => box.left < edge.left || box.right > edge.right).map(([words]) => words)];
    }"""
    count, beyond = page.evaluate(cut)

    assert count > 20
    assert [] == beyond


def test_same_memory_lights_together(opened):
    """Hovering a tensor in the graph, or focusing its memory, lights every element of that memory and no other."""
    page = opened("views")
    page.click("[aria-label='last step']")
    page.hover(".graph .value >> nth=2")
    lit = page.evaluate("[...document.querySelectorAll('.below .lit')].map((e) => e.dataset.memory)")
    assert len(lit) > 1
    assert 1 == len(set(lit))

    page.focus(".memory .lane >> nth=1")
    assert page.get_attribute(".memory .lane >> nth=1", "data-memory") in set(
        page.evaluate("[...document.querySelectorAll('.below .lit')].map((e) => e.dataset.memory)")
    )


def test_folds_open_and_close_again(opened):
    """A fold opens by key and by click; the trail leads back; the step stays."""
    page = opened("loop")
    page.click("[aria-label='last step']")
    page.focus("[data-opens]")
    page.keyboard.press("Enter")
    expect(page.locator(".trail button")).to_have_count(2)
    page.locator(".graph [data-opens]").last.click()
    expect(page.locator(".trail button")).to_have_count(3)
    page.click(".trail button >> nth=0")

    expect(page.locator(".trail button")).to_have_count(0)
    expect(page.locator(".step")).to_have_text("step 93 of 93")


def test_the_last_steps_wait_for_a_prediction(opened):
    """No outcome, forecast or harm is shown before the choice; then the last steps open, and the last one gives the result."""
    page = opened("raises_backward", predict=True)
    page.click("[aria-label='last step']")
    expect(page.locator(".step")).to_have_text("step 6 of 10")
    assert "your prediction first" in page.inner_text(".badge")
    assert "refuse" not in sentence(page)
    assert 0 == page.locator(".panes :is(.stale, .hit), .links path").count()

    page.locator(".question button", has_text="raises-backward").click()
    page.click("[aria-label='last step']")
    assert "Your prediction was right: raises-backward." in page.inner_text(".question")
    assert 0 < page.locator(".panes .stale").count()


def test_the_keyboard_reaches_everything(opened):
    """From the first button, Tab visits controls, slider, the lit line, the graph and each piece of memory, and leaves again."""
    page = opened("correct")
    page.click("[aria-label='last step']")
    page.focus("[aria-label='first step']")
    focused = """() => {
        const element = document.activeElement;
        return element.getAttribute("aria-label") ?? element.className.baseVal ?? element.tagName;
    }"""
    seen = []
    for _ in range(14):
        seen.append(page.evaluate(focused))
        page.keyboard.press("Tab")

    assert ["first step", "back", "play", "forward", "last step", "step", "BUTTON", "graph"] == seen[:8]
    assert any("lane" in name for name in seen)
    assert "SUMMARY" in seen


def test_names_and_live_region_are_there_for_screen_readers(opened):
    """Every control has a name; the sentence is announced; the slider has the step as its text."""
    page = opened("views")

    assert "status" == page.get_attribute(".sentence", "role")
    assert "step 1 of 10" == page.get_attribute(".slider", "aria-valuetext")
    unnamed = """[...document.querySelectorAll(".autograder button")]
        .filter((button) => !(button.ariaLabel || button.textContent.trim() || button.closest(".code"))).length"""
    assert 0 == page.evaluate(unnamed)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read(browser: Browser, tmp_path: Path, scheme: str):
    """Every text has a contrast of at least 4.5 to the backgrounds (WCAG 2, level AA), in both color schemes."""
    file = tmp_path / "page.html"
    file.write_text(view.as_html(stored("silently_wrong")), encoding="utf-8")
    context = browser.new_context(color_scheme=scheme, reduced_motion="reduce")
    page = context.new_page()
    page.goto(file.as_uri())
    page.click(".more > summary")
    page.click("[aria-label='last step']")
    worst = page.evaluate(CONTRAST)
    context.close()

    assert len(worst) > 40
    assert [] == [found for found in worst if found[0] < 4.5]


CONTRAST = """() => {
  const root = document.querySelector(".autograder");
  const numbers = (css) => css.match(/[\\d.]+/g).map(Number);
  const channel = (c) => ((c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const ratio = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
  const ground = (name) => {
    const probe = document.createElement("i");
    probe.style.color = `var(${name})`;
    root.append(probe);
    const found = numbers(getComputedStyle(probe).color);
    probe.remove();
    return found;
  };
  const grounds = ["--ag-card", "--ag-head", "--ag-paper"].map(ground);
  const shown = (e) => e.textContent.trim() && e.getClientRects().length;
  const opaque = (e) => e === root || (getComputedStyle(e).opacity === "1" && opaque(e.parentElement));
  return [...root.querySelectorAll("text, p, li, b")].filter(shown).map((e) => {
    const ink = numbers(getComputedStyle(e)[e.tagName === "text" ? "fill" : "color"]);
    const own = e.matches(".sign") ? [numbers(getComputedStyle(e.previousElementSibling).fill)] : grounds; // a sign is on its disc
    return [opaque(e) ? Math.min(...own.map((g) => ratio(ink, g))) : 0, e.textContent.slice(0, 40)];
  });
}"""


@pytest.mark.parametrize("width", [300, 640, 1280])
def test_nothing_is_cut_off(opened, width):
    """In a narrow window, or at a zoom of 200 % (half the width), the page never scrolls sideways."""
    page = opened("silently_wrong")
    page.set_viewport_size({"width": width, "height": 800})
    for _ in range(13):
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.click("[aria-label=forward]")


MOVING = """[...document.querySelectorAll(".autograder *")].map((element) => getComputedStyle(element))
    .some((style) => style.animationName !== "none" || parseFloat(style.transitionDuration) > 0)"""
"""Whether the style moves anything: an animation itself may be over before a slow machine looks."""


def test_reduced_motion_is_respected(browser: Browser, tmp_path: Path):
    """Nothing moves if the reader's system requests reduced motion; the control shows that something moves otherwise."""
    file = tmp_path / "page.html"
    file.write_text(view.as_html(stored("correct")), encoding="utf-8")
    moving = {}
    for motion in ("reduce", "no-preference"):
        context = browser.new_context(reduced_motion=motion)
        page = context.new_page()
        page.goto(file.as_uri())
        page.click(".more > summary")
        page.click("[aria-label='first step']")
        page.click("[aria-label=forward]")
        moving[motion] = page.evaluate(MOVING)
        context.close()

    assert not moving["reduce"]
    assert moving["no-preference"]


def test_hostile_names_stay_text(page: Page, tmp_path: Path):
    """Markup in names, values and lines of source does not run and does not add elements."""
    script = '"><img src=x onerror=alert(1)></text><script>alert(2)</script>'
    text = (RECORDINGS / "raises_backward.json").read_text(encoding="utf-8")
    for old in ('"w2"', '"[[4]]"', '"MulBackward0"', '"d"'):
        text = text.replace(old, json.dumps(script))
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    file = tmp_path / "page.html"
    file.write_text(view.as_html(from_json(text)), encoding="utf-8")
    page.goto(file.as_uri())
    page.click(".more > summary")
    page.click("[aria-label='last step']")

    assert [] == dialogs
    assert 0 == page.locator(".autograder img, .autograder script").count()
    assert "onerror=alert(1)" in page.text_content(".autograder")


def test_without_scripts_the_picture_and_the_words_are_there(browser: Browser, tmp_path: Path):
    """Where scripts are off, a page still teaches."""
    file = tmp_path / "page.html"
    file.write_text(view.as_html(stored("views")), encoding="utf-8")
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(file.as_uri())

    assert page.is_visible("#picture img")
    page.click("summary")
    assert "MvBackward0 (line 7) keeps i from version 0" in page.inner_text("pre")
    context.close()
