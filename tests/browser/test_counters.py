"""The picture whose version counters are set by the reader, in a real browser and without a kernel."""

import msgspec
import pytest
import torch
from playwright.sync_api import Page, expect

from autograder.tape import record
from autograder.view.assets import pictures, read_asset
from autograder.view.scene.composition import build_scene


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
