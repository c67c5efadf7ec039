"""Programs with compiled functions: the outcome of the compiled run, the lines of the eager one, and no claim beyond the two."""

import shutil
from dataclasses import replace

import pytest
import torch

from autograder.tape import record
from tests.corpus.declared import assert_declared, assert_explained
from tests.corpus.programs import HERE, Program, programs

CORPUS = programs(HERE / "compiled")
NEEDS_COMPILER = pytest.mark.skipif(not shutil.which("g++"), reason="no C++ compiler here (g++), which inductor needs")
INDUCTOR = [pytest.mark.slow, NEEDS_COMPILER]


def each(some: list[Program]):
    """Return the parametrisation by program; those for inductor take seconds each."""
    marked = [pytest.param(one, id=one.name, marks=INDUCTOR if "inductor" in one.name else []) for one in some]
    return pytest.mark.parametrize("program", marked)


@pytest.fixture(autouse=True)
def nothing_compiled():
    """Each program is compiled afresh."""
    torch.compiler.reset()


def test_each_backend_has_a_program():
    """Each backend of PyTorch compiles a program, and about half of the programs are correct."""
    correct = sum(program.outcome == "correct" for program in CORPUS)
    assert 0.4 * len(CORPUS) <= correct <= 0.6 * len(CORPUS)
    for backend in ("eager", "aot_eager", "inductor"):
        assert any(backend in program.name or f'"{backend}"' in program.source for program in CORPUS)


@each(CORPUS)
def test_declared_outcome_is_what_pytorch_does(program):
    """Plain PyTorch compiles and runs it: it raises as declared, or gives the gradients of an eager run with private saves, or others."""
    assert_declared(program, lambda: torch.compiler.set_stance("force_eager"))


@each(CORPUS)
def test_outcome_and_line(program):
    """The outcome is the compiled program's; the harmful and the saving line are named, and no line of a right program."""
    assert_explained(program)


LOST = next(program for program in CORPUS if program.name == "backends/view_of_input_inductor[bug]")


@pytest.mark.slow
@NEEDS_COMPILER
def test_a_lost_check_is_named():
    """pytorch#197887: inductor goes on where eager raises; eager's words, their line and how far the gradient is off are reported."""
    verdict = record(LOST.source, file=LOST.file).verdict
    assert [[15.0, 15.0], [18.0, 18.0]] != verdict.gradients["w"].true == [[9.0, 9.0], [12.0, 12.0]]
    assert [[12.0, 12.0], [15.0, 15.0]] == verdict.gradients["w"].got
    notes = " ".join(verdict.notes)
    assert "Run eagerly, backward raises RuntimeError in line 17" in notes
    assert "Compilation lost eager's version check" in notes
    assert "line 15 (`x.add_(1)`)" in notes


def test_a_compiler_that_gives_other_gradients_is_told():
    """A backend of the program's own that computes something else: no write is blamed, and it is not called right."""
    source = """
import torch

def backend(graph, _inputs):
    return lambda *args: tuple(2 * one for one in graph.forward(*args))

w = torch.tensor([1.0, 2.0], requires_grad=True)
torch.compile(lambda w: (w * w).sum(), backend=backend)(w).backward()
"""
    verdict = record(source).verdict
    assert "silently-wrong" == verdict.outcome
    assert ([4.0, 8.0], [2.0, 4.0]) == (verdict.gradients["w"].got, verdict.gradients["w"].true)
    assert not verdict.harms
    assert any("no in-place modification explains the difference" in note for note in verdict.notes)


def test_rounding_of_a_zero_is_no_difference():
    """A bias before a batch norm has only a rounding error as its gradient, which differs in compiled code."""
    source = """
import torch

def backend(graph, _inputs):
    return lambda w, b: (graph.forward(w, b)[0] + 1e-9 * b.sum(),)

w, b = torch.tensor([1.0, 2.0], requires_grad=True), torch.ones(2, requires_grad=True)
torch.compile(lambda w, b: (w * w).sum() + (0 * b).sum(), backend=backend)(w, b).backward()
"""
    verdict = record(source).verdict
    assert [1e-9, 1e-9] == pytest.approx(verdict.gradients["b"].got)
    assert "correct" == verdict.outcome


def test_where_compiling_takes_too_long_the_eager_program_is_explained():
    """The line is named nevertheless, and a note says that the outcome is that of the eager program."""
    source = """
import time, torch

def backend(graph, _inputs):
    time.sleep(60)

@torch.compile(backend=backend)
def forward(w):
    return torch.exp(w)

w = torch.ones(2, requires_grad=True)
h = forward(w)
h.mul_(2)
h.sum().backward()
"""
    verdict = record(source, seconds=2).verdict
    assert "raises-backward" == verdict.outcome
    assert {"h.mul_(2)"} == {place.text for harm in verdict.harms for place in harm.mutated_at}
    assert any("Compiling took too long" in note for note in verdict.notes)


def test_a_right_program_keeps_its_outcome_where_eager_would_raise():
    """A backend with out-of-place writes: the compiled program is correct; the note explains the eager error."""
    source = """
import torch

def backend(graph, _inputs):
    def run(w):
        return ((w * 2).exp() * 2,)
    return run

def forward(w):
    h = torch.exp(w * 2)
    h.mul_(2)
    return h

w = torch.tensor([0.1, 0.2], requires_grad=True)
torch.compile(forward, backend=backend)(w).sum().backward()
"""
    verdict = record(source, file="own.py").verdict
    assert "correct" == verdict.outcome, verdict
    assert not verdict.harms
    notes = " ".join(verdict.notes)
    assert "Run eagerly, backward raises RuntimeError in line 15" in notes
    assert "was not needed" in notes
    assert "line 11 (`h.mul_(2)`)" in notes


def test_more_runs_than_the_compiler_would_compile():
    """The compiler gives up after eight versions of one function; an explanation's runs do not count against the program."""
    program = next(one for one in CORPUS if one.name == "backends/result_data_aot[bug]")
    outcomes = {record(program.source, file=program.file).verdict.outcome for _ in range(12)}
    assert {"silently-wrong"} == outcomes


def test_the_stance_is_put_back():
    """After an explanation, the process compiles as before."""
    record(replace(LOST, source=LOST.source.replace("inductor", "eager")).source)
    graphs = []
    torch.compile(lambda w: w * 2, backend=lambda graph, _: graphs.append(graph) or graph.forward)(torch.ones(2))
    assert 1 == len(graphs)
