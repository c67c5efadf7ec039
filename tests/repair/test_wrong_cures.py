import pytest

from autograder.tape.diagnose.record import record
from autograder.tape.repair.repairs import find_repairs
from autograder.tape.repair.trial.program_factory import factory_of_text

HEAD = "import torch\nw = torch.tensor([1.0, 2.0], requires_grad=True)\nh = w * 1\n"

USED = {
    "y = (h * h).sum()\nh.data.zero_()\ny.backward()\n": ("Line 5", ".data", "does not detect it"),
    "y = (h * h).sum()\nd = h.data\nd.zero_()\ny.backward()\n": ("Line 6", ".data", "does not detect it"),
    "y = (h * h).sum()\nh += 1\ny.backward(retain_graph=True)\n": ("Line 6", "retain_graph=True", "it still raises"),
    "with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):\n"
    "    y = (h * h).sum()\nh.mul_(10)\ny.backward()\n": ("Line 4", "identity", "[20, 40] where [2, 4] is right"),
    "with torch.autograd.graph.allow_mutation_on_saved_tensors():\n    y = (h * h).sum()\n    h[1:].zero_()\n    y.backward()\n": (
        "Line 4", "offset views", "[2, 0] where [2, 4] is right"
    ),
    "y = (h * h).sum()\nwith torch.no_grad():\n    h.zero_()\ny.backward()\n": ("Line 6", "no_grad", "it still raises"),
}  # fmt: skip


@pytest.mark.parametrize(
    "body", [pytest.param(body, marks=[pytest.mark.slow] if number > 1 else []) for number, body in enumerate(USED)]
)
def test_program_that_uses_one_is_warned(body):
    """If the program itself contains a known wrong cure, a warning names its line with the figures of this run."""
    source = HEAD + body
    found = find_repairs(factory_of_text(source, "text.py"), record(source, file="text.py").verdict)
    assert any(all(word in warning for word in USED[body]) for warning in found.warnings), found.warnings


CARRIED = """import torch
w = torch.ones(2, requires_grad=True)
state, total = torch.zeros(2), torch.zeros(2)
for step in range(2):
    state = (state + w).exp()
    loss = (state * w).sum()
    loss.backward()
    w.data -= 0.1
    with torch.no_grad():
        total += state
"""


def test_a_write_that_takes_no_part_is_not_warned():
    """The graph is used twice; an update through `.data` and a sum under `no_grad` are unrelated."""
    verdict = record(CARRIED, file="text.py").verdict
    assert "second time" in verdict.error.message
    assert () == find_repairs(factory_of_text(CARRIED, "text.py"), verdict).warnings


def test_harmless_use_is_not_warned():
    """A correct program is not lectured for its `.data`."""
    source = HEAD + "h.data.clamp_(0)\n(h * h).sum().backward()\n"
    found = find_repairs(factory_of_text(source, "text.py"), record(source, file="text.py").verdict)
    assert () == found.warnings
