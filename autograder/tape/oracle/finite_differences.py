"""Finite differences of a whole program: derivatives of its losses with respect to each leaf."""

from __future__ import annotations

import time

import torch

from autograder.locale.translations import in_english
from autograder.tape.oracle.nominal_replay import NominalReplay, NominalRun, NotApplicable
from autograder.tape.run.once import run_once
from autograder.tape.run.programs.program import Program
from autograder.tape.run.programs.source_text import ProgramError
from autograder.tape.run.refused_runs import is_out_of_time
from autograder.tape.run.snapshot import Snapshot

STEP = 1e-6  # along a direction of norm 1 in float64: truncation and rounding errors are about 1e-10 of the loss each
NOISE = 1e-5  # relative to the largest derivative of the same loss
AGREE = 1e-4  # largest relative difference between two steps or two runs; more indicates a kink, a jump, or rounding to float32


class FiniteDifferences:
    """Derivatives of every loss of a program's backward calls. `each` is the duration of a run in seconds."""

    def __init__(self, program: Program, live: frozenset[int], seconds: float, calls: int | None = None):
        self.program, self.live, self.seconds, self.calls = program, live, seconds, calls
        self.nominal = NominalRun()
        # Tensors with a `grad_fn` keep their dtype, because their graph was recorded in it.
        self.outside = Snapshot(program.roots, program.space).tensors
        first, began = NominalReplay(self.nominal, live, self.outside), time.monotonic()
        self._run(first)
        self.leaves = first.leaves
        still = self._losses({})
        self.each = (time.monotonic() - began) / 2
        for one, other in zip(still, self.nominal.losses, strict=True):
            if abs(one - other) > AGREE * max(1.0, abs(other)):
                raise NotApplicable(in_english("its losses differ in double precision"))

    def _run(self, replay: NominalReplay) -> None:
        try:
            run = run_once(self.program, replay, replay.around, seconds=self.seconds, calls=self.calls)
        except ProgramError as error:
            if is_out_of_time(error):
                raise
            raise NotApplicable(str(error)) from None
        if isinstance(run.error, NotApplicable):
            raise run.error
        if run.error is not None and not self.nominal.losses:
            raise NotApplicable(in_english("it raised {error} when it was repeated", error=type(run.error).__name__))

    def _losses(self, shift: dict[int, torch.Tensor]) -> list[float]:
        replay = NominalReplay(self.nominal, self.live, self.outside, shift)
        self._run(replay)
        if len(replay.losses) != len(self.nominal.losses):
            raise NotApplicable(in_english("two runs of it take different paths"))
        return replay.losses

    def slopes(self, direction: dict[int, torch.Tensor], step: float = STEP) -> list[float]:
        """Return the directional derivative of each loss when the leaves move along `direction`."""
        above = self._losses({index: tensor * step for index, tensor in direction.items()})
        below = self._losses({index: tensor * -step for index, tensor in direction.items()})
        return [(one - other) / (2 * step) for one, other in zip(above, below, strict=True)]

    def disagreements(self) -> set[tuple[int, int]]:
        """Return the pairs of backward and leaf with a wrong gradient.

        The directional derivative of the loss along a random direction of each leaf is compared with the gradient of
        the graph.

        Raises:
            NotApplicable: if a derivative depends on the step size, as at a kink.
        """
        directions = self._directions()
        compared = {leaf: self._compared(leaf, direction) for leaf, direction in directions.items()}
        largest = [
            max(abs(slope) for pair in calls for slope in pair) for calls in zip(*compared.values(), strict=True)
        ]
        found = set()
        for leaf, pairs in compared.items():
            wrong = {call for call, pair in enumerate(pairs) if _differ(*pair, largest[call])}
            if wrong:
                self._trust([slope for slope, _ in pairs], self.slopes({leaf: directions[leaf]}, 10 * STEP))
            found |= {(call, leaf) for call in wrong if leaf in self.nominal.gradients[call]}
        return found

    def disagreements_together(self) -> set[tuple[int, int]]:
        """Return the backward calls with a wrong gradient, each paired with all its leaves.

        The directional derivative of the loss along one random direction of all leaves is compared with the gradients
        of the graph. This takes four runs for any number of leaves.

        Raises:
            NotApplicable: if a derivative depends on the step size, as at a kink.
        """
        directions, nominal = self._directions(), self.nominal.gradients
        slopes = self.slopes(directions)
        claimed = [
            sum(float((gradient * directions[leaf]).sum()) for leaf, gradient in one.items() if leaf in directions)
            for one in nominal
        ]
        self._trust(slopes, self.slopes(directions, 10 * STEP))
        wrong = [call for call, slope in enumerate(slopes) if _differ(slope, claimed[call], abs(slope))]
        return {(call, leaf) for call in wrong for leaf in nominal[call]}

    def _directions(self) -> dict[int, torch.Tensor]:
        """Return a random direction for each leaf that a backward reached."""
        generator = torch.Generator().manual_seed(0)
        return {
            leaf: torch.randn(history[0][1].shape, generator=generator, dtype=torch.float64)
            for leaf, history in enumerate(self.nominal.leaves)
            if history and any(leaf in gradients for gradients in self.nominal.gradients)
        }

    def _compared(self, leaf: int, direction: torch.Tensor) -> list[tuple[float, float]]:
        """Return, for each backward, the directional derivative by finite differences and by the gradients of the graph."""
        claimed = [float((g[leaf] * direction).sum()) if leaf in g else 0.0 for g in self.nominal.gradients]
        return list(zip(self.slopes({leaf: direction}), claimed, strict=True))

    def _trust(self, slopes: list[float], coarse: list[float]) -> None:
        if any(abs(one - other) > 10 * AGREE * max(1e-3, abs(one)) for one, other in zip(slopes, coarse, strict=True)):
            raise NotApplicable(in_english("its loss has a kink or a jump here"))

    def true(self, leaf: int) -> list[torch.Tensor]:
        """Return the gradient of each backward's loss with respect to a leaf, by finite differences for each element."""
        shape = self.nominal.leaves[leaf][0][1].shape
        entries = []
        for index in range(shape.numel()):
            unit = torch.zeros(shape.numel(), dtype=torch.float64)
            unit[index] = 1.0
            entries.append(self.slopes({leaf: unit.view(shape)}))
        return [torch.tensor(slopes, dtype=torch.float64).view(shape) for slopes in zip(*entries, strict=True)]


def _differ(slope: float, claimed: float, largest: float) -> bool:
    # The bias before a batch norm has derivative 0; its gradient is the rounding error of the other gradients.
    return abs(slope - claimed) > max(1e-3 * max(abs(slope), abs(claimed)), NOISE * max(largest, 1e-4))
