"""What a change of the source changes in what the program computes."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from autograder.tape.repair.trial_run import TrialRun, same

FEW = 3  # names listed in one sentence


@dataclass(frozen=True)
class Reference:
    """What the program was meant to compute.

    Attributes:
        plain: the run as it is, up to its error.
        meant: the run in which every saved tensor is a private copy: the same values, and gradients that no write can change.
    """

    plain: TrialRun
    meant: TrialRun

    @property
    def ran(self) -> bool:
        """Whether the program as meant runs to its end, so that all it computes is known."""
        return self.meant.error is None

    @property
    def gradients_known(self) -> bool:
        """Whether private copies change anything; if not, what follows a wrong gradient cannot be compared."""
        return self.plain.error is not None or bool(different(self.plain.values, self.meant.values))


def keeps_losses(reference: Reference, trial: TrialRun) -> bool:
    """Whether backward starts from the same numbers, in each call that is known of the program as meant."""
    meant, now = reference.meant.losses, trial.losses
    if not reference.ran:
        now = now[: len(meant)]
    elif not reference.gradients_known:
        meant, now = meant[:1], now[:1]
    return len(meant) == len(now) and all(same(one, other) for one, other in zip(meant, now, strict=True))


def changed_losses(reference: Reference, trial: TrialRun) -> str | None:
    """Returns a sentence on the first call where backward starts from other numbers; None where more than that differs."""
    meant, now = reference.meant.losses, trial.losses
    if not reference.ran or keeps_losses(reference, trial) or len(meant) != len(now):
        return None
    first = next((pair for pair in zip(meant, now, strict=True) if not same(*pair)), None)
    return f"backward starts from {text(first[1])}, not {text(first[0])}." if first else None


def different(meant: dict[str, Tensor], now: dict[str, Tensor]) -> list[str]:
    """Returns the names that hold different values in the two runs, in order."""
    return [name for name, value in meant.items() if name in now and not same(value, now[name])]


def changed_values(reference: Reference, trial: TrialRun) -> str | None:
    """Returns a sentence on the names that end with other values or are no longer leaves; None where all stay the same."""
    sentences = []
    if lost := lost_leaves(reference, trial):
        sentences.append(
            f"{', '.join(lost[:FEW])} is no longer the leaf: its gradient goes to the tensor it was made from."
        )
    meant = reference.meant
    if reference.ran:
        names = [name for name in different(meant.values, trial.values) if not is_gradient(name, meant)]
        told = [f"{name} ends as {text(trial.values[name])}, not {text(meant.values[name])}" for name in names[:FEW]]
        if told:
            more = f" ({len(names) - FEW} more names differ)" if len(names) > FEW else ""
            sentences.append("; ".join(told) + more + ".")
    return " ".join(sentences) or None


def lost_leaves(reference: Reference, trial: TrialRun) -> list[str]:
    """Returns the names that held a leaf and hold something else now."""
    return [name for name in reference.meant.leaves if name in trial.values and name not in trial.leaves]


def hides_a_leaf(reference: Reference, trial: TrialRun) -> bool:
    """Whether some leaf no longer has a name, so that its gradient cannot be read."""
    leaves = reference.meant.leaves
    kept = {leaf for name, leaf in leaves.items() if name in trial.leaves}
    return any(leaves[name] not in kept for name in lost_leaves(reference, trial))


def is_gradient(name: str, trial: TrialRun) -> bool:
    """Whether a name holds a gradient, which the oracles compare, and not this module."""
    value = trial.values[name]
    return name.endswith(".grad") or any(same(value, one) for one in trial.gradients)


def text(value: Tensor) -> str:
    """Returns a short text of a tensor's numbers."""
    numbers = [f"{one:.4g}" for one in value.flatten()[:4].tolist()]
    inside = ", ".join(numbers) + (", …" if value.numel() > 4 else "")
    return inside if value.dim() == 0 else f"[{inside}]"
