"""The orders that a host and its servers obey. Imports no module that takes time."""

from __future__ import annotations

from typing import Literal

import msgspec

from autograder.grade.wire.limits import Limits

Role = Literal["server", "judge server", "planner"]


class Fork(msgspec.Struct, frozen=True):
    """An order to the host: fork a process with this role; its control socket is sent along as a file descriptor."""

    role: Role


class Greet(msgspec.Struct, frozen=True, tag="greet"):
    """An order to a server: answer with one byte, with which the kernel sends the id of the server's process."""


class Start(msgspec.Struct, frozen=True, tag="start"):
    """An order to a server: fork a worker, whose socket is sent along as a file descriptor.

    Attributes:
        limits: the resources that the worker may use.
        modules: to import first, for this worker and all later ones.
    """

    limits: Limits
    modules: tuple[str, ...] = ()


class Stop(msgspec.Struct, frozen=True, tag="stop"):
    """An order to a server: end the worker and every process that it left behind."""


class Order(msgspec.Struct, frozen=True):
    """The message by which a lane, or the main process, gives an order to a server."""

    order: Greet | Start | Stop


class Ready(msgspec.Struct, frozen=True):
    """The answer of a server to every order.

    Attributes:
        has_namespaces: whether each worker gets namespaces of its own.
        problem: why the worker could not be started; None if it was.
    """

    has_namespaces: bool
    problem: str | None = None
