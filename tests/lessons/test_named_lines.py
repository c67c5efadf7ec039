"""The line in the message if no saved tensor was harmed: its description agrees with plain PyTorch."""

import pytest

from autograder.course.paths import SOLUTIONS, lessons
from autograder.view.scene.composition import build_scene
from tests.lessons.solving import verdict
from tests.lessons.sources import exercises

EXERCISES = {exercise.id: (path, exercise) for path in lessons(SOLUTIONS) for exercise in exercises(path)}

GATED = """
class GatedBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gate = nn.Linear(width, width)
        self.{value} = nn.Linear(width, width)

    def forward(self, x):
        gate = torch.sigmoid(self.gate(x))
        gate = gate * 0.5
        mixed = gate * torch.tanh(self.{value}(x))
        return mixed + gate * x
"""
STATES = """
class StateRecurrence(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.read = nn.Linear(width, width)
        self.recur = nn.Linear(width, width)

    def forward(self, x):
        states = torch.zeros(len(x) + 1, x.shape[1])
        for t in range(len(x)):
            states.data[t + 1] = torch.tanh(self.read(x[t]) + self.recur(states[t].clone()))
        return states[1:]
"""
SWISH = """
def swish_in_place(h):
    class Swish(torch.autograd.Function):
        @staticmethod
        def forward(ctx, h):
            gate = h.sigmoid()
            ctx.mark_dirty(h)
            h.mul_(gate)
            ctx.save_for_backward(gate * (1 + h * (1 - gate)))
            return h

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[0]

    Swish.apply(h)
    return h
"""
LINES = {
    "a factor halved too early": (
        "GatedBlock",
        GATED.format(value="value"),
        "mixed = gate *",
        "mixed gets other values here than in the original program",
    ),
    "the gradient of another loss": (
        "first_gradient",
        "def first_gradient(start, x):\n    w = start.clone().requires_grad_()\n    loss = (w * x).square().mean()\n"
        "    loss.backward()\n    return w.grad",
        "loss = (w * x)",
        "w.grad received its last gradient from the result computed here",
    ),
    "a write whose result is returned without its history": (
        "two_steps",
        "def two_steps(start, x, target):\n    w = start.clone().requires_grad_()\n    for _ in range(2):\n"
        "        (w * x - target).square().sum().backward()\n        with torch.no_grad():\n            w += 0.1 * w.grad\n"
        "        w.grad = None\n    return w.detach()",
        "w += 0.1 * w.grad",
        "the last write into the memory of value",
    ),
    "an argument rebound in the first line": (
        "swish_in_place",
        "def swish_in_place(h):\n    h = h * h.sigmoid()\n    return h",
        "h = h * h.sigmoid()",
        "from here on h refers to other memory",
    ),
    "a declared write, and a slope saved too late": ("swish_in_place", SWISH, "return grad * ctx", "not the derivative of forward"),
    "a write whose history an alias keeps to itself": (
        "StateRecurrence",
        STATES,
        "states.data[t + 1]",
        "the tensor itself has no history of the new values",
    ),
    "a parameter by another name": (
        "GatedBlock",
        GATED.format(value="values"),
        "self.values = ",
        "values.bias becomes a parameter here); value.bias: a parameter that saved weights",
    ),
    "a history from __init__": (
        "AnchoredScale",
        "class AnchoredScale(nn.Module):\n    def __init__(self, width):\n        super().__init__()\n"
        "        self.weight = nn.Parameter(torch.full((width,), 0.5))\n        self.start = self.weight * 1\n\n"
        "    def forward(self, x):\n        scaled = x * self.weight\n        drift = self.weight - self.start\n"
        "        return scaled.sum(-1) + drift.square().sum()",
        "self.start = self.weight * 1",
        "runs once, in __init__",
    ),
    "a penalty on the new values of a custom Function": (
        "penalised_swish",
        "def penalised_swish(x, w):\n    class Swish(torch.autograd.Function):\n        @staticmethod\n"
        "        def forward(ctx, h):\n            ctx.save_for_backward(h)\n            return h * h.sigmoid()\n\n"
        "        @staticmethod\n        def backward(ctx, grad):\n            (h,) = ctx.saved_tensors\n"
        "            return grad * h.sigmoid() * (1 + h * (1 - h.sigmoid()))\n\n"
        "    out = Swish.apply(x @ w)\n    return out.sum() + out.square().mean()",
        "return out.sum() + out",
        "value gets its values here",
    ),
    "a return line that forgets a factor": (
        "update_first_row",
        "def update_first_row(u, weights):\n    row = u[0].clone()\n    u[0] = weights @ row\n    return u",
        "return u",
        "look at line 4: return u (value gets its values here)",
    ),
    "a return line with a tensor in place of its gradient": (
        "first_gradient",
        "def first_gradient(start, x):\n    w = start.clone().requires_grad_()\n    loss = (w * x).square().sum()\n"
        "    loss.backward()\n    return w",
        "return w",
        "look at line 5: return w (value gets its values here)",
    ),
    "one of several views, each with a counter of its own": (
        "double_first_row",
        "def double_first_row(u):\n    first, *others = u.unsafe_split(1)\n    first.mul_(2)\n    return u.square()",
        "first.mul_(2)",
        "history stays as it was",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("exercise", "answer", "text", "told"), LINES.values(), ids=LINES)
def test_the_line_and_what_it_does_are_named(exercise, answer, text, told, shown):
    """The message names the line that begins with the text and its effect, and the picture opens there if a step of it ran."""
    answer = answer.strip("\n")
    (line,) = (number for number, one in enumerate(answer.splitlines(), 1) if one.strip().startswith(text))
    message = " ".join(str(verdict(*EXERCISES[exercise], answer)).split())
    assert f"line {line}: " in message.partition(" look at ")[2]
    assert told in message
    assert line in {named.place.line for named in shown[0].verdict.named}


def test_a_changed_line_that_did_not_run_is_not_named(shown):
    """An error in __init__ is not the fault of a line of forward."""
    answer = GATED.format(value="value").replace("        super().__init__()\n", "").strip("\n")
    message = " ".join(str(verdict(*EXERCISES["GatedBlock"], answer)).split())
    assert "look at line 3: self.gate = nn.Linear(width, width)" in message


RIGHT_ON_THE_WAY = {
    "another way to the same values, and a wrong last line": (
        "use_and_reset",
        "def use_and_reset(w, b, x):\n    y = x * w.clone()\n    y = y + b\n    with torch.no_grad():\n"
        "        w.zero_()\n        b.zero_()\n    return y * 2",
        "return y * 2",
    ),
    "an original that stops before it could be compared": (
        "first_gradient",
        "def first_gradient(start, x):\n    w = torch.zeros_like(start)\n    w = w + start\n"
        "    return 3 * w * x.square()",
        "return 3 * w",
    ),
}


@pytest.mark.parametrize(("exercise", "answer", "text"), RIGHT_ON_THE_WAY.values(), ids=RIGHT_ON_THE_WAY)
def test_a_name_that_ends_with_the_originals_values_is_not_named(exercise, answer, text, shown):
    """If a name has the right values in another way, the line that makes the returned value is named."""
    (line,) = (number for number, one in enumerate(answer.splitlines(), 1) if one.strip().startswith(text))
    assert f"look at line {line}: " in " ".join(str(verdict(*EXERCISES[exercise], answer)).split())


ANCHORED = """
class AnchoredScale(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.full((width,), 0.5))
        self.start = self.weight.detach()

    def forward(self, x):
        x = x * self.weight
        drift = self.weight - self.start
        return x.sum(-1) + drift.square().sum()
"""


def test_what_a_check_fills_is_no_line_of_the_learners(shown):
    """A check puts its own numbers into the parameters before forward runs: no step of forward is reported as a write."""
    verdict(*EXERCISES["AnchoredScale"], ANCHORED.strip("\n"))
    (recording,) = shown
    steps = [step for step in recording.steps if step.function.endswith("forward")]
    assert "x = x * self.weight" == steps[0].place.text
    assert [] == [write for step in steps for write in step.writes]
    assert not any(
        "writes into" in frame.effect + frame.others
        for frame in build_scene(recording).frames
        if "forward" in frame.fact
    )
