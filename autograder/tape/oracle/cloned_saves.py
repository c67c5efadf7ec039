"""A run with private copies of all values that backward needs, which gives the gradients of the program's formulas.

The following are private copies: each saved tensor, each gradient that enters or leaves a custom backward or a hook,
and each tensor stored on ctx. A gradient buffer is not zeroed or accumulated into while other references to it may
exist. Checkpoints do not recompute values.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import CheckpointFunction

from autograder.tape.internals import entry_points
from autograder.tape.internals.tensor_fields import is_checkpoint
from autograder.tape.observe.backward_watcher import BackwardTrace
from autograder.tape.observe.left_gradients import LeftGradients
from autograder.tape.observe.names import names_in
from autograder.tape.oracle.gradient_comparison import copy_of
from autograder.tape.run.child_processes import in_new_threads
from autograder.tape.run.engine import Backward, Listener
from autograder.tape.run.function_mode import tensors
from autograder.tape.run.programs.program import Program
from autograder.tape.run.snapshot import same_items
from autograder.tape.run.storages import extent_of, is_allocated


class ClonedSavesRun(Listener):
    """The listener of a run with copies.

    Attributes:
        names_leaves: whether each backward call notes the expressions for its new targets.
        keeps_leaves: whether leaves on ctx are not copied. A backward that recomputes may ask for their gradients, and
            `autograd.grad` identifies a leaf by its object.
    """

    def __init__(self, *, names_leaves: bool = False, keeps_graph: bool = False, keeps_leaves: bool = False):
        self.names_leaves, self.keeps_graph, self.keeps_leaves = names_leaves, keeps_graph, keeps_leaves
        self._named: set[int] = set()  # the targets of earlier calls
        self.trace, self.left = BackwardTrace(), LeftGradients()
        self.buffers = _Buffers()
        self._has_custom = False  # whether the program has called a custom Function
        self._lock = threading.Lock()
        self._filling: dict[int, set[int]] = {}  # by thread, the ids of the leaves of its running backward

    @contextmanager
    def around(self, program: Program) -> Iterator[None]:
        """Return the context that makes the copies."""
        without_hooks = functools.partial(entry_points.without_hooks, self._packed, self._unpacked)
        with (
            self.left.around(program), entry_points.around_transforms(without_hooks),
            self._saves(), entry_points.replaced_hooks(self._packing),
            # Each saved tensor already has the hooks of this run, and PyTorch allows only one pair.
            entry_points.replaced(torch.autograd.SavedTensor, "register_hooks", lambda *_: None),
            entry_points.replaced_apply(self._with_copies),
            entry_points.wrapping(torch.Tensor, "register_hook", _register_with_copy), self.buffers, in_new_threads(self._thread),
        ):  # fmt: skip
            yield

    def _with_copies(self, apply: Callable[..., Any], cls: Any, *args: Any, **kwargs: Any) -> Any:
        self._has_custom, copied = True, functools.partial(_copy, keeps_leaves=self.keeps_leaves)
        # A checkpoint would run its forward again in backward. Called directly, the forward runs once; without an input
        # that requires grad, the checkpoint records nothing anyway.
        if cls is CheckpointFunction and any(tensor.requires_grad for tensor in tensors(args)):
            function, _preserve_rng_state, *inputs = args
            return function(*inputs)
        result = apply(cls, *args, **kwargs)
        node = next((tensor.grad_fn for tensor in tensors(result) if tensor.grad_fn is not None), None)
        if isinstance(node, torch.autograd.function.BackwardCFunction):
            for name, value in list(vars(node).items()):
                is_result = isinstance(value, torch.Tensor) and value.grad_fn is node
                with torch.enable_grad():
                    if _has_only_tensors(value, list, dict):
                        _Container(node, name, copied)
                        continue
                    kept = value.detach().clone() if is_result else copied(value)
                    if _is_trained(value):
                        node.register_prehook(functools.partial(_restore, weakref.ref(node), name, kept))
                        continue
                    setattr(node, name, kept)
                    if isinstance(value, torch.Tensor) and kept is not value:
                        node.register_prehook(functools.partial(_renew, weakref.ref(node), name, kept, copied(kept)))
            node.register_prehook(_copies)
            node.register_hook(lambda outgoing, _incoming: _copies(outgoing))
        return result

    @contextmanager
    def _thread(self) -> Iterator[None]:
        with self._saves(), self.buffers:
            yield

    def _saves(self) -> AbstractContextManager[None]:
        return torch.autograd.graph.saved_tensors_hooks(self._packed, self._unpacked)

    def _packed(self, saved: torch.Tensor) -> list[torch.Tensor]:
        # `torch.jit.trace` would record a copy as an operation of the program.
        packed = [saved if torch.jit.is_tracing() or self.buffers.late is not None else copy_of(saved)]
        if self.buffers.late is not None:
            self.buffers.late.append(packed)
        return packed

    def _unpacked(self, packed: list[torch.Tensor]) -> torch.Tensor:
        # A custom backward may modify it, and run again with `retain_graph=True`.
        return copy_of(packed[0]) if self._has_custom else packed[0]

    def _packing(self, pack: Any, unpack: Any) -> Any:
        if is_checkpoint(unpack):  # a checkpoint recomputes tensors instead of saving them
            return self._packed, self._unpacked
        return lambda tensor: pack(copy_of(tensor)), unpack

    def before_backward(self, call: Backward) -> None:
        """Give each leaf its own gradient buffer before backward accumulates into it.

        A leaf has one already if another thread accumulates into it now; replacing it would lose that gradient.
        """
        self.left.before_backward(call)
        with self._lock:
            others = set().union(*self._filling.values())
            self.buffers.separate([leaf for leaf in call.targets if id(leaf) not in others])
            self._filling[threading.get_ident()] = {id(leaf) for leaf in call.targets}
        new = set(call.numbers) - self._named if self.names_leaves else None
        if new:  # the frames that called backward have names for them
            self._named |= new
            names = names_in(list(self.left.program.frames())[::-1])
            call.names = {number: name for number, name in names.items() if number in new}
        self.trace.before_backward(call)

    def after_backward(self, call: Backward) -> None:
        """Remove the hooks of the trace."""
        with self._lock:
            self._filling.pop(threading.get_ident(), None)
        self.trace.after_backward(call)


# The methods behind GRADIENT_GIVEN, and ZEROING. Most calls are of other functions.
_ON_BUFFERS = {"__set__", *entry_points.ZEROING}
# These functions save their noise before they fill it (PyTorch 2.13, issue 193671).
_SAVING_EARLY = {"rrelu", "rrelu_"}


class _Buffers(TorchFunctionMode):
    """A function mode that gives a leaf a new gradient buffer when the program zeros the old one, to which other references may exist."""

    def __init__(self) -> None:
        super().__init__()
        self.leaves: dict[int, torch.Tensor] = {}
        self.given: set[int] = set()
        self.keep: list[torch.Tensor] = []
        self.late: list[list[torch.Tensor]] | None = None  # saved tensors to copy when the running function returns

    def __exit__(self, *error: Any) -> Any:
        self.leaves, self.keep = {}, []
        return super().__exit__(*error)

    def separate(self, leaves: list[torch.Tensor]) -> None:
        taken: list[tuple[int, int]] = []
        for leaf in leaves:
            if not leaf.is_leaf or (leaf.grad is not None and leaf.grad.layout != torch.strided):
                continue
            self.leaves[id(leaf)] = leaf
            # A buffer that the program assigned (such as a slice of a flat buffer) may share memory, but not with
            # another leaf's buffer.
            if leaf.grad is not None and not leaf.grad.requires_grad:
                base, (first, last) = leaf.grad.untyped_storage().data_ptr(), extent_of(leaf.grad)
                first, last = base + first, base + last
                if id(leaf.grad) not in self.given or any(first < end and begin < last for begin, end in taken):
                    leaf.grad = leaf.grad.detach().clone()
                taken.append((first, last))

    def __torch_function__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        called = getattr(func, "__name__", "")
        if called in _SAVING_EARLY:
            self.late = []
            try:
                return func(*args, **(kwargs or {}))
            finally:
                for packed in self.late:
                    packed[0] = copy_of(packed[0])
                self.late = None
        if called not in _ON_BUFFERS:
            return func(*args, **(kwargs or {}))
        name = entry_points.function_name(func)
        if name in entry_points.GRADIENT_GIVEN and isinstance(args[1], torch.Tensor):
            self.given.add(id(args[1]))
            self.keep.append(args[1])  # so that Python does not reuse its id
        if name in entry_points.ZEROING and args:
            written = tensors(args)
            leaves = [self._leaf_of(tensor) for tensor in written]
            if written and all(leaf is not None for leaf in leaves):
                for leaf in leaves:
                    leaf.grad = torch.zeros_like(leaf.grad)  # type: ignore[union-attr,arg-type]
                return leaves[0].grad if name == "zero_" else None  # type: ignore[union-attr]
        return func(*args, **(kwargs or {}))

    def _leaf_of(self, tensor: torch.Tensor) -> torch.Tensor | None:
        for leaf in self.leaves.values():
            buffer = leaf.grad
            if buffer is None or id(buffer) in self.given or buffer.requires_grad or buffer.layout != torch.strided:
                continue
            if tensor.data_ptr() == buffer.data_ptr() and tensor.shape == buffer.shape and buffer.numel():
                return leaf
        return None


def _copy(value: Any, keeps_leaves: bool) -> object:
    if isinstance(value, torch.Tensor):
        is_kept = (keeps_leaves and value.is_leaf and value.requires_grad) or not is_allocated(value)
        return value if is_kept else value.clone()
    if _has_only_tensors(value, tuple, list):
        return type(value)(_copy(item, keeps_leaves) for item in value)
    if _has_only_tensors(value, dict):
        return {key: _copy(item, keeps_leaves) for key, item in value.items()}
    if type(value).__module__ == "numpy" and type(value).__name__ == "ndarray":
        return value.copy()
    return copy(value) if _is_settings(value) else value


def _has_only_tensors(value: Any, *kinds: type) -> bool:
    """Return whether a container of one of these types has items, and all of them are tensors."""
    items = value.values() if type(value) is dict else value
    return type(value) in kinds and bool(value) and all(isinstance(item, torch.Tensor) for item in items)


class _Container:
    """A list or dictionary of tensors on ctx, which other functions may share, as a stack of outputs.

    Backward gets a copy of it unless the program has added or removed items since the forward. If backward adds or removes
    items of the copy, the original changes in the same way.
    """

    def __init__(self, node: Any, name: str, copied: Callable[[Any], Any]) -> None:
        self.node, self.name, self.original = node, name, getattr(node, name)
        self.items, self.copy = items_of(self.original), copied(self.original)
        self.originals = dict(zip(map(id, items_of(self.copy).values()), self.items.values(), strict=True))
        node.register_prehook(self._give_copy)
        node.register_hook(self._take_changes)

    def _give_copy(self, *_: object) -> None:
        if same_items(self.items, items_of(self.original)):
            self.given = items_of(self.copy)
            setattr(self.node, self.name, self.copy)

    def _take_changes(self, *_: object) -> None:
        now = items_of(self.copy)
        # A backward may also delete the attribute (`del ctx.inputs`).
        if getattr(self.node, self.name, None) is self.copy and not same_items(self.given, now):
            kept = {key: self.originals.get(id(item), item) for key, item in now.items()}
            self.original.clear()
            self.original.update(kept) if isinstance(self.original, dict) else self.original.extend(kept.values())


def items_of(container: Any) -> dict[Any, Any]:
    """Return the items of a list or dictionary by position or key."""
    return dict(container) if isinstance(container, dict) else dict(enumerate(container))


def _is_settings(value: object) -> bool:
    """Return whether the object has only numbers and strings, such as a configuration that a schedule modifies."""
    attributes = getattr(value, "__dict__", None)
    values = attributes.values() if type(attributes) is dict else ()
    return bool(values) and all(isinstance(value, int | float | str | None) for value in values)


def _copies(gradients: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(None if gradient is None else gradient.clone() for gradient in gradients)


def _renew(node: weakref.ref[Any], name: str, copy_given: torch.Tensor, values: torch.Tensor, *_: object) -> None:
    """Restore the values of a tensor on ctx, which an earlier run of the backward may have modified."""
    if getattr(node(), name, None) is copy_given:
        copy_given.detach().copy_(values)


def _is_trained(value: object) -> bool:
    """Return whether a value on ctx is a leaf that requires grad: backward may set the `.grad` of that very object."""
    return isinstance(value, torch.Tensor) and value.is_leaf and value.requires_grad


def _restore(node: weakref.ref[Any], name: str, kept: torch.Tensor, *_: object) -> None:
    """Replace a leaf on ctx with its earlier values if the program has modified it since the forward."""
    leaf = getattr(node(), name, None)
    if isinstance(leaf, torch.Tensor) and not torch.equal(leaf.detach(), kept.detach()):
        setattr(node(), name, kept)


def _register_with_copy(register: Callable[..., Any], tensor: torch.Tensor, hook: Any) -> Any:
    leaf = tensor.is_leaf

    def on_a_copy(gradient: Any) -> Any:
        copy = gradient.clone()
        returned = hook(copy)
        # "The hook should not modify its argument, but it can optionally return a new gradient" (documentation of
        # `Tensor.register_hook`, PyTorch 2.13). On a leaf, programs do it to mask `.grad`; elsewhere it is a mistake.
        return copy if returned is None and leaf else returned

    return register(tensor, on_a_copy)
