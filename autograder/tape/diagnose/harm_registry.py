"""All kinds of harm in the order of the search, with those of gradients and of values that a later part of backward reads."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.harm_kind import Example, HarmKind, alias, harm_to, name_of_gradient, places
from autograder.tape.diagnose.kinds_of_write import COUNTED_WRITE, FOUND_BY_VERSION, UNCOUNTED_WRITE, UNRECORDED_WRITE
from autograder.tape.internals.entry_points import ZEROING
from autograder.tape.observe.nodes import GraphNode
from autograder.tape.observe.state import RunState
from autograder.tape.observe.step_builder import WriteEvent
from autograder.tape.recording.verdict_types import Harm


def writes_during_backward(evidence: Evidence) -> Iterator[Harm]:
    """Yield the modifications during backward of saved tensors that were used later."""
    for write in evidence.state.writes:
        for save in write.harmed if write.in_backward and write.changed else ():
            # A custom Function may modify its own saved tensors deliberately.
            if save.used and not save.node.is_custom:
                yield harm_to(evidence.state, save, [write], changed=True)


WRITE_DURING_BACKWARD = HarmKind(
    name="write during backward",
    sentence="While backward ran, a hook or a custom backward wrote into a tensor that a later node still needed.",
    outcomes=("silently-wrong",),
    find=writes_during_backward,
    example=Example(
        "silently-wrong",
        """
        import torch
        w = torch.tensor([1.0, 2.0], requires_grad=True)

        def clear(grad):
            a.data.zero_()  # writes

        a = w * 1
        h = a * a  # saves
        h.register_hook(clear)
        h.sum().backward()
        """,
    ),
)


def writes_before_recomputation(evidence: Evidence) -> Iterator[Harm]:
    """Yield the modifications of tensors that the recomputation read and that are not arguments of the block."""
    state = evidence.state
    blocks = [save.writes_before for save in state.graph.saves if save.checkpointed]
    for write in state.writes[min(blocks) :] if blocks else ():
        place = state.read_again.get(write.memory)
        if place is not None and write.changed and not write.in_backward and write.tracked is not None:
            name = state.name_of(write.tracked) or "a tensor of the block"
            yield Harm(name, (write.place,), alias([write], name), place, "checkpoint", None, write.version, True)


RECOMPUTED_BLOCK = HarmKind(
    name="write before recomputation",
    sentence="A checkpointed block is computed again during backward, with a tensor that was overwritten after its forward pass.",
    outcomes=("silently-wrong",),
    find=writes_before_recomputation,
    example=Example(
        "silently-wrong",
        """
        import torch
        from torch.utils.checkpoint import checkpoint
        w = torch.tensor([1.0, 2.0], requires_grad=True)
        scale = torch.tensor([3.0, 4.0])

        def block(x):
            return torch.sin(x + scale)  # saves

        h = checkpoint(block, w, use_reentrant=False)
        scale.mul_(10)  # writes
        h.sum().backward()
        """,
    ),
)


_EMPTIES = (*ZEROING, "zero_grad")


def kept_gradients(evidence: Evidence) -> Iterator[Harm]:
    """Yield the modifications of gradient buffers: those that zeroed one, or else those of a later backward that accumulated into one."""
    state = evidence.state
    writes = [write for write in state.writes if write.changed and write.memory in state.buffers]
    writes = [write for write in writes if write.operation in _EMPTIES] or writes
    for memory in dict.fromkeys(write.memory for write in writes):
        overwriting = [write for write in writes if write.memory is memory]
        leaf, filled = state.buffers[memory]
        name = name_of_gradient(state, leaf)
        yield Harm(name, places(overwriting), None, filled, "AccumulateGrad", None, overwriting[-1].version, True)


KEPT_GRADIENT = HarmKind(
    name="write into a kept gradient",
    sentence="The program kept a leaf's .grad without a copy, and its memory was then emptied or added to.",
    outcomes=("silently-wrong",),
    find=kept_gradients,
    example=Example(
        "silently-wrong",
        """
        import torch
        w = torch.tensor([1.0, 2.0], requires_grad=True)

        def run():
            (w * w).sum().backward()
            first = w.grad
            w.grad.zero_()  # writes
            (3 * w).sum().backward()  # saves
            return {"first": first}
        """,
    ),
)


def passed_gradients(evidence: Evidence) -> Iterator[Harm]:
    """Yield the modifications of gradients that a hook or a custom backward received."""
    state = evidence.state
    for write in state.writes:
        if write.in_backward and write.changed and write.operation != "accumulate" and write.tracked is not None:
            source_node = _source_node(state, write)
            node, place = (source_node.name, source_node.place) if source_node else ("the engine", write.place)
            name = state.name_of(write.tracked) or "a gradient"
            yield Harm(name, (write.place,), None, place, node, 0, write.version, True)


def _source_node(state: RunState, write: WriteEvent) -> GraphNode | None:
    """Return the node that passed the gradient on: the consumer of the custom node that ran, else the first node with two inputs."""
    if write.running and write.running.consumers:
        return write.running.consumers[0]
    visited = state.visited[write.call] if write.call < len(state.visited) else ()
    nodes = [state.graph.nodes[number] for number in visited]
    return next((node for node in nodes if len(node.inputs) > 1), nodes[0] if nodes else None)


PASSED_GRADIENT = HarmKind(
    name="write into a passed gradient",
    sentence="A hook or a custom backward modified its incoming gradient in place, and another node received the same tensor.",
    outcomes=("silently-wrong",),
    find=passed_gradients,
    example=Example(
        "silently-wrong",
        """
        import torch
        w = torch.tensor([1.0, 2.0], requires_grad=True)
        v = torch.tensor([3.0, 4.0], requires_grad=True)

        def double(grad):
            grad.mul_(2)  # writes

        a, b = w.exp(), v.exp()
        c = (a + b) * 1  # saves
        a.register_hook(double)
        c.sum().backward()
        """,
    ),
)


def shared_gradients(evidence: Evidence) -> Iterator[Harm]:
    """Yield the assignments to `.grad` that gave two leaves the same memory."""
    state = evidence.state
    for place, leaf, other in state.shared_buffers:
        name, through = name_of_gradient(state, other), name_of_gradient(state, leaf)
        yield Harm(name, (place,), through, place, "AccumulateGrad", 0, 0, True)


SHARED_GRADIENT = HarmKind(
    name="shared gradient",
    sentence="Two leaves were given the same memory as their .grad, and backward adds to it for both.",
    outcomes=("silently-wrong",),
    find=shared_gradients,
    example=Example(
        "silently-wrong",
        """
        import torch
        w = torch.tensor([1.0, 2.0], requires_grad=True)
        v = torch.tensor([3.0, 4.0], requires_grad=True)
        w.grad = torch.zeros(2)
        v.grad = w.grad  # writes
        (2 * w + 5 * v).sum().backward()
        """,
    ),
)


# All kinds of a row are searched, and their harms are listed in this order; a row is searched only if the rows above
# found no harm. Kinds with less information, which could name a line that does no harm, are in lower rows.
HARM_KINDS: tuple[tuple[HarmKind, ...], ...] = (
    (COUNTED_WRITE, UNCOUNTED_WRITE, UNRECORDED_WRITE),
    (FOUND_BY_VERSION, WRITE_DURING_BACKWARD),
    (PASSED_GRADIENT, SHARED_GRADIENT, RECOMPUTED_BLOCK),
    (KEPT_GRADIENT,),
)


def find_harms(evidence: Evidence) -> tuple[Harm, ...]:
    """Return the modifications that explain the outcome, starting with the cause of an error, or () if no modification explains it."""
    for row in HARM_KINDS:
        kinds = [kind for kind in row if evidence.outcome in kind.outcomes]
        found = [
            structs.replace(harm, kind=kind.name, explanation=kind.sentence)
            for kind in kinds
            for harm in kind.find(evidence)
        ]
        if found:
            return tuple(dict.fromkeys(found))
    return ()
