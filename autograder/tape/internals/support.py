"""Features of the installed PyTorch: REQUIRED names are needed for any recording, each other feature for a part of it."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
import torch.utils.checkpoint

from autograder.errors import SetupError
from autograder.locale.messages import Message

# Private or undocumented names without an alternative. 2.6 to 2.15 have all of them.
REQUIRED = (
    "Tensor._version", "Tensor._base", "Tensor._is_view", "_C.DisableTorchFunction", "autograd.SavedTensor",
    "autograd._engine_run_backward", "autograd.graph._engine_run_backward", "autograd.function.BackwardCFunction",
    "utils.checkpoint.CheckpointFunction",
)  # fmt: skip


def require_internals(module: object = torch) -> None:
    """Check that PyTorch has all REQUIRED names.

    Raises:
        SetupError: if a name is missing; the message contains it.
    """
    for path in REQUIRED:
        value = module
        for name in path.split("."):
            value = getattr(value, name, None)
        if value is None:
            raise SetupError.of(
                "support.needs_name|This needs {name}, which PyTorch {version} does not have. "
                "Install another release with `pip install torch`; 2.6 to 2.15 have been tried.",
                name=f"torch.{path}", version=torch.__version__,
            )  # fmt: skip


def sets_versions() -> bool:
    """Return whether a version counter can be set."""
    return hasattr(torch._C._autograd, "_unsafe_set_version_counter")


def names_saved_tensors() -> bool:
    """Return whether a node has attributes for its saved tensors."""
    return hasattr(torch.zeros(1, requires_grad=True).exp().grad_fn, "_raw_saved_result")


def distinguishes_storages() -> bool:
    """Return whether storage objects have an identifier."""
    return hasattr(torch.UntypedStorage(0), "_cdata")


def checkpoints_by_hooks() -> bool:
    """Return whether `torch.utils.checkpoint` uses saved-tensor hooks, with which a recording prevents recomputation."""
    kinds = torch.autograd.graph.saved_tensors_hooks.__subclasses__()
    return any(kind.__module__ == "torch.utils.checkpoint" for kind in kinds)


SHORTCOMINGS: dict[Callable[[], bool], str] = {
    names_saved_tensors: Message(
        "support.saved_tensors|This PyTorch does not expose the saved tensors of a node, so explain cannot name the "
        "line that saved one and the line that modified it."
    ),
    distinguishes_storages: Message(
        "support.storages|This PyTorch does not distinguish storages, so memory shared through NumPy or DLPack is not named as such."
    ),
    sets_versions: Message(
        "support.versions|This PyTorch cannot set a version counter, so tensors created before the program show "
        "versions that are too high."
    ),
    checkpoints_by_hooks: Message(
        "support.checkpoint|This PyTorch's checkpoint cannot be made to compute only once, so a recomputed value may go unnoticed."
    ),
}


@functools.cache
def shortcomings() -> tuple[str, ...]:
    """Return a sentence for the user for each feature that the installed PyTorch lacks."""
    with torch._C.DisableTorchFunction(), torch.inference_mode(False), torch.enable_grad():
        return tuple(sentence for probe, sentence in SHORTCOMINGS.items() if not probe())
