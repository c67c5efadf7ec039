"""The parts of one run: observed memory, the restored state, and the entry of every backward."""

import torch

from autograder.tape.run.engine import Listener, watched
from autograder.tape.run.function_mode import function_name, tensors
from autograder.tape.run.graph_walk import leaves_below, nodes_below, standing
from autograder.tape.run.snapshot import Snapshot
from autograder.tape.run.storages import Memories, address_of, changed_interval, extent_of, fingerprint


def test_tensors_on_one_storage_have_one_memory():
    """A view and `.data` live where their base does; a clone elsewhere. Oracle: `data_ptr`."""
    memories, base = Memories(), torch.arange(6.0)
    view, other = base[2:4], base.clone()

    assert memories.of(base) is memories.of(view) is memories.of(base.data)
    assert memories.of(base) is not memories.of(other)
    assert (base.data_ptr(), 24) == address_of(view)


def test_a_freed_address_is_another_memory():
    """The allocator reuses an address; its new contents are not those from before."""
    memories, first = Memories(), torch.zeros(1000)
    before, address = memories.of(first), first.data_ptr()
    del first
    again = [torch.zeros(1000) for _ in range(20)]
    same = [tensor for tensor in again if tensor.data_ptr() == address]

    assert all(memories.of(tensor) is not before for tensor in again)
    assert not before.alive()
    assert len(same) <= 1


def test_a_write_is_seen_with_the_bytes_that_changed():
    """One float of four is written without a counter: bytes 4 to 8 at most, and no change at the next look."""
    tensor = torch.tensor([1.0, 2.0, 3.0, 4.0])
    memory = Memories().of(tensor)
    assert memory.look() is None
    tensor.numpy()[1] = -2.0
    start, stop = memory.look()

    assert 4 <= start < stop <= 8
    assert memory.look() is None
    assert (1, 3) == changed_interval(b"\x00\x01\x02\x03", b"\x00\xff\xfe\x03")


def test_extent_and_fingerprint_are_those_of_the_tensor_alone():
    """A column of a matrix extends from its first to its last element; a write next to it does not change its fingerprint."""
    matrix = torch.arange(12.0).view(3, 4)
    column = matrix[:, 1]
    before = fingerprint(column)
    matrix[:, 2] = 0

    assert (4, 4 + (2 * 4 + 1) * 4) == extent_of(column)
    assert before == fingerprint(column)
    matrix[2, 1] = 0
    assert before != fingerprint(column)


def test_a_world_is_put_back():
    """Bytes, versions, gradients, containers and random numbers are as they were, in the same objects."""
    w, seen = torch.ones(2, requires_grad=True), {"a": [1, 2]}
    inner = seen["a"]
    world, expected = Snapshot((w, seen)), torch.rand(1, generator=torch.Generator().manual_seed(3))
    torch.manual_seed(3)
    world = Snapshot((w, seen))
    with torch.no_grad():
        w.mul_(5)
    w.sum().backward()
    inner.append(3)
    seen["b"] = 1
    torch.rand(7)
    world.restore()

    assert ([1.0, 1.0], 0, None) == (w.tolist(), w._version, w.grad)
    assert {"a": [1, 2]} == seen
    assert inner is seen["a"]
    assert torch.equal(expected, torch.rand(1))


def test_the_graph_below_a_loss():
    """For (w·v).sum(): three nodes and the two leaves' accumulators; towards `v` alone, no accumulator of `w`."""
    w, v = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    hidden = w.exp()
    loss = (hidden * v).sum()
    names = [type(node).__name__ for node in nodes_below((loss,))]

    assert ["SumBackward0", "MulBackward0"] == names[:2]
    assert sorted(["SumBackward0", "MulBackward0", "ExpBackward0", "AccumulateGrad", "AccumulateGrad"]) == sorted(names)
    assert {id(w), id(v)} == {id(leaf) for leaf in leaves_below((loss,))}
    assert ["SumBackward0", "MulBackward0"] == [type(node).__name__ for node in nodes_below((loss,), (hidden,))]


def test_a_view_made_without_gradient_is_no_leaf():
    """PyTorch calls a view taken under no_grad a leaf; it has no `.grad` to fill."""
    w = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        view = w.detach()[:1]

    assert (True, True) == standing(w)
    assert (False, True) == standing(view)
    assert (True, False) == standing(w * 2)


def test_every_backward_passes_one_door():
    """`backward`, `autograd.grad` and a refused one: targets, copied gradients and the error are noted; then the door is gone."""
    original = torch.autograd._engine_run_backward
    w = torch.tensor([2.0, 3.0], requires_grad=True)
    with watched(Listener()) as calls:
        (w * w).sum().backward()
        torch.autograd.grad((w**3).sum(), w)
        loss = (w * w).sum()
        loss.backward()
        w.grad = None
        try:
            loss.backward()
        except RuntimeError as error:
            refused = error

    assert [[4.0, 6.0]] == [gradient.tolist() for gradient in calls[0].gradients]
    assert (True, [12.0, 27.0]) == (calls[1].returns, calls[1].gradients[0].tolist())
    assert [None, None, None, refused] == [call.error for call in calls]
    assert original is torch.autograd._engine_run_backward


def test_functions_have_short_names():
    """Reading and assigning an attribute are distinguished; tensors are found through lists and dictionaries."""
    one, two = torch.ones(1), torch.zeros(1)

    assert ("add_", "data", "data =", "") == (
        function_name(torch.Tensor.add_),
        function_name(torch.Tensor.data.__get__),
        function_name(torch.Tensor.data.__set__),
        function_name(torch.Tensor.shape.__get__),
    )
    assert [id(one), id(two)] == [id(found) for found in tensors([one, {"a": (two, 3)}])]
