"""The memory that a call allocates, and the line of the answer that allocated it."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from autograder.check.subject.call_report import Allocation
from autograder.check.subject.learner_code import line_of
from autograder.tape.run.function_mode import tensors


class Allocations(TorchFunctionMode):
    """Records every storage that a call from Python returns for the first time.

    A dispatch mode would also see temporaries inside an operation, but the first one in a process imports 800 modules,
    which takes a second (measured with PyTorch 2.13).
    """

    def __init__(self, target: Callable[..., Any]) -> None:
        super().__init__()
        self.made: list[Allocation] = []
        self._target = target
        self._seen: set[int] = set()
        self._kept: list[torch.UntypedStorage] = []

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for tensor in tensors((args, kwargs)):
            self._see(tensor)
        result = function(*args, **(kwargs or {}))
        for tensor in tensors(result):
            if nbytes := self._see(tensor):
                frames = traceback.StackSummary.extract(traceback.walk_stack(sys._getframe()))
                self.made.append(Allocation(nbytes, *line_of(self._target, list(reversed(frames)))))
        return result

    def _see(self, tensor: torch.Tensor) -> int:
        storage = tensor.untyped_storage()
        if storage.data_ptr() in self._seen:
            return 0
        # An address is reused after its storage is freed; keeping the storage alive makes every address unique.
        self._kept.append(storage)
        self._seen.add(storage.data_ptr())
        return storage.nbytes()
