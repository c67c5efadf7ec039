"""The picture in JupyterLab: run, stepped, themed, saved, reopened and exported, all in one notebook."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbconvert import HTMLExporter
from playwright.sync_api import Page, expect

from autograder import view
from autograder.tape.recording.schema import from_json

RECORDINGS = Path(__file__).parents[1] / "view" / "recordings"

CELL = """\
from autograder import view
from autograder.tape.recording.schema import from_json

view.show(from_json(open({path!r}, encoding="utf-8").read()), predict={predict})"""

WIDGET = CELL.replace("view.show", "view.widget").format(path=str(RECORDINGS / "correct.json"), predict=False)


def cell(name: str, predict: bool = False) -> str:
    """Return the code of a cell that shows a stored recording."""
    return CELL.format(path=str(RECORDINGS / f"{name}.json"), predict=predict)


def picture(page: Page, number: int):
    """Return the live picture of a cell, counted from 1."""
    return page.locator(f'.jp-Cell[data-windowed-list-index="{number - 1}"] .autograder')


def saved(path: Path) -> list[dict]:
    """Return the outputs of a saved notebook."""
    return [output for cell in nbformat.read(path, 4).cells for output in cell.get("outputs", [])]


@pytest.fixture
def notebook(jupyterlab, page):
    """A notebook whose cells have been run; the second asks for a prediction, the third displays the widget itself."""
    path = jupyterlab.write("picture.ipynb", cell("silently_wrong"), cell("raises_backward", predict=True), WIDGET)
    jupyterlab.open(page, path.name)
    jupyterlab.run_all(page)
    picture(page, 3).wait_for()
    return path


def test_a_picture_lives_in_jupyterlab(notebook, jupyterlab, page, tmp_path):
    """Step, predict, change the theme, save, reload, lose the kernel, export: the picture is there at each point."""
    first, second = picture(page, 1), picture(page, 2)
    first.locator(".more > summary").click()
    first.locator("[aria-label='last step']").click()
    assert "silently-wrong" in first.locator(".badge").inner_text()

    # The keys that JupyterLab would take (b inserts a cell below) stay with the picture; Ctrl+S stays with JupyterLab.
    first.locator("[aria-label=back]").focus()
    page.keyboard.press("b")
    page.keyboard.press("ArrowLeft")
    assert 3 == page.locator(".jp-Cell").count()
    expect(first.locator(".step")).to_have_text("step 12 of 13")

    second.locator("[aria-label='last step']").click()
    second.locator(".question button", has_text="raises-backward").click()
    second.locator("[aria-label='last step']").click()
    assert "Your prediction was right" in second.locator(".question").inner_text()

    ground = "getComputedStyle(document.querySelector('.autograder')).backgroundColor"
    jupyterlab.choose(page, "Settings", "Theme", "JupyterLab Light")  # the server keeps what another test chose
    page.wait_for_function("document.body.dataset.jpThemeLight === 'true'")
    light = page.evaluate(ground)
    jupyterlab.choose(page, "Settings", "Theme", "JupyterLab Dark")
    page.wait_for_function("document.body.dataset.jpThemeLight === 'false'")
    assert light != page.evaluate(ground)

    first.locator("[aria-label=back]").focus()
    page.keyboard.press("Control+s")
    page.wait_for_function("!document.querySelector('.jp-mod-dirty')")
    outputs = saved(notebook)
    assert [{"text/html", "text/plain"}] * 2 == [set(output["data"]) for output in outputs[:2]]
    assert all(30_000 >= len("".join(output["data"].values()).encode()) for output in outputs[:2])

    # The kernel lives on: after a reload the pictures come alive again.
    jupyterlab.open(page, notebook.name)
    picture(page, 2).wait_for()

    # Without it, the static picture is in the same place.
    jupyterlab.choose(page, "Kernel", "Shut Down Kernel")
    page.wait_for_selector(
        ".jp-Notebook-ExecutionIndicator[data-status=unknown], [data-status=terminating], [data-status=dead]"
    )
    page.evaluate("onbeforeunload = null")
    page.goto(jupyterlab.address(notebook.name))
    page.wait_for_selector(".jp-OutputArea table")
    assert 0 == page.locator(".autograder").count()
    assert page.locator(".jp-OutputArea strong").first.inner_text().startswith("silently-wrong")
    bar = "getComputedStyle(document.querySelector('.jp-OutputArea tr:last-child td:last-child')).borderLeftStyle"
    assert "dashed" == page.evaluate(bar)


def test_an_export_shows_the_static_picture_offline(page, tmp_path):
    """nbconvert's HTML needs neither kernel nor network to show pictures and words; nbgrader's feedback is made the same way."""
    forms = view.mimebundle(from_json((RECORDINGS / "silently_wrong.json").read_bytes()))
    shown = nbformat.v4.new_code_cell("view.show(recording)", outputs=[nbformat.v4.new_output("display_data", forms)])
    exported, _ = HTMLExporter().from_notebook_node(nbformat.v4.new_notebook(cells=[shown]))
    (tmp_path / "export.html").write_text(exported, encoding="utf-8")
    page.context.set_offline(True)
    page.goto((tmp_path / "export.html").as_uri())

    assert "version 0 = 0: accepted" in page.locator(".jp-OutputArea table").inner_text()
    page.locator("summary").click()
    assert "w2.grad  got [1]  right [4]" in page.locator("details pre").inner_text()
