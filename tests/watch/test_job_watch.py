"""`autograder.watch()` names line, alias and saving operation if backward fails, and does not change the job otherwise."""

import gc
import inspect
import os
import subprocess
import sys
import threading
import types
import warnings
import weakref

import pytest
import torch
from IPython.core.compilerop import CachingCompiler
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

import autograder
from autograder.errors import InputError
from autograder.tape.internals.entry_points import Hooks
from autograder.tape.watch import watch_session
from autograder.tape.watch.call_listener import MOST, UNKNOWN, NodeLog, WriteLog
from autograder.tape.watch.watch_session import sampled


def leaf(*values: float) -> torch.Tensor:
    """Return a leaf that requires grad."""
    return torch.tensor(values or (1.0, 2.0), requires_grad=True)


def marked(function, mark: str) -> set[int]:
    """Return the lines of a function of this file that end in a mark."""
    lines, first = inspect.getsourcelines(function)
    return {first + index for index, line in enumerate(lines) if line.rstrip().endswith(f"# {mark}")}


class Dirty(torch.autograd.Function):
    """Doubles its input in place."""

    @staticmethod
    def forward(ctx, x):  # noqa: D102
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, gradient):  # noqa: D102
        return gradient * 2


def augmented():
    """An augmented assignment to a result that was saved."""
    h = leaf().exp()  # saves
    h += 1  # writes
    h.sum().backward()


def through_an_alias():
    """A write through `detach()`."""
    h = leaf().exp()  # saves
    d = h.detach()
    d.mul_(2)  # writes
    h.sum().backward()


def of_a_list():
    """One call that writes many tensors."""
    xs, w = [torch.ones(2), torch.ones(2)], leaf()
    h = xs[1] * w  # saves
    torch._foreach_mul_(xs, 2)  # writes
    h.sum().backward()


def marked_dirty():
    """A custom Function that writes into its input."""
    h = leaf().exp()  # saves
    Dirty.apply(h).sum().backward()  # writes


def in_a_thread():
    """A write in a thread that began under the watch."""
    h = leaf().exp()  # saves
    thread = threading.Thread(target=lambda: h.detach().mul_(2))  # writes
    thread.start()
    thread.join()
    h.sum().backward()


def made_before_zero_grad():
    """The forward comes before `zero_grad`."""
    w = leaf()
    optimizer = torch.optim.SGD([w], lr=0.1)
    h = w.exp()  # saves
    optimizer.zero_grad()
    h.mul_(2)  # writes
    h.sum().backward()


def by_grad():
    """`torch.autograd.grad`, of second order."""
    w = leaf()
    (slope,) = torch.autograd.grad((w.exp() ** 2).sum(), w, create_graph=True)  # saves
    with torch.no_grad():
        w.add_(1)
    h = slope.exp()  # saves
    h.add_(1)  # writes
    torch.autograd.grad(h.sum(), slope)


def set_elsewhere():
    """`Tensor.set_`, which no function mode receives (PyTorch 2.13)."""
    x, w = torch.ones(2), leaf()
    h = x * w  # saves
    x.set_(torch.zeros(2))  # writes
    h.sum().backward()


def before_a_checkpoint_is_computed_again():
    """The block reads a tensor that was overwritten meanwhile."""
    w, x = leaf(), torch.ones(2)
    h = checkpoint(lambda v: v * w, x, use_reentrant=False)  # saves
    x.zero_()  # writes
    h.sum().backward()


REFUSED = [
    set_elsewhere, before_a_checkpoint_is_computed_again, augmented, through_an_alias, of_a_list, marked_dirty,
    in_a_thread, made_before_zero_grad, by_grad,
]  # fmt: skip
"""Other forms of writes are in the corpus: tests/watch/test_like_explain.py."""


@pytest.mark.parametrize("check", ["versions", "bytes"])
@pytest.mark.parametrize("job", REFUSED, ids=lambda job: job.__name__)
def test_a_refused_backward_names_the_lines(job, check):
    """The error is PyTorch's own, and its note names the line that wrote and the line that saved."""
    with pytest.raises(RuntimeError) as plain:
        job()
    with autograder.watch(check) as watching, pytest.raises(RuntimeError) as seen:
        job()

    assert (type(plain.value), str(plain.value)) == (type(seen.value), str(seen.value))
    harm = watching.harms[0]
    assert marked(job, "writes") & {place.line for place in harm.mutated_at}, harm
    assert harm.saved_at.line in marked(job, "saves"), harm
    assert f"line {harm.saved_at.line}: " in seen.value.__notes__[0]
    assert len(seen.value.__notes__) == 1


def test_the_alias_is_named():
    """The tensor is called by its variable, and the write by the name it went through. A later error adds its harm."""
    with autograder.watch() as watching:
        for job in (through_an_alias, augmented):
            with pytest.raises(RuntimeError):
                job()
    assert marked(augmented, "writes") == {place.line for place in watching.harms[-1].mutated_at}
    assert ("h", "d", 0, 1) == (
        watching.harms[0].tensor, watching.harms[0].through, watching.harms[0].saved_version, watching.harms[0].version_now,
    )  # fmt: skip


def by_data(h):
    """A write through `.data`."""
    h.data.mul_(2)  # writes


def by_numpy(h):
    """A write into an array that shares the memory."""
    n = h.detach().numpy()
    n[:] = 7  # writes


@pytest.mark.parametrize("write", [by_data, by_numpy])
def test_bytes_that_changed_without_a_count_are_told(write):
    """`check="bytes"` warns before backward, once per place, and the gradient is that of PyTorch without a watch."""
    w = leaf()
    with autograder.watch("bytes") as watching:
        h = w.exp()
        write(h)
        with pytest.warns(RuntimeWarning, match="uses the new values without an error") as told:
            h.sum().backward()

    assert 1 == len(told) == len(watching.harms)
    assert marked(write, "writes") == {place.line for place in watching.harms[0].mutated_at}
    assert told[0].filename == __file__
    plain = leaf()
    h = plain.exp()
    write(h)
    h.sum().backward()
    assert torch.equal(plain.grad, w.grad)


def test_a_finding_is_shown_once_in_a_loop():
    """Python's default filter shows the warning of the same lines in the first of several steps, also with one watch per step."""
    w = leaf()
    with warnings.catch_warnings(record=True, action="default") as told:
        for _ in range(3):
            with autograder.watch("bytes") as watching:
                h = w.exp()
                by_data(h)
                h.sum().backward()
            assert 1 == len(watching.harms)
    assert 1 == len(told)


def test_the_name_is_looked_up_once():
    """The checks of `require` run once, and not in each step of a loop that opens a watch."""
    assert autograder.watch is vars(autograder)["watch"]


def test_values_that_backward_does_not_read_may_change():
    """The loss reads only the shape of its input, the scores."""
    x, target = torch.rand(2, 3, requires_grad=True), torch.tensor([0, 2])
    with autograder.watch("bytes") as watching:
        scores = x * 2
        loss = functional.nll_loss(scores, target)
        scores.data.mul_(2)
        loss.backward()
    assert () == watching.harms


def test_changed_values_of_a_sparse_tensor_are_named():
    """The values of a sparse tensor share memory with the dense one; `mul_` of that halves the gradient."""
    x, values = torch.ones(2, 3, requires_grad=True), torch.tensor([2.0, 4.0])
    with autograder.watch(check="bytes") as watched:
        sparse = torch.sparse_coo_tensor(torch.tensor([[0, 1], [1, 0]]), values, (2, 2), check_invariants=False)
        out = torch.sparse.mm(sparse, x)
        values.mul_(0.5)  # written
        with pytest.warns(RuntimeWarning, match="sparse, .* through values .* no version counter changed"):
            out.sum().backward()
    assert x.grad[:, 0].tolist() == [2.0, 1.0]
    lines = {place.line for harm in watched.harms for place in harm.mutated_at}
    assert lines == marked(test_changed_values_of_a_sparse_tensor_are_named, "written")


def test_a_layout_that_is_not_compared_is_named():
    """Sparse tensors in compressed form are not sampled, and a warning says so."""
    x, eye = leaf(), torch.eye(2).to_sparse_csr()
    with autograder.watch(check="bytes"), pytest.warns(UserWarning, match=r"layout torch\.sparse_csr"):
        (eye @ x[:, None]).sum().backward()


def test_a_cell_is_named_as_in_a_traceback_of_ipython(monkeypatch):
    """The note names "Cell In[2]", and not the file name that IPython gives to the cell's code."""
    compiler = CachingCompiler()
    text = "with watch():\n    h = torch.ones(3, requires_grad=True).exp()\n    h += 1\n    h.sum().backward()\n"
    name = compiler.cache(text, 2)
    monkeypatch.setattr("IPython.get_ipython", lambda: types.SimpleNamespace(compile=compiler))
    with pytest.raises(RuntimeError) as error:
        exec(compile(text, name, "exec"), {"torch": torch, "watch": autograder.watch})
    assert "was written at Cell In[2], line 3: h += 1." in error.value.__notes__[0]


@pytest.mark.parametrize("batch_norm", [False, True])
def test_bytes_are_silent_where_nothing_changed(batch_norm):
    """No warning for a right step; training statistics change after batch norm has kept them, and it does not use them then."""
    net = torch.nn.Sequential(
        torch.nn.Linear(3, 3), *([torch.nn.BatchNorm1d(3)] if batch_norm else []), torch.nn.ReLU()
    )
    with autograder.watch("bytes") as watching, warnings.catch_warnings(action="error"):
        (net(torch.randn(4, 3)) + net(torch.randn(4, 3))).sum().backward()
    assert () == watching.harms


def test_without_a_write_nothing_is_added():
    """Errors of forward, and those of backward without a write, are unchanged."""
    with autograder.watch() as watching:
        with pytest.raises(RuntimeError) as forward:
            torch.ones(2) @ torch.ones(3)
        with pytest.raises(RuntimeError) as again:
            torch.ones(2).sum().backward()
    assert () == watching.harms
    assert not hasattr(forward.value, "__notes__")
    assert not hasattr(again.value, "__notes__")


def test_an_unheard_write_is_said_to_be_unheard():
    """A thread from before the watch is not heard: the tensor and the line that saved it are named all the same."""
    begin, done, box = threading.Event(), threading.Event(), []

    def write():
        begin.wait(10)
        box[0].detach().mul_(2)
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    with autograder.watch() as watching:
        h = leaf().exp()
        box.append(h)
        begin.set()
        done.wait(10)
        with pytest.raises(RuntimeError) as seen:
            h.sum().backward()
    thread.join()
    assert ((), "h") == (watching.harms[0].mutated_at, watching.harms[0].tensor)
    assert "by code that a watch does not record" in seen.value.__notes__[0]


def test_a_graph_from_before_the_watch():
    """The write is named; the line that saved it is reported as earlier than the watch."""
    h = leaf().exp()
    with autograder.watch() as watching:
        h.mul_(2)
        with pytest.raises(RuntimeError) as seen:
            h.sum().backward()
    assert watching.harms[0].mutated_at[0].text == "h.mul_(2)"
    assert "before it began" in seen.value.__notes__[0]


def everything():
    """Return the global state that shows whether a watch has left anything behind."""
    return (
        torch.overrides._get_current_function_mode_stack(),
        torch.autograd._engine_run_backward,
        vars(torch.optim.Optimizer)["zero_grad"],
        "apply" in vars(torch.autograd.Function),
        torch.compile,
        threading.getprofile(),
        Hooks.__enter__,
    )


def test_everything_is_put_back_in_whatever_order_watches_end():
    """Nested, interleaved as in two generators, after an error, and as a decorator."""
    before = everything()
    first, second = autograder.watch(), autograder.watch("bytes")
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    with pytest.raises(RuntimeError):
        augmented()
    second.__exit__(None, None, None)
    assert before == everything()
    assert (0, 1) == (len(first.harms), len(second.harms))

    with pytest.raises(RuntimeError, match="modified by an inplace") as seen:
        autograder.watch()(augmented)()
    assert len(seen.value.__notes__) == 1
    assert before == everything()


def test_an_interrupted_start_leaves_nothing(monkeypatch):
    """After Ctrl-C while a watch opens, everything is put back, and the next watch is whole."""
    before = torch.Tensor.set_, torch.autograd.graph._engine_run_backward
    with monkeypatch.context() as patched:
        patched.setattr(watch_session, "in_new_threads", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt), autograder.watch():
            pass
    assert before == (torch.Tensor.set_, torch.autograd.graph._engine_run_backward)
    with autograder.watch() as watching:
        h = leaf().exp()
        h += 1
        with pytest.raises(RuntimeError):
            h.sum().backward()
    assert 1 == len(watching.harms)


def test_other_modes_stay_in_their_order():
    """A mode that the job puts on inside stays when the watch ends first."""

    class Other(TorchFunctionMode):
        """Passes every call on."""

        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    other, watching = Other(), autograder.watch()
    watching.__enter__()
    with other:
        torch.ones(2) + 1
        watching.__exit__(None, None, None)
        assert [other] == torch.overrides._get_current_function_mode_stack()
    assert [] == torch.overrides._get_current_function_mode_stack()


@pytest.mark.parametrize("check", ["versions", "bytes"])
def test_no_tensor_is_kept_alive(check):
    """Under a watch a tensor and its graph are gone as soon as they are without one."""
    with autograder.watch(check):
        h = leaf().exp()
        y = h * 2
        died = [weakref.ref(h), weakref.ref(y)]
        y.sum().backward()
        del h, y
        assert [None, None] == [one() for one in died]


MEMORY = """
import resource, torch, autograder
from contextlib import nullcontext
torch.set_num_threads(1)
w = torch.ones(1 << 22, requires_grad=True)
def step():
    h = w.exp() * 2
    h.sum().backward()
    w.grad = None
with autograder.watch():  # loads what it needs
    step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with CONTEXT:
    for _ in range(30): step()
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


def test_memory_does_not_grow_with_the_tensors():
    """Thirty steps that make 1 GiB of saved tensors need no more memory watched than unwatched."""
    # Large blocks are mapped one by one, and so given back at once: the allocator's own economies differ from run to run.
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    grown = {}
    for context in ("nullcontext()", "autograder.watch()"):
        command = [sys.executable, "-c", MEMORY.replace("CONTEXT", context)]
        grown[context] = float(subprocess.check_output(command, text=True, env=environment))
    assert grown["autograder.watch()"] <= grown["nullcontext()"] + 8, grown


def test_random_numbers_are_those_of_the_job():
    """Neither check draws one."""
    states = []
    for context in (autograder.watch(), autograder.watch("bytes"), None):
        torch.manual_seed(0)
        with context or torch.enable_grad():
            functional.dropout(leaf() * 1).sum().backward()
        states.append(torch.random.get_rng_state())
    assert torch.equal(states[0], states[2])
    assert torch.equal(states[1], states[2])


def test_the_jobs_dispatch_modes_see_nothing_of_us():
    """A mode that counts operations counts the same under a watch."""

    class Counting(TorchDispatchMode):
        """Counts operations."""

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    runs = []
    for context in (autograder.watch("bytes"), autograder.watch(), torch.enable_grad()):
        seen = []
        with context, Counting():
            (leaf().exp() * 2).sum().backward()
        runs.append(seen)
    assert runs[0] == runs[1] == runs[2]


@pytest.mark.parametrize("kind", ["no_grad", "inference_mode", "func", "sparse", "complex", "meta", "empty"])
def test_odd_tensors_pass(kind):
    """Tensors without a version, or without readable memory, do not cause an error."""
    with autograder.watch("bytes") as watching, warnings.catch_warnings(action="error"):
        if kind == "no_grad":
            with torch.no_grad():
                leaf().add_(1)
        elif kind == "inference_mode":
            with torch.inference_mode():
                torch.ones(2).add_(1).mul_(2)
        elif kind == "func":
            assert 2.0 == torch.func.grad(lambda x: (x.clone().mul_(2)).sum())(torch.ones(()))
            torch.func.vmap(lambda x: x.clone().add_(1))(torch.ones(3))
        elif kind == "sparse":
            torch.sparse.mm(torch.eye(2).to_sparse(), leaf()[:, None]).sum().backward()
        elif kind == "complex":
            (leaf() * 1j).abs().sum().backward()
        elif kind == "meta":
            torch.ones(2, device="meta", requires_grad=True).exp().sum().backward()
        else:
            torch.ones(0, 3, requires_grad=True).exp().sum().backward()
        assert not watching.harms
        with pytest.raises(RuntimeError):
            augmented()
    assert watching.harms


def test_a_generator_may_hold_the_watch():
    """The block ends while another frame runs."""

    def batches():
        with autograder.watch():
            yield 1
            yield 2

    before = everything()
    for _ in batches():
        (leaf() * 2).sum().backward()
    held = batches()
    next(held)
    held.close()
    gc.collect()
    assert before == everything()


def carry_a_state(steps: int) -> None:
    """Fail at the second step, because the state that the first one computed has a freed graph."""
    w, state = leaf(), torch.ones(2)
    for _ in range(steps):
        state = (state * w).tanh()  # made
        state.sum().backward()  # freed


def test_a_freed_graph_gets_a_note():
    """The note names the line that made the freed part and the line of the backward that freed it."""
    with pytest.raises(RuntimeError, match="second time") as raised, autograder.watch():
        carry_a_state(2)
    (note,) = raised.value.__notes__
    made, freed = marked(carry_a_state, "made"), marked(carry_a_state, "freed")
    assert f"line {made.pop()}: state = (state * w)" in note
    assert f"freed by the backward of {os.path.relpath(__file__)}, line {freed.pop()}:" in note


def test_an_unknown_check_is_refused():
    """In one sentence."""
    with pytest.raises(InputError, match="check='bits' is not known here"):
        autograder.watch("bits")


def test_an_error_is_explained_after_the_fact():
    """`explain(error)` gives the same harms as data, also from an exception that was raised from it; others are refused."""
    with autograder.watch() as watching, pytest.raises(RuntimeError) as seen:
        through_an_alias()
    found = autograder.explain(seen.value)
    assert ("raises-backward", watching.harms, ()) == (found.outcome, found.harms, found.fixes)
    assert "was written through d at" in found.steps
    assert "its bytes" not in found.steps  # a watch does not compare them
    html = found._repr_mimebundle_()["text/html"]
    assert "<img" not in html
    assert f"line {found.harms[0].mutated_at[0].line}" in html
    above = ValueError("epoch 3")
    above.__cause__ = seen.value
    assert watching.harms == autograder.explain(above).harms
    with pytest.raises(InputError, match="no watch was open"):
        autograder.explain(RuntimeError("other"))


def test_a_log_forgets_its_older_half():
    """A job of any length needs bounded memory; recent entries are found, and others are not."""
    nodes, writes = NodeLog(0), WriteLog()
    for number in range(MOST + 10):
        nodes.note(number, number + 1, number % 7, writes.clock)
        writes.note(number % 3, number, number)
    assert (MOST % 7, MOST) == nodes.find(MOST)
    assert nodes.find(5) is None
    assert len(writes.sites) <= MOST
    assert writes.clock == MOST + 10
    assert [(MOST + 9) % 3] == [storage for storage, _ in writes.since(MOST + 9)]
    nodes.note(MOST + 20, MOST + 21, 1, 0)
    assert (UNKNOWN, 0) == nodes.find(MOST + 15)


@pytest.mark.parametrize("shape", [(), (3,), (100, 100), (5, 3000), (0, 4)])
def test_samples_are_few_and_spread(shape):
    """A sample has all elements of a small tensor, and of a large one some of each part; views are read as they are seen."""
    tensor = torch.arange(torch.Size(shape).numel()).reshape(shape)
    found = sampled(tensor)
    assert found.numel() <= 4096
    assert torch.equal(found, tensor) or tensor.numel() > 4096
    assert set(found.flatten().tolist()) <= set(tensor.flatten().tolist())
    assert torch.equal(sampled(tensor.mT if tensor.dim() > 1 else tensor).sort().values.sum(), sampled(tensor).sum())
