"""A picture in a notebook: live where a kernel runs, static with text everywhere else."""

from __future__ import annotations

import subprocess
import sys

import pytest
from IPython.core.interactiveshell import InteractiveShell

from autograder import view
from autograder.view import notebook


class Kernel:
    """A fake of a kernel's shell: records what is displayed, and reports which cell runs."""

    kernel = True

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        """Take the place of IPython's shell and display."""
        self.outputs: list[dict] = []
        self.request = 0
        self.cell = "first"
        monkeypatch.setattr("IPython.get_ipython", lambda: self)
        monkeypatch.setattr("IPython.display.display", lambda bundle, raw: self.outputs.append(bundle))
        monkeypatch.setattr(notebook, "_open", {})
        monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)

    def get_parent(self) -> dict:
        """Return the request that is running."""
        return {"header": {"msg_id": str(self.request)}, "metadata": {"cellId": self.cell}}


@pytest.fixture
def kernel(monkeypatch) -> Kernel:
    """A kernel that a notebook talks to."""
    return Kernel(monkeypatch)


def live(cell: str = "first") -> list:
    """Return the widgets that are open for a cell."""
    return [picture for picture in notebook._open.get(cell, ("", []))[1] if picture.comm is not None]


def test_a_live_picture_finds_its_static_form(kernel, recorded):
    """The model has the class name of the element in the output, and the output itself is not a widget."""
    view.show(recorded("correct"))

    assert ["text/html", "text/plain"] == list(kernel.outputs[0])
    assert f'<div class="{live()[0].scene["place"]}">' in kernel.outputs[0]["text/html"]


def test_a_cell_that_runs_again_closes_its_old_pictures(kernel, recorded):
    """Pictures of one run stay together; the next run of the cell closes them, and those of other cells stay."""
    view.show(recorded("correct"))
    view.show(recorded("views"))
    kernel.cell = "second"
    view.show(recorded("loop"))
    kernel.cell, kernel.request = "first", 1
    view.show(recorded("correct"))

    assert (1, 1) == (len(live("first")), len(live("second")))


@pytest.mark.parametrize("mode", ["autograde", "validate"])
def test_nbgrader_gets_static_forms_only(kernel, recorded, monkeypatch, mode):
    """While nbgrader executes, no comm opens and no element waits for one."""
    monkeypatch.setenv("NBGRADER_EXECUTION", mode)
    view.show(recorded("correct"))

    assert [] == live()
    assert '<div class=""><p><strong>correct' in kernel.outputs[0]["text/html"]


@pytest.mark.parametrize(
    "shell", [lambda: None, lambda: InteractiveShell()], ids=["plain Python", "IPython in a terminal"]
)
def test_a_terminal_gets_text(recorded, monkeypatch, capsys, shell):
    """Without a front end that draws, showing prints the whole verdict."""
    monkeypatch.setattr("IPython.get_ipython", shell)
    view.show(recorded("views"))
    assert view.as_text(recorded("views")) == capsys.readouterr().out


def test_drawing_needs_no_torch():
    """A stored recording is drawn without torch."""
    code = "import sys, autograder.view; print('torch' in sys.modules)"

    assert "False\n" == subprocess.check_output([sys.executable, "-c", code], text=True)
