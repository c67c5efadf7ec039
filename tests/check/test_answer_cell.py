"""A check states which run of a cell it judged, and does not judge a cell that was changed and raised an error."""

from __future__ import annotations

import re

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from autograder.check import answer_cell, events
from autograder.check.answer_cell import NotJudged, judged_run, require_finished
from autograder.check.message import Incorrect, message


@pytest.fixture
def run(monkeypatch):
    """Return a function that runs a cell, given its id and its text, in a shell whose cells are followed."""
    shell = InteractiveShell(config=Config({"HistoryManager": {"enabled": False}}))
    shell.showtraceback = shell.showsyntaxerror = lambda *_args, **_options: None
    monkeypatch.setattr(answer_cell, "get_ipython", lambda: shell)
    monkeypatch.setattr(answer_cell, "_runs", None)
    answer_cell.follow_cells()
    return lambda cell, text: shell.run_cell(text, store_history=True, cell_id=cell)


def test_the_verdict_names_the_run(run):
    """The number is that of the run that defined the function, the class or the value."""
    run("a", "def drain(): pass")
    run("b", "guess = 'correct'")
    run("a", "def drain(): return 1")
    run("c", "class Gate:\n    def forward(self): pass")
    assert "drain, as run in In [3]" == judged_run("drain")
    assert "Gate, as run in In [4]" == judged_run("Gate")
    assert "guess, as run in In [2]" == judged_run("guess")
    assert "" == judged_run("nowhere")


@pytest.mark.parametrize("broken", ["def drain(:", "def drain(): pass\n1 / 0", "drain = 1 +"])
def test_a_cell_that_raised_is_not_judged(run, broken):
    """The error and its run are named until the cell runs to its end; another cell's error has no effect."""
    run("a", "def drain(): pass")
    run("b", "1 / 0")
    require_finished("drain")
    result = run("a", broken)
    error = result.error_before_exec or result.error_in_exec
    with pytest.raises(NotJudged, match="drain: not judged, because its cell raised an error") as refused:
        require_finished("drain")
    assert f"{type(error).__name__}: " in str(refused.value)
    assert "In [3]" in str(refused.value)
    run("a", "def drain(): return 1")
    require_finished("drain")


def test_a_prediction_is_followed_too(run):
    """A value is that of its cell; defined again in another cell, it is that cell's."""
    run("a", "guess = '...'")
    run("a", "guess = 'correct")
    with pytest.raises(NotJudged, match="guess: not judged"):
        require_finished("guess")
    run("b", "guess = 'correct'")
    require_finished("guess")


def test_a_cell_with_an_answer_and_its_check_is_judged(run):
    """A verdict is not an error of the answer's cell, and the definition in the running cell is the newest."""
    run("a", "def drain(): pass\n1 / 0")
    result = run(
        "b",
        "def drain(): return 1\n"
        "from autograder.check.answer_cell import require_finished\n"
        "require_finished('drain')\n"
        "from autograder.check.message import Incorrect\n"
        "raise Incorrect('drain: wrong')",
    )
    assert isinstance(result.error_in_exec, Incorrect)
    require_finished("drain")


def test_a_notebook_shows_the_run_with_the_verdict(run):
    """The card of a pass and the rows of a refusal name it; the text of a pass, and the exception's, stay as they are."""
    run("a", "def drain(): pass")
    card = events.Passed("drain", " (the values)", judged_run("drain"))
    assert re.search("judged </span>drain, as run in In .1.</div>", card._repr_html_())
    assert "drain: correct (the values)" == repr(card)
    wrong = Incorrect(message("drain: wrong", saw="1", expected="2", look_at="line 1"))
    wrong.judged = judged_run("drain")
    assert [*str(wrong).splitlines(), "  judged    drain, as run in In [1]"] == wrong._render_traceback_()
