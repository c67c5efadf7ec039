"""Right answers pass whatever is drawn and near misses never do; debatable answers are judged as the exercise's text says."""

import contextlib
import io
import re

import pytest

from autograder.check.message import Incorrect
from autograder.check.subject.inputs import use_seed
from autograder.course.paths import SOLUTIONS, lessons
from tests.lessons.rightness import Judge
from tests.lessons.solving import verdict
from tests.lessons.sources import exercises, setup

EXERCISES = {exercise.id: (path, exercise) for path in lessons(SOLUTIONS) for exercise in exercises(path)}
DRAWS = 25

SHARES = "def square_and_shares(a):\n    out = a.exp()\n    {}\n    return out * out, shares"
COUNT = "def loss_and_count(a):\n    out = a.exp()\n    shown = out.detach()\n    return (out * out).sum(), ({}).sum()"
PIXELS = "def product_and_pixels(x, w1, w2):\n    d = x @ w1\n    return d * w2, ({}).byte()"
ROUTER = """
class MixtureWithReport(nn.Module):
    def __init__(self, width, experts):
        super().__init__()
        self.router = nn.Linear(width, experts)
        self.experts = nn.Linear(width, experts)

    def forward(self, x):
        share = torch.sigmoid(self.router(x))
        return (share * torch.tanh(self.experts(x))).sum(-1), {}
"""
NORMED = """
def {}(table, w, words):
    {}
    with torch.no_grad():
        rows = words.unique()
        table[rows] = F.normalize(table[rows], dim=1)
    return {}
"""
ATTENTION = "def blocked_attention(q, k, blocked):\n    scores = q @ k.t()\n    return {}"
NEAR_MISSES = {
    "shares of the squares": (
        "square_and_shares",
        SHARES.format("squares = out.detach() ** 2\n    shares = squares / squares.max() > 0.5"),
    ),
    "a share of the norm": ("square_and_shares", SHARES.format("shares = out.detach() / out.detach().norm() > 0.5")),
    "the peak of each row": ("loss_and_count", COUNT.format("shown > 0.5 * shown.amax(1, keepdim=True)")),
    "half of the largest in a, counted": ("loss_and_count", COUNT.format("a > a.max() / 2")),
    "rounded pixels": ("product_and_pixels", PIXELS.format("(d.detach().clamp(0, 1) * 255).round()")),
    "logits in place of shares": ("MixtureWithReport", ROUTER.format("self.router(x) > self.router(x).mean(0)")),
    "short rows made longer, in order": (
        "scores_then_lookup",
        NORMED.format("scores_then_lookup", "scores = table.clone() @ w", "scores, table[words] @ w"),
    ),
    "the last word is not written": (
        "scores_then_lookup",
        "def scores_then_lookup(table, w, words):\n    scores = table.clone() @ w\n"
        "    F.embedding(words[:-1], table, max_norm=1.0)\n    return scores, table[words] @ w",
    ),
    "every row gets length 1": (
        "first_and_all",
        NORMED.format("first_and_all", "own = table[int(words[0])].clone() @ w", "own + table[words] @ w"),
    ),
}
RIGHT = {
    "-inf is added": (
        "blocked_attention",
        ATTENTION.format("(scores + torch.zeros(3, 4).masked_fill(blocked > 0, float('-inf'))).softmax(dim=1)"),
    ),
    "a large number is added": ("blocked_attention", ATTENTION.format("(scores - 1e9 * blocked).softmax(dim=1)")),
    "the weights of the free keys are scaled": (
        "blocked_attention",
        "def blocked_attention(q, k, blocked):\n    grown = (q @ k.t()).exp() * (1 - blocked)\n"
        "    return grown / grown.sum(dim=1, keepdim=True)",
    ),
}


def passes(exercise, answer) -> list[bool]:
    """Return whether an answer passes its check, for each of 25 seeds."""
    path, known = EXERCISES[exercise]
    judge, passed = Judge(known, setup(path)), []
    for seed in range(DRAWS):
        with use_seed(seed), contextlib.redirect_stdout(io.StringIO()):
            try:
                judge.after(answer).run(known.check)
                passed.append(True)
            except Incorrect:
                passed.append(False)
    return passed


@pytest.mark.parametrize(("exercise", "answer"), NEAR_MISSES.values(), ids=NEAR_MISSES)
def test_a_near_miss_is_refused_whatever_is_drawn(exercise, answer):
    """These differ from a right answer for some inputs only, and every draw has such an input."""
    assert not any(passes(exercise, answer))
    assert not Judge(EXERCISES[exercise][1], setup(EXERCISES[exercise][0])).is_right(answer)


@pytest.mark.parametrize(("exercise", "answer"), RIGHT.values(), ids=RIGHT)
def test_a_right_answer_passes_whatever_is_drawn(exercise, answer):
    """For a query without a free key, these three differ; the text says that each query has one."""
    assert all(passes(exercise, answer))


ANCHORED = """
class AnchoredScale(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.full((width,), 0.5))
        self.start = copy.deepcopy(self.weight)

    def forward(self, x):
        drift = self.weight - self.start.detach() * 0 - 0.5
        return (x * self.weight).sum(-1) + drift.square().sum()
"""
GATED = """
class GatedBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gate = nn.Linear(width, width)
        self.value = nn.Linear(width, width)

    def forward(self, x):
        gate = torch.sigmoid(self.gate(x))
        mixed = gate * torch.tanh(self.value(x))
        half = gate * 0.5 if self.training else gate
        return mixed + half * x
"""
RESIDUAL = """
class ResidualBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.position = nn.Parameter(torch.zeros(width))
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, width)
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, tokens):
        x = tokens + self.position
        return x + self.second(torch.tanh(self.first(x)))
"""
REFUSED = {
    "a deep copy of the parameter": ("AnchoredScale", "import copy\n" + ANCHORED, "other parameters"),
    "one more parameter in a residual block": ("ResidualBlock", RESIDUAL, "scale: an optimizer would train it"),
    "another value in evaluation": ("GatedBlock", GATED, "wrong return value"),
    "the check's own formula, through a helper": (
        "two_steps",
        "def helper(*given):\n    return on_paper(*given)\n\n\ndef two_steps(start, x, target):\n    return helper(start, x, target)",
        "the check's own function",
    ),
    "the tensors of the check's own program, in place of their counters": (
        "read_counters",
        "def read_counters():\n    return program()",
        "wrong return value",
    ),
    "the gradient of its own backward, in place of the loss": (
        "train_the_head",
        "def train_the_head(body, head, x):\n"
        "    loss = (torch.tanh(x * body.detach()) * head).square().sum()\n"
        "    loss.backward()\n"
        "    return head.grad, True",
        "train_the_head: the function returns a different structure",
    ),
    "one of two results": (
        "sine_then_clear",
        "def sine_then_clear(u):\n    wave = u[[0]].sin()\n    u[0] = 0\n    return wave",
        "saw value: one result, without a list, tuple or dict around it expected value[0], value[1] look at",
    ),
    "a copy of a whole table": (
        "first_and_all",
        "def first_and_all(table, w, words):\n    own = (table * 1)[words[0]] @ w\n"
        "    return own + F.embedding(words, table, max_norm=1.0) @ w",
        "saw 1 new tensor the size of table, and smaller ones expected at most 1 new tensor of that size",
    ),
    "plain gradient descent by an optimizer": (
        "two_steps",
        "def two_steps(start, x, target):\n    w = start.clone().requires_grad_()\n    sgd = torch.optim.SGD([w], lr=0.1)\n"
        "    for _ in range(2):\n        sgd.zero_grad()\n        ((w * x).sum() - target).square().sum().backward()\n"
        "        sgd.step()\n    return w.detach()",
        "optim in your code",
    ),
    "a swish whose Function does not declare its write": (
        "swish_in_place",
        next(
            one.source
            for one in EXERCISES["swish_in_place"][1].of_kind("wrong")
            if "does not declare the write" in one.name
        ),
        "h holds new values with the wrong history",
    ),
    "a swish that autograd is not told of": (
        "swish_in_place",
        "def swish_in_place(h):\n    h.data = torch.nn.functional.silu(h.data)\n    return h",
        "h is no longer modified in place",
    ),
    "a gradient of zeros for the body, which some optimizers still move": (
        "train_the_head",
        "def train_the_head(body, head, x):\n    features = torch.tanh(x * body.detach())\n"
        "    return (features * head).square().sum() + 0 * body.sum()",
        "body received a gradient, but must not be trained",
    ),
}
UNDER_NO_GRAD = {
    "drain": "def drain(buffer, total):\n    total = total + buffer\n    with torch.no_grad():\n        buffer.zero_()\n    return total",
    "clear_after_use": "def clear_after_use(d, w2):\n    f = d.clone() * w2\n    with torch.no_grad():\n        d.fill_(1)\n    return f",
    "three_states": """
def three_states(state, step):
    first = state + step
    second = first + step
    third = second + step
    with torch.no_grad():
        state.copy_(third)
    return [first, second, third]
""",
}


def refused(exercise, answer):
    """Return the message of the check for an answer, in one line; "" if it passes."""
    path, known = EXERCISES[exercise]
    raised = verdict(path, known, answer)
    assert raised is None or isinstance(raised, Incorrect)
    return re.sub(r"\s+", " ", str(raised or ""))


@pytest.mark.parametrize(("exercise", "answer", "phrase"), REFUSED.values(), ids=REFUSED)
def test_what_the_text_forbids_is_refused(exercise, answer, phrase):
    """Each of these gives the right values in training."""
    assert phrase in refused(exercise, answer)


@pytest.mark.parametrize("exercise", UNDER_NO_GRAD)
def test_the_callers_memory_keeps_no_old_history(exercise):
    """A write under no_grad leaves the new values with the old gradient path; the same write, recorded, passes."""
    hidden = UNDER_NO_GRAD[exercise]
    assert "wrong history" in refused(exercise, hidden)
    assert "" == refused(exercise, hidden.replace("torch.no_grad()", "torch.enable_grad()"))


@pytest.mark.parametrize(
    ("name", "text"), [("detach_late", "Correct "), ("detach_late", "CORRECT"), ("products_data", "Silently wrong")]
)
def test_a_prediction_may_be_written_as_the_badge_spells_it(name, text):
    """Right words pass in any case, with blanks, and without the hyphen."""
    path, known = EXERCISES[f"prediction_{name}"]
    assert verdict(path, known, f"prediction_{name} = {text!r}") is None


def test_a_named_line_may_be_spaced_otherwise():
    """Spaces between the tokens of a line do not count."""
    path, known = EXERCISES["culprit_residual"]
    assert verdict(path, known, 'culprit_residual = "x+=second( h )"') is None
    assert "not this line" in refused("culprit_residual", 'culprit_residual = "x=torch.randn(3,4)+position"')
