"""The book in Chromium: from a file and from a plain server, at three widths, with the keyboard, without scripts."""

from __future__ import annotations

import contextlib
import functools
import http.server
import json
import threading

import pytest
from playwright.sync_api import expect

from autograder.course.book.make_book import shared_files, write_book
from tests.course.book.small_course import FOLDED, NAME, NUMBER, SECRET
from tests.npm import violations

LESSON = f"en/{NAME}.html"


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        """Log nothing."""


@pytest.fixture(scope="module")
def folder(book, tmp_path_factory):
    """The small book on disk."""
    place = tmp_path_factory.mktemp("site") / "book"
    write_book(place, {f"en/{path}": text for path, text in book.items()} | shared_files())
    return place


@contextlib.contextmanager
def served(folder):
    """Give the address of a plain file server at a folder."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=folder)) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


@pytest.fixture(scope="module")
def server(folder):
    """The address of a plain file server at the book."""
    with served(folder) as address:
        yield address


@pytest.fixture
def open_page(browser):
    """Return a function that opens an address; an error of a script or a request to another place fails the test."""
    contexts, wrong = [], []

    def opened(address, width=1280, **options):
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        place = "file://" if address.startswith("file://") else address.partition("/en/")[0]
        page.on(
            "request", lambda request: request.url.startswith((place, "data:", "blob:")) or wrong.append(request.url)
        )
        page.goto(address)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert [] == wrong


def test_the_atlas_is_filtered_by_name(open_page, folder):
    """A name keeps only its operations; parts without a match take no space, even before layout. A link to a late operation works."""
    page = open_page((folder / "en/atlas.html").as_uri())
    tall = page.evaluate("document.body.scrollHeight")
    page.get_by_role("searchbox", name="name contains").fill("addmm")
    shown = page.locator(".atlas dt:visible")
    expect(shown.first).to_contain_text("addmm")
    assert all("addmm" in name for name in shown.all_text_contents())
    assert page.evaluate("document.body.scrollHeight") < min(tall, 2000)
    last = open_page((folder / "en/atlas.html").as_uri() + "#" + page.locator(".atlas > div").last.get_attribute("id"))
    expect(last.locator(".atlas > div").last).to_be_in_viewport()


def predict(page, choice=1):
    """Taps an answer and waits for the recorded run."""
    page.locator(f"#prediction_late [data-choice='{choice}']").click()
    page.locator("#prediction_late .autograder").wait_for()


@pytest.mark.parametrize("width", [360, 900, 1600])
def test_a_prediction_from_a_file(folder, open_page, width):
    """One tap gives the verdict, the picture at its first step, and the text that follows; no page is wider than its window.

    The picture contains the program, which is therefore not shown again above it.
    """
    page = open_page(f"file://{folder}/{LESSON}", width)
    assert SECRET not in page.content()
    predict(page, 2)
    assert "It was raises-backward" in page.locator("#prediction_late .verdict").inner_text()
    assert page.locator("#prediction_late .step").inner_text().startswith("step 1 of")
    page.get_by_text(SECRET).wait_for()
    assert page.locator("#prediction_late [data-choice='0']").is_disabled()
    assert not page.locator("#prediction_late > .program").is_visible()
    assert width >= page.evaluate("document.documentElement.scrollWidth")


def test_the_same_from_a_server(server, open_page):
    """A plain file server is enough, and the answers are there when the page is loaded again."""
    page = open_page(f"{server}/{LESSON}")
    predict(page)
    assert "1 of 2 predicted, 1 right at the first try" == page.locator("[data-score]").inner_text()
    page.reload()
    page.get_by_text(SECRET).wait_for()
    with page.expect_download() as saved:
        page.locator("[data-progress='save']").click()
    answers = json.loads(saved.value.path().read_text())["answers"]
    assert answers["prediction_late"]["right"]


@pytest.mark.parametrize(
    ("guess", "verdict"), [("3.01", "as you predicted"), ("1.5", "You predicted 1.5. It returns 3.")]
)
def test_a_value_is_typed(folder, open_page, guess, verdict):
    """A number is compared to two digits, and the text that explains it comes after that."""
    page = open_page(f"file://{folder}/{LESSON}")
    assert NUMBER not in page.content()
    page.locator("#prediction_slope input").fill(guess)
    page.keyboard.press("Enter")
    page.locator("#prediction_slope .autograder").wait_for()
    assert verdict in page.locator("#prediction_slope .verdict").inner_text()
    page.get_by_text(NUMBER).wait_for()


def test_changing_the_program_answers_at_once(folder, open_page):
    """Another form and another place of the write give the outcome that the table holds; the keyboard does it too."""
    page = open_page(f"file://{folder}/{LESSON}")
    predict(page)
    page.locator("#prediction_late [data-play]").click()
    answer = page.locator(".answer b")
    assert "! raises-backward" == answer.inner_text()
    page.locator(".lines select").select_option(label=".data")
    assert "⚠ silently-wrong" == answer.inner_text()
    page.locator(".lines select").select_option(label="in place")
    page.locator(".lines button").first.focus()
    page.keyboard.press("Enter")
    assert "✓ correct" == answer.inner_text()
    assert ["h.add_(1)", "y = h * h"] == page.locator(".lines code").all_inner_texts()[2:4]


def test_lines_are_put_in_order(folder, open_page):
    """Lines are taken and moved with the keyboard; an order that stops is shown as it ran, and the right one passes the check."""
    page = open_page(f"file://{folder}/{LESSON}")
    page.locator("#order [data-play]").click()
    answer = page.locator("#order .answer")
    for line in ("a = w.exp()", "a.mul_(2)", "return a"):
        page.get_by_label(f"take this line: {line}").focus()
        page.keyboard.press("Enter")
    assert "a.mul_(2)" in page.locator("#order .lines").first.inner_text()
    page.locator("#order .stage .autograder").wait_for()
    assert "raises-backward" in answer.inner_text() or "correct" not in answer.get_attribute("class")
    page.get_by_label("put back: a.mul_(2)").click()
    page.get_by_label("take this line: a = a * 2").click()
    assert "This order cannot run" in answer.inner_text() or "Take the lines" in answer.inner_text()
    page.get_by_label("move up: a = a * 2").click()
    assert "The check passes" in answer.inner_text()


def test_a_line_is_dragged(folder, open_page):
    """The handle takes a line to where the pointer lets it go."""
    page = open_page(f"file://{folder}/{LESSON}")
    predict(page)
    page.locator("#prediction_late [data-play]").click()
    handle = page.locator(".handle")
    handle.scroll_into_view_if_needed()
    start, goal = handle.bounding_box(), page.locator(".lines li").nth(2).bounding_box()
    page.mouse.move(start["x"] + 5, start["y"] + 5)
    page.mouse.down()
    page.mouse.move(goal["x"] + 20, goal["y"] + 10, steps=4)
    page.mouse.up()
    assert "✓ correct" == page.locator(".answer b").inner_text()


def test_a_line_that_can_go_nowhere_has_no_handle(folder, open_page):
    """A line that has other forms but only one place has no handle to drag it."""
    page = open_page(f"file://{folder}/{LESSON}")
    page.evaluate("""() => {
        const open = book.openTable;
        book.openTable = (place, content) => open(place, { ...content, value: content.value.slice(0, 1) });
    }""")
    predict(page)
    page.locator("#prediction_late [data-play]").click()
    expect(page.locator(".lines .free select")).to_be_visible()
    expect(page.locator(".handle")).to_have_count(0)


def test_the_keyboard_is_enough(folder, open_page):
    """A prediction and a step through the picture without a pointer."""
    page = open_page(f"file://{folder}/{LESSON}")
    page.locator("#prediction_late [data-choice='1']").focus()
    page.keyboard.press("Enter")
    page.locator("#prediction_late .autograder").wait_for()
    page.locator("#prediction_late .controls button").first.focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#prediction_late .step").inner_text().startswith("step 2 of")


def test_an_address_opens_a_step(folder, open_page):
    """`#seen.step3` is the third step of that picture, live, and the copied link leads to the step that is shown."""
    page = open_page(f"file://{folder}/{LESSON}")
    predict(page)
    page.evaluate("location.hash = '#seen.step3'")
    page.locator("#seen .autograder").wait_for()
    assert page.locator("#seen .step").inner_text().startswith("step 3 of")
    page.evaluate("document.execCommand = () => (window.copied = document.activeElement.value, true)")
    page.evaluate(
        "navigator.clipboard && (navigator.clipboard.writeText = (text) => Promise.resolve(window.copied = text))"
    )
    page.locator("#seen [data-link]").click()
    page.wait_for_function("window.copied")
    assert page.evaluate("window.copied").endswith(f"{NAME}.html#seen.step3")
    page.locator("#seen [data-link]").click()  # again, while it still says that it was copied
    expect(page.locator("#seen [data-link]")).to_have_text("Copy link")


def test_a_picture_is_embedded_elsewhere(folder, open_page, tmp_path):
    """Another person's page shows one question in an iframe, where it can be answered."""
    other = tmp_path / "en" / "slide.html"
    other.parent.mkdir()
    other.write_text(
        f'<iframe src="file://{folder}/en/pictures/{NAME}/prediction_late.html" width="900" height="700"></iframe>'
    )
    page = open_page(f"file://{other}")
    frame = page.frame_locator("iframe")
    frame.locator("[data-choice='1']").click()
    frame.locator(".autograder").wait_for()
    assert f"{NAME}.html#prediction_late" in frame.locator(".source a").get_attribute("href")


def test_without_scripts_all_can_be_read(folder, open_page):
    """The question links to a page with its outcome, its picture and the text; buttons without a function are not shown."""
    page = open_page(f"file://{folder}/{LESSON}", java_script_enabled=False)
    assert 0 == page.locator("button:visible").count()
    page.locator("noscript a").first.click()
    assert "raises-backward" in page.locator("#prediction_late .asked").inner_text()
    assert page.get_by_text(SECRET).is_visible()


def test_the_search_finds_a_place(folder, open_page):
    """Words of a section lead to it; text that a question reveals is not found."""
    page = open_page(f"file://{folder}/{LESSON}")
    page.locator(".search input").fill("operation made")
    page.locator(".found a").first.click()
    page.wait_for_url("**/glossary.html#leaf")
    for words, hits in (("leaves", 2), ("eaf", 0)):  # another form of a word of both pages, and a part of it
        page.locator(".search input").fill(words)
        expect(page.locator(".found a")).to_have_count(hits)
    page.locator(".search input").fill("secret")
    page.get_by_text("Nothing found").wait_for()
    page.locator(".search input").fill("")
    expect(page.locator(".search p")).to_have_class("hidden")


def test_what_cannot_be_loaded_is_said_in_its_place(server, open_page):
    """If a script is not loaded, a message appears in the place of the answer, value, picture, text or search."""
    page = open_page(f"{server}/{LESSON}")
    page.route("**/pictures/**/*.js", lambda route: route.abort())
    page.route("**/search.js", lambda route: route.abort())
    page.locator("#prediction_late [data-choice='1']").click()
    page.locator("#prediction_slope input").fill("3")
    page.locator("#prediction_slope form button").click()
    page.locator("[data-reveal='prediction_late']").click()
    page.locator("#order [data-play]").click()
    page.locator(".search input").fill("leaf")
    expect(page.get_by_text("The recording could not be loaded. Load the page again.")).to_have_count(5)


def test_print_has_no_buttons(folder, open_page):
    """On paper a page is its text, its programs and its pictures."""
    page = open_page(f"file://{folder}/{LESSON}")
    page.emulate_media(media="print")
    assert 0 == page.locator("main button:visible, footer button:visible").count()
    assert page.locator("#repair .program").is_visible()


def test_print_shows_what_was_unfolded_by_the_answer(folder, open_page):
    """After an answer, print shows a picture at its deciding step, without controls, and unfolded text; the screen is unchanged."""
    page = open_page(f"file://{folder}/{LESSON}")
    predict(page)
    step = page.locator("#prediction_late .step")
    first = step.inner_text()
    folded, controls = page.get_by_text(FOLDED), page.locator("#prediction_late .controls button:visible")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert folded.is_visible()
    assert 0 == controls.count()
    assert "h.add_(1)" in page.locator("#prediction_late .line:has(.now), #prediction_late .line.now").inner_text()
    assert first != step.inner_text()
    assert page.locator("#prediction_late .badge").is_visible()
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert not folded.is_visible()
    assert controls.count() >= 4
    assert first == step.inner_text()


def test_what_a_picture_says_in_words_is_wrapped(folder, open_page):
    """A word wider than a phone is broken, because a text that scrolls would also need the keyboard."""
    page = open_page(f"file://{folder}/{LESSON}", 360)
    predict(page)
    words = page.locator("#seen details pre")
    words.evaluate("(one) => (one.closest('details').open = true, one.textContent = 'x'.repeat(300))")
    assert words.evaluate("(one) => one.scrollWidth <= one.clientWidth")


@pytest.mark.slow  # fetches axe-core from npm
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1600])
@pytest.mark.parametrize("path", [LESSON, f"en/outcomes/{NAME}.html"])
def test_a_page_can_be_used_by_everyone(folder, browser, path, width, scheme):
    """axe-core finds no violation of WCAG 2.1 AA on the page of a lesson, before and after it is answered."""
    page = browser.new_context(
        color_scheme=scheme, viewport={"width": width, "height": 900}, bypass_csp=True
    ).new_page()
    page.goto((folder / path).as_uri())
    assert [] == violations(page)
    if path == LESSON:
        predict(page)
        page.locator("#order [data-play]").click()
        page.locator("#order .lines").first.wait_for()
    page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    assert [] == violations(page)
    page.context.close()


def test_pictures_are_no_landmarks(folder, open_page):
    """A page of many pictures keeps its few landmarks: a screen reader's list of them is short."""
    page = open_page(f"file://{folder}/{LESSON}")
    predict(page)
    page.locator("#seen .step-through").click()
    page.locator("#seen .autograder").wait_for()
    assert 2 == page.get_by_role("group", name="autograd, step by step").count()
    assert 0 == page.get_by_role("region", name="autograd, step by step").count()
