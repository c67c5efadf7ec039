"""The whole book, made from the released course: every case is predicted, seen and stepped, in both languages, without a network."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograder.course.book.make_book import KEPT, make_book
from autograder.course.catalogue import lessons
from tests.course.book.test_in_browser import served
from tests.npm import violations

SCHEMES, LANGUAGES = ("light", "dark"), ("en", "zh-CN")
VIEWS = (
    (360, "light", "file", "en"),
    (360, "dark", "server", "zh-CN"),
    (900, "dark", "file", "zh-CN"),
    (900, "light", "server", "en"),
    (1600, "dark", "file", "en"),
    (1600, "light", "server", "zh-CN"),
)
"""Widths, schemes, ways to open it and languages: each two of them meet in one of these. All 24 together take half an hour."""
NAMES = [lesson.name for lesson in lessons()]

pytestmark = [pytest.mark.timeout(1800), pytest.mark.slow]  # the book of the whole course takes minutes to record

WALK = """async () => {
  const wait = async (found) => {
    for (let i = 0; i < 2400 && !found(); i++) await new Promise((go) => setTimeout(go, 25));
    return found();
  };
  const steps = async (place) => {
    if (!await wait(() => place.querySelector(".autograder .controls"))) return [place.id, "no picture"];
    place.querySelector("form:has(.counters) button[type=button]")?.click(); // version counters to be set first: show them
    const said = new Set();
    const slider = place.querySelector("input.slider");
    for (let step = 0; step <= Number(slider.max); step++) {
      slider.value = step;
      slider.dispatchEvent(new Event("input", { bubbles: true }));
      said.add(place.querySelector(".step").textContent);
    }
    return said.size === Number(slider.max) + 1 ? null : [place.id, said.size, slider.max];
  };
  const wrong = [], seen = new Set();
  let next;
  while ((next = [...document.querySelectorAll("section.question[data-picture], figure.picture")].find((one) => !seen.has(one.id)))) {
    seen.add(next.id);
    if (next.matches("figure")) next.querySelector(".step-through").click();
    else if (next.dataset.kind === "value") {
      next.querySelector("input").value = "7";
      next.querySelector("form button").click();
    } else for (const choice of next.querySelectorAll("[data-choice]")) {
      if (choice.disabled) continue;
      choice.click();
      await wait(() => choice.getAttribute("aria-pressed") === "true");
    }
    const problem = await steps(next);
    if (problem) wrong.push(problem);
    if (next.matches(".question") && !next.querySelector(".verdict").textContent.trim()) wrong.push([next.id, "no verdict"]);
  }
  if (document.querySelector(".waiting")) wrong.push("text that never came");
  if (document.documentElement.scrollWidth > innerWidth) wrong.push(["too wide", document.documentElement.scrollWidth]);
  return { count: seen.size, wrong };
}"""
"""Answers every question of a page with each of its choices, steps through every picture, and returns the errors."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The book of the course in both languages."""
    folder = tmp_path_factory.mktemp("whole") / "book"
    make_book(folder, "all", kept=KEPT)
    return folder


@pytest.fixture(scope="module")
def places(whole: Path):
    """The address of the book by the way in which it is read."""
    with served(whole) as address:
        yield {"file": whole.as_uri(), "server": address}


@pytest.mark.parametrize(("width", "scheme", "way", "language_code"), VIEWS)
def test_every_case(browser, places, width, scheme, way, language_code):
    """Each question is answered and each picture stepped through; pages load nothing from elsewhere, and are not too wide.

    axe-core finds no violation of WCAG 2.1 AA after everything is answered and unfolded.
    """
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    elsewhere, raised = [], []
    inside = (places[way], "data:", "blob:")
    context.on("request", lambda request: request.url.startswith(inside) or elsewhere.append(request.url))
    page = context.new_page()
    page.on("pageerror", lambda error: raised.append(str(error)))
    counts = {}
    for name in NAMES:
        page.goto(f"{places[way]}/{language_code}/{name}.html")
        found = page.evaluate(WALK)
        assert [] == found["wrong"], name
        page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
        assert [] == violations(page), name
        counts[name] = found["count"]
    context.close()
    assert [] == elsewhere
    assert [] == raised
    assert min(counts.values()) >= 5, counts
    assert sum(counts.values()) >= 90, counts


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("language_code", LANGUAGES)
def test_every_page_can_be_used_by_everyone(browser, whole, language_code, scheme):
    """axe-core finds no violation of WCAG 2.1 AA on any page, with its first question answered."""
    context = browser.new_context(color_scheme=scheme, bypass_csp=True)
    page, found = context.new_page(), {}
    for path in sorted((whole / language_code).glob("*.html")):
        page.goto(path.as_uri())
        if (choice := page.locator("[data-choice='1']:enabled")).count():  # an earlier page may have answered it
            choice.first.click()
            page.locator("section.question .verdict:not(:empty)").first.wait_for()
        if problems := violations(page):
            found[path.name] = problems
    context.close()
    assert {} == found


@pytest.mark.parametrize("language_code", LANGUAGES)
def test_every_page_is_whole_on_paper(browser, whole, language_code):
    """Printed on A4, no text, program or picture is wider than the paper, and no button is on it."""
    context = browser.new_context(
        viewport={"width": 680, "height": 960}
    )  # A4 without its margins, at 96 pixels an inch
    page = context.new_page()
    page.emulate_media(media="print")
    cut = {}
    for name in NAMES:
        page.goto((whole / language_code / f"{name}.html").as_uri())
        found = page.evaluate("""() => [...document.querySelectorAll("main *")]
            .filter((one) => !one.closest("details, math, .hidden") && one.getClientRects().length)
            .filter((one) => one.getBoundingClientRect().right > innerWidth + 1
                || (one.matches("pre, .stage") && one.scrollWidth > one.clientWidth + 1))
            .map((one) => `${one.tagName}.${one.className} ${one.textContent.slice(0, 40)}`)""")
        if found:
            cut[name] = found[:3]
        assert 0 == page.locator("main button:visible").count()
    context.close()
    assert {} == cut


@pytest.mark.parametrize("language_code", LANGUAGES)
def test_every_page_can_be_read_without_scripts(browser, whole, language_code):
    """Each page, and each page with the outcomes, shows its static pictures and its text, and no button without a function."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    for name in NAMES:
        page.goto((whole / language_code / "outcomes" / f"{name}.html").as_uri())
        assert 0 == page.locator("button:visible").count()
        pictures = page.locator("main img:visible")
        assert pictures.count() >= 5
        assert 0 == page.locator(".waiting").count()
    context.close()
