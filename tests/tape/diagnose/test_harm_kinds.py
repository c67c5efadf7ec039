"""Each kind of harm is found in its own example, and plain PyTorch confirms the examples."""

import pytest

from autograder.tape import record
from autograder.tape.diagnose.harm_registry import HARM_KINDS
from autograder.tape.recording.verdict_types import Harm, Place

KINDS = [kind for row in HARM_KINDS for kind in row]
EACH = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def plain(source: str) -> dict[str, list[float]] | None:
    """Return the gradients that plain PyTorch leaves (or `run` returns); None if it raises."""
    names: dict = {}
    try:
        exec(compile(source, "example", "exec"), names)
        returned = names["run"]() if "run" in names else {leaf: names[leaf].grad for leaf in "wv" if leaf in names}
    except RuntimeError:
        return None
    return {name: gradient.tolist() for name, gradient in returned.items()}


def without(source: str, lines: list[int]) -> str:
    """Return the source with the lines replaced by the value of the expression, or removed."""
    kept = source.splitlines()
    for line in lines:
        indent = kept[line - 1][: len(kept[line - 1]) - len(kept[line - 1].lstrip())]
        kept[line - 1] = indent + ("return 2 * x * grad" if "return" in kept[line - 1] else "pass")
    return "\n".join(kept)


@EACH
def test_the_example_is_broken_by_the_marked_line_alone(kind):
    """Plain PyTorch raises, or gives another gradient than the same program without the marked line."""
    source, repaired = kind.example.source, without(kind.example.source, kind.example.lines("writes"))

    right, got = plain(repaired), plain(source)

    assert right is not None
    assert (got is None) == (kind.example.outcome == "raises-backward")
    assert got != right


@EACH
def test_the_kind_finds_what_its_example_shows(kind):
    """The outcome, the kind with its sentence, the line that writes and the line that needed the old values."""
    example = kind.example
    verdict = record(example.source, function="run" if "def run" in example.source else None).verdict

    assert example.outcome == verdict.outcome
    harm = verdict.harms[0]
    assert (kind.name, kind.sentence) == (harm.kind, harm.explanation)
    assert example.lines("writes") == [place.line for place in harm.mutated_at]
    assert example.lines("saves") in ([], [harm.saved_at.line])


@EACH
def test_a_row_below_is_asked_only_where_those_above_are_silent(kind, monkeypatch):
    """A kind that always finds something, in a new row at the top, prevents all others."""
    place = Place("<program>", 1, "import torch")
    loud = type(kind)("loud", "Always.", (kind.example.outcome,), lambda _: [_harm(place)], kind.example)
    monkeypatch.setattr("autograder.tape.diagnose.harm_registry.HARM_KINDS", ((loud,), *HARM_KINDS))

    verdict = record(kind.example.source, function="run" if "def run" in kind.example.source else None).verdict

    assert ["loud"] == [harm.kind for harm in verdict.harms]


def _harm(place: Place) -> Harm:
    return Harm("w", (place,), None, place, "MulBackward0", 0, 1, True)


def test_names_and_sentences_are_told_apart():
    """No two kinds share a name or a sentence, and each sentence is one."""
    assert len(KINDS) == len({kind.name for kind in KINDS}) == len({kind.sentence for kind in KINDS})
    assert all(kind.sentence.endswith(".") and ". " not in kind.sentence for kind in KINDS)
    assert all(set(kind.outcomes) <= {"raises-backward", "silently-wrong"} for kind in KINDS)


def test_a_write_to_values_that_a_sparse_tensor_shares_is_named():
    """`weight` and the saved sparse tensor share their values, but not their counters (PyTorch 2.13)."""
    source = """import torch
weight, x = torch.rand(2), torch.rand(2, 3, requires_grad=True)
out = torch.sparse.mm(torch.sparse_coo_tensor(torch.tensor([[0, 1], [1, 0]]), weight, (2, 2)), x)
weight.mul_(0.5)
out.sum().backward()
"""
    verdict = record(source).verdict
    assert ["silently-wrong", [4]] == [verdict.outcome, [place.line for place in verdict.harms[0].mutated_at]]
