"""A program that can be changed, and version counters that the reader sets, in a real browser."""

from __future__ import annotations

import msgspec
import pytest
import torch
from playwright.sync_api import Page, expect

from autograder import tape
from autograder.check.playground.arrangement import arrangements, run
from autograder.check.playground.play_program import program_from_lines, program_from_text
from autograder.check.playground.playground import board_scene
from autograder.tape import record
from autograder.view.assets import front_end, pictures, read_asset
from autograder.view.draw.timeline import live_scene
from autograder.view.scene.composition import build_scene
from tests.browser.late_write import LATE_WRITE
from tests.browser.test_lesson import contrast

TEXT = "w = torch.tensor([1.0, 2.0], requires_grad=True)\nh = w.exp()\nh.mul_(2)\nh.sum().backward()"
TABLE = """
window.asked = [];
const unanswered = (scene, { number, lines }, problem) => {
  const all = [...scene.board.cards, ...scene.board.spare];
  const cards = lines.flatMap(({ card, form }) => all.filter((one) => one.id === card).map((one) => ({ ...one, form })));
  const spare = all.filter((one) => !cards.some((card) => card.id === one.id));
  return { ...scene, board: { ...scene.board, number, cards, spare, problem, answer: "" } };
};
window.model = (table, first) => {
  let scene = table[first];
  const listeners = new Set();
  return {
    get: () => scene,
    set: (name, value) => asked.push([name, value]),
    save_changes: () => {
      const { lines, number, again } = asked.at(-1)[1];
      const key = lines.map(({ card, form }) => form ? `${card}.${form}` : card).join(" ");
      const found = table[again ? first : key] ?? unanswered(scene, asked.at(-1)[1], "Go on.");
      scene = structuredClone(found);
      scene.board.number = number;
      for (const listener of listeners) listener();
    },
    on: (name, listener) => listeners.add(listener),
    off: (name, listener) => listeners.delete(listener),
  };
};
"""


def show(page: Page, program) -> None:
    """Draw a program whose arrangements are in a table, as a page without a kernel does."""
    table = {}
    for arrangement in arrangements(program, 300):
        ran = run(program, arrangement, {}, 2.0) if arrangement != program.as_given or not program.spare else None
        table[arrangement.key] = msgspec.to_builtins(
            board_scene(program, arrangement, ran, problem="" if ran else "Begin.")
        )
    page.set_content('<main id="here"></main>')
    page.add_style_tag(content=read_asset("graph.css"))
    page.add_script_tag(content=TABLE)
    page.add_script_tag(content=front_end().replace("export default", "window.graph ="), type="module")
    page.wait_for_function("window.graph")
    first = program.as_given.key
    page.evaluate(
        "([t, f]) => graph.render({ model: model(t, f), el: document.querySelector('#here') })", [table, first]
    )


def order(page: Page) -> list[str]:
    """Return the ids of the program's cards in their order."""
    return page.evaluate(
        "[...document.querySelectorAll('.program:not(.tray) > [data-card]')].map((one) => one.dataset.card)"
    )


@pytest.fixture
def board(page: Page) -> Page:
    """A page with a program whose write can be moved and switched."""
    show(page, program_from_text("doubled", TEXT))
    return page


def drag(page: Page, card: str, below: str) -> None:
    """Drags a card by its grip to just below another one."""
    grip, goal = (page.locator(f"[data-card='{one}']").first.bounding_box() for one in (card, below))
    page.locator(f"[data-card='{card}'] .grip").hover()
    page.mouse.down()
    page.mouse.move(grip["x"] + 40, goal["y"] + goal["height"] + 2, steps=4)
    page.mouse.up()


def test_a_dragged_card_changes_the_verdict(board):
    """The write below backward is harmless; moved back, it is harmful; the picture changes each time."""
    assert "raises" in board.inner_text(".badge")
    drag(board, "2", "3")
    assert ["0", "1", "3", "2"] == order(board)
    expect(board.locator(".badge")).to_contain_text("correct")
    board.get_by_text("as it was given").click()
    assert ["0", "1", "2", "3"] == order(board)
    assert "raises" in board.inner_text(".badge")


def test_keys_and_buttons_move_and_switch(board):
    """Arrow keys on the grip, the buttons and the list of forms have the same effect as dragging, and keep the focus."""
    board.locator("[data-card='2'] .grip").focus()
    board.keyboard.press("ArrowDown")
    assert ["0", "1", "3", "2"] == order(board)
    board.wait_for_function("document.activeElement.matches('[data-card=\"2\"] .grip')")
    board.locator("[data-card='2']").get_by_role("button", name="up").click()
    assert ["0", "1", "2", "3"] == order(board)
    board.get_by_label("form of: h.mul_(2)").select_option(label=".data")
    expect(board.locator(".badge")).to_contain_text("silently wrong")
    assert "h.data.mul_(2)" in board.inner_text(".program")


def test_a_finger_drags_too(browser):
    """On a touch screen of a phone's width, the grip follows the finger, and the page does not scroll sideways."""
    context = browser.new_context(viewport={"width": 360, "height": 800}, has_touch=True)
    page = context.new_page()
    show(page, program_from_text("doubled", TEXT))
    assert "none" == page.evaluate("getComputedStyle(document.querySelector('.grip')).touchAction")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.evaluate(
        """() => {
            const grip = document.querySelector("[data-card='2'] .grip"), at = grip.getBoundingClientRect();
            const goal = document.querySelector("[data-card='3']").getBoundingClientRect().bottom + 2;
            grip.setPointerCapture = () => {};
            const touch = { bubbles: true, pointerType: "touch", pointerId: 7, clientX: at.x + 4 };
            const send = (type, y) => grip.dispatchEvent(new PointerEvent(type, { ...touch, clientY: y }));
            send("pointerdown", at.y + 4);
            send("pointermove", goal);
            send("pointerup", goal);
        }"""
    )
    assert ["0", "1", "3", "2"] == order(page)
    context.close()


def test_an_edited_line_is_sent(page):
    """Enter sends the text, Escape does not; lines cannot be edited on a page that cannot run them."""
    program = program_from_text("doubled", TEXT)
    show(page, program)
    assert 0 == page.locator("[data-control=edit]").count()
    scene = msgspec.to_builtins(
        board_scene(program, program.as_given, run(program, program.as_given, {}, 2.0), is_editable=True)
    )
    page.evaluate("(s) => graph.render({ model: model({ a: s }, 'a'), el: document.querySelector('#here') })", scene)
    page.locator("[data-card='2'] [data-control=edit]").click()
    page.keyboard.press("Escape")
    page.locator("[data-card='2'] [data-control=edit]").click()
    page.locator("textarea").fill("h = h * 3")
    page.keyboard.press("Enter")
    assert [{"2": "h = h * 3"}] == page.evaluate("asked.map(([_, value]) => value.edits)")


def test_lines_are_put_in_order(page):
    """From the tray into the program, out again; outside a notebook the answer can be copied."""
    lines = ["return h", "h = w.exp()", "h = h * 2"]
    show(page, program_from_lines("twice", lines, "def twice(w):", ["w = torch.ones(2, requires_grad=True)"]))
    assert "Begin." in page.inner_text(".sentence")
    for card in ("2", "3", "1"):
        page.locator(f"[data-card='{card}'] [data-control=in]").click()
    assert ["0", "2", "3", "1"] == order(page)
    page.get_by_text("write it into the answer's cell").click()
    assert "def twice(w):\n    h = w.exp()\n    h = h * 2\n    return h" == page.inner_text(".receipt pre")
    page.locator("[data-card='3'] [data-control=out]").click()
    assert ["0", "2", "1"] == order(page)


def test_a_tap_predicts_and_a_change_is_run(page, jupyterlab):
    """In JupyterLab: a button writes the word into the answer's cell and runs the check; then the program is changed, and run."""
    imports = "import torch\nfrom autograder.check import predicted"
    jupyterlab.write("tap.ipynb", imports, 'late_write = "..."', LATE_WRITE.strip(), "1 + 1")
    jupyterlab.open(page, "tap.ipynb")
    jupyterlab.run_all(page)
    page.locator(".choices button", has_text="silently-wrong").click()
    output = page.locator(".jp-CodeCell").nth(2).locator(".jp-OutputArea")
    expect(output).to_contain_text("You predicted silently-wrong", timeout=60_000)
    expect(page.locator(".jp-CodeCell").nth(1)).to_contain_text('late_write = "silently-wrong"')

    output.get_by_text("change the program").click()
    output.get_by_label("form of: h.mul_(2)").select_option(label="out of place", timeout=60_000)
    expect(output.locator(".badge")).to_contain_text("correct", timeout=60_000)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_buttons_beside_a_line_are_seen_before_the_pointer_is_there(board, scheme):
    """Their signs have a contrast of 3 : 1 or more, as WCAG 2.2 asks of a control (1.4.11)."""
    board.emulate_media(color_scheme=scheme)
    board.mouse.move(0, 0)
    sign, opacity, ground = board.locator(".tools .tool:enabled").first.evaluate(
        """(tool) => {
            const numbers = (color) => color.match(/[0-9.]+/g).slice(0, 3).map(Number);
            let under = tool;
            while (under.parentElement && /, 0\\)$/.test(getComputedStyle(under).backgroundColor)) under = under.parentElement;
            const ground = getComputedStyle(under).backgroundColor;
            return [numbers(getComputedStyle(tool).color), Number(getComputedStyle(tool).opacity), numbers(ground)];
        }"""
    )
    seen = [opacity * over + (1 - opacity) * under for over, under in zip(sign, ground, strict=True)]
    assert contrast(seen, ground) >= 3


@pytest.mark.parametrize("way", ["keys", "mouse"])
def test_a_modification_is_moved_in_the_timeline(page, way):
    """Alt and an arrow, or dragging the row of the pencil by two rows, asks for the line at another place; the graph stays closed."""
    scene = live_scene(tape.record("import torch\n" + TEXT), is_playable=True)
    page.set_content('<main id="here"></main>')
    page.add_style_tag(content=read_asset("graph.css"))
    page.add_script_tag(content=front_end().replace("export default", "window.graph ="), type="module")
    page.wait_for_function("window.graph")
    page.evaluate(
        "(s) => { window.asked = []; graph.render({ model: { get: () => s, set: (n, v) => asked.push(v), save_changes() {},"
        " on() {}, off() {} }, el: document.querySelector('#here') }); }",
        msgspec.to_builtins(scene),
    )
    row = page.locator(".moment.movable")
    expect(row).to_have_count(1)
    if way == "keys":
        row.focus()
        page.keyboard.press("Alt+ArrowUp")
    else:
        box = row.bounding_box()
        page.mouse.move(box["x"] + 60, box["y"] + 10)
        page.mouse.down()
        page.mouse.move(box["x"] + 60, box["y"] - 54, steps=4)
        page.mouse.up()
    asked = page.evaluate("asked")
    assert [("h.mul_(2)", -1 if way == "keys" else -2)] == [(one["moved"], one["by"]) for one in asked]
    assert not page.locator("details.more").evaluate("(one) => one.open")


def two_aliases():
    """Two counters for one storage."""
    m = torch.zeros(3)
    unseen = m.data
    m.add_(1)
    unseen.add_(1)
    m.mul_(2)


@pytest.fixture
def asking(page: Page) -> Page:
    """A page with the question about the versions of `m` (2) and `unseen` (1)."""
    page.set_content('<main id="here"></main>')
    page.add_style_tag(content=read_asset("graph.css"))
    page.add_script_tag(content=pictures("var"))
    scene = msgspec.to_builtins(build_scene(record(two_aliases), counters=True))
    show = "(scene) => graph.render({ model: { get: () => scene, on() {}, off() {} }, el: document.querySelector('#here') })"
    page.evaluate(show, scene)
    return page


def test_the_first_wrong_version_is_answered_with_the_write_that_was_missed(asking):
    """By keys alone: an empty field is asked for, a wrong one shows the line, the right ones open the picture."""
    fields = asking.get_by_role("spinbutton")
    expect(fields).to_have_count(2)
    # Nothing requires grad: an empty pane would take the memory's place.
    expect(asking.locator(".pane.graph")).to_be_hidden()
    assert "v0" not in asking.locator("svg").all_inner_texts()
    fields.first.press("Enter")
    expect(asking.get_by_role("status").filter(has_text="Set each version first")).to_be_visible()
    fields.first.fill("1")
    fields.nth(1).fill("1")
    fields.nth(1).press("Enter")
    expect(asking.locator(".said")).to_contain_text("m.mul_(2)")
    expect(asking.locator(".line.now")).to_contain_text("m.mul_(2)")
    expect(fields.first).to_be_focused()
    expect(fields.first).to_have_attribute("aria-invalid", "true")
    fields.first.fill("2")
    fields.first.press("Enter")
    expect(asking.locator(".question")).to_contain_text("All versions are right")
    expect(asking.locator(".alias .chip").first).to_have_text("● v2")


def test_a_write_that_another_counter_counts_is_named(asking):
    """A student who also counts the write through .data for `m` is told its path; the picture can be opened without an answer."""
    asking.get_by_role("spinbutton").first.fill("3")
    asking.get_by_role("spinbutton").nth(1).fill("1")
    asking.get_by_role("button", name="compare", exact=True).click()
    expect(asking.locator(".said")).to_contain_text("through unseen, which has its own counter")
    asking.get_by_role("button", name="show them", exact=True).click()
    expect(asking.locator(".alias .chip").first).to_have_text("● v2")
    expect(asking.get_by_role("spinbutton")).to_have_count(0)
