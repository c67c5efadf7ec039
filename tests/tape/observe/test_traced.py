"""Programs that trace themselves: the calls of the tape must not become a part of their graph."""

import pytest

from autograder.tape import record

HEAD = """
import torch
from torch.fx.experimental.proxy_tensor import make_fx

def loss_of(w, x):
    return torch.tanh(x @ w).pow(2).sum()

def step(w, x):
    loss = torch.sin(x @ w).pow(2).sum()
    return loss, torch.autograd.grad(loss, w)[0]

w, x = torch.randn(3, requires_grad=True), torch.randn(4, 3)
"""
RIGHT = {
    "a loss": "make_fx(loss_of)(w, x)(w, x).backward()",
    "a step with its gradient": "loss, slope = make_fx(step)(w, x)(w, x)\n(w.exp().sum() * loss.detach()).backward()",
    "a forward-mode trace": "graph = torch.fx.symbolic_trace(loss_of)\ngraph(w, x).backward()",
}


@pytest.mark.parametrize("body", RIGHT.values(), ids=RIGHT)
def test_a_traced_graph_runs_as_it_does_alone(body):
    """No note says that two runs differ, and the observer is not stopped."""
    verdict = record(HEAD + body).verdict
    assert ("correct", ()) == (verdict.outcome, verdict.notes)


def test_a_write_after_a_traced_graph_has_run_is_named():
    """The graph saved its input, which the next line overwrites."""
    verdict = record(
        HEAD + "h = w.exp()\nloss = make_fx(loss_of)(h, x)(h, x) + h.pow(2).sum()\nh.mul_(2)\nloss.backward()"
    ).verdict
    assert "raises-backward" == verdict.outcome
    assert {"h.mul_(2)"} == {place.text for harm in verdict.harms for place in harm.mutated_at}
