"""The random inputs of a check, such as `x=result("n", 3)`, drawn again for every call."""

from __future__ import annotations

import itertools
import math
import random
import secrets
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch

from autograder.check.subject.call_report import Argument, Kind, array
from autograder.errors import InputError
from autograder.locale.languages import bound

Size = int | str
Decisive = Callable[..., bool] | None

TRIES = 1000  # inputs that are decisive in 1 % of the draws are missed once in 20,000 checks


class UndecisiveInputs(InputError):
    """No draw satisfied `decisive` of the check cell: a mistake of the author, not of the student."""


@dataclass(frozen=True)
class TensorInput:
    """The distribution of one tensor argument: uniform between low and high, in float64 or as integers."""

    kind: Kind
    # sizes in elements; a name means a size from 2 to 4, drawn for each check; equal names give equal sizes
    shape: tuple[Size, ...]
    low: float
    high: float
    integers: bool = False  # draw integers from low (inclusive) to high (exclusive), for indices
    mixed: bool = False  # draw again until every row contains at least two different numbers


def leaf(*shape: Size, low: float = -2.0, high: float = 2.0) -> TensorInput:
    """Return a leaf argument: it requires grad, and its gradient is checked.

    Args:
        shape: sizes in elements; a name means a size from 2 to 4, drawn for each check; equal names give equal sizes.
            Without a size, the tensor has no dimension: `leaf("n", 3)` has the shape (2, 3), (3, 3) or (4, 3), `leaf()` the shape ().
        low: smallest value; the values are uniform in float64, and drawn again for each check.
        high: largest value.
    """
    return TensorInput("leaf", shape, low, high)


def result(*shape: Size, low: float = -2.0, high: float = 2.0) -> TensorInput:
    """Return an argument that an operation computed from a leaf, so that it may be modified in place.

    The gradient of that leaf is checked. The arguments are those of `leaf`.
    """
    return TensorInput("result", shape, low, high)


def frozen(*shape: Size, low: float = -2.0, high: float = 2.0) -> TensorInput:
    """Return a leaf argument that requires grad and must not get a gradient; the arguments are those of `leaf`."""
    return TensorInput("frozen", shape, low, high)


def constant(*shape: Size, low: float = -2.0, high: float = 2.0) -> TensorInput:
    """Return a tensor argument that does not require grad; the arguments are those of `leaf`."""
    return TensorInput("constant", shape, low, high)


def indices(*shape: Size, below: int) -> TensorInput:
    """Return a tensor argument of integers from 0 to `below` (exclusive)."""
    return TensorInput("constant", shape, 0, below, integers=True)


def mask(*shape: Size) -> TensorInput:
    """Return a tensor argument of zeros and ones, with at least one of each in every row of the last dimension."""
    return TensorInput("constant", shape, 0, 2, integers=True, mixed=True)


_seeds: ContextVar[random.Random] = ContextVar("seeds", default=secrets.SystemRandom())  # noqa: B039 - it keeps no state


def use_seed(seed: int) -> AbstractContextManager[object]:
    """Make every check inside the block draw from this seed, so that a grader can repeat a grade."""
    return bound(_seeds, random.Random(seed))


class Generator:
    """Draws arguments from a seed that a submission cannot know: it is created after the student's cells have run."""

    def __init__(self, seed: int | None = None) -> None:
        self._random = torch.Generator().manual_seed(_seeds.get().getrandbits(63) if seed is None else seed)
        self._sizes: dict[str, int] = {}

    def arguments(self, inputs: dict[str, Any], decisive: Decisive = None) -> dict[str, Argument]:
        """Return new values for the tensor arguments among a check's keywords: the first draw that is decisive.

        Raises:
            UndecisiveInputs: no draw was decisive.
        """
        drawn = {name: value for name, value in inputs.items() if isinstance(value, TensorInput)}
        for _ in range(TRIES):
            arguments = {name: self._argument(value) for name, value in drawn.items()}
            if decisive is None or decisive(**{name: argument.values.tensor() for name, argument in arguments.items()}):
                return arguments
        raise UndecisiveInputs(f"none of {TRIES} draws of the exercise's inputs satisfies its `decisive`")

    def like(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return random float64 values of the same shape, to load into a parameter or to start backward from."""
        return self._uniform(tuple(tensor.shape), -1.0, 1.0)

    def _argument(self, drawn: TensorInput) -> Argument:
        shape = tuple(self._size(size) for size in drawn.shape)
        values = self._values(drawn, shape)
        while drawn.mixed and (values == values[..., :1]).all(-1).any():
            values = self._values(drawn, shape)
        return Argument(drawn.kind, array(values))

    def _values(self, drawn: TensorInput, shape: tuple[int, ...]) -> torch.Tensor:
        if drawn.integers:
            return torch.randint(int(drawn.low), int(drawn.high), shape, generator=self._random)
        return self._uniform(shape, drawn.low, drawn.high)

    def _size(self, size: Size) -> int:
        if isinstance(size, int):
            return size
        if size not in self._sizes:
            self._sizes[size] = int(torch.randint(2, 5, (), generator=self._random))
        return self._sizes[size]

    def _uniform(self, shape: tuple[int, ...], low: float, high: float) -> torch.Tensor:
        return low + (high - low) * torch.rand(shape, generator=self._random, dtype=torch.float64)


class SmallGenerator(Generator):
    """Gives small integers other than zero, the same ones each time, and 2 for each size with a name: a picture is easier to read."""

    def __init__(self) -> None:
        super().__init__(seed=0)
        self._next = itertools.count()

    def _size(self, size: Size) -> int:
        return size if isinstance(size, int) else 2

    def _uniform(self, shape: tuple[int, ...], low: float, high: float) -> torch.Tensor:
        integers = [number for number in (1, 2, -1, 3, -2, -3) if low <= number <= high]
        if not integers:
            return super()._uniform(shape, low, high)
        values = [integers[next(self._next) % len(integers)] for _ in range(math.prod(shape))]
        return torch.tensor(values, dtype=torch.float64).reshape(shape)
