"""Whether a Dask scheduler answers at an address, tried with a plain socket: Dask's own client (2026.8) does not say why none does, and
waits without end for a listener that stays silent."""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from urllib.parse import urlsplit

from distributed import Security

RETRY_SECONDS = 0.5
LARGEST_GREETING = 1 << 20  # bytes
LENGTH_BYTES = 8  # of a message's length, with which it begins (distributed 2026.8, comm/tcp.py)


def obstacle_at(address: str, security: Security | None, seconds: float) -> str:
    """Returns why no scheduler can be used at an address, "" where one answers. One that starts meanwhile is waited for.

    Args:
        address: tls://HOST:PORT or tcp://HOST:PORT.
        security: the certificates, for tls.
        seconds: how long to try.
    """
    until = time.monotonic() + seconds
    while True:
        try:
            return _obstacle_now(address, security, max(1.0, until - time.monotonic()))
        except ConnectionRefusedError as error:
            if time.monotonic() > until:
                return _nobody(address, error)
        except OSError as error:
            return _nobody(address, error)
        time.sleep(RETRY_SECONDS)


def _nobody(address: str, error: OSError) -> str:
    reason = (error.strerror or str(error) or type(error).__name__).lower()
    return (
        f"there is no Dask scheduler at {address} ({reason}). Start one with `dask scheduler`, or correct the address"
    )


def _obstacle_now(address: str, security: Security | None, seconds: float) -> str:
    parts = urlsplit(address)
    with contextlib.ExitStack() as opened:
        connection = opened.enter_context(socket.create_connection((parts.hostname or "", parts.port or 0), seconds))
        connection.settimeout(seconds)
        try:
            if security is not None and parts.scheme == "tls":
                context = security.get_connection_args("client")["ssl_context"]
                connection = opened.enter_context(context.wrap_socket(connection))
            greeting = _first_bytes(connection)
        except ssl.SSLError as error:
            return _not_accepted(address, error)
        except OSError:
            greeting = b""
    if len(greeting) == LENGTH_BYTES and int.from_bytes(greeting, "little") <= LARGEST_GREETING:
        return ""
    return (
        f"what listens at {address} does not answer as a Dask scheduler does. Correct the address, with tls:// for a scheduler "
        "that was started with certificates and tcp:// for one without"
    )


def _first_bytes(connection: socket.socket) -> bytes:
    """Returns the first bytes that a listener sends by itself, as a scheduler does to everyone whom it accepts."""
    found = b""
    while len(found) < LENGTH_BYTES and (more := connection.recv(LENGTH_BYTES - len(found))):
        found += more
    return found


def _not_accepted(address: str, error: ssl.SSLError) -> str:
    if error.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"):
        return (
            f"what listens at {address} does not encrypt, so it is not used. Start the scheduler as "
            "`autograder cluster certificates` prints it, or correct the address"
        )
    return (
        f"the scheduler at {address} and this machine do not accept each other's certificates ({error.reason or error}). Name the "
        "folder that the scheduler was started with by --certificates"
    )
