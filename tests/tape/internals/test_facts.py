"""Facts about PyTorch on which the tape relies, for the installed release; a failing row names the affected code."""

import ctypes

import pytest
import torch
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from autograder.tape.internals.tensor_fields import VERSIONS, is_read, padding_row, readable_saved_tensors, saved_state
from autograder.tape.observe.links import hidden_in, kept_by, saved_version
from autograder.tape.run.graph_walk import nodes_below
from tests.tape.heard import Heard


class Dispatched(TorchDispatchMode):
    """Passes every operation on."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def stepped(b: torch.Tensor, **options) -> None:
    """One step of an optimizer on b."""
    b.requires_grad_().grad = torch.ones_like(b)
    torch.optim.SGD([b], lr=0.5, **options).step()


WRITES = {
    "add_": (lambda b: b.add_(1), {"add_"}, 1),
    "+=": (lambda b: b.__iadd__(1), {"__iadd__", "add_"}, 1),
    "b[0] = 5": (lambda b: b.__setitem__(0, 5.0), {"__setitem__"}, 1),
    "b[mask] = 0": (lambda b: b.__setitem__(b > 1, 0), {"__setitem__"}, 1),
    "b.data.mul_": (lambda b: b.data.mul_(2), {"data"}, 0),
    "b.detach().mul_": (lambda b: b.detach().mul_(2), {"detach"}, 1),
    "b.data = t": (lambda b: setattr(b, "data", torch.zeros(2)), {"data ="}, 0),
    "numpy": (lambda b: b.detach().numpy().fill(0), {"numpy"}, 0),
    "out=": (lambda b: torch.add(torch.ones(2), 1, out=b), {"add"}, 1),
    "_foreach_": (lambda b: torch._foreach_add_([b], 1), {"_foreach_add_"}, 1),
    "optimizer, foreach": (lambda b: stepped(b, foreach=True), {"_foreach_add_"}, 1),
    "optimizer, for loop": (lambda b: stepped(b, foreach=False), {"add_"}, 1),
    "optimizer, fused": (lambda b: stepped(b, fused=True), {"_fused_sgd_"}, 0),
    "t_": (lambda b: b.t_(), {"t_"}, 1),
    "resize_": (lambda b: b.resize_(3), {"resize_"}, 1),
    "a pointer": (lambda b: ctypes.memset(b.data_ptr(), 0, 8), {"data_ptr"}, 0),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_function_mode_hears_it_and_the_counter_says(name):
    """For each way to write, a function mode receives at least the named function, and the counter changes, or not."""
    write, functions, moves = WRITES[name]
    b = torch.tensor([1.0, 2.0])

    with Heard() as heard:
        write(b)

    assert functions & set(heard.names), heard.names
    assert moves == b._version


def test_set_is_not_heard():
    """`set_` gives a tensor other memory without calling a function mode; its counter moves."""
    b = torch.ones(2)

    with Heard() as heard:
        b.set_(torch.zeros(2))

    assert "set_" not in heard.names
    assert 1 == b._version


@pytest.mark.parametrize("name", ["_foreach_", "optimizer, foreach"])
def test_a_dispatch_mode_changes_what_it_observes(name):
    """Under a dispatch mode a foreach write moves no counter: so no run that decides a verdict may carry one."""
    b = torch.tensor([1.0, 2.0])

    with Dispatched():
        WRITES[name][0](b)

    assert 0 == b._version


ALIASES = {
    "itself": (lambda a: a, 1, True),
    "a slice": (lambda a: a[1:], 1, True),
    "detach()": (lambda a: a.detach(), 1, True),
    ".data": (lambda a: a.data, 0, True),
    "from_numpy": (lambda a: torch.from_numpy(a.numpy()), 0, False),
    "from_dlpack": (lambda a: torch.from_dlpack(a), 0, False),
}


@pytest.mark.parametrize("name", ALIASES)
def test_same_memory_another_counter(name):
    """Each alias after a.add_(1): its counter, and whether it has a's storage object; the memory is a's in every case."""
    make, version, same_object = ALIASES[name]
    a = torch.zeros(3)
    alias = make(a)

    a.add_(1)

    assert 1.0 == alias[-1].item()
    assert version == alias._version
    assert same_object == (alias.untyped_storage()._cdata == a.untyped_storage()._cdata)


@pytest.mark.parametrize("layer", [torch.nn.Embedding, torch.nn.EmbeddingBag])
def test_the_node_of_an_embedding_has_its_padding_row(layer):
    """The gradient of this row is 0. Without a padding row, the node has none."""
    words = torch.tensor([[1, 2], [1, 0]])
    padded, plain = layer(3, 2, padding_idx=1), layer(3, 2)
    padded(words).sum().backward()

    assert [0.0, 0.0] == padded.weight.grad[1].tolist() != padded.weight.grad[2].tolist()
    assert (1, None) == (padding_row(padded(words).grad_fn), padding_row(plain(words).grad_fn))


def test_a_saved_input_is_the_very_tensor():
    """A saved leaf or input is the same object at each read; of a saved output each read makes a new one."""
    a = torch.ones(2, requires_grad=True)
    b = a * 2
    squared, exponent = (b * b).grad_fn, b.exp().grad_fn

    assert saved_state(squared, "self").data is b
    assert exponent._saved_result is not exponent._saved_result
    assert saved_state(exponent, "result").data.data_ptr() == exponent._saved_result.data_ptr()


def test_a_refusal_holds_both_versions():
    """`_saved_x` raises if its tensor was changed; the message contains the current version and the version of the save."""
    e = torch.ones(2, requires_grad=True).exp()
    node = e.grad_fn
    e.detach().add_(1)

    with pytest.raises(RuntimeError, match=VERSIONS):
        _ = node._saved_result
    assert (0, 1) == (saved_version(node, "result", e), e._version)


def test_checkpoint_keeps_no_tensor():
    """Under checkpoint a node keeps a holder, which must not be unpacked: that runs the forward again."""
    a = torch.ones(2, requires_grad=True)
    with readable_saved_tensors():
        y = torch.utils.checkpoint.checkpoint(lambda t: t.exp(), a, use_reentrant=False)
    assert [] == list(kept_by(y.grad_fn))
    names, checkpointed = hidden_in(y.grad_fn)
    assert (["result"], True) == (list(names), checkpointed)


def test_a_custom_function_stashes_where_it_can_be_seen():
    """Attributes set on ctx are attributes of the node; no counter watches them."""

    class Stash(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.x = x
            return x * x

        @staticmethod
        def backward(ctx, gradient):
            return 2 * ctx.x * gradient

    h = torch.ones(2, requires_grad=True) * 2
    found = {name: (read() is h, checked, stashed) for name, read, checked, stashed in kept_by(Stash.apply(h).grad_fn)}

    assert {"ctx.x": (True, False, True)} == found


def test_an_in_place_operation_saves_a_clone_of_its_old_input():
    """`b.mul_(w)` keeps a copy of the old b; `b.mul_(b)` is refused, and so is anything that writes after `exp_`."""
    w = torch.tensor([3.0], requires_grad=True)
    b = w * 1
    b.mul_(w)
    b.backward()
    assert 6.0 == w.grad.item()

    b = w * 1
    b.mul_(b)
    with pytest.raises(RuntimeError, match=VERSIONS):
        b.backward()


def test_batch_norm_writes_its_statistics_without_a_counter():
    """Running statistics change, but not their counters: only their bytes show it."""
    mean, var = torch.zeros(2), torch.ones(2)

    torch.nn.functional.batch_norm(torch.randn(4, 2), mean, var, training=True)

    assert mean.any()
    assert (0, 0) == (mean._version, var._version)


def test_a_recurrent_network_may_go_backward_again_though_its_backward_wrote():
    """On the CPU, backward writes into the scratch space that the node keeps, uncounted; a second one gives the same."""
    torch.manual_seed(0)
    network = torch.nn.LSTM(4, 5)
    output, _ = network(torch.randn(6, 2, 4))
    node = output.grad_fn
    while not hasattr(node, "_saved_result3"):
        node = node.next_functions[0][0]
    kept = node._saved_result3.clone()
    first, second = (
        torch.autograd.grad(output.sum(), network.weight_ih_l0, retain_graph=True)[0].clone() for _ in range(2)
    )

    assert not torch.equal(kept, node._saved_result3)
    assert 0 == node._saved_result3._version
    assert torch.equal(first, second)


SHAPES_ONLY = [
    *(lambda x, pool=pool: pool(x, 2) for name in ("avg_pool", "adaptive_avg_pool", "adaptive_max_pool", "max_pool")
      for pool in (getattr(functional, f"{name}2d"),)),
    *(lambda x, mode=mode: functional.pad(x, (1, 1, 1, 1), mode=mode) for mode in ("reflect", "replicate")),
    lambda x: functional.nll_loss(x, torch.zeros(2, 4, 4, dtype=torch.long)),
    lambda x: functional.nll_loss(x[:, :, 0, 0], torch.tensor([0, 2]), reduction="none"),
    lambda x: functional.fractional_max_pool2d(x, 2, output_size=3),
    lambda x: x.gather(0, torch.zeros(1, 3, 4, 4, dtype=torch.long)),
    lambda x: x.masked_select(torch.ones(4, dtype=torch.bool)),
    lambda x: torch.nn.LSTM(4, 5)(x[:, 0])[0],
]  # fmt: skip


@pytest.mark.parametrize("function", SHAPES_ONLY)
def test_values_that_backward_does_not_read(function):
    """With nan in place of the saved values that `is_read` denies, the gradients are the same."""
    torch.manual_seed(0)
    x = torch.rand(2, 3, 4, 4, requires_grad=True)
    with readable_saved_tensors():
        loss = function(x).sum()
        right, denied = torch.autograd.grad(loss, x, retain_graph=True), 0
        for node in nodes_below((loss,), ()):
            for name, read, _, _ in kept_by(node):
                if not is_read(node, name) and name != "result3":
                    read().data.fill_(torch.nan)
                    denied += 1
        assert denied
        assert torch.equal(right[0], torch.autograd.grad(loss, x)[0])


def test_allow_mutation_is_wrong_through_an_offset_view():
    """The context manager that promises to allow mutation gives 0 for 8 where the write goes through an offset view."""
    a = torch.tensor([1.0, 2.0], requires_grad=True)
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        b = a * 2
        loss = (b * b).sum()
        b.detach()[1:].zero_()
        loss.backward()

    assert [8.0, 0.0] == a.grad.tolist()
