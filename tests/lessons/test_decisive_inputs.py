"""Drawn inputs are decisive: right answers that differ only in unspecified behavior pass, and near misses never do."""

import contextlib
import io

import pytest

from autograder.check.message import Incorrect
from autograder.check.subject.inputs import use_seed
from autograder.course.paths import SOLUTIONS, lessons
from tests.lessons.rightness import Judge
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
    "half of the largest in a": ("square_and_shares", SHARES.format("shares = a.detach() > a.detach().max() / 2")),
    "shares of the squares": (
        "square_and_shares",
        SHARES.format("squares = out.detach() ** 2\n    shares = squares / squares.max() > 0.5"),
    ),
    "a share of the norm": ("square_and_shares", SHARES.format("shares = out.detach() / out.detach().norm() > 0.5")),
    "the peak of each row": ("loss_and_count", COUNT.format("shown > 0.5 * shown.amax(1, keepdim=True)")),
    "half of the largest in a, counted": ("loss_and_count", COUNT.format("a > a.max() / 2")),
    "rounded pixels": ("product_and_pixels", PIXELS.format("(d.detach().clamp(0, 1) * 255).round()")),
    "logits in place of shares": (
        "MixtureWithReport",
        ROUTER.format("self.router(x) > self.router(x).mean(0)"),
    ),
    "short rows made longer": (
        "all_and_some",
        NORMED.format("all_and_some", "a = table.clone() @ w", "a[None] + (table[words] @ w)[:, None]"),
    ),
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
