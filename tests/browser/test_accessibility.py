"""The results of axe-core for the picture, the question about versions, the board and the page of `--html`, in light and dark."""

from pathlib import Path

import msgspec
import pytest
from playwright.sync_api import Browser

from autograder.check.playground.arrangement import run
from autograder.check.playground.play_program import program_from_text
from autograder.check.playground.playground import board_scene
from autograder.tape.recording.schema import from_json
from autograder.view.assets import front_end, read_asset
from autograder.view.draw.html import as_html
from autograder.view.scene.board import Choices
from autograder.view.scene.composition import build_scene
from tests.npm import violations

pytestmark = pytest.mark.slow  # fetches axe-core from npm

RECORDING = from_json((Path(__file__).parents[1] / "view" / "recordings" / "silently_wrong.json").read_bytes())
TEXT = "w = torch.tensor([1.0, 2.0], requires_grad=True)\nh = w.exp()\nh.mul_(2)\nh.sum().backward()"
BARE = """<!doctype html><html lang="en"><title>A scene</title><main></main>
<style>html { background: light-dark(white, #0f1317); color-scheme: light dark; }</style>"""
DRAW = "(scene) => graph.render({ model: { get: () => scene, on() {}, off() {} }, el: document.querySelector('main') })"


def board():
    """Return the scene of a program as cards."""
    program = program_from_text("doubled", TEXT)
    return board_scene(program, program.as_given, run(program, program.as_given, {}, 2.0), problem="")


SCENES = {
    "picture": lambda: build_scene(RECORDING),
    "prediction": lambda: build_scene(RECORDING, predict=True),
    "versions": lambda: build_scene(RECORDING, counters=True),
    "board": board,
    "choices": lambda: {"place": "", "choices": Choices("guess", "What will it do?", [("correct", "it runs")])},
}


@pytest.fixture(params=["light", "dark"])
def page(browser: Browser, request):
    """A page in light or in dark, in which axe-core may run although the content security policy of `--html` forbids it."""
    context = browser.new_context(color_scheme=request.param, bypass_csp=True)
    yield context.new_page()
    context.close()


@pytest.mark.parametrize("name", SCENES)
def test_what_is_drawn_can_be_used_by_everyone(page, name):
    """axe-core finds no violation of WCAG 2.1 AA."""
    page.set_content(BARE)
    page.add_style_tag(content=read_asset("graph.css"))
    page.add_script_tag(content=front_end().replace("export default", "window.graph ="), type="module")
    page.wait_for_function("window.graph")
    page.evaluate(DRAW, msgspec.to_builtins(SCENES[name]()))
    assert [] == violations(page)
    page.evaluate("document.querySelector('.autograder button').replaceChildren()")
    page.evaluate("document.querySelector('.autograder button').removeAttribute('aria-label')")
    page.evaluate("document.querySelector('.autograder button').removeAttribute('title')")
    assert any(found.startswith("button-name") for found in violations(page)), "a button without a name is not noticed"


def test_a_page_of_its_own_can_be_used_by_everyone(page, tmp_path):
    """The page that `--html` writes, once its picture is live."""
    file = tmp_path / "page.html"
    file.write_text(as_html(RECORDING), encoding="utf-8")
    page.goto(file.as_uri())
    page.wait_for_selector(".autograder")
    assert [] == violations(page)
