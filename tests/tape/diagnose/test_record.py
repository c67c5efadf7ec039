"""Recordings of small programs, each compared with figures worked out by hand."""

import pytest

from autograder.tape import outcome_of, record
from autograder.tape.recording.schema import from_json, to_json

MATMULS = """
import torch
x = torch.tensor([[1.0, 2.0]])
w1 = torch.tensor([[2.0], [1.0]], requires_grad=True)
w2 = torch.tensor([3.0], requires_grad=True)
d = x @ w1
f = d * w2
{write}
f.backward()
"""


def recorded(write: str):
    """The recording of the two matmuls with one statement between forward and backward (line 8)."""
    return record(MATMULS.format(write=write))


@pytest.mark.parametrize(("write", "expected", "through"), [
    pytest.param("d[:] = 1", "raises-backward", None, id="the tensor itself"),
    pytest.param("d.data[:] = 1", "silently-wrong", "d.data", id=".data"),
    pytest.param("d.detach()[:] = 1", "raises-backward", "d.detach()", id=".detach()"),
    pytest.param("n = d.detach().numpy(); n[:] = 1", "silently-wrong", "n", id="NumPy"),
    pytest.param(
        "import torch.utils.dlpack; torch.from_dlpack(d.detach())[:] = 1", "silently-wrong", None, id="dlpack"
    ),
    pytest.param("d.data = torch.ones(1, 1)", "silently-wrong", None, id=".data ="),
    pytest.param("with torch.no_grad(): d.fill_(1)", "raises-backward", None, id="no_grad"),
])  # fmt: skip
def test_a_write_after_the_save_is_found(write, expected, through):
    """For any alias: the outcome, the lines of the write and of the save, and the right gradient of w2, which is 4."""
    verdict = recorded(write).verdict
    harm = verdict.harms[0]

    assert expected == verdict.outcome
    assert ("d", [8], 7, "MulBackward0") == (
        harm.tensor,
        [p.line for p in harm.mutated_at],
        harm.saved_at.line,
        harm.saved_by,
    )
    assert harm.bytes_changed
    assert [4.0] == verdict.gradients["w2"].true
    if through:
        assert through == harm.through


def test_aliases_share_a_storage_and_not_always_a_counter():
    """`.data` is another tensor in the same storage with a separate version counter; `.detach()` shares both."""
    recording = recorded("p = d.data; q = d.detach()")
    tensors = {tensor.id: tensor for tensor in recording.tensors}
    named = {change.name: tensors[change.tensor] for step in recording.steps for change in step.names}

    assert named["d"].storage == named["p"].storage == named["q"].storage
    assert named["d"].counter == named["q"].counter != named["p"].counter
    assert "data" == named["p"].alias_of


def test_a_recording_survives_json():
    """The value that is read equals the written one, and two recordings of one program are equal."""
    recording = recorded("d[:] = 1")

    assert recording == from_json(to_json(recording))
    assert recording == recorded("d[:] = 1")


def test_temporaries_are_seen_through_the_graph():
    """A tensor that no variable names is found, with its writer and its saver on one line."""
    verdict = record(
        "import torch\nh = torch.ones(2, requires_grad=True)\ntorch.relu(h).add_(1).sum().backward()"
    ).verdict

    assert "raises-backward" == verdict.outcome
    assert ([3], 3, "ReluBackward0", True) == (
        [place.line for place in verdict.harms[0].mutated_at],
        verdict.harms[0].saved_at.line,
        verdict.harms[0].saved_by,
        verdict.harms[0].bytes_changed,
    )


CALLS = """
import torch
class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([2.0, 3.0]))
    def forward(self, x):
        y = torch.sigmoid(x * self.weight)
        return [scaled(row) for row in [y, y]]
def scaled(row):
    row.mul_(2)
    return row.sum()
layer = Layer()
loss = sum(layer(torch.ones(2)))
loss.backward()
"""


def test_the_innermost_line_is_named():
    """In a function called from a comprehension inside a module's forward, the line that writes is the one named."""
    verdict = record(CALLS).verdict

    assert "raises-backward" == verdict.outcome
    assert [11] == [place.line for place in verdict.harms[0].mutated_at]
    assert (8, "y") == (verdict.harms[0].saved_at.line, verdict.harms[0].tensor)
    assert "layer.weight" in verdict.gradients


def test_steps_tell_function_and_depth():
    """Each statement says in which function it ran and how deep; the module's own are at depth 0."""
    steps = {step.place.line: step for step in record(CALLS).steps}

    assert ("<module>", 0) == (steps[14].function, steps[14].depth)
    assert ("Layer.forward", 1) == (steps[8].function, steps[8].depth)
    assert ("scaled", 2) == (steps[11].function, steps[11].depth)


def test_the_walk_stops_where_pytorch_stops():
    """The backward walk lists the nodes that ran, the gradients that they passed on, and the node that raised."""
    walk = recorded("d[:] = 1").backward

    assert ["raised"] == [visit.status for visit in walk]
    assert "is at version 1; expected version 0" in walk[0].message
    wrong = recorded("d.data[:] = 1").backward
    assert ("[[3]], [1]", "[[3]], [4]") == (wrong[0].got, wrong[0].true)


@pytest.mark.parametrize(("source", "note"), [
    pytest.param(MATMULS.format(write="d.add_(0)"), "not needed", id="add_(0)"),
    pytest.param(
        "import torch\na = torch.ones(2, requires_grad=True)\nb = a * 2\nb[0] = b[1].sin()\nb.sum().backward()",
        "not needed",
        id="disjoint rows",
    ),
    pytest.param(
        "import torch\nb = torch.ones(2, requires_grad=True) * 2\nwith torch.no_grad(): b.mul_(3)\n(b + 1).sum().backward()",
        "does not match the computation",
        id="untracked write",
    ),
    pytest.param(
        "import torch\nw = torch.ones(2, requires_grad=True)\ny = w * w", "never called backward", id="no backward"
    ),
])  # fmt: skip
def test_what_needs_a_word_has_a_note(source, note):
    """An error that was not needed, a write the graph does not know, a program without backward: said."""
    assert any(note in one for one in record(source).verdict.notes)


def test_the_plain_word_is_enough_for_a_prediction():
    """`outcome_of` gives one of the four words, and takes names."""
    assert "raises-forward" == outcome_of("import torch\nw = torch.ones(2, requires_grad=True)\nw.mul_(2)")
    assert "correct" == outcome_of("(w * 2).sum().backward()", {"w": __import__("torch").ones(2, requires_grad=True)})


def test_a_caught_error_is_still_what_happened():
    """A program that catches the refusal and ends has had a backward that raised."""
    source = MATMULS.format(write="d[:] = 1").replace(
        "f.backward()", "try:\n    f.backward()\nexcept RuntimeError:\n    pass"
    )

    assert "raises-backward" == record(source).verdict.outcome


def test_a_function_is_recorded_and_leaves_no_trace():
    """A function of the caller's process runs several times; the tensors it writes are as before, versions too."""
    import torch

    w = torch.ones(2, requires_grad=True)

    def program():
        with torch.no_grad():
            w.mul_(3)
        (w * w).sum().backward()

    assert "correct" == record(program).verdict.outcome
    assert ([1.0, 1.0], 0, None) == (w.tolist(), w._version, w.grad)


def test_a_target_that_is_an_alias_of_the_prediction_is_told():
    """The loss of a prediction and its own memory is 0 and so is its derivative: correct, but probably not intended."""
    source = (
        "import torch\nw = torch.ones(3, requires_grad=True)\npred = w * 2\ngoal = pred.detach()\n"
        "goal[1] = 5.0\n(pred - goal).pow(2).sum().backward()"
    )

    verdict = record(source).verdict

    assert ("correct", [0.0, 0.0, 0.0]) == (verdict.outcome, verdict.gradients["w"].got)
    assert any("Line 5" in note and "make goal a copy" in note for note in verdict.notes)

    nameless = record(source.replace("goal[1] = 5.0", "pred.data[1] = 5.0")).verdict

    assert not any("a copy" in note for note in nameless.notes), nameless.notes
