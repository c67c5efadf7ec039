"""A lesson, its wrong answers, and the quiz and review in JupyterLab, as a student uses them."""

import json
import re
import time

import nbformat
import pytest
from playwright.sync_api import expect

from autograder.course.catalogue import lessons
from autograder.course.paths import NOTEBOOKS, SOLUTIONS
from autograder.course.practice.question_cards import practice_items
from tests.browser.late_write import LATE_WRITE
from tests.fixture_class.submissions import Lesson
from tests.lessons.solving import errors

NOTEBOOK = "02_mutating_a_saved_tensor/02_mutating_a_saved_tensor.ipynb"


def run_all_and_save(page, lab, name: str):
    """Open a notebook, run all of its cells as a person would, save it, and return the saved notebook."""
    lab.open(page, name)
    lab.run_all(page)
    last = len(nbformat.read(lab.root / name, as_version=4).cells)
    end = time.monotonic() + 240
    while time.monotonic() < end:
        page.keyboard.press("Control+s")
        page.wait_for_timeout(1000)
        try:
            saved = nbformat.read(lab.root / name, as_version=4)
        except nbformat.reader.NotJSONError:  # JupyterLab is writing the file
            continue
        code = [cell for cell in saved.cells if cell.cell_type == "code"]
        if code[-1].execution_count:
            assert last == len(saved.cells)
            return code
    raise AssertionError("the notebook did not run to its end within 240 s")


@pytest.mark.parametrize("answers", ["answer", pytest.param("stub", marks=pytest.mark.slow)])
def test_a_lesson_runs_from_top_to_bottom(page, jupyterlab, answers):
    """With the model answers every check passes; as handed out each raises "not attempted", and no traceback shows the package's files."""
    lesson = Lesson(SOLUTIONS / NOTEBOOK, NOTEBOOKS / NOTEBOOK)
    notebook = lesson.answered(lesson.right()) if answers == "answer" else lesson.released
    name = f"lesson_{answers}.ipynb"
    nbformat.write(notebook, jupyterlab.root / name)

    cells = run_all_and_save(page, jupyterlab, name)
    assert (dict.fromkeys(lesson.exercises, "NotAttempted") if answers == "stub" else {}) == errors(cells)
    shown = [line for cell in cells for output in cell.outputs for line in output.get("traceback", [])]
    assert not any("autograder/" in line or "Traceback" in line for line in shown)
    pictures = [output for cell in cells for output in cell.outputs if output.output_type == "display_data"]
    assert all("text/plain" in picture.data and len(picture.data) > 1 for picture in pictures)
    assert len(pictures) >= 3 if answers == "stub" else len(pictures) >= 8


@pytest.mark.slow
def test_validate_in_the_toolbar_says_success(page, jupyterlab):
    """The button that nbgrader adds runs the student's notebook and reports that all tests pass."""
    lesson = Lesson(SOLUTIONS / NOTEBOOK, NOTEBOOKS / NOTEBOOK)
    nbformat.write(lesson.answered(lesson.right()), jupyterlab.root / "mine.ipynb")
    jupyterlab.open(page, "mine.ipynb")
    page.get_by_text("Validate", exact=True).click()
    page.get_by_text("Success! Your notebook passes all the tests.").wait_for(timeout=240_000)


IMPORTS = "import torch\nfrom autograder.check import check, constant, leaf, predicted, result"
ANSWER = """
def product_and_pixels(x, w1, w2):
    d = x @ w1
    f = d * w2
    shown = d.data.view(-1)
    shown.clamp_(0, 1)
    return f, (shown.view_as(d) * 255).byte()
"""
CHECK = """
def given(x, w1, w2):
    d = x @ w1
    f = d * w2
    shown = d.data
    shown.clamp_(0, 1)
    return f, (shown * 255).byte()


check("product_and_pixels", like=given, x=constant("n", 3), w1=leaf(3, "m"), w2=leaf("m"))
"""
PREDICTION = 'late_write = "correct"'


def overlapping(controls) -> list[tuple[str, str]]:
    """Return the texts of each two controls that overlap, at any width of the page."""
    boxes = [
        (one.inner_text() or one.get_attribute("aria-label"), one.bounding_box())
        for one in controls
        if one.is_visible()
    ]
    return [
        (name, other)
        for number, (name, a) in enumerate(boxes)
        for other, b in boxes[number + 1 :]
        if a["x"] + a["width"] > b["x"] + 1
        and b["x"] + b["width"] > a["x"] + 1
        and a["y"] + a["height"] > b["y"] + 1
        and b["y"] + b["height"] > a["y"] + 1
    ]


def opened_picture(page, jupyterlab):
    """Run the notebook, and return the third cell's outputs and their picture, of which every part is shown."""
    jupyterlab.run_all(page)
    output = page.locator(".jp-CodeCell").nth(2).locator(".jp-OutputArea")
    picture = output.locator(".autograder").first
    picture.wait_for(timeout=60_000)
    picture.locator(".more > summary").click()
    picture.locator(".below").wait_for()
    return output, picture


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_a_wrong_answer_shows_its_own_run(page, jupyterlab, theme, request):
    """The message is above the picture, which opens at the line that the original program does not have."""
    jupyterlab.write("attempt.ipynb", IMPORTS, ANSWER.strip(), CHECK.strip())
    jupyterlab.open(page, "attempt.ipynb")
    jupyterlab.choose(page, "Settings", "Theme", theme)
    request.addfinalizer(lambda: jupyterlab.choose(page, "Settings", "Theme", "JupyterLab Light"))  # it is kept
    output, picture = opened_picture(page, jupyterlab)
    shown = output.inner_text()
    assert re.search(
        r"product_and_pixels: the gradient of w\d is wrong[\s\S]*look at\s+line 4: shown = d.data[\s\S]*line 5: shown.clamp_\(0, 1\)",
        shown,
    )
    assert shown.index("look at") < shown.index("silently wrong")
    assert "shown = d.data.view(-1)" in picture.locator(".now").first.inner_text()
    assert 1 == shown.count("look at")


def test_a_right_answer_shows_its_own_run(page, jupyterlab):
    """A green line states the passed comparison; below it is the picture of the student's own lines."""
    right = ANSWER.replace("d.data.view(-1)", "d.detach().clone().view(-1)")
    jupyterlab.write("right.ipynb", IMPORTS, right.strip(), CHECK.strip())
    jupyterlab.open(page, "right.ipynb")
    output, picture = opened_picture(page, jupyterlab)
    shown = output.inner_text()
    assert re.match(r"\s*✓ product_and_pixels: correct \(the values; .*the gradients? of ", shown)
    assert shown.index("product_and_pixels") < shown.index("shown.clamp_(0, 1)")
    assert "clone().view(-1)" in picture.inner_text()
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        jupyterlab.choose(page, "Settings", "Theme", theme)
        expect(page.locator("body")).to_have_attribute("data-jp-theme-name", theme)
        page.wait_for_timeout(300)
        green = color(output.locator("span", has_text="correct").first, "color")
        assert green[1] > max(green[0], green[2])
        assert contrast(green, color(page.locator(".jp-Notebook").first, "backgroundColor")) >= 4.5


def color(element, style) -> list[float]:
    """Return red, green and blue of a color of an element, from 0 to 255."""
    return element.evaluate(f"one => getComputedStyle(one).{style}.match(/[0-9.]+/g).slice(0, 3).map(Number)")


def contrast(one, other) -> float:
    """Return the contrast of two colors, from 1 to 21 (WCAG 2.2)."""
    linear = [[c / 3294.6 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in color] for color in (one, other)]
    darker, lighter = sorted(0.2126 * r + 0.7152 * g + 0.0722 * b for r, g, b in linear)
    return (lighter + 0.05) / (darker + 0.05)


def test_in_a_narrow_pane_a_message_breaks_at_the_edge_only(page, jupyterlab):
    """No line of the message ends before the pane does, but at its own end: it is not wrapped once more."""
    jupyterlab.write("narrow.ipynb", IMPORTS, ANSWER.strip(), CHECK.strip())
    jupyterlab.open(page, "narrow.ipynb")
    jupyterlab.run_all(page)
    page.set_viewport_size({"width": 640, "height": 900})
    output = page.locator(".jp-CodeCell").nth(2).locator(".jp-OutputArea")
    output.locator(".autograder").first.wait_for(timeout=60_000)
    rows = output.locator("div", has_text=re.compile(r"^(saw|expected|look at)\s"))
    assert rows.count() >= 3
    for text in rows.all_inner_texts():
        assert "\n" not in text.strip()
    assert "\n" not in output.locator("[data-mime-type*=error], [data-mime-type*=stderr]").last.inner_text().strip()


def test_a_wrong_prediction_says_first_what_happened(page, jupyterlab):
    """You predicted this, it was that; then the picture."""
    jupyterlab.write("prediction.ipynb", IMPORTS, PREDICTION, LATE_WRITE.strip())
    jupyterlab.open(page, "prediction.ipynb")
    jupyterlab.run_all(page)
    output = page.locator(".jp-CodeCell").nth(2).locator(".jp-OutputArea")
    picture = output.locator(".autograder").first
    picture.wait_for(timeout=60_000)
    shown = " ".join(output.inner_text().split())

    assert shown.startswith("≠ late_write: something else happened. You predicted correct. It was raises-backward.")
    assert "step 1 of" in picture.inner_text()
    for width in (1600, 1280, 900, 640):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_timeout(200)
        assert [] == overlapping(picture.locator(".top :is(button, .slider, .step, .badge)").all())
    picture.get_by_text("the step that decides").click()
    assert "h.mul_(2)" in picture.locator(".now").first.inner_text()


WITH_PROGRESS = """\
import os

os.environ["AUTOGRADER_PROGRESS"] = {path!r}
from autograder.course import {name}

{name}()"""


def test_a_quiz_is_answered_by_choosing_and_by_typing(jupyterlab, page, tmp_path):
    """Each answer leads to the next program; any word except the four is reported as such; answers are stored immediately."""
    count = len(practice_items())
    jupyterlab.write("quiz.ipynb", WITH_PROGRESS.format(path=str(tmp_path / "progress.json"), name="quiz"))
    jupyterlab.open(page, "quiz.ipynb")
    jupyterlab.run_all(page)
    output = page.locator(".jp-OutputArea")
    expect(output.get_by_text(f"1 of {count}")).to_be_visible(timeout=60_000)
    output.get_by_role("button", name="raises-backward").click()
    expect(output.get_by_text(f"2 of {count}")).to_be_visible(timeout=30_000)
    box = output.get_by_placeholder("or type the word, then Enter")
    box.fill("perhaps")
    box.press("Enter")
    expect(output.get_by_text("is not one of the four words")).to_be_visible(timeout=30_000)
    box.fill("Raises Backward")
    box.press("Enter")
    expect(output.get_by_text(f"3 of {count}")).to_be_visible(timeout=30_000)
    kept = json.loads((tmp_path / "practice.json").read_text())["quiz"]["before"]
    assert {"name_rebound": "raises-backward", "item_assigned": "raises-backward"} == {
        item: answer["answer"] for item, answer in kept.items()
    }


def test_a_review_shows_the_picture_after_each_answer(jupyterlab, page, tmp_path):
    """Verdict, picture and a way on; at the end what to look at again, in the dark theme too."""
    passed = [exercise.id for exercise in lessons()[2].exercises]
    (tmp_path / "progress.json").write_text(json.dumps({"passed": passed}))
    jupyterlab.write("review.ipynb", WITH_PROGRESS.format(path=str(tmp_path / "progress.json"), name="review"))
    jupyterlab.open(page, "review.ipynb")
    jupyterlab.run_all(page)
    output = page.locator(".jp-OutputArea")
    expect(output.get_by_text("1 of 3")).to_be_visible(timeout=60_000)
    jupyterlab.choose(page, "Settings", "Theme", "JupyterLab Dark")
    expect(page.locator("body")).to_have_attribute("data-jp-theme-light", "false")  # what is clicked moves until then
    for _ in range(3):
        output.get_by_role("button", name="silently-wrong").click()
        expect(output.get_by_text("You predicted")).to_be_visible(timeout=30_000)
        output.locator(".autograder").wait_for()
        output.get_by_role("button", name="Go on").click()
    expect(output.get_by_text("To review")).to_be_visible(timeout=30_000)
