"""Follow the parameters of optimizers from their creation to each step: gradients that they got, lost, or never had."""

from __future__ import annotations

import gc
import re
import weakref
from dataclasses import dataclass

import torch

from autograder.tape.observe.graph.tensors import TrackedTensor
from autograder.tape.recording.verdict_types import Place
from autograder.tape.run.storages import Memory, elements_of

_RANDOM = re.compile(r"rand|normal|uniform|orthogonal|kaiming|xavier")
_OVERWRITES = ("copy_", "data =", "set_")
# These methods read gradients without a use of their values.
_NO_USE = re.compile(r"zero_grad|clip_grad")
_MODE_LAYERS = (
    torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d, torch.nn.SyncBatchNorm, torch.nn.AlphaDropout,
    torch.nn.Dropout, torch.nn.Dropout1d, torch.nn.Dropout2d, torch.nn.Dropout3d,
)  # fmt: skip
PASSES = 4  # maximum number of searches among all objects, each of which takes about 50 ms


@dataclass(eq=False)
class LeftTraining:
    """A call that switched a module from training to evaluation mode after an optimizer's step."""

    module: weakref.ref[torch.nn.Module]
    place: Place


class OptimizerSteps:
    """The parameters at each step of an optimizer, and those with a gradient that no optimizer holds.

    Attributes:
        filled: ids of the leaves with a gradient that no step has used.
        trained: ids of the parameters that had a gradient at a step.
        frozen: ids of the parameters that did not require grad at a step.
        used: by id of a parameter, the last line that computed with it and with another tensor.
        thrown_away: a parameter with an unused gradient, and the parameter that replaced it in its optimizer.
        unheld: parameters with random values and a gradient that neither an optimizer nor a module with a held
            parameter contains.
        read: ids of the tensors whose `.grad` a line of the user used.
        calls: for each step, the number of backward calls before it.
        left_training: modules in evaluation mode at a step that trained them in training mode before.
    """

    def __init__(self):
        self.filled: dict[int, TrackedTensor] = {}
        self.trained: set[int] = set()
        self.frozen: set[int] = set()
        self.used: dict[int, tuple[Place, TrackedTensor]] = {}
        self.thrown_away: list[tuple[TrackedTensor, TrackedTensor]] = []
        self.unheld: dict[int, TrackedTensor] = {}
        self.read: set[int] = set()
        self.calls: list[int] = []
        self.left_training: dict[Place, LeftTraining] = {}
        self._switched: list[LeftTraining] = []
        self._stepped: dict[int, list[TrackedTensor]] = {}
        self._random: set[Memory] = set()
        self._passes = 0

    def heard(self, name: str, sources: list[TrackedTensor], results: list[TrackedTensor], here: Place) -> None:
        """Note values that come from a random generator, and gradients that a line reads."""
        if name == "grad" and len(sources) == 1 and not _NO_USE.search(here.text):
            self.read.add(sources[0].id)
        if name in _OVERWRITES and len(sources) > 1:
            changed, given = [sources[0]], sources[1:]
        else:
            changed, given = results, sources
        is_random = _RANDOM.search(name) is not None or any(one.memory in self._random for one in given)
        for tracked in changed:
            (self._random.add if is_random else self._random.discard)(tracked.memory)

    def use(self, sources: list[TrackedTensor], here: Place) -> None:
        """Note the parameters that a recorded computation combines with another tensor."""
        if any(not one.parameter for one in sources):
            self.used |= {one.id: (here, one) for one in sources if one.parameter}

    def fill(self, targets: list[tuple[torch.Tensor, TrackedTensor]]) -> None:
        """Note the leaves with a gradient that is finite and not zero."""
        for tensor, tracked in targets:
            gradient = tensor.grad if tensor.is_leaf else None
            if gradient is not None and not is_empty(gradient) and _is_finite(gradient):
                self.filled[tracked.id] = tracked

    def step(self, optimizer: int, parameters: list[tuple[torch.Tensor, TrackedTensor]], calls: int) -> None:
        """Process the parameters that an optimizer is about to update, after `calls` backward calls."""
        now, before = [tracked for _, tracked in parameters], self._stepped.get(optimizer, [])
        if len(now) == len(before):
            for old, (tensor, new) in zip(before, parameters, strict=True):
                if old is not new and old.id in self.filled and is_empty(tensor.grad):
                    self.thrown_away.append((old, new))
        self.trained |= {tracked.id for tensor, tracked in parameters if tensor.grad is not None}
        self.frozen |= {tracked.id for tensor, tracked in parameters if not tensor.requires_grad}
        for tracked in (*now, *before):
            self.filled.pop(tracked.id, None)
        self._stepped[optimizer] = now
        self._find_unheld()
        self._find_left_training({id(tensor) for tensor, _ in parameters if tensor.grad is not None})
        self.calls.append(calls)

    def leave_training(self, module: torch.nn.Module, here: Place) -> None:
        """Process a switch to evaluation mode. A layer without children is frozen intentionally."""
        if self.calls and module.training and next(module.children(), None) is not None:
            self._switched.append(LeftTraining(weakref.ref(module), here))

    def _find_left_training(self, updated: set[int]) -> None:
        for switched in self._switched:
            module = switched.module()
            if module is None or module.training:
                continue
            depends = any(isinstance(one, _MODE_LAYERS) and not one.training for one in module.modules())
            if depends and any(id(one) in updated for one in module.parameters()):
                self.left_training.setdefault(switched.place, switched)

    def _find_unheld(self) -> None:
        """Search all optimizers and modules for the parameters with a gradient, to find those that no optimizer holds."""
        asked = {
            id(tensor): tracked
            for tracked in self.filled.values()
            if tracked.parameter and tracked.memory in self._random and tracked.id not in self.unheld
            if (tensor := tracked.ref()) is not None
        }
        if not asked or self._passes == PASSES:
            return
        self._passes += 1
        owned: set[int] = set()
        modules: list[torch.nn.Module] = []
        for one in gc.get_objects():
            if issubclass(type(one), torch.optim.Optimizer):
                owned |= {id(tensor) for group in vars(one).get("param_groups", ()) for tensor in group["params"]}
            elif issubclass(type(one), torch.nn.Module) and "_parameters" in vars(one):
                modules.append(one)
        for module in modules:
            inside = {id(tensor) for tensor in module.parameters()}
            if inside & owned:
                owned |= inside
        self.unheld |= {tracked.id: tracked for number, tracked in asked.items() if number not in owned}


def _is_finite(gradient: torch.Tensor) -> bool:
    elements = elements_of(gradient)
    return elements.layout == torch.strided and bool(elements.isfinite().all())


def is_empty(gradient: torch.Tensor | None) -> bool:
    """Return whether a gradient is None or zero."""
    if gradient is None:
        return True
    elements = elements_of(gradient)
    return elements.layout == torch.strided and not bool(elements.any())
