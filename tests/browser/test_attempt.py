"""A wrong answer in JupyterLab: the verdict first, then the picture of the learner's own lines."""

import re

import pytest

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
PROGRAM = """
@predicted("late_write")
def program():
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    h = w.exp()
    h.mul_(2)
    h.sum().backward()
    return {"w": w.grad}
"""


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_a_wrong_answer_shows_its_own_run(page, jupyterlab, theme, request):
    """The message stands above the picture, which opens at the write that harmed and shows both gradients."""
    jupyterlab.write("attempt.ipynb", IMPORTS, ANSWER.strip(), CHECK.strip())
    jupyterlab.open(page, "attempt.ipynb")
    jupyterlab.choose(page, "Settings", "Theme", theme)
    request.addfinalizer(
        lambda: jupyterlab.choose(page, "Settings", "Theme", "JupyterLab Light")
    )  # JupyterLab keeps it
    jupyterlab.run_all(page)
    output = page.locator(".jp-CodeCell").nth(2).locator(".jp-OutputArea")
    picture = output.locator(".autograder").first
    picture.wait_for(timeout=60_000)

    shown = output.inner_text()
    assert re.search(
        r"product_and_pixels: the gradient of w\d is wrong[\s\S]*look at +line 5: shown.clamp_\(0, 1\)", shown
    )
    assert shown.index("look at") < shown.index("silently wrong")
    assert "shown.clamp_(0, 1)" in picture.locator(".now").first.inner_text()
    assert 1 == shown.count("look at")


def test_a_wrong_prediction_says_first_what_happened(page, jupyterlab):
    """You predicted this, it was that; then the picture."""
    jupyterlab.write("prediction.ipynb", IMPORTS, PREDICTION, PROGRAM.strip())
    jupyterlab.open(page, "prediction.ipynb")
    jupyterlab.run_all(page)
    output = page.locator(".jp-CodeCell").nth(2).locator(".jp-OutputArea")
    picture = output.locator(".autograder").first
    picture.wait_for(timeout=60_000)
    shown = " ".join(output.inner_text().split())

    assert shown.startswith("late_write: something else happened. You predicted correct. It was raises-backward.")
    assert "step 1 of" in picture.inner_text()
    picture.get_by_text("the step that decides").click()
    assert "h.mul_(2)" in picture.locator(".now").first.inner_text()
