"""The front-end module alone, in a real browser, with a fake model: the behavior on which a notebook and a page both rely."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from playwright.sync_api import Page

from autograder.tape.recording.schema import from_json
from autograder.view.assets import read_asset
from autograder.view.scene.composition import build_scene

RECORDINGS = Path(__file__).parents[1] / "view" / "recordings"

FAKE = """
window.heard = [];
window.model = (scene) => {
  const listeners = new Set();
  return {
    get: () => scene,
    set: (next) => { scene = next; for (const listener of listeners) listener(); },
    on: (name, listener) => { heard.push(`on ${name}`); listeners.add(listener); },
    off: (name, listener) => { heard.push(`off ${name}`); listeners.delete(listener); },
  };
};
"""


def scene(name: str, **options) -> dict:
    """Return a stored recording's scene as plain data."""
    return msgspec.to_builtins(build_scene(from_json((RECORDINGS / f"{name}.json").read_bytes()), **options))


@pytest.fixture
def bare(page: Page) -> Page:
    """A page that holds the module, a fake model and an empty element."""
    page.set_content('<main id="here"></main>')
    page.add_style_tag(content=read_asset("graph.css"))
    page.add_script_tag(content=FAKE)
    page.add_script_tag(content=read_asset("graph.js").replace("export default", "window.graph ="), type="module")
    page.wait_for_function("window.graph")
    return page


def render(page: Page, data: object, place: str = "#here") -> None:
    """Renders a scene into an element; the model and the clean-up stay in the window."""
    page.evaluate(
        """([data, place]) => {
            window.fake = model(data);
            window.stop = graph.render({ model: fake, el: document.querySelector(place) });
        }""",
        [data, place],
    )


def test_it_listens_to_one_trait_and_leaves_nothing_behind(bare):
    """`render` listens to changes of `scene`; its clean-up stops that and empties the element."""
    render(bare, scene("correct"))

    assert 1 == bare.locator(".autograder").count()
    bare.evaluate("stop()")
    assert ["on change:scene", "off change:scene"] == bare.evaluate("heard")
    assert "" == bare.inner_html("#here")


def test_a_changed_scene_is_drawn(bare):
    """When the trait changes, the new recording is shown, at the frame where a new picture opens."""
    render(bare, scene("correct"))
    bare.click("[aria-label='first step']")
    bare.evaluate("data => fake.set(data)", scene("silently_wrong"))

    assert "step 6 of 13" == bare.inner_text(".step")
    assert 1 == bare.locator(".autograder").count()


@pytest.mark.parametrize(("data", "why"), [
    pytest.param(None, "the recording holds no step", id="no scene"),
    pytest.param({"frames": []}, "the recording holds no step", id="no step"),
    pytest.param({"frames": [{}], "programs": []}, "This picture cannot be drawn", id="cut off"),
])  # fmt: skip
def test_what_cannot_be_drawn_says_why(bare, data, why):
    """The element is never blank: it states, for screen readers too, what is wrong and what to do."""
    render(bare, data)

    assert why in bare.inner_text("#here [role=alert]")
    assert "Run the cell again." in bare.inner_text("#here")


def test_a_drawing_may_hold_shapes_only(bare):
    """A scene with a script among its shapes is refused, and attributes that run code are left out."""
    data = scene("correct")
    data["memory"]["shapes"] = [["script", {}, "alert(1)"]]
    render(bare, data)
    assert "may not hold <script>" in bare.inner_text("#here [role=alert]")

    data["memory"]["shapes"] = [["rect", {"width": 9, "height": 9, "onclick": "alert(1)", "href": "x"}]]
    bare.evaluate("data => fake.set(data)", data)
    assert ["width", "height"] == bare.evaluate(
        "[...document.querySelector('.memory rect').attributes].map((a) => a.name)"
    )


def test_going_back_undoes_going_forward(bare):
    """Every frame looks the same whether it is reached forwards, backwards or by a jump."""
    render(bare, scene("silently_wrong"))
    look = "document.querySelector('.panes').innerHTML"
    bare.click("[aria-label='first step']")
    there = []
    for _ in range(13):
        there.append(bare.evaluate(look))
        bare.click("[aria-label=forward]")
    for expected in reversed(there):
        assert expected == bare.evaluate(look)
        bare.click("[aria-label=back]")
    bare.locator(".slider").fill("5")

    assert there[5] == bare.evaluate(look)


def test_what_stays_does_not_move(bare):
    """From step to step, no block of the graph and no lane of memory moves in the drawing."""
    render(bare, scene("views"))
    places = """() => {
        const cards = document.querySelectorAll(".graph .block:not(.off) > .card, .memory .lane:not(.off) > .card");
        const name = (card) => card.parentNode.querySelector(".title").textContent;
        return Object.fromEntries([...cards].map((card) => [`${card.getAttribute("x")} ${card.getAttribute("y")}`, name(card)]));
    }"""
    before: dict = {}
    for _ in range(10):
        now = bare.evaluate(places)
        assert before.items() <= now.items()
        before = now
        bare.click("[aria-label=forward]")


def test_a_placed_model_takes_its_element_and_gives_it_back(bare):
    """The live picture replaces each static one of its class, also one added later, and no other; the clean-up restores them."""
    static = "<p>static</p>"
    insert = "html => document.body.insertAdjacentHTML('beforeend', html)"
    bare.evaluate(insert, f'<div class="p1">{static}</div><div class="p2">{static}</div>')
    bare.evaluate("data => { window.stop = graph.initialize({ model: model(data) }); }", scene("correct", place="p1"))
    assert (1, 0) == (bare.locator(".p1 .autograder").count(), bare.locator(".p2 .autograder").count())

    bare.evaluate(insert, f'<div class="p1 later">{static}</div>')
    bare.wait_for_selector(".later .autograder")
    bare.evaluate("stop()")
    assert static == bare.inner_html(".later")
    assert 0 == bare.locator(".autograder").count()


def test_a_model_without_a_place_waits_for_its_view(bare):
    """A widget that is displayed itself draws only inside its element."""
    bare.evaluate("data => { window.stop = graph.initialize({ model: model(data) }); }", scene("correct"))

    assert bare.evaluate("stop === undefined")
    assert 0 == bare.locator(".autograder").count()


def test_the_page_keeps_the_score(bare):
    """Two pictures, one prediction right and one wrong: the second shows 1 of 2; answering again does not count twice."""
    bare.evaluate("document.body.insertAdjacentHTML('beforeend', '<main id=\"there\"></main>')")
    guesses = [("#here", "correct", "correct"), ("#there", "views", "correct"), ("#there", "views", "raises-backward")]
    for place, name, guess in guesses:
        render(bare, scene(name, predict=True), place)
        bare.locator(f"{place} .question button", has_text=guess).first.click()
        bare.click(f"{place} [aria-label='last step']")

    assert "On this page: 1 of 2 right at the first try." in bare.inner_text("#there .question")
