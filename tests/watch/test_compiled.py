"""Compiled code is neither recompiled nor broken by a watch, and the code around it is observed."""

import subprocess
import sys

import pytest
import torch

import autograder
from tests.square import Square


def step(x, w):
    """Operations, one in place, and a custom Function."""
    h = torch.nn.functional.relu((torch.exp(x * w) + 1).add_(1), inplace=True)
    return Square.apply(h).sum()


@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("check", ["versions", "bytes"])
def test_compiled_code_is_compiled_once(fullgraph, check):
    """Before, under and after a watch the same graphs run; a function compiled under one is whole, and gives the same gradient."""
    torch._dynamo.reset()
    graphs = []

    def backend(graph, _inputs):
        graphs.append(graph)
        return graph.forward

    x, w = torch.ones(3), torch.ones(3, requires_grad=True)
    compiled = torch.compile(step, backend=backend, fullgraph=fullgraph)
    compiled(x, w).backward()
    before, gradient = len(graphs), w.grad.clone()
    with autograder.watch(check):
        w.grad = None
        compiled(x, w).backward()
        assert torch.equal(gradient, w.grad)
        (compiled(x, w) * 2).backward()
    compiled(x, w).backward()
    assert before == len(graphs)

    torch._dynamo.reset()
    with autograder.watch(check):
        torch.compile(step, backend=backend, fullgraph=fullgraph)(x, w).backward()
    assert 2 * before == len(graphs)
    assert str(graphs[0].graph) == str(graphs[before].graph)


def test_a_write_beside_compiled_code_is_named():
    """The result of a compiled function is written by a line that is not compiled."""
    compiled = torch.compile(lambda x, w: torch.exp(x * w), backend="aot_eager")
    w = torch.ones(3, requires_grad=True)
    with autograder.watch() as watching:
        h = compiled(torch.ones(3), w)
        h.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace"):
            h.sum().backward()
    assert "h.mul_(2)" == watching.harms[0].mutated_at[0].text


def test_the_compiler_may_be_loaded_under_the_watch():
    """The first `torch.compile` of a process is inside the context."""
    code = """
import sys, torch, autograder
with autograder.watch():
    early = "torch._dynamo" in sys.modules
    f = torch.compile(lambda w: w.exp().sum(), backend="eager", fullgraph=True)
    f(torch.ones(2, requires_grad=True)).backward()
print(early, len(torch.overrides._get_current_function_mode_stack()), torch.compile.__module__)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "0 torch\n" in done.stdout, done.stderr[-2000:]
