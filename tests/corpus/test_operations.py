"""The verdict on each differentiable operation, with a sample of PyTorch's own tests.

The expected outcome comes from plain PyTorch: a write through `.data` between the operation and backward is harmful if
it changes a gradient.
"""

import copy

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map

from autograder.tape.explain import record

# Here the write changes a gradient of 0 by its rounding error.
ROUNDED = {("polar", "result")}


def samples():
    """Yield the name, the function and a sample of each operation that has a derivative in single precision."""
    for operation in op_db:
        if operation.supports_autograd and torch.float32 in operation.supported_backward_dtypes("cpu"):
            torch.manual_seed(0)
            given = operation.sample_inputs("cpu", torch.float32, requires_grad=True)
            *_, sample = (one for _, one in zip(range(2), given, strict=False))
            yield f"{operation.name} {operation.variant_test_name}".strip(), operation, sample


def new_leaf(value):
    """Return a new leaf for a tensor, and a copy of another value."""
    is_tensor = isinstance(value, torch.Tensor)
    return value.detach().clone().requires_grad_(value.requires_grad) if is_tensor else copy.copy(value)


def gradients(operation, sample, written):
    """Return the gradients of the inputs after a write into nothing, into the input, or into a result of the operation."""
    torch.manual_seed(1)
    given, args, options = (tree_map(new_leaf, part) for part in (sample.input, sample.args, sample.kwargs))
    result = operation(given, *args, **options)
    result = sample.output_process_fn_grad(result) if sample.output_process_fn_grad else result
    results = [one for one in tree_leaves(result) if isinstance(one, torch.Tensor) and one.requires_grad]
    loss = sum((one.abs() if one.is_complex() else one).sum() for one in results)
    if written != "nothing":
        (tree_leaves(given)[0] if written == "input" else results[0]).data.mul_(1.5)
    loss.backward()
    leaves = [one for one in tree_leaves((given, args, options)) if isinstance(one, torch.Tensor) and one.is_leaf]
    return [one.grad.to_dense().nan_to_num() for one in leaves if one.requires_grad and one.grad is not None]


@pytest.mark.slow
@pytest.mark.parametrize("written", ["nothing", "input", "result"])
def test_each_operation(written):
    """A verdict is silently-wrong exactly if plain PyTorch gives other gradients after the write."""
    different, judged = [], 0
    for name, operation, sample in samples():
        try:
            right, now = (gradients(operation, sample, one) for one in ("nothing", written))
        except (AttributeError, RuntimeError, TypeError):
            continue  # a sample without a loss, or a result that cannot be modified in place
        is_right = all(torch.allclose(one, two, rtol=1e-4, atol=1e-6) for one, two in zip(right, now, strict=True))
        outcome = record(lambda: gradients(operation, sample, written)).verdict.outcome  # noqa: B023 - runs now
        judged += 1
        if (outcome == "correct") != is_right and (name, written) not in ROUNDED:
            different.append((name, outcome))
    assert different == []
    assert judged > 450


@pytest.mark.slow
def test_each_in_place_operation():
    """If a write makes plain PyTorch raise in backward, the verdict names its line; if not, it is correct."""
    different, judged = [], 0
    for name, operation, sample in samples():
        if operation.inplace_variant is None or sample.broadcasts_input:
            continue

        def program(operation=operation, sample=sample):
            h = new_leaf(sample.input) * 1
            y = h * h
            operation.inplace_variant(h, *sample.args, **sample.kwargs)  # the write
            y.sum().backward()

        try:
            program()
            wanted = "correct", set()
        except RuntimeError as error:
            if "modified by an inplace operation" not in str(error):
                continue
            wanted = "raises-backward", {True}
        verdict = record(program).verdict
        found = verdict.outcome, {"the write" in place.text for harm in verdict.harms for place in harm.mutated_at}
        judged += 1
        different += [(name, found)] if found != wanted else []
    assert different == []
    assert judged > 90
