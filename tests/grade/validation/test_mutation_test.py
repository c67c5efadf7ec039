"""Mutants and trivial answers: how they are made, and which tests they show to be weak."""

import nbformat
import numpy as np
import pandas as pd
import pytest
import torch

from autograder.grade.backends.grading_job import GradingTerms
from autograder.grade.backends.local_processes import LocalBackend
from autograder.grade.batch.assignment import named_answers
from autograder.grade.validation.mutants import mutants
from autograder.grade.validation.mutation_test import MutationReport, made_trivial, mutation_test, trivial_answers
from autograder.grade.validation.validate import ignore_step, validate_source
from tests.grade.conftest import LIMITS
from tests.grade.small_course import answer, graded_cell, source_of, teacher

MEAN = """
def mean(values, start=0):
    total = start
    for value in values:
        total += value
    if total < 0 and values:
        raise ValueError("a negative sum")
    return total / len(values)
"""


@pytest.mark.parametrize(("edit", "changed"), [
    ("another operator: total / len(values)", "return total * len(values)"),
    ("another constant: 0", "def mean(values, start=1)"),
    ("another comparison: total < 0", "if total <= 0"),
    ("the other of and and or: total < 0 and values", "if total < 0 or values"),
    ("drops the write: total += value", "    pass"),
    ("writes twice: total += value", "total += value\n        total += value"),
    ("the other branch: if total < 0 and values:", "if not (total < 0 and values)"),
    ("drops the statement: total = start", "def mean(values, start=0):\n    pass\n    for"),
    ("swaps the operands: total / len(values)", "return len(values) / total"),
])  # fmt: skip
def test_each_slip_is_made(edit, changed):
    """Operators, constants, comparisons, statements, writes, branches."""
    assert any(changed in mutant.source for mutant in mutants(MEAN, tensors=False) if mutant.edit == edit)


def test_slips_with_axes_and_returns_and_tensors_are_made():
    """Another axis, a return in the loop, `.detach()` added and dropped, `.data`, in place and out of place."""
    text = "def f(x):\n    for i in x:\n        y = x.clone()\n        y += i.detach()\n    return y.sum(axis=0)"
    edits = {mutant.edit.partition(":")[0] for mutant in mutants(text)}
    assert {"another axis", "returns in the loop's first turn", "drops .detach()", "drops .clone()"} <= edits
    aliases = {"writes through .data", "writes through .detach()", "detaches the value", "out of place for in place"}
    assert aliases <= edits


def test_no_mutant_compiles_to_what_another_does():
    """An edit that Python ignores is not a mutant; True and 1 are different constants."""
    assert [] == mutants("def f():\n    'text'\n    return x", tensors=False)
    texts = [mutant.source for mutant in mutants("a = 1\nb = True", tensors=False)]
    assert len(texts) == len(set(texts)) == 4


ANSWER = """
import math
def f(x, y=2):
    return secret(x)
class C:
    def __init__(self, n):
        self.n = n
    def g(self, x):
        return secret
n = secret
"""


@pytest.mark.parametrize("trivial", trivial_answers([], tensors=True), ids=lambda trivial: trivial.name)
def test_a_trivial_answer_keeps_names_and_signatures_and_no_solution(trivial):
    """It can be run, defines the names of the answer, and contains nothing of its body."""
    made = made_trivial(ANSWER, trivial)
    names = {}
    exec(made, names)
    assert {"math", "f", "C", "n"} <= set(names)
    assert names["f"].__code__.co_varnames[:2] == ("x", "y")
    assert "secret" not in made
    names["C"](1)


def called(name, text, *arguments):
    """Return the result of a trivial answer's `f`."""
    (trivial,) = (known for known in trivial_answers([], tensors=True) if known.name == name)
    names = {}
    exec(made_trivial(text, trivial), names)
    return names["f"](*arguments)


@pytest.mark.parametrize(("name", "argument", "expected"), [
    ("an empty array", np.ones(3), 5.0),
    ("an empty array that broadcasts", np.ones(3), np.arange(6.0).reshape(2, 3)),
    ("a masked array", np.ones((2, 3)), np.arange(6.0).reshape(2, 3)),
    ("a masked array", 4, np.arange(4.0)),
    ("a masked array of one number", np.ones(3), 5.0),
    ("a 0-d array", np.ones(3), np.zeros(3)),
    ("a 0-d array of 1", np.ones(3), np.ones((2, 2))),
    ("a NaN array", np.ones(3), np.full(3, np.nan)),
])  # fmt: skip
def test_odd_arrays_pass_the_comparisons_of_numpy(name, argument, expected):
    """These pass in any kernel, so a test that relies on the comparison alone pays for them."""
    returned = called(name, "def f(x):\n    return x", argument)
    if name == "an empty array that broadcasts":
        assert np.allclose(returned, expected)
    else:
        np.testing.assert_allclose(returned, expected)


@pytest.mark.parametrize(
    "argument", [np.ones((2, 2)), np.array(3.0), [1.0, 2.0], torch.ones(2, requires_grad=True), pd.Series([1.0, 2.0])]
)
def test_zeros_are_written_into_every_kind_of_argument(argument):
    """So that a test which computes its expectation from the argument afterwards expects zeros."""
    returned = called("zeros written into the arguments", "def f(x):\n    return x * 2", argument)
    assert returned is argument
    assert not np.any(
        np.asarray(torch.as_tensor(argument).detach() if isinstance(argument, torch.Tensor) else argument)
    )


def test_a_trivial_answer_reads_the_constants_of_visible_tests():
    """Results that a test shows are looked up, so that a hidden test has to ask for something else."""
    visible = ["assert f(2, 3) == 6\nassert f(0, 1) == 0\nnp.testing.assert_equal(n, 'word')\nassert m == n"]
    names = {}
    exec(
        made_trivial(
            "def f(x, y):\n    return x * y\nn = compute()\nm = 1", trivial_answers(visible, tensors=False)[-1]
        ),
        names,
    )
    assert (6, 0, 6, "word", None) == (names["f"](2, 3), names["f"](0, 1), names["f"](9, 9), names["n"], names["m"])


def mutation_report(*cells, sample=200, on_step=ignore_step):
    """Return the mutation test of a source with these cells."""
    notebook = nbformat.v4.new_notebook(cells=list(cells))
    source = source_of("n", notebook)
    terms = GradingTerms({"n": source}, "bubblewrap", LIMITS, 7)
    with LocalBackend(terms, 1) as backend:
        report = validate_source(source, backend)
        return mutation_test(source, report, backend, sample, on_step, named_answers(source, notebook))


def authors_cell(tag: str, first: str, result: str):
    """Return a cell of the author with this tag, first line and result of the function `square`."""
    text = f"# {tag}: {first}\ndef square(x):\n    return {result}"
    return nbformat.v4.new_code_cell(text, metadata={"tags": [tag]})


@pytest.mark.slow
def test_right_and_wrong_answers_of_the_source_get_their_verdicts(bubblewrap):
    """A wrong answer that passes all tests up to the next answer, another message than the phrase, a right answer refused."""
    found = mutation_report(
        answer("a", "def square(x):\n    return x * x"),
        authors_cell("wrong", "doubles -> not nine", "2 * x"),
        authors_cell("wrong", "is right below 5 -> not nine", "x * x if x < 5 else 0"),
        authors_cell("wrong", "adds -> something else", "x + 1"),
        authors_cell("right", "is a power", "x ** 2"),
        authors_cell("right", "is a float", "float(x * x) + 0.5"),
        graded_cell("shown", 'assert square(3) == 9, "not nine"'),
        graded_cell("hidden", HIDDEN.format("assert square(0) == 0")),
        sample=0,
    )
    assert 5 == found.named
    assert [
        "shown: the wrong answer “is right below 5” passes: add an input for which it is wrong",
        "shown: the wrong answer “adds” is refused, but not with the words “something else” (",
        "shown: the right answer “is a float” is refused (",
    ] == [line[: line.find("(") + 1] or line for line in found.misjudged]


HIDDEN = "### BEGIN HIDDEN TESTS\n{}\n### END HIDDEN TESTS"


@pytest.mark.slow
def test_weak_tests_are_named_and_strong_ones_are_not(bubblewrap):
    """`return x` passes a test with a fixed point, ValueError one that asks for no more; a good test is left alone."""
    found = mutation_report(
        answer("a", "def square(x):\n    if x < 0:\n        raise ValueError\n    return x * x"),
        graded_cell("fixed", HIDDEN.format("assert square(1) == 1")),
        graded_cell("raises", HIDDEN.format("try: square(-1)\nexcept ValueError: pass\nelse: assert False")),
        graded_cell("above", HIDDEN.format("square(1)")),
        graded_cell("good", HIDDEN.format("assert [square(n) for n in range(5)] == [0, 1, 4, 9, 16]")),
    )
    assert {"`return x`", "`return 1`"} <= set(found.paid["fixed"])
    assert "`return 0`" not in found.paid["fixed"]
    assert ("`raise ValueError`",) == found.paid["raises"]
    assert "good" not in found.paid
    assert "`return 1`" in found.paid["above"]
    assert found.tried == found.possible > len(found.passing)


@pytest.mark.slow
def test_a_test_that_pays_for_odd_arrays_is_named(bubblewrap):
    """Masked, empty and 0-d arrays pass the comparisons of NumPy; zeros in the arguments pass tests that read them afterwards."""
    found = mutation_report(
        teacher("import numpy as np"),
        answer(
            "a",
            "def double(x):\n    return 2 * x\ndef mean(x):\n    return x.sum() / len(x)\ndef level(x):\n    return 0 * x",
        ),
        graded_cell("masked", HIDDEN.format("np.testing.assert_allclose(double(np.array([1.0, 2.0])), [2.0, 4.0])")),
        graded_cell("empty", HIDDEN.format("assert np.allclose(mean(np.array([1.0, 2.0])), 1.5)")),
        graded_cell("scalar", HIDDEN.format("np.testing.assert_allclose(level(np.array([1.0, 2.0])), np.zeros(2))")),
        graded_cell(
            "afterwards",
            HIDDEN.format("x = np.array([1.0, 2.0])\nassert list(double(x)) == list(2 * x)"),
            autograder={"process": "one"},
        ),
        graded_cell("good", HIDDEN.format("assert double(np.array([1.0, 2.0])).tolist() == [2.0, 4.0]")),
        sample=0,
    )
    assert "a masked array" in found.paid["masked"]
    assert "an empty array" in found.paid["empty"]
    assert "a 0-d array" in found.paid["scalar"]
    assert "zeros written into the arguments" in found.paid["afterwards"]
    assert "good" not in found.paid


@pytest.mark.slow
def test_each_made_up_submission_is_shown_by_its_change(bubblewrap):
    """Somebody who waits reads which answer is changed and how; no two are named alike, and equivalent mutants pass."""
    steps = []
    found = mutation_report(
        answer("double", "def double(x):\n    x += x\n    return abs(x)"),
        graded_cell("t", "assert double(2) == 4"),
        on_step=lambda *step: steps.append(step),
    )
    names = [name.removeprefix("n: ") for name, _, _ in steps]
    mutated = [name for name in names if name.startswith("mutant")]
    assert "mutant 1, double: " == mutated[0][:18]
    assert any("another operator: x += x" in name for name in mutated)
    assert len(names) == len(set(names)) == steps[0][2]
    assert any(name.endswith("double: out of place for in place: x += x") for name in found.passing)


def test_model_answers_that_are_too_slow_say_so(bubblewrap):
    """Instead of mutants that were all ended, and look as if the tests refused them."""
    assert [
        "the model answers are too slow for a mutation test, so no mutants and no trivial answers were graded"
    ] == list(MutationReport(too_slow=True).lines)


def test_a_teacher_reads_figures_first_and_weak_tests_before_mutants():
    """One sentence each; what is left out is counted."""
    many = tuple(f"mutant {index}" for index in range(10))
    report = MutationReport(
        possible=50,
        tried=40,
        passing=many,
        trivial=21,
        paid={"t": ("`return x`", "`return 0`")},
    )
    lines = list(report.lines)
    assert "mutants of the model answers: 40 of 50 tried, 10 pass all tests" == lines[0]
    assert (
        "t: this test gives points to `return x`, `return 0`; add an input or a hidden test for which that is wrong"
        == lines[2]
    )
    assert "mutant 0 passes all tests; check whether it is correct" == lines[3]
    assert "and 2 more mutants pass" == lines[-1]
