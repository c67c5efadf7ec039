"""The right gradient, found in ways that are independent of the examined graph; each is compared with a formula."""

import math

import pytest
import torch

from autograder.tape import record
from autograder.tape.oracle.cloned_saves import ClonedSavesRun
from autograder.tape.oracle.finite_differences import FiniteDifferences, wrong_operations
from autograder.tape.oracle.gradient_comparison import finite_differences, gap, gradients_of, nested, nested_pair
from autograder.tape.oracle.nominal_replay import NotApplicable
from autograder.tape.oracle.untracked_writes import check_custom_functions
from autograder.tape.run.budget import Budget
from autograder.tape.run.programs.program import from_source
from autograder.tape.run.runner import Runner

HEAD = "import torch\nw = torch.tensor([1.0, 2.0], requires_grad=True)\n"


def program(body: str):
    """Return a program whose leaf is w = [1, 2]."""
    return from_source(HEAD + body, "text.py")


def test_slopes_are_those_of_the_formula():
    """x³·y has the slopes 3x²·y and x³; what is handed in is not written."""
    point = {"x": torch.tensor([1.0, -2.0]), "y": torch.tensor([3.0, 0.5])}
    slopes = finite_differences(lambda x, y: (x**3 * y).sum(), point)
    torch.testing.assert_close(slopes["x"], torch.tensor([9.0, 6.0], dtype=torch.float64))
    torch.testing.assert_close(slopes["y"], torch.tensor([1.0, -8.0], dtype=torch.float64))
    assert [1.0, -2.0] == point["x"].tolist()


def test_a_run_with_cloned_saves_has_the_gradients_that_no_write_could_reach():
    """The plain run gives 0, the run with copies exp(1) and exp(2)."""
    one = program("h = w.exp()\nh.data.zero_()\nh.sum().backward()\n")
    cloned = ClonedSavesRun()
    plain = gradients_of(Runner(one).run())
    right = gradients_of(Runner(one).run(cloned))
    assert [[0.0, 0.0]] == [gradient.tolist() for gradient in plain.final]
    torch.testing.assert_close(right.final[0], torch.tensor([1.0, 2.0]).exp())


def test_copies_of_a_strided_input_round_as_the_input_does():
    """The bias before batch norm has a gradient of rounding errors, and it equals that of plain PyTorch."""
    text = HEAD + (
        "torch.manual_seed(0)\nlayer, norm = torch.nn.Linear(3, 6), torch.nn.BatchNorm2d(3)\n"
        "first, _ = layer(torch.randn(16, 8, 8, 3)).permute(0, 3, 1, 2).chunk(2, dim=1)\nnorm(first).exp().sum().backward()\n"
    )
    exec(text, plain := {})
    verdict = record(text).verdict
    assert "correct" == verdict.outcome
    assert pytest.approx(plain["layer"].bias.grad.tolist()) == verdict.gradients["layer.bias"].true


def test_a_traced_module_saves_its_own_tensors():
    """`torch.jit.trace` compares the graphs of two calls, and a copy would be an operation of them."""
    layers = "layers = torch.nn.Sequential(torch.nn.Tanh(), torch.nn.Conv2d(1, 1, 1))\n"
    text = f"{HEAD}{layers}torch.jit.trace(layers, x := w.detach().view(1, 1, 1, 2))\nlayers(x).sum().backward()\n"
    assert "correct" == record(text).verdict.outcome


@pytest.mark.parametrize(
    ("got", "true", "expected"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0), ([1.0, 2.0], [1.0, 1.0], 0.5), (None, [0.0, 0.0], 0.0), (None, [1.0], math.inf),
        ([1.0], [1.0, 1.0], math.inf), ([math.nan], [math.nan], 0.0), ([math.nan], [1.0], math.inf),
    ],
)  # fmt: skip
def test_the_gap_of_two_gradients_is_relative(got, true, expected):
    """To the larger of the two; no gradient is as good as zeros, and other shapes or a lone nan are infinitely far."""
    assert expected == gap(got, true)


@pytest.mark.parametrize(
    ("got", "true"),
    [
        (torch.tensor([1.0, math.nan]), torch.tensor([1.0, math.nan])), (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0])),
        (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.5])), (torch.tensor([1.0, 2.0]), torch.tensor([[1.0, 2.0]])),
        (torch.zeros(2), None), (None, torch.zeros(2)), (torch.eye(2).to_sparse(), torch.eye(2)),
        (torch.zeros(5000), torch.zeros(5000)),
    ],
)  # fmt: skip
def test_listing_two_gradients_together_changes_no_number(got, true):
    """The common list contains the rows that would be listed for each gradient."""
    assert str((nested(got), nested(true))) == str(nested_pair(got, true))


def differences(body: str):
    """Return the finite differences of a program whose leaf is w = [1, 2]."""
    return FiniteDifferences(Runner(program(body), 10.0), frozenset())


def test_differences_of_a_program_find_a_write_that_the_graph_does_not_know():
    """h = 3·w under no_grad: the graph says 1, the loss rises by 3; without the write the two agree."""
    wrong = differences("h = w * 1\nwith torch.no_grad(): h.mul_(3)\nh.sum().backward()\n")
    assert {(0, 0)} == wrong.disagreements()
    torch.testing.assert_close(wrong.true(0)[0], torch.tensor([3.0, 3.0], dtype=torch.float64))
    dropout = "h = torch.nn.functional.dropout(torch.nn.Linear(2, 9)(w))"  # weights draw other numbers in float64
    single = "h = torch.Tensor([[1, 2]]) @ w + torch.nn.Parameter(torch.Tensor([[3, 4]])) @ w"
    dlpack = "import numpy\nh = torch.from_dlpack(numpy.ones((1, 2), 'float32')) @ w"
    for right in "h = w * 1", dropout, single, dlpack:
        assert set() == differences(f"{right}\nh.sum().backward()\n").disagreements()


def test_a_large_gradient_does_not_hide_a_wrong_one():
    """All leaves move together; v's slope of 100000 is not to cover that of w, which is 3 and not 1."""
    wrong = differences(
        "v = torch.ones(2, requires_grad=True)\nh = w * 1\nwith torch.no_grad(): h.mul_(3)\n(h + 1e5 * v).sum().backward()\n"
    )
    assert wrong.disagreements_together()


def test_differences_are_taken_of_the_calls_for_which_there_is_time():
    """No time is left after the first of three calls."""
    part = FiniteDifferences(Runner(program("for _ in range(3): w.exp().sum().backward()\n"), 10.0), frozenset(), 0.0)
    assert set() == part.disagreements_together()
    assert (True, 1) == (part.nominal.is_part, len(part.nominal.losses))


@pytest.mark.parametrize(("body", "reason"), [
    ("(w * (torch.Generator().seed() % 1000)).sum().backward()\n", "^its losses differ"),
    ("h = w.exp()\nassert h.dtype.itemsize == 4\nh.sum().backward()\n", "^it raised AssertionError"),
])  # fmt: skip
def test_differences_do_not_speak_where_a_program_cannot_be_repeated(body, reason):
    """A loss of the system's random numbers has no derivative; a program can require float32."""
    with pytest.raises(NotApplicable, match=reason):
        differences(body)


def test_an_operation_is_right_where_finite_differences_leave_its_domain():
    """log(x - 1e-6) of x = 1e-9 is NaN, which says nothing about the derivative 1/x."""
    assert [] == wrong_operations(Runner(program("(w * 1e-9).repeat(20).log().sum().backward()\n"), 10.0))


CUSTOM = """
class Triple(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 3 * x
    @staticmethod
    def backward(ctx, grad):
        return {factor} * grad
Triple.apply(w).sum().backward()
"""


@pytest.mark.parametrize(("factor", "expected"), [(3, "derivative"), (1, "wrong")])
def test_a_custom_backward_is_held_against_its_forward(factor, expected):
    """A backward that passes gradients straight through is a choice of the program, and not a derivative."""
    (checked,) = check_custom_functions(Runner(program(CUSTOM.format(factor=factor)), 10.0))
    assert ("Triple", expected) == (checked.name, checked.found.answer)


def test_the_check_of_a_slow_function_leaves_time_for_the_answer():
    """The command would be killed at its time limit, and print no answer."""
    body = CUSTOM.format(factor=3).replace("3 * x", "(time.sleep(0.2 * (x.dtype == torch.float64)), 3 * x)[1]")
    with (budget := Budget(3.0)).active():
        check_custom_functions(Runner(program("import time\n" + body + "\nTriple.apply(w).sum().backward()" * 7)))
    assert budget.left > 1


RECOMPUTES = """
class Recompute(torch.autograd.Function):
    @staticmethod
    def forward(ctx, layer, x, *params):
        ctx.layer, ctx.x, ctx.params = layer, x, list(params)
        with torch.no_grad():
            return layer(x)
    @staticmethod
    def backward(ctx, grad):
        x = ctx.x.detach().requires_grad_(True)
        with torch.enable_grad():
            out = ctx.layer(x)
        found = torch.autograd.grad(out, (x, *ctx.params), grad{option})
        del ctx.x, ctx.params
        return (None, *found)
torch.manual_seed(0)
layer = torch.nn.Linear(2, 2)
h = w.sin()
loss = Recompute.apply(layer, h, *layer.parameters()).pow(2).sum()
{write}
loss.backward()
"""


@pytest.mark.parametrize("option", ["", ", allow_unused=True"])
@pytest.mark.parametrize(
    ("write", "outcome"), [("", "correct"), ("h.data.mul_(2)", "silently-wrong")], ids=["right", "with a write"]
)
def test_a_backward_that_recomputes_has_a_reference_with_the_same_leaves(option, write, outcome):
    """A custom checkpoint asks for gradients of the layer's own parameters; the right ones are those of the layer without it.

    As the widely copied one does, it deletes what it kept, so it can run only once.
    """
    verdict, plain = record(HEAD + RECOMPUTES.format(option=option, write=write)).verdict, {}
    exec(HEAD + "torch.manual_seed(0)\nlayer = torch.nn.Linear(2, 2)\nlayer(w.sin()).pow(2).sum().backward()", plain)
    found = verdict.gradients["layer.weight"]
    assert outcome == verdict.outcome
    torch.testing.assert_close(torch.tensor(found.true if write else found.got), plain["layer"].weight.grad)


def test_a_backward_that_recomputes_may_give_zeros():
    """As that of a block below a layer of zeros does at first; the program reads them."""
    text = HEAD + RECOMPUTES.format(option=", allow_unused=True", write="loss = 0 * loss")
    assert "correct" == record(text + "print(layer.weight.grad ** 2)\n").verdict.outcome


STACK = """
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, stack):
        ctx.stack = stack
        return x * x
    @staticmethod
    def backward(ctx, grad):
        ctx.stack.append(ctx.stack.pop().sqrt())
        return 2 * grad * ctx.stack[-1], None
y = Square.apply(Square.apply(w, stack := [w.detach()]), stack)
stack.append(y.detach())
y.sum().backward()
"""


def test_functions_can_share_a_stack_of_outputs():
    """Reversible networks keep one stack on the ctx of all blocks. The gradient of w⁴ is 4w³."""
    verdict = record(HEAD + STACK).verdict
    assert ("correct", ()) == (verdict.outcome, verdict.notes)
    assert pytest.approx([4, 32]) == verdict.gradients["w"].got


@pytest.mark.parametrize(
    ("keep", "kept", "outcome"),
    [
        ("ctx.out = x.exp()", "ctx.out", "silently-wrong"),
        ("ctx.save_for_backward(x.exp())", "ctx.saved_tensors[0]", "raises-backward"),
    ],
)
def test_a_backward_that_overwrites_its_values_is_right_only_once(keep, kept, outcome):
    """Its second call, through a kept graph, reads what the first one wrote. Two right calls add up to 2·exp(w)."""
    body = f"class E(torch.autograd.Function):\n @staticmethod\n def forward(ctx, x):\n  {keep}\n  return x.exp()\n"
    body += f" @staticmethod\n def backward(ctx, grad):\n  return grad * {kept}.mul_(2) / 2\n"
    verdict = record(f"{HEAD}{body}y = E.apply(w).sum()\ny.backward(retain_graph=True)\ny.backward()\n").verdict
    assert (outcome, 10) == (verdict.outcome, verdict.harms[0].mutated_at[0].line)
    assert pytest.approx([2 * math.exp(1), 2 * math.exp(2)]) == verdict.gradients["w"].true
