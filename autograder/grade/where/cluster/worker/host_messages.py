"""What a Dask worker and its grading host say to each other, and what the worker says about itself. Imports nothing that takes time."""

from __future__ import annotations

import msgspec


class HostStart(msgspec.Struct, frozen=True):
    """The first message to a host: an encoded CourseBundle, and how many submissions to grade at once."""

    bundle: bytes
    slots: int


class HostReady(msgspec.Struct, frozen=True):
    """A host's first message: why it cannot grade; "" if it can."""

    problem: str = ""


class WorkerReport(msgspec.Struct, frozen=True):
    """What a worker says before it is given a job.

    Attributes:
        name: as Dask calls it.
        host: the name of its machine.
        slots: how many submissions it grades at once.
        problem: why it is given none; "" where it is.
    """

    name: str
    host: str
    slots: int
    problem: str = ""
