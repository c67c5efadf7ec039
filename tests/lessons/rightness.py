"""Whether an answer is right, asked without the package's checks: plain PyTorch runs it, finite differences judge it.

Of the package only the description of the inputs is read (`leaf("n", 3)` and the like), from the exercise's own check cell.
"""

from __future__ import annotations

import ast
import contextlib
import io
import textwrap
import warnings
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_leaves

from autograder.check.message import Unsolved
from autograder.check.subject.inputs import TensorInput
from autograder.course.author_cells import AuthorExercise
from autograder.course.variants.variant_proof import CellNamespace as Namespace
from autograder.grade.submission.cell_analysis import bound_names, statements
from tests.corpus.oracles import close, differences
from tests.corpus.programs import Program

DRAWS = 4
STEP = 1e-5


class Judge:
    """Decides whether any answer to one exercise is right; the used memory is ignored."""

    def __init__(self, exercise: AuthorExercise, setup: str) -> None:
        author = Namespace()
        with contextlib.redirect_stdout(io.StringIO()):
            author.run(setup)
        self.exercise, self._names, self._setup = exercise, dict(author.names), statements(setup)
        self._asked: tuple[str, dict[str, Any]] = ("", {})
        author.names["check"] = lambda name, **options: self._ask("check", options)
        author.names["check_outcome"] = lambda name, outcome, **options: self._ask("outcome", options | {"is": outcome})
        with contextlib.suppress(Unsolved):  # a check of predictions asks for words, and finds none here
            author.run(exercise.check)

    def _ask(self, kind: str, options: dict[str, Any]) -> None:
        self._asked = (kind, options)

    def after(self, answer: str) -> Namespace:
        """Return a student's namespace after the lesson's imports and the answer; raises the errors of the answer."""
        learner = Namespace()
        learner.names = dict(self._names)
        learner.run(answer)
        return learner

    def is_right(self, answer: str) -> bool:
        """Return whether the answer meets the requirements of the exercise's check cell."""
        kind, options = self._asked
        try:
            target = self.after(answer).names.get(self.exercise.id)
        except Exception:
            return False
        if kind == "check":
            allowed = not words_of(ast.parse(answer)) & set(options.get("without", ()))
            return allowed and callable(target) and _computes_the_same(target, options)
        # Of predictions every other word than the author's is wrong.
        return kind == "outcome" and _comes_to(options["is"], options.get("without", ()), answer, self._shown(answer))

    def _shown(self, answer: str) -> str:
        """Return the demonstration's assignments that an answer reads: it runs in the notebook that holds them."""
        names = [node for node in ast.walk(ast.parse(answer)) if isinstance(node, ast.Name)]
        own = {node.id for node in names if isinstance(node.ctx, ast.Store)}
        wanted = {node.id for node in names} - own
        return "\n".join(
            ast.unparse(part) for part in self._setup if isinstance(part, ast.Assign) and bound_names(part) & wanted
        )


def _computes_the_same(target: Any, options: dict[str, Any]) -> bool:
    like = _writing(options["like"], options["afterwards"]) if "afterwards" in options else options["like"]
    inputs = {name: drawn for name, drawn in options.items() if isinstance(drawn, TensorInput)}
    plain = {name: value for name, value in options.items() if isinstance(value, int | float | str)}
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
            warnings.simplefilter("ignore")
            return all(_agrees(target, like, inputs, plain, seed) for seed in range(DRAWS))
    except Exception:
        return False
    finally:
        torch.set_default_dtype(before)
        torch.set_grad_enabled(True)


def _writing(like: Any, afterwards: Any) -> Any:
    """Return the reference as a function that writes the expected values of the check cell into its arguments."""

    def written(**handed: torch.Tensor) -> Any:
        left, value = afterwards(**handed), like(**handed)
        with torch.no_grad():
            for name, tensor in left.items():
                handed[name].copy_(tensor)
        return value

    return written


def _agrees(target: Any, like: Any, inputs: dict[str, TensorInput], plain: dict[str, Any], seed: int) -> bool:
    torch.manual_seed(1000 + seed)
    kinds = {name: drawn.kind for name, drawn in inputs.items()}
    points = _points(inputs)
    if isinstance(like, type):
        for name, parameter in like(**plain).named_parameters():
            points[name], kinds[name] = torch.randn_like(parameter).detach(), "parameter"
    right = _run(like, plain, points, {})
    pulls = [torch.randn_like(output) if output.is_floating_point() else None for output in right.outputs]
    kept: list[torch.Tensor | None] = [None] * len(right.memory)
    # The caller may also let backward start in a tensor of its own that the function wrote into.
    written = [
        torch.randn_like(after) if kinds.get(name) == "result" and not torch.equal(after, points[name]) else None
        for name, after in zip(inputs, right.memory, strict=True)
    ]
    return all(_agrees_from(target, like, plain, points, kinds, right, [*pulls, *more]) for more in (kept, written))


def _agrees_from(target, like, plain, points, kinds, right: _Ran, pulls: list[torch.Tensor | None]) -> bool:
    """Whether values, memory and gradients agree where backward starts from these pulls, of the outputs and then of the memory."""
    got = _run(target, plain, points, kinds)
    if not _equal_all(got.outputs, right.outputs) or not _equal_all(got.memory, right.memory):
        return False
    _backward([*got.outputs, *got.handed], pulls)
    return all(
        _is_untouched(leaf.grad)
        if kinds.get(name) == "frozen"
        else _close_to_slope(leaf.grad, like, plain, points, name, pulls)
        for name, leaf in got.leaves.items()
    )


def _is_untouched(gradient: torch.Tensor | None) -> bool:
    return gradient is None


class _Ran(NamedTuple):
    """The returned value, the caller's tensors, the contents of their memory afterwards, and the leaves that receive gradients."""

    outputs: list[torch.Tensor]
    handed: list[torch.Tensor]
    memory: list[torch.Tensor]
    leaves: dict[str, torch.Tensor]


def _run(target: Any, plain: dict[str, Any], points: dict[str, torch.Tensor], kinds: dict[str, str]) -> _Ran:
    """Run a function, or build a module and load its parameters by name; without kinds nothing is recorded."""
    trained = ("leaf", "result", "frozen")
    leaves = {name: points[name].clone().requires_grad_() for name, kind in kinds.items() if kind in trained}
    handed = {name: leaves.get(name, point.clone()) for name, point in points.items()}
    handed |= {name: leaf.clone() for name, leaf in leaves.items() if kinds[name] == "result"}
    if isinstance(target, type):
        target, plain = target(**plain), {}
        parameters = dict(target.named_parameters())
        with torch.no_grad():
            for name, parameter in parameters.items():
                parameter.copy_(handed.pop(name))
        leaves |= parameters if kinds else {}
    memory = [tensor.detach() for tensor in handed.values()]
    with torch.set_grad_enabled(bool(kinds)):
        value = target(**handed, **plain)
    outputs = [torch.as_tensor(leaf) for leaf in tree_leaves(value)]
    return _Ran(outputs, list(handed.values()), [tensor.clone() for tensor in memory], leaves)


def _points(inputs: dict[str, TensorInput]) -> dict[str, torch.Tensor]:
    words = {size for drawn in inputs.values() for size in drawn.shape if isinstance(size, str)}
    sizes = {word: int(torch.randint(2, 5, ())) for word in sorted(words)}
    return {name: _point(drawn, [sizes.get(size, size) for size in drawn.shape]) for name, drawn in inputs.items()}


def _point(drawn: TensorInput, shape: list[int]) -> torch.Tensor:
    if drawn.mixed:  # the positions of one row, shuffled: as many ones as halves of it
        return (torch.rand(shape).argsort(-1) < shape[-1] // 2).long()
    if drawn.integers:
        return torch.randint(int(drawn.low), int(drawn.high), shape)
    return drawn.low + (drawn.high - drawn.low) * torch.rand(shape)


def _backward(outputs: list[torch.Tensor], pulls: list[torch.Tensor | None]) -> None:
    pairs = [(o, pull) for o, pull in zip(outputs, pulls, strict=True) if pull is not None and o.requires_grad]
    if pairs:
        torch.autograd.backward([output for output, _ in pairs], [pull for _, pull in pairs])


def _close_to_slope(gradient, like: Any, plain: dict[str, Any], points, name: str, pulls) -> bool:
    def value(index: int, distance: float) -> float:
        moved = {key: point.clone() for key, point in points.items()}
        moved[name].view(-1)[index] += distance
        ran = _run(like, plain, moved, {})
        pairs = zip([*ran.outputs, *ran.memory], pulls, strict=True)
        return sum(float((value * pull).sum()) for value, pull in pairs if pull is not None)

    slopes = torch.tensor([(value(i, STEP) - value(i, -STEP)) / (2 * STEP) for i in range(points[name].numel())])
    got = torch.zeros_like(slopes) if gradient is None else gradient.reshape(-1)
    return torch.allclose(got, slopes, rtol=1e-4, atol=1e-5)


def _equal_all(first: list[torch.Tensor], second: list[torch.Tensor]) -> bool:
    return len(first) == len(second) and all(map(_equal, first, second))


def _equal(first: torch.Tensor, second: torch.Tensor) -> bool:
    return (first.dtype, first.shape) == (second.dtype, second.shape) and torch.allclose(
        first, second, rtol=1e-6, atol=1e-8
    )


def _comes_to(outcome: str, without: tuple[str, ...], answer: str, shown: str) -> bool:
    """Return whether a program without arguments runs, avoids the words, and leaves right or wrong gradients as asked."""
    tree = ast.parse(answer)
    function = tree.body[-1]
    if words_of(tree) & set(without) or not isinstance(function, ast.FunctionDef):
        return False
    namespace: dict = {}
    imports = f"import torch\nimport torch.nn.functional as F\n{shown}\n"
    try:
        exec(imports + answer, namespace)
        got = namespace[function.name]()
        body = "\n".join(ast.unparse(statement) for statement in function.body if not isinstance(statement, ast.Return))
        right = differences(_as_program(imports + body))
    except Exception:
        return False
    kept = {name: slope for name, slope in right.items() if name in got}
    return close(got, kept) == (outcome == "correct")


def words_of(tree: ast.AST) -> set[str]:
    """Return every name and attribute in a piece of code."""
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return names | {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def _as_program(source: str) -> Program:
    none: frozenset[int] = frozenset()
    return Program("mutant", textwrap.dedent(source), "correct", none, none, None, None, False, False, "", None)
