"""The connection to a Dask scheduler: encrypted unless everything is on this machine, and made again when it is lost."""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import time
from typing import Any
from urllib.parse import urlsplit

from distributed import Client, Security

from autograder.errors import InputError, SetupError, UnfinishedError
from autograder.grade.where.cluster.scheduler.scheduler_probe import obstacle_at

CONNECT_SECONDS = 10
RETURN_SECONDS = 300  # for a scheduler to come back


class ClusterInputError(InputError):
    """What `--cluster` was given names no cluster; the message says what does."""


class ClusterError(SetupError):
    """The cluster cannot be used; the message says why, and what to do. Nothing was graded."""


class ClusterLostError(UnfinishedError):
    """The cluster was lost while grading; the message says how to continue."""


class SchedulerLink:
    """A client of a scheduler; a context manager.

    Args:
        where: the scheduler's address, or a Dask cluster object that was started for this batch, which is closed with the link.
        security: the certificates; None where nothing is encrypted.
    """

    def __init__(self, where: Any, security: Security | None) -> None:
        _silence()
        self._where, self._security = where, security
        self.is_ours = not isinstance(where, str)
        self.address: str = where.scheduler_address if self.is_ours else where

    def __enter__(self) -> SchedulerLink:
        try:
            self.client = self._connect()
            self._refuse_open_door()
        except BaseException:
            self._close_cluster()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._close_client()
        self._close_cluster()

    def reconnect(self) -> None:
        """Connects again, to the scheduler that takes the place of one that has gone.

        Raises:
            ClusterLostError: none comes.
        """
        self._close_client()
        until = time.monotonic() + (0 if self.is_ours else RETURN_SECONDS)
        while time.monotonic() < until:
            with contextlib.suppress(ClusterError):
                self.client = self._connect()
                return
            time.sleep(1)
        raise ClusterLostError(
            f"the scheduler at {self.address} has gone; what was graded so far is kept. Start it again, then run the same "
            "command with --resume"
        )

    def _connect(self) -> Client:
        if not self.is_ours and (obstacle := obstacle_at(self.address, self._security, CONNECT_SECONDS)):
            raise ClusterError(obstacle)
        try:
            return Client(
                self._where, security=self._security, timeout=CONNECT_SECONDS, set_as_default=False, name="autograder"
            )
        except Exception as error:  # noqa: BLE001 - Dask and asyncio raise what the network and OpenSSL do, wrapped in various ways
            reason = f"{type(error).__name__}: {error}".partition("\n")[0]
            raise ClusterError(f"the Dask scheduler at {self.address} cannot be used ({reason})") from None

    def _refuse_open_door(self) -> None:
        address = self.client.scheduler_info(n_workers=0)["address"]
        if problem := open_door(address):
            raise ClusterError(f"the scheduler listens at {address}. {problem}")

    def _close_client(self) -> None:
        with contextlib.suppress(Exception):
            self.client.close(timeout=5)

    def _close_cluster(self) -> None:
        if self.is_ours:
            self._where.close()


def open_door(address: str) -> str:
    """Returns why nobody should grade over an address, "" where it is encrypted or cannot be reached from another machine."""
    parts = urlsplit(address)
    if parts.scheme == "tls" or parts.hostname == "localhost":
        return ""
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(parts.hostname or "").is_loopback:
            return ""
    return (
        "That is neither encrypted nor on this machine alone, so anyone who reaches the port can run programs as you. Make "
        "certificates with `autograder cluster certificates DIR`, start scheduler and workers with them, and use tls://"
    )


def _silence() -> None:
    """What matters of the cluster is said in our own words. Dask sets the level of each of its loggers (2026.8)."""
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] in ("distributed", "asyncio"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
