"""Machines for tests of a cluster: network namespaces with addresses of their own, joined by a bridge in another namespace."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PORT = 8786


def obstacle() -> str:
    """Returns why no machines can be made here, "" if they can."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return "network namespaces need root and the command ip (Debian's package iproute2)"
    name = f"ag{os.getpid()}t"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    subprocess.run(["ip", "netns", "delete", name], capture_output=True)
    return f"network namespaces are refused here: {made.stderr.strip()}" if made.returncode else ""


class Machines:
    """Machines by number, from 1; a context manager. What still runs on them at its end is killed.

    Args:
        count: how many.
        folder: where each process writes its log.
    """

    def __init__(self, count: int, folder: Path) -> None:
        self._prefix, self._count, self._folder = f"ag{os.getpid()}", count, folder
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Machines:
        _ip("netns", "add", self._name(0))
        self._in_hub("link", "add", "bridge", "type", "bridge")
        self._in_hub("link", "set", "bridge", "up")
        for number in range(1, self._count + 1):
            self._make(number)
        return self

    def __exit__(self, *_: object) -> None:
        for number in range(1, self._count + 1):
            self.crash(number)
        for process in self._processes:
            process.wait(30)
        for number in range(self._count + 1):
            with contextlib.suppress(subprocess.CalledProcessError):
                _ip("netns", "delete", self._name(number))

    def address(self, number: int) -> str:
        """Returns a machine's IP address."""
        return f"10.77.0.{number}"

    def start(self, number: int, *command: str, log: str) -> subprocess.Popen[bytes]:
        """Starts a command on a machine."""
        words = ["ip", "netns", "exec", self._name(number), *command]
        with open(self._folder / log, "ab") as output:
            process = subprocess.Popen(
                words, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        self._processes.append(process)
        return process

    def crash(self, number: int) -> None:
        """Kills every process on a machine at once, as a power cut does."""
        until = time.monotonic() + 20
        while pids := _ip("netns", "pids", self._name(number)).split():
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            if time.monotonic() > until:
                raise TimeoutError(f"processes {pids} do not end")
            time.sleep(0.05)

    @contextlib.contextmanager
    def unplugged(self, number: int) -> Iterator[None]:
        """A block in which a machine's cable is out."""
        self._in_hub("link", "set", f"to{number}", "down")
        try:
            yield
        finally:
            self._in_hub("link", "set", f"to{number}", "up")

    def _make(self, number: int) -> None:
        name = self._name(number)
        _ip("netns", "add", name)
        self._in_hub("link", "add", f"to{number}", "type", "veth", "peer", "name", "net", "netns", name)
        self._in_hub("link", "set", f"to{number}", "master", "bridge")
        self._in_hub("link", "set", f"to{number}", "up")
        for words in (("addr", "add", f"{self.address(number)}/24", "dev", "net"), ("link", "set", "net", "up")):
            _ip("-n", name, *words)
        _ip("-n", name, "link", "set", "lo", "up")

    def _name(self, number: int) -> str:
        return f"{self._prefix}m{number}"

    def _in_hub(self, *words: str) -> None:
        _ip("-n", self._name(0), *words)


def _ip(*words: str) -> str:
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout


class DaskMachines:
    """A scheduler on machine 1 and a worker on each of the next ones, with certificates; the client is on the last one.

    A worker that ends is started again, as Kubernetes and systemd do.
    """

    def __init__(self, machines: Machines, certificates: Path) -> None:
        self.machines, self._certificates = machines, certificates
        self.scheduler = f"tls://{machines.address(1)}:{PORT}"

    def start_scheduler(self) -> None:
        """Starts the scheduler."""
        options = ["--host", self.machines.address(1), "--port", str(PORT), "--protocol", "tls", "--no-dashboard"]
        self.machines.start(1, sys.executable, "-m", "dask", "scheduler", *options, *self._tls(), log="scheduler.log")

    def start_worker(self, number: int, *settings: str, certificates: Path | None = None, beside: str = "true") -> None:
        """Starts a worker of one thread; `settings` are variables for its environment, `beside` is a line of sh that runs first."""
        options = ["--nthreads", "1", "--no-dashboard", "--no-nanny", "--name", f"machine{number}"]
        worker = [sys.executable, "-m", "dask", "worker", self.scheduler, *options, *self._tls(certificates)]
        again = f'{beside}; while true; do "$@"; sleep 1; done'
        local = f"DASK_TEMPORARY_DIRECTORY=/tmp/dask-{self.machines.address(number)}"
        self.machines.start(
            number, "env", local, *settings, "/bin/sh", "-c", again, "sh", *worker, log=f"worker{number}.log"
        )

    def grade(
        self, number: int, course: Path, *options: str, certificates: Path | None = None
    ) -> subprocess.Popen[bytes]:
        """Starts `grade` on a machine; its JSON and its messages go to client.log."""
        command = [sys.executable, "-m", "autograder", "grade", "small", "--course", str(course), "--json"]
        where = ["--cluster", self.scheduler, "--certificates", str(certificates or self._certificates)]
        return self.machines.start(number, *command, *where, *options, log="client.log")

    def _tls(self, certificates: Path | None = None) -> list[str]:
        folder = certificates or self._certificates
        files = {"--tls-ca-file": "ca.pem", "--tls-cert": "cert.pem", "--tls-key": "key.pem"}
        return [word for option, name in files.items() for word in (option, str(folder / name))]
