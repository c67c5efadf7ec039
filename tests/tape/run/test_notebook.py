"""In a notebook: `%%explain` runs the cell once, in the user's own names; `explain()` shows itself."""

import math
import sys

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell

import autograder
from autograder.errors import InputError
from autograder.tape import explain_cell
from autograder.tape.diagnose.unknown_outcome import UnknownOutcomeError


@pytest.fixture
def shell(monkeypatch):
    """A shell with the extension loaded, and its displayed outputs."""
    shell = InteractiveShell()
    shell.run_line_magic("load_ext", "autograder")
    shell.shown = []
    monkeypatch.setattr("autograder.view.show", lambda recording, *_, **__: shell.shown.append(recording))
    return shell


SETUP = """
import torch
torch.manual_seed(0)
w = torch.tensor([1.0, 2.0], requires_grad=True)
model = torch.nn.Linear(2, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.5)
calls, log = [], {"steps": 0}
h = (w * 2).exp()
"""
CELL = """
calls.append(1)
log["steps"] += 1
noise = torch.rand(1).item()
loss = model(torch.ones(1, 2)).sum() + h.sum()
loss.backward()
opt.step()
w.data.mul_(3)
loss.item()
"""
STATE = """(calls, log, noise, loss.item(), w.tolist(), w.grad.tolist(), w._version, h._version, model.weight.tolist(),
model.weight._version, torch.rand(1).item())"""


def test_the_names_end_up_as_a_plain_run_leaves_them(shell):
    """Values, versions, gradients, containers, the optimizer and the random generator: all as without the magic."""
    plain = InteractiveShell()
    plain.run_cell(SETUP)
    plain.run_cell(CELL)
    expected = eval(STATE, plain.user_ns)

    shell.run_cell(SETUP)
    shell.run_cell_magic("explain", "", CELL)

    assert expected == eval(STATE, shell.user_ns)
    assert "correct" == shell.shown[0].verdict.outcome


def test_a_fault_of_the_graph_in_a_cell_has_a_change_that_was_run(shell):
    """The change removes the cut; the cell itself runs once, and its model keeps the values of that run."""
    cut = CELL.replace(".sum() + h.sum()", ".sum().detach().requires_grad_()")
    shell.run_cell(SETUP)
    before = shell.user_ns["model"].weight.tolist()
    shell.run_cell_magic("explain", "", cut)

    (fault,) = shell.shown[0].verdict.graph_faults
    assert fault.was_run
    assert "+loss = model(torch.ones(1, 2)).sum().requires_grad_()\n" in fault.diff
    assert ([1], before) == (shell.user_ns["calls"], shell.user_ns["model"].weight.tolist())


def test_the_graph_of_an_earlier_cell_can_still_be_used(shell, capsys):
    """The backward of a loss from another cell runs once, and raises the second time as in plain PyTorch.

    A change of that graph's tensors by the first cell is reported, and pictures do not claim an outcome.
    """
    shell.run_cell(SETUP + "loss = h.sum()")
    shell.run_cell_magic("explain", "", "h.data.zero_()\nloss.backward()")
    gradient, said = shell.user_ns["w"].grad.tolist(), capsys.readouterr().err
    shell.run_cell_magic("explain", "", "loss.backward()")

    assert [0.0, 0.0] == gradient
    assert "an earlier cell created" in said
    assert ["raises-backward"] == [one.verdict.outcome for one in shell.shown]
    assert "second time" in shell.shown[0].verdict.error.message


def test_a_silent_fault_in_a_cell_is_told(shell):
    """A function of another cell, followed line by line; the value of the last expression is shown."""
    shell.run_cell(
        "import torch\ndef grow(x):\n    y = x.exp()\n    y.data.mul_(2)\n    return y\nw = torch.ones(2, requires_grad=True)"
    )
    shell.run_cell_magic("explain", "", "c = grow(w)\nc.sum().backward()")

    verdict = shell.shown[0].verdict
    assert ("silently-wrong", [4]) == (verdict.outcome, [place.line for place in verdict.harms[0].mutated_at])
    assert [2 * math.e, math.e] == pytest.approx([verdict.gradients["w"].got[0], verdict.gradients["w"].true[0]])


def test_an_untracked_write_in_a_cell_is_settled(shell):
    """Finite differences start from the state before the cell, and keep its resulting state."""
    shell.run_cell("import torch\nw = torch.ones(2, requires_grad=True)\nb = w * 2\nlog = []")
    shell.run_cell_magic(
        "explain", "", "c = w * 2\nwith torch.no_grad():\n    c.mul_(3)\n(c + 1).sum().backward()\nlog.append(1)"
    )

    assert "silently-wrong" == shell.shown[0].verdict.outcome
    assert [6.0, 6.0] == pytest.approx(shell.shown[0].verdict.gradients["w"].true)
    assert ([1], [2.0, 2.0]) == (shell.user_ns["log"], shell.user_ns["w"].grad.tolist())


def test_explain_shows_itself(monkeypatch):
    """In a terminal as text, in a notebook as a picture with text; the data are available as well."""
    # Tests of the grader leave their shell in this process, which takes recordings instead of pictures.
    monkeypatch.setattr("autograder.view.notebook._shell", lambda: None)

    def program():
        w = torch.ones(2, requires_grad=True)
        e = w.exp()
        e.add_(1)
        e.sum().backward()

    explanation = autograder.explain(program)

    assert "raises-backward" == explanation.outcome == explanation.recording.verdict.outcome
    assert "ExpBackward0" in repr(explanation)
    assert {"text/plain", "text/html"} <= set(explanation._repr_mimebundle_())


def test_explain_takes_names():
    """Names are given to the text, as copies."""
    w = torch.ones(2, requires_grad=True)

    explanation = autograder.explain("(w * w).sum().backward()", w=w)

    assert [2.0, 2.0] == explanation.recording.verdict.gradients["w"].got
    assert w.grad is None


def test_the_last_error_is_explained_where_it_happened(shell, monkeypatch):
    """`%explain NAME` works after a cell that raised under a watch; without one, the message suggests a solution."""
    monkeypatch.setattr(sys, "last_value", None, raising=False)
    with pytest.raises(InputError, match="No cell has raised an error yet"):
        shell.run_line_magic("explain", "")
    shell.run_cell(
        "import torch, autograder\nw = torch.ones(2, requires_grad=True)\n"
        "with autograder.watch():\n    h = w.exp()\n    h.mul_(2)\n    h.sum().backward()"
    )
    shell.run_line_magic("explain", "found")

    harm = shell.user_ns["found"].harms[0]
    assert (5, 4) == (harm.mutated_at[0].line, harm.saved_at.line)
    assert "raises-backward" == shell.shown[0].verdict.outcome


def graph_of_an_earlier_cell() -> dict:
    """Return a notebook's namespace after a cell that computed a loss and shared the memory of exp's saved tensor."""
    space: dict = {}
    exec(
        "import torch\nw = torch.ones(3, requires_grad=True)\nk = w.exp()\nn = k.detach().numpy()\nloss = k.sum()",
        space,
    )
    return space


def test_a_graph_of_an_earlier_cell_is_not_called_unharmed():
    """The saved tensors of an earlier cell's graph are not copied: if they changed, no outcome is named; else a note says so."""
    with pytest.raises(UnknownOutcomeError, match="ExpBackward0, which an earlier cell created"):
        explain_cell("n[:] = 0\nloss.backward()", graph_of_an_earlier_cell())

    verdict = explain_cell("loss.backward()", graph_of_an_earlier_cell(), repair=False)[0].verdict

    assert ("correct", [math.e] * 3) == (verdict.outcome, pytest.approx(verdict.gradients["w"].got))
    assert any("an earlier cell created" in note for note in verdict.notes)


def test_a_cell_that_runs_again_tells_nothing_of_its_first_run():
    """The names that the first run left are bound again: no step shows them before, nor the nodes and writes of that run."""
    source = "import torch\nw = torch.ones(3, requires_grad=True)\nh = w.exp()\nh += 1\nloss = h.sum()"
    space: dict = {}
    exec(source, space)

    first, second = (explain_cell(source, names, repair=False)[0] for names in ({}, space))

    told = [
        [
            (step.place.line, [change.name for change in step.names], len(step.nodes), len(step.writes))
            for step in one.steps
        ]
        for one in (first, second)
    ]
    assert told[0] == told[1]


def test_what_a_cell_made_itself_is_no_earlier_cells():
    """The last expression is compiled by itself, and still belongs to the cell that made the graph before it."""
    source = "import torch\nw = torch.ones(3, requires_grad=True)\nloss = w.exp().sum()\nloss.backward()"

    verdict = explain_cell(source, {}, repair=False)[0].verdict

    assert ("correct", ()) == (verdict.outcome, verdict.notes)
