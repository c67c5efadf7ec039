"""The stored atlas is compared with this PyTorch: random writes in plain PyTorch, and new observations of operations."""

import json
import random
import warnings

import pytest
import torch

from autograder.tape.atlas.atlas_text import installed_version, known_versions, load_atlas, table_text
from tests.atlas.calls import calls_of, made, operations
from tests.atlas.conditions import condition, facts_of, holds
from tests.atlas.generation import entry_or_reason
from tests.atlas.observation import REFUSAL

PAIRS, AGAIN = 50, 20

pytestmark = [
    pytest.mark.skipif(
        installed_version() not in known_versions(), reason="no atlas of this release: python -m tests.atlas"
    ),
    pytest.mark.filterwarnings("ignore"),
]


def randomness() -> random.Random:
    """Return a generator whose seed is printed, so that a failure can be repeated; op_db's samples set the global one."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # pytest shows it where the test fails
    return random.Random(seed)


def test_random_writes_do_in_plain_pytorch_what_the_atlas_says():
    """An in-place write that changes no value, then `backward()`: it raises where the atlas has the tensor as kept, and only there."""
    stored = {one.key: one for one in load_atlas(installed_version()).operations}
    generator, told = randomness(), []
    while len(told) < PAIRS:
        name = generator.choice(sorted(stored))
        compared = comparison(stored[name], name, generator)
        told += [compared] if compared else []
    assert [] == [f"{pair}: raised {raised}" for pair, raised, expected in told if raised is not expected]
    assert {True, False} == {raised for _, raised, _ in told}


def comparison(stored, name: str, generator: random.Random) -> tuple[str, bool, bool] | None:
    """Return a tensor of a drawn call, whether PyTorch raises after a write to it, and whether the atlas predicts that.

    Returns None if the sample has no gradient, its tensor cannot be written, or the atlas only counts calls.
    """
    calls = calls_of(operations()[name])
    number = generator.randrange(len(calls))
    required = generator.choice(calls[number].differentiable)
    gradient = calls[number].names[required]
    try:
        run = made(calls[number], [required])
        what = generator.choice(list(run.tensors))
        expected = stated(stored, what, gradient, facts_of(calls)[number])
        if not run.ends or expected is None:
            return None
        raised = raises_after_write(run.ends, run.tensors[what])
    except (RuntimeError, TypeError, NotImplementedError):
        return None
    return f"{name}, call {number}, {what} for {gradient}", raised, expected


def stated(stored, what: str, gradient: str, facts: dict[str, bool]) -> bool | None:
    """Return whether the atlas predicts that backward raises; None if its condition only counts calls."""
    rows = [keep for keep in stored.keeps if keep.what == what and gradient in keep.gradients and keep.guarded]
    answers = [holds(keep.when, facts) for keep in rows]
    return True if True in answers else None if None in answers else False


def raises_after_write(ends: list[torch.Tensor], tensors: list[torch.Tensor]) -> bool:
    """Return whether PyTorch itself refuses to go backward after each tensor was written, with the values that it had."""
    with torch.no_grad():
        for tensor in tensors:
            tensor.copy_(tensor.clone())
    try:
        torch.autograd.backward(ends, [torch.ones_like(end) for end in ends])
    except RuntimeError as error:
        if REFUSAL not in str(error):
            raise
        return True
    return False


def test_the_stored_table_is_what_is_observed_here():
    """For operations drawn at random, new observations equal the stored text."""
    table = json.loads(table_text(installed_version()))
    stored = {one["name"] + (f" ({one['form']})" if "form" in one else ""): one for one in table["operations"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = {name: entry_or_reason(name) for name in randomness().sample(sorted(stored), AGAIN)}
    assert {name: stored[name] for name in again} == json.loads(json.dumps(again))


def test_every_operation_is_covered_or_has_a_reason():
    """Every operation that PyTorch lists as differentiable is in the table, or among those that could not be observed."""
    atlas = load_atlas(installed_version())
    told = {one.key for one in (*atlas.operations, *atlas.not_covered)}
    assert set(operations()) == told


@pytest.mark.parametrize(("kept", "words"), [
    ((True, True, True, True), ""),
    ((True, False, True, False), "where p=True"),
    ((False, True, False, True), "except where p=True"),
    ((True, False, False, False), "where p=True and x is given"),
    ((False, False, False, True), "except where p=True or x is given"),
])  # fmt: skip
def test_a_condition_tells_the_calls_apart(kept, words):
    """The shortest statement that holds of just those calls that keep the tensor; and it is read as it was written."""
    facts = [dict(zip(("p=True", "x is given"), both, strict=True)) for both in ((1, 1), (0, 1), (1, 0), (0, 0))]
    assert words == condition(facts, kept)
    assert list(kept) == [bool(holds(words, one)) for one in facts]


def test_calls_that_no_statement_tells_apart_are_counted():
    """Then the atlas gives the number of such calls, and `holds` returns None."""
    facts = [{"p=True": True}, {"p=True": True}]
    assert "in 1 of 2 calls" == condition(facts, (True, False))
    assert holds("in 1 of 2 calls", facts[0]) is None


def test_kron_reads_what_no_counter_guards():
    """Plain PyTorch: a counted write into an argument of `torch.kron` changes the other's gradient without an error."""

    def gradient(written: float) -> torch.Tensor:
        a, b = (torch.ones(2, 3, requires_grad=True) * 2 for _ in range(2))
        b.retain_grad()
        product = torch.kron(a, b)
        a.add_(written)
        product.sum().backward()
        return b.grad

    assert not torch.equal(gradient(0.0), gradient(5.0))
    assert {False} == {keep.guarded for one in load_atlas().operations if one.name == "kron" for keep in one.keeps}
