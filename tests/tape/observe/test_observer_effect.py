"""Observation has no effect: recorded and unrecorded runs have the same versions, graph, gradients and error."""

import pytest
import torch

from autograder.tape.observe.observer import Observer
from autograder.tape.run.engine import Listener
from autograder.tape.run.graph_walk import nodes_below
from autograder.tape.run.programs.program import from_source
from autograder.tape.run.runner import Runner
from tests.corpus.programs import programs
from tests.tape.modules import MODULES


class Witness(Listener):
    """Writes down the state before and after each backward: node names in order, versions, aliasing and bytes of every gradient."""

    def __init__(self):
        self.seen = []

    def before_backward(self, call):  # noqa: D102 - as in Listener
        nodes = [type(node).__name__ for node in nodes_below(call.roots, call.asked)]
        self.seen.append((nodes, [target._version for target in call.targets]))

    def after_backward(self, call):  # noqa: D102
        buffers = [target.grad for target in call.targets if target.is_leaf and target.grad is not None]
        order = {
            address: index for index, address in enumerate(dict.fromkeys(b.data_ptr() for b in buffers if b.numel()))
        }
        self.seen.append(
            (
                [None if g is None else g.detach().to_dense().double().flatten().tolist() for g in call.gradients],
                [
                    (b._version, order.get(b.data_ptr() if b.numel() else None))
                    for b in buffers
                    if b.layout == torch.strided
                ],
            )
        )


class Watched(Observer):
    """The observer, together with the witness."""

    def __init__(self, program):
        super().__init__(program)
        self.witness = Witness()

    def before_backward(self, call):  # noqa: D102
        self.witness.before_backward(call)
        super().before_backward(call)

    def after_backward(self, call):  # noqa: D102
        super().after_backward(call)
        self.witness.after_backward(call)


EVERY = [(p.name, p.source, p.file, p.function) for p in programs()] + [
    (name, source, f"{name}.py", "run") for name, source in MODULES.items()
]


@pytest.mark.parametrize(("source", "file", "function"), [rest for _, *rest in EVERY], ids=[name for name, *_ in EVERY])
def test_a_recorded_run_is_the_unrecorded_run(source, file, function):
    """Error text and line, nodes, versions, gradients and which of them share memory: all equal, and no error of ours."""
    program = from_source(source, file, None, function)
    alone, watched = Witness(), Watched(program)

    plain = Runner(program).run(alone)
    observed = Runner(program).run(watched)

    assert plain.problem == observed.problem
    assert repr(alone.seen) == repr(watched.witness.seen)
    assert watched.failure is None
