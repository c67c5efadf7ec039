"""Each private or undocumented name of PyTorch does what `autograder.tape.internals` says, held against plain PyTorch."""

import subprocess
import sys
import traceback
import weakref
from pathlib import Path

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import CheckpointFunction, checkpoint

from autograder.errors import SetupError
from autograder.tape import record
from autograder.tape.internals import entry_points, mode_stack, support, tensor_fields
from autograder.tape.internals.entry_points import GRADIENT_GIVEN, ZEROING
from autograder.tape.internals.tensor_fields import (
    base_of,
    is_transformed,
    is_view,
    mode_paused,
    set_version,
    storage_number,
    version_of,
)
from autograder.tape.run.child_processes import process_groups_kept
from tests.square import Square
from tests.tape.heard import Heard


def leaf(*values: float) -> torch.Tensor:
    """Return a leaf that requires grad."""
    return torch.tensor(values, requires_grad=True)


# Tensors


def test_a_version_counts_writes_in_place():
    """One for each write, through a view too; an inference tensor keeps no counter."""
    a = torch.zeros(3)
    a.add_(1)
    a[1:].mul_(2)
    with torch.inference_mode():
        b = torch.zeros(1)

    assert 2 == version_of(a) == version_of(a.detach())
    assert 0 == version_of(a.data)
    assert version_of(b) is None


def test_a_view_knows_its_base():
    """Slicing makes a view of the very tensor; detach, .data and clone do not make one that autograd knows of."""
    a = leaf(1.0, 2.0) * 1

    assert base_of(a[1:]) is a
    assert base_of(a[1:][:1]) is a
    assert [True, False] == [is_view(a[1:]), is_view(a)]
    assert [None, None, None] == [base_of(a), base_of(a.data), base_of(a.clone())]


def test_what_stands_for_others_is_told():
    """Inside `vmap` and `torch.func.grad`, a tensor represents others; outside it does not."""
    seen = []

    def noted(x):
        seen.append(is_transformed(x))
        return (x * x).sum()

    torch.vmap(noted)(torch.ones(3, 2))
    torch.func.grad(noted)(torch.ones(2))
    noted(torch.ones(2))
    assert [True, True, False] == seen


def test_a_storage_has_a_number():
    """Aliases made by PyTorch have the same, a NumPy alias has the same bytes and another one."""
    a = torch.zeros(3)
    foreign = torch.from_numpy(a.numpy())

    assert storage_number(a) == storage_number(a[1:]) == storage_number(a.data)
    assert a.data_ptr() == foreign.data_ptr()
    assert storage_number(a) != storage_number(foreign)


def test_what_we_read_is_not_heard():
    """A function mode receives `.grad` and `exp`; inside `mode_paused` it receives nothing, and the calls are the same."""
    a = leaf(1.0)
    with Heard() as outside:
        _, heard = a.grad, a.exp()
    with Heard() as inside, mode_paused():
        _, quiet = a.grad, a.exp()

    assert ["grad", "exp"] == outside.names
    assert [] == inside.names
    assert heard.equal(quiet)


def test_a_version_set_back_is_accepted_by_backward():
    """After a write, backward raises; with the counter set back, it runs (and uses the written values)."""
    a = leaf(2.0)
    b = a * 1
    y = b * b
    b.detach().mul_(10)
    with pytest.raises(RuntimeError, match=tensor_fields.VERSIONS):
        y.backward(retain_graph=True)

    set_version(b, 0)
    y.backward()

    assert (0, 40.0) == (b._version, a.grad.item())


# Where a program's calls enter


def test_every_backward_passes_the_replaced_engine():
    """`backward`, `autograd.backward` and `autograd.grad`; afterwards PyTorch has its own function again."""
    before, seen = torch.autograd._engine_run_backward, []

    def replacement(original, *args, **kwargs):
        seen.append(args[0])
        return original(*args, **kwargs)

    w = leaf(3.0)
    with entry_points.replaced_engine(replacement):
        (w * w).backward()
        torch.autograd.backward(w * w)
        torch.autograd.grad(w * w, w)
        torch.autograd.graph._engine_run_backward((w * w,), (torch.ones(1),), False, False, (), True, True)

    assert 4 == len(seen)
    assert before is torch.autograd._engine_run_backward is torch.autograd.graph._engine_run_backward


@pytest.mark.parametrize("call", [torch.Tensor.backward, torch.autograd.backward, lambda y: torch.autograd.grad(y, y)])
def test_a_traceback_shows_that_backward_was_called(call):
    """An error of backward has a frame of PyTorch's own `backward` or `grad`; an error of an operation does not."""
    e = leaf(1.0, 2.0).exp()
    e.detach().add_(1)

    with pytest.raises(RuntimeError) as refused:
        call((e * 1).sum() if "lambda" not in call.__name__ else e)
    with pytest.raises(RuntimeError) as forward:
        torch.ones(2) @ torch.ones(3)

    assert any(entry_points.is_backward_call(f.filename, f.name) for f in traceback.extract_tb(refused.tb))
    assert not any(entry_points.is_backward_call(f.filename, f.name) for f in traceback.extract_tb(forward.tb))


def test_every_custom_function_passes_the_replaced_apply():
    """`apply` of any Function, CheckpointFunction and nested replacements included; gradients are those of the plain call."""
    seen = []

    def replacement(apply, cls, *args):
        seen.append(cls)
        return apply(cls, *args)

    w = leaf(3.0)
    with entry_points.replaced_apply(replacement), entry_points.replaced_apply(replacement):
        Square.apply(w).backward()
        checkpoint(lambda t: t * t, w, use_reentrant=True).backward()
    Square.apply(w).backward()

    assert [Square, Square, CheckpointFunction, CheckpointFunction] == seen
    assert 18.0 == w.grad.item()


def test_hooks_on_saved_tensors_pass_the_replacement():
    """A plain pair, `save_on_cpu` and checkpoint set the pair that the replacement returns; checkpoint's is known as such."""
    seen = []

    def replacement(pack, unpack):
        seen.append(tensor_fields.is_checkpoint(unpack))
        return (lambda tensor: tensor.clone()), (lambda tensor: tensor)

    w = leaf(3.0)
    with entry_points.replaced_hooks(replacement):
        with saved_tensors_hooks(lambda t: 0, lambda t: 1 / 0):
            (w * w).backward()
        with torch.autograd.graph.save_on_cpu():
            (w * w).backward()
        calls = []
        checkpoint(lambda t: calls.append(1) or t * t, w, use_reentrant=False).backward()
    with pytest.raises(ZeroDivisionError), saved_tensors_hooks(lambda t: 0, lambda t: 1 / 0):
        (w * w).backward()

    assert ([False, False, True], [1], 18.0) == (seen, calls, w.grad.item())


def test_a_failed_checkpoint_leaves_no_hooks_behind():
    """An operation that raised in a checkpoint is not computed again by a later backward, even while its error is kept."""
    calls = []

    def fails(t):
        calls.append(1)
        raise ZeroDivisionError

    try:
        checkpoint(fails, leaf(1.0), use_reentrant=False)
    except ZeroDivisionError as error:
        kept = error
    entry_points.close_checkpoints(kept)
    w = leaf(3.0)
    (w * w).backward()

    assert ([1], 6.0) == (calls, w.grad.item())


# Calls by the names a function mode hears


def test_a_given_gradient_and_an_emptied_one_are_heard():
    """Assigning `.grad`, and `zero_grad` with and without foreach, are received under the names in `heard_calls`."""
    w = leaf(1.0)
    optimizer = torch.optim.SGD([w], lr=1.0)
    with Heard() as given:
        w.grad = torch.ones(1)
    with Heard() as emptied:
        optimizer.zero_grad(set_to_none=False)
        torch._foreach_zero_([w.grad])

    assert set(given.names) & set(GRADIENT_GIVEN)
    assert set(ZEROING) == set(emptied.names) & set(ZEROING)


# Saved tensors

OPERATIONS = {
    "a product": lambda a, b: a * b,
    "its own result": lambda a, b: a.exp(),
    "an argument and a result": lambda a, b: a.softmax(0),
    "a list": lambda a, b: a[torch.tensor([1, 0])],
    "indices": lambda a, b: a.gather(0, torch.tensor([0, 1])),
    "a matrix product": lambda a, b: a @ b,
    "a custom Function": lambda a, b: Square.apply(a),
    "nothing": lambda a, b: a + b,
    "dropout": lambda a, b: torch.nn.functional.dropout(a, 0.5),
    "where": lambda a, b: torch.where(a > b, a, b),
}


def packed_by(operation, *inputs) -> list[torch.Tensor]:
    """Return the tensors that PyTorch passes to a pack hook: every tensor that an operation saves."""
    found = []
    torch.manual_seed(0)
    with saved_tensors_hooks(lambda t: found.append(t.detach().clone()) or t, lambda t: t):
        operation(*inputs)
    return found


def states(node) -> list[tuple[str, object]]:
    """Return name and state of each saved tensor of a node."""
    found = []
    for name in tensor_fields.saved_names(type(node)):
        state = tensor_fields.saved_state(node, name)
        found += [(name, one) for one in (state if isinstance(state, tuple) else (state,)) if one is not None]
    return found


@pytest.fixture(params=["as it is", "without SavedTensor.data"])
def release(request, monkeypatch):
    """This PyTorch, and the same one without the two attributes that older releases lack."""
    if request.param != "as it is":
        monkeypatch.setattr(tensor_fields, "READABLE", False)


@pytest.mark.parametrize("name", OPERATIONS)
def test_saved_tensors_are_those_that_pytorch_packs(name, release):
    """The node has the values that a pack hook gets, without a hook, before and after the save."""
    a, b = leaf(1.0, 2.0) * 1, leaf(3.0, 1.0) * 1
    expected = packed_by(OPERATIONS[name], a, b)
    with tensor_fields.readable_saved_tensors():
        torch.manual_seed(0)
        result = OPERATIONS[name](a, b)  # up to 2.10 a custom Function's node is empty once its result is gone
    found = [state for _, state in states(result.grad_fn) if state.data is not None]

    assert sorted(str(t.tolist()) for t in expected) == sorted(str(state.data.tolist()) for state in found)
    assert [None] * len(found) == [state.unpack_hook for state in found]


def test_hooks_are_seen_and_not_called(release):
    """The result of a pack hook and its unpack hook are read; reading calls neither hook, and backward calls it once."""
    calls = []

    def unpack(text):
        calls.append(text)
        return torch.tensor([2.0])

    a = leaf(2.0)
    with tensor_fields.readable_saved_tensors(), saved_tensors_hooks(lambda tensor: "packed", unpack):
        node = (y := a.exp()).grad_fn
    ((_, state),) = states(node)

    assert ("packed", unpack, []) == (state.data, state.unpack_hook, calls)
    y.backward()
    assert (["packed"], 2.0) == (calls, a.grad.item())


def test_hooks_on_one_saved_tensor_are_seen(release):
    """`register_hooks` on a node's saved tensor switches its check off, and that shows."""
    a = leaf(1.0)
    with tensor_fields.readable_saved_tensors():
        e = a.exp()
        e.grad_fn._raw_saved_result.register_hooks(lambda t: t, lambda t: t)
    ((_, state),) = states(e.grad_fn)

    assert state.unpack_hook is not None
    e.detach().zero_()
    e.backward()
    assert 0.0 == a.grad.item()  # e is right


def test_checkpoint_shows_without_computing_again(release):
    """A tensor that checkpoint will compute again has its hook; reading does not compute it."""
    calls = []
    with tensor_fields.readable_saved_tensors():
        y = checkpoint(lambda t: calls.append(1) or t.exp(), leaf(1.0), use_reentrant=False)
    ((_, state),) = states(y.grad_fn)

    assert tensor_fields.is_checkpoint(state.unpack_hook)
    assert [1] == calls


def test_a_freed_tensor_is_gone_and_a_stale_one_is_not(release):
    """After backward nothing is left; after a write, the expected version is known and the tensor does not count as freed."""
    a = leaf(1.0, 2.0)
    e, square = a.exp(), a * a
    square.sum().backward()
    e.detach().add_(1)
    (state,) = [one for _, one in states(e.grad_fn)]

    assert [] == [one for _, one in states(square.grad_fn) if one.data is not None]
    assert state.data is not None
    assert 0 == tensor_fields.expected_version(e.grad_fn, "result")
    assert tensor_fields.expected_version(a.exp().grad_fn, "result") is None


def test_a_tensor_that_its_own_operation_wrote_is_read(release):
    """`b.mul_(b)` keeps b as it was before; it is found among the operation's inputs, and its counter stays as it is."""
    b = leaf(3.0) * 1
    with tensor_fields.readable_saved_tensors():
        b.mul_(b)
    (other,) = [one.data for name, one in states(b.grad_fn) if name == "other"]
    if other is tensor_fields.STALE:
        other = tensor_fields.unchecked(b.grad_fn, "other", (b,))

    assert (b.data_ptr(), 1) == (other.data_ptr(), b._version)
    with pytest.raises(RuntimeError, match=tensor_fields.VERSIONS):
        b.backward()


PROGRAM = "w = torch.tensor([2.0], requires_grad=True)\na = w.exp()\na.mul_(3)\na.backward()\n"


def test_a_recording_is_the_same_without_savedtensor_data(release):
    """Outcome, harmful line and saving line of a refused program, in both ways of reading."""
    verdict = record("import torch\n" + PROGRAM).verdict
    (harm,) = verdict.harms

    assert ("raises-backward", 4, 3) == (verdict.outcome, harm.mutated_at[0].line, harm.saved_at.line)


# What a note says where a release lacks something


@pytest.mark.parametrize("probe", support.SHORTCOMINGS, ids=lambda probe: probe.__name__)
def test_this_release_has_it(probe):
    """The tested releases have all of them: a recording does not report missing ones."""
    assert probe()
    assert support.SHORTCOMINGS[probe] not in record("import torch\n" + PROGRAM).verdict.notes


def test_a_release_that_names_no_saved_tensor_is_told_of(monkeypatch):
    """The outcome is still right, no line is invented, and the note gives the reason."""
    monkeypatch.setattr(tensor_fields, "_PREFIX", "_no_such_attribute_")
    sentence = support.SHORTCOMINGS[support.names_saved_tensors]
    monkeypatch.setattr(support, "SHORTCOMINGS", {lambda: False: sentence})
    for cached in (tensor_fields.saved_names, support.shortcomings):
        cached.cache_clear()
    try:
        verdict = record("import torch\n" + PROGRAM).verdict
    finally:
        for cached in (tensor_fields.saved_names, support.shortcomings):
            cached.cache_clear()

    assert "raises-backward" == verdict.outcome
    assert sentence in verdict.notes


def test_a_release_without_what_is_required_is_refused_in_a_sentence():
    """The message contains the missing name and a solution; this release has all required names."""
    support.require_internals()
    with pytest.raises(SetupError, match=r"needs torch\.Tensor\._version, .* `pip install torch`"):
        support.require_internals(object())


@pytest.mark.thorough
def test_explain_ends_in_one_sentence(tmp_path):
    """Where PyTorch lacks the engine's entry point, the command prints one line and its exit code is not 0."""
    (tmp_path / "bug.py").write_text("import torch\n" + PROGRAM)
    code = (
        "import sys, torch, torch.autograd.graph; del torch.autograd._engine_run_backward\n"
        "from autograder.cli import main; sys.exit(main(['explain', sys.argv[1]]))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "bug.py")]
    done = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, text=True)

    assert 2 == done.returncode
    assert 1 == len(done.stderr.splitlines()), done.stderr
    assert "torch.autograd._engine_run_backward" in done.stderr


# A mode that comes and goes, and what a running job reports


def test_sequence_numbers_tell_the_order_of_nodes():
    """A node's number is the one that was next before it was made; a leaf's accumulator has one beyond all others."""
    w = leaf(1.0)
    begun = mode_stack.next_sequence_number()
    first, second = w.exp(), w.sin()
    assert begun <= mode_stack.sequence_number(first.grad_fn) < mode_stack.sequence_number(second.grad_fn)
    assert mode_stack.sequence_number(second.grad_fn) < mode_stack.next_sequence_number() < mode_stack.FIRST
    assert mode_stack.FIRST <= mode_stack.sequence_number(first.grad_fn.next_functions[0][0])


def test_a_mode_leaves_from_below_others_and_comes_back_there():
    """The others keep their order, and the mode receives the same calls as before."""
    ours, above = Heard(), Heard()
    mode_stack.push_mode(ours)
    with above:
        assert mode_stack.is_active(ours)
        below = mode_stack.remove_mode(ours)
        torch.ones(1).exp()
        assert (0, False, None) == (below, mode_stack.is_active(ours), mode_stack.remove_mode(ours))
        mode_stack.push_mode(ours, below)
        torch.ones(1).sin()
    torch.ones(1).cos()
    assert 0 == mode_stack.remove_mode(ours)
    torch.ones(1).tan()
    assert ["exp", "sin"] == [name for name in above.names if name in ("exp", "sin", "cos", "tan")]
    assert ["sin", "cos"] == [name for name in ours.names if name in ("exp", "sin", "cos", "tan")]


def test_compiled_calls_are_told_of():
    """Each compiled call is reported once when it begins and once when it ends, even if it raises."""
    import torch._dynamo

    told = []
    compiled = torch.compile(lambda x: x.exp() if x.numel() else x.view(5), backend="eager")
    with mode_stack.on_compiled_calls(lambda: told.append("in"), lambda: told.append("out")):
        compiled(torch.ones(2))
        compiled(torch.ones(2))
        with pytest.raises(RuntimeError, match="shape"):
            compiled(torch.ones(0))
    compiled(torch.ones(2))
    assert ["in", "out"] * 3 == told


def test_steps_of_optimizers_are_reported():
    """A step is reported at both ends; one with a closure is not, and no hook stays."""
    stepped, w = [], leaf(1.0)
    w.grad = torch.ones(1)
    optimizer = torch.optim.SGD([w], lr=1.0)
    with entry_points.around_optimizer_steps(stepped.append, stepped.append, with_closures=False):
        optimizer.step()
        optimizer.step(lambda: w.sum())
    optimizer.step()
    assert [optimizer, optimizer] == stepped


def test_set_is_met():
    """`Tensor.set_`, which no function mode receives."""
    met = []

    def meeting(original):
        return lambda tensor, *args: met.append(tensor) or original(tensor, *args)

    x = torch.ones(1)
    with entry_points.replaced(torch.Tensor, "set_", meeting(torch.Tensor.set_)), Heard() as heard:
        x.set_(torch.zeros(1))
    x.set_(torch.zeros(2))
    assert ([x], 2) == (met, x.numel())
    assert "set_" not in heard.names


def test_batch_norm_reads_running_statistics_only_when_it_evaluates():
    """Backward in training gives the same gradient whatever they are; when evaluating it does not."""
    for training in (True, False):
        norm, gradients = torch.nn.BatchNorm1d(2).train(training), []
        for factor in (1.0, 3.0):
            norm.running_var.fill_(1.0)
            x = torch.tensor([[1.0, 2.0], [3.0, 5.0], [0.0, 1.0]], requires_grad=True)
            y = norm(x)
            norm.running_var.data.fill_(factor)
            (y * torch.arange(6.0).view(3, 2)).sum().backward()
            gradients.append(x.grad)
            assert training != tensor_fields.is_read(y.grad_fn, "running_var")
            (slope,) = torch.autograd.grad(norm(x).pow(2).sum(), x, create_graph=True)
            assert training != tensor_fields.is_read(slope.grad_fn, "running_var")
        assert training == torch.equal(*gradients)


def test_dispatch_modes_are_seen():
    """A mode that is on is found, and none afterwards."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Passing(TorchDispatchMode):
        """Passes every operation on."""

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    with Passing():
        assert mode_stack.dispatch_modes()
    assert not mode_stack.dispatch_modes()


def test_a_process_group_outlives_its_destruction(tmp_path):
    """A group that the program destroys is still there while the block lasts, and gone afterwards; the functions are as they were."""
    from torch import distributed

    functions = distributed.destroy_process_group, distributed.distributed_c10d.destroy_process_group
    with process_groups_kept():
        distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
        group = weakref.ref(distributed.group.WORLD)
        distributed.destroy_process_group()
        assert not distributed.is_initialized()
        assert group() is not None
    assert group() is None
    assert functions == (distributed.destroy_process_group, distributed.distributed_c10d.destroy_process_group)


def test_a_process_group_that_is_left_behind_ends_with_the_block(tmp_path):
    """A program that does not destroy its group can run again in this process; a group from before the block stays."""
    from torch import distributed

    for run in range(2):
        with process_groups_kept():
            distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/{run}", rank=0, world_size=1)
        assert not distributed.is_initialized()
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/outer", rank=0, world_size=1)
    with process_groups_kept():
        pass
    assert distributed.is_initialized()
    distributed.destroy_process_group()
