"""A class played from the model answers: mutants and cheats, told from what does the same as a model answer."""

import textwrap

import nbformat
import pytest
import torch

from autograder.check import check_outcome
from autograder.check.learner import use_names
from autograder.check.subject.subjects import LocalSubject
from autograder.grade.rehearsal.play.cheats import cheated, cheats
from autograder.grade.rehearsal.play.class_play import ClassPlay, PassingMutant
from autograder.grade.rehearsal.play.mutants import mutants
from autograder.grade.rehearsal.play.plain_outcome import plain_outcome
from autograder.grade.rehearsal.play.played_class import play_class, sentences
from autograder.grade.rehearsal.play.probe import Probe
from autograder.grade.rehearsal.play.visible_values import VisibleValues
from autograder.grade.rehearsal.rehearsal import rehearse
from autograder.grade.rehearsal.rehearsal_steps import unseen
from autograder.grade.sandbox.isolation.levels import LEVELS
from autograder.grade.sandbox.launch import ServerPool
from autograder.grade.submission.teacher.source import AssignmentSource
from autograder.grade.where.grading_job import GradingTerms
from autograder.grade.where.local_processes import GraderProcesses
from tests.grade.conftest import LIMITS
from tests.grade.small_course import answer, graded_cell


class Names:
    """Hands a check the programs of a test."""

    def __init__(self, **programs):
        self.programs = programs

    def subject(self, name):
        """Returns the subject of that name."""
        return LocalSubject(self.programs[name])


MEAN = """
def mean(values, start=0):
    total = start
    for value in values:
        total += value
    if total < 0 and values:
        raise ValueError("a negative sum")
    return total / len(values)
"""


@pytest.mark.parametrize(
    ("edit", "changed"),
    [
        ("another operator: total / len(values)", "return total * len(values)"),
        ("another constant: 0", "def mean(values, start=1)"),
        ("another comparison: total < 0", "if total <= 0"),
        ("the other of and and or: total < 0 and values", "if total < 0 or values"),
        ("drops the write: total += value", "    pass"),
        ("writes twice: total += value", "total += value\n        total += value"),
        ("the other branch: if total < 0 and values:", "if not (total < 0 and values)"),
        ("drops the statement: total = start", "def mean(values, start=0):\n    for"),
        ("swaps the operands: total / len(values)", "return len(values) / total"),
    ],
)
def test_each_slip_is_made(edit, changed):
    """Operators, constants, comparisons, statements, writes, branches."""
    assert any(changed in mutant.source for mutant in mutants(MEAN, tensors=False) if mutant.edit == edit)


def test_slips_with_axes_and_returns_and_tensors_are_made():
    """Another axis, a return in the loop, `.detach()` added and dropped, `.data`, in place and out of place."""
    text = "def f(x):\n    for i in x:\n        y = x.clone()\n        y += i.detach()\n    return y.sum(axis=0)"
    edits = {mutant.edit.partition(":")[0] for mutant in mutants(text)}
    assert {"another axis", "returns in the loop's first turn", "drops .detach()", "drops .clone()"} <= edits
    assert {
        "writes through .data",
        "writes through .detach()",
        "detaches the value",
        "out of place for in place",
    } <= edits


def test_no_mutant_compiles_to_what_another_does():
    """An edit that Python does not see is no mutant; True and 1 are different constants."""
    assert [] == mutants("def f():\n    'text'\n    return x", tensors=False)
    texts = [mutant.source for mutant in mutants("a = 1\nb = True", tensors=False)]
    assert len(texts) == len(set(texts)) == 4


def named(mutated, text):
    """Returns the first mutant whose edit begins so."""
    return next(mutant.source for mutant in mutants(text) if mutant.edit.startswith(mutated))


BEHAVIOUR = [
    ("def f(x):\n    x += [1]\n    return x", "out of place", "f([1])", "differs in what it writes"),
    ("def f(n):\n    n += 1\n    return n", "out of place", "f(2)", ""),
    ("def f(x):\n    return x.detach() * 2", "drops .detach", "f(leaf)", "differs in its gradients"),
    ("def f(x):\n    return x.detach().clone() * 2", "drops .clone", "f(leaf)", ""),
    ("def f(x):\n    return x.clone().view(-1)", "drops .clone", "f(leaf.detach())", "the memory that it shares"),
    ("def f(n):\n    if n < 0:\n        raise ValueError\n    return n", "drops the branch", "f(2)", "in its error on other"),
    ("def f(n):\n    print(n + 0)", "another constant", "f(2)", "differs in what it prints"),
    ("class C:\n    def __init__(self):\n        self.n = 1", "another constant", "C()", "C.__init__ differs in what it writes"),
    ("n = [1, 2]", "another constant", "n", "n has another value"),
    ("def f(n):\n    return n + 0", "another constant", "1", "no test calls f"),
    ("from math import sqrt\ndef f(n):\n    return sqrt(n) + 1", "another constant", "f(4)", "f differs in its value"),
    ("def f(n):\n    return sorted(n)[: len(n) + 0]", "another constant", "f([3, 1])", ""),
]  # fmt: skip


@pytest.mark.parametrize(("text", "edit", "test", "expected"), BEHAVIOUR)
def test_a_mutant_that_does_the_same_is_told_from_one_that_does_not(text, edit, test, expected):
    """By values, writes, errors, printed text, gradients and shared memory, on the tests' inputs and on others."""
    names = {}
    exec("import torch\nleaf = torch.ones(2, requires_grad=True)", names)
    probe = Probe(names)
    probe.before("a")
    exec(text, names)
    probe.after("a")
    probe.record()
    exec(test, names)
    probe.stop()
    found = probe.difference("a", named(edit, text))
    assert expected in found
    assert bool(expected) == bool(found)


SILENT = """
def silent():
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    d = torch.tensor([3.0, 4.0])
    loss = (w * d).sum()
    torch.from_numpy(d.numpy()).mul_(2.0)
    loss.backward()
    return {"w": w.grad}
"""


def handed_out():
    """The program that a learner begins with."""


ASKING = "check_outcome('silent', 'silently-wrong', given=handed_out)"


def probed(test):
    """Returns what a probe saw of a program and its test."""
    names = {"torch": torch, "check_outcome": check_outcome, "handed_out": handed_out}
    probe = Probe(names)
    probe.before("a")
    exec(SILENT, names)
    probe.after("a")
    probe.record()
    with use_names(Names(silent=names["silent"])):
        exec(test, names)
    probe.stop()
    return probe


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        ("another constant: 4.0", ""),
        ("another operator: w * d", "silent has another outcome"),
        ("drops the write: torch.from_numpy", "silent has another outcome"),
        ("drops the write: loss.backward", "silent has another outcome"),
        ("another constant: True", "silent has another outcome"),
    ],
)
def test_of_a_program_that_is_asked_for_its_outcome_only_the_outcome_is_compared(edit, expected):
    """Other numbers that are silently wrong too are a right answer; a program that is correct, or raises, is none."""
    probe = probed(ASKING)
    assert expected == probe.difference("a", named(edit, SILENT))


def test_a_program_whose_value_a_test_asks_for_too_is_compared_by_value():
    """Beside a check of its outcome, a test calls the program itself."""
    probe = probed(f"{ASKING}\nsilent()")
    assert "silent differs in its value" in probe.difference("a", named("another constant: 4.0", SILENT))


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        ("pass", "correct"),
        ("d.data.mul_(2.0)", "silently-wrong"),
        ("d.mul_(2.0)", "raises-backward"),
        ("w.mul_(2.0)", "raises-forward"),
    ],
)
def test_each_outcome_is_told_by_plain_pytorch(line, outcome):
    """By whether, and where, the program raises, and by a run that saves copies."""
    names = {"torch": torch}
    exec(SILENT.replace("torch.from_numpy(d.numpy()).mul_(2.0)", line), names)
    assert outcome == plain_outcome(names["silent"])


def test_a_value_that_holds_itself_is_copied():
    """A list in itself, as a notebook's own history may be, ends no comparison."""
    names = {"loop": []}
    names["loop"].append(names["loop"])
    probe = Probe(names)
    probe.before("a")
    names["n"] = 1
    probe.after("a")
    assert "n has another value" == probe.difference("a", "n = 2")


def test_cheats_keep_names_and_signatures_and_no_solution():
    """Every cheat can be run, defines what the answer defines, and holds nothing of its body."""
    text = "import math\ndef f(x, y=2):\n    return secret(x)\nclass C:\n    def g(self): return secret\nn = secret"
    for cheat in cheats(VisibleValues([])):
        made = cheated(text, cheat)
        names = {}
        exec(made, names)
        assert {"math", "f", "C", "n"} <= set(names)
        assert "secret" not in made
        assert names["f"].__code__.co_varnames[:2] == ("x", "y")


def test_a_cheat_reads_the_constants_of_visible_tests():
    """What a test shows is looked up, so that a hidden test has to ask for something else."""
    visible = VisibleValues(
        ["assert f(2, 3) == 6\nassert f(0, 1) == 0\nnp.testing.assert_equal(n, 'word')\nassert m == n"]
    )
    cheat = cheats(visible)[-1]
    names = {}
    exec(cheated("def f(x, y):\n    return x * y\nn = compute()\nm = 1", cheat), names)
    assert (6, 0, 6, "word", None) == (names["f"](2, 3), names["f"](0, 1), names["f"](9, 9), names["n"], names["m"])


def played(*cells, sample=200, on_step=unseen):
    """Returns the played class of a source with these cells."""
    source = AssignmentSource("n", nbformat.v4.new_notebook(cells=list(cells)))
    terms = GradingTerms({"n": source}, LEVELS["bubblewrap"], LIMITS, 7)
    with ServerPool(terms.level, 1) as servers:
        with GraderProcesses(terms, 1, servers) as processes:
            rehearsal = rehearse(source, processes)
        return play_class(source, rehearsal, terms, 1, servers, sample, on_step)


@pytest.mark.slow
def test_weak_tests_are_named_and_strong_ones_are_not(bubblewrap):
    """`return x` passes a test with a fixed point, ValueError one that asks for no more; a good test is left alone."""
    hidden = "### BEGIN HIDDEN TESTS\n{}\n### END HIDDEN TESTS"
    found = played(
        answer("a", "def square(x):\n    if x < 0:\n        raise ValueError\n    return x * x"),
        graded_cell("fixed", hidden.format("assert square(1) == 1")),
        graded_cell(
            "raises", textwrap.dedent(hidden).format("try: square(-1)\nexcept ValueError: pass\nelse: assert False")
        ),
        graded_cell("good", hidden.format("assert [square(n) for n in range(5)] == [0, 1, 4, 9, 16]")),
    )
    assert {"`return x`", "`return 1`"} <= set(found.cheated["fixed"])
    assert "`return 0`" not in found.cheated["fixed"]
    assert ("`raise ValueError`",) == found.cheated["raises"]
    assert "good" not in found.cheated
    assert found.tried == found.possible == found.refused + found.alike + len(found.passing)


@pytest.mark.slow
def test_a_mutant_that_passes_is_named_with_what_it_does(bubblewrap):
    """A test with one input leaves edits alone that show on others; equal ones are not shown."""
    text = "def double(n):\n    n += n\n    return abs(n)"
    found = played(answer("a", text), graded_cell("t", "assert double(2) == 4"))
    assert (
        any("another operator" not in mutant.edit or mutant.difference for mutant in found.passing) or not found.passing
    )
    assert found.alike  # n = n + n for n += n
    assert all(mutant.difference.startswith("double differs") for mutant in found.passing)


@pytest.mark.slow
def test_each_played_hand_in_is_shown_by_what_it_changes(bubblewrap):
    """Somebody who waits reads which answer is changed and how; no two hand-ins of one play are named alike."""
    steps = []
    played(
        answer("double", "def double(x):\n    return x + x"),
        graded_cell("t", "assert double(2) == 4"),
        on_step=steps.append,
    )
    names = [step.hand_in for step in steps]
    mutated = [name for name in names if name.startswith("mutant")]
    assert "mutant 1, double: " == mutated[0][:18]
    assert any("another operator: x + x" in name for name in mutated)
    assert len(names) == len(set(names)) == steps[0].total


def test_a_teacher_reads_figures_first_and_cheats_before_mutants():
    """One sentence each; what is left out is counted."""
    many = tuple(PassingMutant("a", f"edit {index}", "f differs") for index in range(10))
    lines = list(sentences(ClassPlay(50, 40, 25, 5, many, 21, {"t": ("`return x`", "`return 0`")})))
    assert "40 of 50 tried, 25 refused, 5 do what the model answer does, 10 pass" in lines[0]
    assert "t: this test passes with `return x` and `return 0`; add an input for which that is wrong" == lines[2]
    assert "a: edit 0 passes all tests, though f differs" == lines[3]
    assert "and 2 more mutants pass" == lines[-1]
