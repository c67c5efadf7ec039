"""Names of gradients are expressions of the program; thousands of targets are paired quickly."""

from types import SimpleNamespace
from unittest import mock

import pytest
import torch

from autograder.tape import explain_json, record, record_file
from autograder.tape.diagnose import shown_gradients
from autograder.tape.oracle import gradient_comparison
from autograder.tape.oracle.gradient_comparison import Gradients, aligned
from autograder.view.text.harm_sentences import keeper

NET = """from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Embedding(5, 4), nn.Linear(4, 5)
    def forward(self, x):
        return self.decoder(self.encoder(x))
"""
TRAIN = """import torch
import net
def train():
    for step in range(3):
        model.zero_grad()
        model(torch.arange(5)).pow(2).mean().backward()
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-0.1)
torch.manual_seed(0)
kept = {}
model = kept["model"] = net.Net()
train()
"""
PARAMETERS = ["encoder.weight", "decoder.weight", "decoder.bias"]


def test_parameters_of_an_imported_model_have_its_names(tmp_path):
    """A model of another file, which an older dictionary holds, too, has the names of `named_parameters()` of its variable."""
    (tmp_path / "net.py").write_text(NET)
    path = tmp_path / "main.py"
    path.write_text(TRAIN)
    assert [f"model.{name}" for name in PARAMETERS] == list(record_file(path).verdict.gradients)


ROUNDS = """import collections, torch; from torch import nn
torch.manual_seed(0); variables = vars()
class Trainer:
    def __init__(self): self.model = nn.Linear(3, 1)
class Agent:
    def __init__(self): self.critics = [nn.Linear(3, 1), nn.Linear(3, 1)]
class Group:
    shared = nn.Linear(3, 1)
    def __init__(self): self.agents = [Agent()]
trainer, group = Trainer(), Group()
nets = [nn.Linear(3, 1), nn.Linear(3, 1)]
pair = collections.namedtuple("Pair", "first")(nn.Linear(3, 1))
line = collections.deque([nn.Linear(3, 1)])
for step in range({steps}):
    for net in [trainer.model, *nets, group.agents[0].critics[1], Group.shared, *pair, *line]:
        latent = torch.randn(5, 3, requires_grad=True)
        loss = net(latent).pow(2).mean()
        net.zero_grad()
        loss.backward()
"""


@pytest.mark.parametrize("steps", [2, 200])
def test_leaves_that_rounds_make_anew_are_one_row(steps):
    """Parameters in objects, classes and containers are rows, and `latent` is one, with the gradient of its last round."""
    recording = record(ROUNDS.format(steps=steps))
    found = explain_json(recording, "rounds.py")["gradients"]
    names: dict = {}
    exec(ROUNDS.format(steps=steps), names)
    for name, gradient in found.items():
        assert torch.allclose(torch.tensor(gradient["got"]), eval(name, names).grad), name
    nets = [
        "trainer.model",
        "nets[0]",
        "nets[1]",
        "group.agents[0].critics[1]",
        "Group.shared",
        "pair.first",
        "line[0]",
    ]
    assert {"latent", *(f"{net}.{part}" for net in nets for part in ("weight", "bias"))} == set(found)
    assert [7 * steps] == [gradient["rounds"] for gradient in found.values() if "rounds" in gradient]


@pytest.mark.parametrize(("body", "rows"), [
    ("for n in (2, 3):\n    w = torch.ones(n, requires_grad=True)\n    w.sum().backward()", 2),
    ("for n in (2, 3):\n    w = torch.ones(n, 4, requires_grad=True)\n    w.sum().backward()", 1),
    ("for n in (2, 2):\n    w = torch.ones(n, requires_grad=True)\n    w.sum().backward()", 1),
    ("def f():\n    w = torch.ones(2, requires_grad=True)\n    return w.exp()\n(f() + f()).sum().backward()", 2),
    ("for n in (2, 3):\n    net = torch.nn.Linear(1, n)\n    net(torch.ones(1)).sum().backward()", 2),
    (
        "for n in (2, 2):\n net = torch.nn.Linear(1, n)\n ps = [*net.parameters()]\n net(torch.ones(1)).sum().backward()",
        2,
    ),
], ids=["other shapes", "a smaller batch", "equal shapes", "in one call", "models of one name", "listed parameters"])  # fmt: skip
def test_leaves_of_one_name_share_a_row_only_as_rounds(body, rows):
    """Leaves that one backward call reaches, and leaves of other shapes, have separate rows; models of one name share them."""
    assert rows == len(record(f"import torch\n{body}\n").verdict.gradients)


PENALTY = """import torch
w = torch.tensor([1.0, 2.0], requires_grad=True)
def penalty(x):
    scale = torch.tensor(1.0, requires_grad=True)
    return (x * scale).pow(2).sum()
for step in range(4):
    w.grad = None; (penalty(w) + penalty(w * 3)).backward()
"""


def test_leaves_of_several_calls_of_a_function_are_as_many_rows_as_one_round_has():
    """Two leaves in each backward call are two rows; a scale's derivative is twice the sum of the squares, 1 + 4 or 9 + 36."""
    found = explain_json(record(PENALTY), "penalty.py")["gradients"]
    assert {"w", "scale", "scale (2)"} == set(found)
    assert [(10, 4), (90, 4)] == sorted((found[name]["got"], found[name]["rounds"]) for name in ("scale", "scale (2)"))


def test_leaves_of_calls_that_only_the_plain_run_made_have_the_names_of_earlier_ones():
    """A leaf of another shape keeps a number; a known name stays."""
    calls = [{0: None, 1: None}, {0: None, 2: None}, {3: None, 1: None}]
    got = SimpleNamespace(calls=calls, keys=[((3,),), ((2,),), ((2,),), ((5,),)])
    names = ["w", "latent", None, None]
    shown_gradients._name_as_before(SimpleNamespace(got=got), names)
    assert ["w", "latent", "latent", None] == names


HARMED = """import torch; from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__(); self.first, self.second = nn.Linear(2, 2), nn.Linear(2, 1)
        for layer in (self.first, self.second): nn.init.orthogonal_(layer.weight)
    def forward(self, x): return self.second(torch.relu(self.first(x)))
class Trainer:
    def __init__(self):
        self.net = Net()
        self.x = torch.ones(3, 2, dtype=torch.float64, requires_grad=True).float()
    def train(self):
        loss = self.net(self.x).pow(2).sum() + self.net.second.weight.pow(2).sum()
        self.net.second.weight.data.mul_(0.5)
        loss.backward()
        for p in self.net.parameters(): p.data.add_(p.grad, alpha=-0.1)
torch.manual_seed(0)
trainer = Trainer()
for _ in range(2): trainer.train()
"""


def test_harmed_parameter_has_the_name_of_its_gradient():
    """The name is that of `named_parameters()`, and a line that reads the weight is not in the layer."""
    recording = record(HARMED)
    names = [f"trainer.net.{name}" for name in ("first.weight", "first.bias", "second.weight", "second.bias")]

    assert {*names, "leaf of trainer.x"} == set(recording.verdict.gradients)
    harm = recording.verdict.harms[0]
    assert ("trainer.net.second.weight", "self.net.second.weight.data") == (harm.tensor, harm.through)
    keepers = {keeper(harm, recording) for harm in recording.verdict.harms}
    assert {"AddmmBackward0 of trainer.net.second", "PowBackward0 in Trainer.train"} == keepers


LISTED = """import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__(); self.layers = [torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)]
        self.scale = torch.nn.Parameter(torch.ones(1), requires_grad=False)
    def step(self, x):
        for layer in self.layers:
            loss = (layer(x) * self.scale).sum()
            self.scale.data = self.scale.data * 2; loss.backward()
net = Net()
for x in torch.ones(2, 1, 2): net.step(x)
"""


def test_modules_in_a_list_of_a_module_have_its_path():
    """Unregistered layers are named by the list, not by a loop's variable; a buffer keeps its name after `.data =`."""
    names = {f"net.layers[{place}].{name}" for place in (0, 1) for name in ("weight", "bias")}
    verdict = record(LISTED).verdict
    assert (names, {"net.scale"}) == (set(verdict.gradients), {harm.tensor for harm in verdict.harms})


def test_a_result_has_the_name_of_the_lines_that_save_and_modify_it():
    """The main program names the same tensor later."""
    text = (
        "import torch\nw = torch.ones(2, requires_grad=True)\ndef f():\n    a = w.exp()\n    a.mul_(2)\n    return a\n"
        "out = f()\nout.sum().backward()\n"
    )
    assert ["a"] == [harm.tensor for harm in record(text).verdict.harms]


UNREGISTERED = """import torch
class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__(); self.weights = torch.autograd.Variable(torch.ones(2), requires_grad=True)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__(); self.hidden = Layer()
    def leaves(self): return [p for p in [self.hidden.weights]]
def train(net):
    optimizer = torch.optim.SGD(net.leaves(), lr=0.1)
    net.hidden.weights.sum().backward(); optimizer.step()
models = [Net(), Net()]
for one in models: train(one)
"""


def test_leaves_that_modules_do_not_register_have_their_path():
    """Plain attributes of inner modules, as in code from before parameters, are named by the outermost module."""
    assert {"models[0].hidden.weights", "models[1].hidden.weights"} == set(record(UNREGISTERED).verdict.gradients)
    text = "import torch\nclass Net(torch.jit.ScriptModule):\n    def __init__(self):\n        super().__init__()\n"
    text += (
        "        self.fc = torch.nn.Linear(1, 1)\nnet = Net()\nheld = [*net.parameters()]\nsum(held).sum().backward()\n"
    )
    assert {"net.fc.weight", "net.fc.bias"} == set(record(text).verdict.gradients)


BOUND_ANEW = """import torch
layers = [torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)]
layers = [torch.nn.ReLU(), *layers]
model = torch.nn.Sequential(*layers); optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9)
model(torch.ones(1, 1)).backward()
loss = model(torch.ones(1, 1))
optimizer.step(); loss.backward()
"""
COMPUTED_AGAIN = """import torch
class Again(torch.autograd.Function):
    def forward(ctx, x, block): ctx.x, ctx.block = x.detach(), block; return block(x)
    @torch.enable_grad()
    def backward(ctx, slope): ctx.block(ctx.x).backward(slope); return slope, None
model = torch.nn.Linear(1, 1)
model = torch.nn.Sequential(model)
Again.apply(torch.ones(1, 1, requires_grad=True), model).sum().backward()
"""


def test_names_are_those_of_the_end():
    """The first list is gone: `layers[1]` is another layer now. No graph of the program reaches a block that is computed again."""
    recording = record(BOUND_ANEW)
    harm = recording.verdict.harms[0]
    assert ("model.2.weight", None) == (harm.tensor, harm.through)
    assert "AddmmBackward0 of model.2" == keeper(harm, recording)
    assert {"model.0.weight", "model.0.bias"} <= set(record(COMPUTED_AGAIN).verdict.gradients)


def run_of(calls: int, *, turned: bool = False) -> Gradients:
    """Return the results of a run with this number of calls with two targets each; `turned` swaps each pair."""
    generator, made = torch.Generator().manual_seed(1), Gradients()
    for number in range(calls):
        values = torch.randn(2, 3, generator=generator)
        pair = {2 * number: values[int(turned)], 2 * number + 1: values[1 - int(turned)]}
        made.calls.append(pair)
        made.targets += list(pair)
        made.keys += [((3,), torch.float32, False, number)] * 2
        made.final += [None, None]
    return made


def test_targets_of_equal_values_are_paired_by_their_gradients():
    """Swapped pairs are found, and then the results are equal."""
    left, right = run_of(50), run_of(50, turned=True)
    assert {index: index ^ 1 for index in range(100)} == aligned(left, right)
    assert left.first_difference(right, 1e-6) is None
    right.calls[7][15] = torch.zeros(3)
    assert 7 == left.first_difference(right, 1e-6)


def test_the_number_of_comparisons_grows_with_the_program():
    """Four times as many calls take four times as many comparisons, not sixteen times."""
    counts = []
    for calls in (100, 400):
        with mock.patch.object(gradient_comparison, "gap", wraps=gradient_comparison.gap) as gap:
            aligned(run_of(calls), run_of(calls))
        counts.append(gap.call_count)
    assert counts[1] <= 4.5 * counts[0]


SHARED = """import torch; from torch import nn
class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, *weights):
        ctx.save_for_backward(x, *weights)
        return x * weights[0] * weights[1]
    @staticmethod
    def backward(ctx, grad):
        x, one, other = ctx.saved_tensors
        return grad * one * other, grad * x * other, grad * x * one
class Net(nn.Module):
    def __init__(self):
        super().__init__(); self.inner = nn.ModuleList([nn.PReLU(), nn.PReLU()])
    def forward(self, x): return Product.apply(x, *self.inner.parameters())
net, x = Net(), torch.ones(1, requires_grad=True).exp()
loss = net(x)
x.data.zero_(); loss.backward()
"""


def test_function_with_parameters_of_several_layers_belongs_to_their_module():
    """`net.inner` holds both layers whose weights the Function gets; neither layer alone is named."""
    recording = record(SHARED)
    assert "ProductBackward of net.inner" == keeper(recording.verdict.harms[0], recording)


REPLACED = """import torch
class Patched(torch.nn.Linear):
    def named_parameters(self, *given, **named): yield "weight", property()
net = Patched(2, 1)
h = net(torch.ones(1, 2)).exp()
h.data.zero_(); h.sum().backward()
"""


def test_parameters_that_are_not_tensors_have_no_name():
    """Modules of the library `higher` (0.2) list other objects; the line that modifies `h` is found as without them."""
    verdict = record(REPLACED).verdict
    assert ("silently-wrong", [6]) == (verdict.outcome, [place.line for place in verdict.harms[0].mutated_at])
    assert not any("stopped" in note for note in verdict.notes)
