"""Independent witnesses: what a program does in plain PyTorch, and what its gradients should have been.

Nothing here imports the tape. Each function runs a program afresh, seeded, and says what one witness saw:
`run` plain PyTorch, `run(clone_on_save=True)` with nothing that backward needs within reach of a write,
`differences` the values alone, `reference` the hand-written formulation.
"""

from __future__ import annotations

import ast
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import takewhile
from types import ModuleType
from unittest import mock

import torch
from torch import Tensor

from tests.corpus.programs import Program

Gradients = dict[str, Tensor | None]


@dataclass(frozen=True)
class Run:
    """What one run of a program did; `line` is the innermost line of the program's own text that raised."""

    raised: str | None
    error: str = ""
    message: str = ""
    line: int | None = None
    gradients: Gradients = field(default_factory=dict)


def run(program: Program, *, clone_on_save: bool = False, dtype: torch.dtype = torch.float32) -> Run:
    """Returns what PyTorch makes of the program, as it is or with a private copy of every saved tensor."""
    try:
        with ExitStack() as stack:
            if clone_on_save:
                stack.enter_context(torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t))
            gradients = execute(program, compile(program.source, program.file, "exec"), dtype)
            return Run(raised=None, gradients=gradients)
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        # torch.autograd.backward and .grad live in this one file (torch 2.13): what fails below them, fails in backward.
        # The compiler calls them as well, while it compiles a forward. Its eval_frame.py also runs each step of an optimizer.
        files = [frame.filename for frame in frames]
        outer = takewhile(lambda file: "/torch/_dynamo/" not in file or file.endswith("/eval_frame.py"), files)
        backward = any(file.endswith("torch/autograd/__init__.py") for file in outer)
        own = [frame.lineno for frame in frames if frame.filename == program.file]
        return Run(
            "raises-backward" if backward else "raises-forward",
            type(error).__name__,
            str(error),
            own[-1] if own else None,
        )


def execute(program: Program, code, dtype: torch.dtype = torch.float32) -> Gradients:
    """Returns the gradients the program leaves in its leaves, or those that its `run()` returns."""
    with fresh_torch(dtype), namespace_of(program) as namespace:
        exec(code, namespace)
        if program.function:
            return dict(namespace[program.function]())
        return {name: leaf.grad for name, leaf in leaves(namespace)}


@contextmanager
def namespace_of(program: Program) -> Iterator[dict]:
    """The program's own module, known to Python while it runs: a dataclass looks its module up."""
    module = ModuleType(program.file)
    sys.modules[program.file] = module
    try:
        yield vars(module)
    finally:
        del sys.modules[program.file]


@contextmanager
def fresh_torch(dtype: torch.dtype = torch.float32) -> Iterator[None]:
    """Each run starts from the same seed and leaves torch's global switches as it found them."""
    before, grad, anomaly = torch.get_default_dtype(), torch.is_grad_enabled(), torch.is_anomaly_enabled()
    torch.manual_seed(0)
    torch.set_default_dtype(dtype)
    try:
        with warnings.catch_warnings(action="ignore"):  # anomaly mode tells on stderr what the tests read elsewhere
            yield
    finally:
        torch.set_default_dtype(before)
        torch.set_grad_enabled(grad)
        torch.autograd.set_detect_anomaly(anomaly)


def leaves(namespace: dict) -> Iterator[tuple[str, Tensor]]:
    """Yields each leaf that requires grad under the name a reader would use, such as "w" or "net.weight"."""
    for name, value in list(namespace.items()):
        if isinstance(value, Tensor) and value.is_leaf and value.requires_grad:
            yield name, value
        elif isinstance(value, torch.nn.Module):
            yield from ((f"{name}.{path}", parameter) for path, parameter in value.named_parameters())


def states(program: Program) -> dict[str, tuple[int, str | None]]:
    """Returns the counter and the node's name of each tensor that a name of the program's top level holds at its end."""
    with fresh_torch(), namespace_of(program) as namespace:
        with suppress(Exception):  # a program that raises has a state as well
            exec(compile(program.source, program.file, "exec"), namespace)
        return {
            name: (value._version, type(value.grad_fn).__name__ if value.grad_fn else None)
            for name, value in namespace.items()
            if isinstance(value, Tensor) and not value.is_inference()
        }


def reference(program: Program) -> Gradients:
    """Returns what the program's `truth()` computes."""
    code = compile(program.source if program.function else "import torch\n", program.file, "exec")
    with fresh_torch(), namespace_of(program) as namespace:
        exec(code, namespace)
        exec(compile(program.truth, "truth", "exec"), namespace)
        torch.manual_seed(0)
        return {name: None if g is None else torch.as_tensor(g) for name, g in namespace["truth"]().items()}


def differences(program: Program, step: float = 1e-5) -> Gradients:
    """Returns the central differences, in float64, of all that backward is called on, for each leaf at its creation."""
    code = compile(with_probes(program.source), program.file, "exec")
    found: dict[str, Tensor] = {}

    def value(path: str | None = None, position: int = 0, delta: float = 0.0) -> float:
        return sum(roots(program, code, probe(path, position, delta, found)))

    value()
    names = {path for path, tensor in found.items()}
    slopes = {path: torch.zeros(found[path].shape, dtype=torch.float64) for path in names}
    for path in names:
        for position in range(slopes[path].numel()):
            rise = value(path, position, step) - value(path, position, -step)
            slopes[path].view(-1)[position] = rise / (2 * step)
    return dict(slopes)


def with_probes(source: str) -> ast.Module:
    """Returns the program with a call after each assignment outside of functions, where a new leaf can be moved."""

    class Insert(ast.NodeTransformer):
        def visit_FunctionDef(self, node: ast.FunctionDef):
            return node

        def visit_Assign(self, node: ast.Assign):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            calls = [ast.parse(f"__probe__({name!r}, {name})").body[0] for name in names]
            return [node, *(ast.copy_location(call, node) for call in calls)]

    return ast.fix_missing_locations(Insert().visit(ast.parse(source)))


def probe(path: str | None, position: int, delta: float, found: dict[str, Tensor]) -> Callable:
    """Returns the function that moves one number of the leaf at `path` by `delta`, the first time it is assigned."""
    seen = set()

    def moved(name: str, value: object) -> None:
        if name in seen:
            return
        seen.add(name)
        for leaf_path, leaf in leaves({name: value}):
            found.setdefault(leaf_path, leaf)
            if leaf_path == path:
                leaf.data.view(-1)[position] += delta  # the counter stays: the program must not notice

    return moved


def roots(program: Program, code, moved: Callable) -> list[float]:
    """Returns the value of each root that the program calls backward on; a refusal of backward is no obstacle here."""
    values: list[float] = []
    backward = Tensor.backward

    def capture(self: Tensor, gradient: Tensor | None = None, *args, **kwargs):
        values.append(float((self.detach() if gradient is None else self.detach() * gradient).sum()))
        return backward(self, gradient, *args, **kwargs)

    hooks = torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t)
    capturing = mock.patch.object(Tensor, "backward", capture)
    with fresh_torch(torch.float64), hooks, capturing, namespace_of(program) as namespace:
        exec(code, namespace | {"__probe__": moved})
    return values


def close(one: Gradients, other: Gradients, tolerance: float = 2e-3) -> bool:
    """Whether both know the same leaves and agree on each; no gradient at all counts as zero."""
    return all(
        torch.allclose(
            number(one.get(name), other.get(name)), number(other.get(name), one.get(name)), tolerance, 1e-4, True
        )
        for name in one.keys() | other.keys()
    )


def number(value: Tensor | None, like: Tensor | None) -> Tensor:
    """Returns `value` in float64, or zeros in the shape of `like`."""
    if value is None:
        return torch.zeros(()) if like is None else torch.zeros(like.shape, dtype=torch.float64)
    return value.detach().to_dense().double()
