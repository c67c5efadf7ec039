"""A modification of a gradient during backward, which other nodes receive as well."""

from __future__ import annotations

from collections.abc import Iterator

from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.harms.harm_kind import Example, HarmKind
from autograder.tape.observe.graph.nodes import GraphNode
from autograder.tape.observe.state import RunState
from autograder.tape.observe.step_builder import WriteEvent
from autograder.tape.recording.verdict_types import Harm


def find(evidence: Evidence) -> Iterator[Harm]:
    """Yield the modifications of gradients that a hook or a custom backward received."""
    state = evidence.state
    for write in state.writes:
        if write.in_backward and write.changed and write.operation != "accumulate" and write.tracked is not None:
            giver = _giver(state, write)
            node, place = (giver.name, giver.place) if giver else ("the engine", write.place)
            name = state.name_of(write.tracked) or "a gradient"
            yield Harm(name, (write.place,), None, place, node, 0, write.version, True)


def _giver(state: RunState, write: WriteEvent) -> GraphNode | None:
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
    find=find,
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
