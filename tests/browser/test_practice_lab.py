"""The quiz and the review in JupyterLab: answered by choosing and by typing, in both themes."""

import json

from playwright.sync_api import expect

from autograder.course.catalogue import lessons
from autograder.course.practice.question_cards import practice_items

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
