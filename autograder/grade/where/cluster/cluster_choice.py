"""What `--cluster` means: a scheduler's address or file, `local:N`, or a table of cluster.toml; and the cluster as a place to grade."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from distributed import LocalCluster, Security

from autograder.grade.sandbox.isolation.levels import STRONGEST
from autograder.grade.where.cluster.client.cluster_graders import ClusterGraders
from autograder.grade.where.cluster.scheduler.cluster_table import KINDS, ClusterTable, read_table
from autograder.grade.where.cluster.scheduler.scheduler_link import (
    ClusterError,
    ClusterInputError,
    SchedulerLink,
    open_door,
    security_of,
)
from autograder.grade.where.grading_job import GradingTerms


class DaskCluster:
    """A cluster as the place where a class is graded."""

    def __init__(self, link: SchedulerLink, jobs: int) -> None:
        self._link, self._jobs = link, jobs

    def graders(self, terms: GradingTerms) -> ClusterGraders:
        """Returns what grades by these terms; a context manager."""
        return ClusterGraders(self._link, terms, self._jobs, _say)


@contextlib.contextmanager
def open_cluster(
    choice: str, course: Path, certificates: Path | None, isolation: str, jobs: int
) -> Iterator[DaskCluster]:
    """Yields the cluster that was chosen; what was started for it is ended after the block.

    Args:
        choice: what `--cluster` was given.
        course: the folder with cluster.toml.
        certificates: the folder with ca.pem, cert.pem and key.pem, or None.
        isolation: the name of the level that is asked for.
        jobs: how many submissions each worker grades at once; 0 takes one for each of its threads.

    Raises:
        ClusterInputError: the choice names no cluster.
        ClusterError: the cluster cannot be reached, or is open to others.
    """
    if isolation != STRONGEST and not choice.startswith("local:"):
        raise ClusterInputError(
            f"--cluster needs the isolation level {STRONGEST!r}: at {isolation!r} a submission would reach the ports of the "
            "scheduler and of its worker"
        )
    with _link(choice, course, certificates, jobs) as link:
        yield DaskCluster(link, jobs)


def _link(choice: str, course: Path, certificates: Path | None, jobs: int) -> SchedulerLink:
    if choice.startswith("local:"):
        return _local(choice, jobs)
    if "://" in choice:
        return _by_address(choice, certificates)
    if Path(choice).is_file():
        return _by_address(_address_in(Path(choice)), certificates)
    table = read_table(course, choice)
    certificates = course / table.certificates if table.certificates else certificates
    return _by_address(table.address, certificates) if table.address else _started(table, certificates)


def _by_address(address: str, certificates: Path | None) -> SchedulerLink:
    if not re.fullmatch(r"(tls|tcp)://[^\s/]+:\d+/?", address):
        raise ClusterInputError(f"{address!r} is no address of a Dask scheduler; one looks like tls://host:8786")
    if problem := open_door(address):
        raise ClusterInputError(f"the cluster at {address} is not used. {problem}")
    if address.startswith("tls:") and certificates is None:
        raise ClusterInputError(
            f"{address} needs certificates: name the folder that `autograder cluster certificates` made with --certificates DIR"
        )
    return SchedulerLink(address, security_of(certificates) if certificates else None)


def _address_in(file: Path) -> str:
    try:
        return str(json.loads(file.read_text("utf-8"))["address"])
    except (ValueError, LookupError, TypeError, OSError) as error:
        raise ClusterInputError(f"{file} is no scheduler file of Dask ({type(error).__name__}: {error})") from None


def _local(choice: str, jobs: int) -> SchedulerLink:
    found = re.fullmatch(r"local:([1-9]\d{0,2})", choice)
    if found is None:
        raise ClusterInputError(f"--cluster {choice}: write local:N with the number of workers, such as local:2")
    count = int(found[1])
    security = Security.temporary()
    with warnings.catch_warnings():  # of the dashboard's port, where a second cluster runs here
        warnings.simplefilter("ignore")
        cluster = LocalCluster(
            n_workers=count,
            threads_per_worker=jobs or max(1, len(os.sched_getaffinity(0)) // count),
            host="127.0.0.1",
            protocol="tls://",
            security=security,
            dashboard_address=None,
            silence_logs=50,
        )
    return SchedulerLink(cluster, security)


def _started(table: ClusterTable, certificates: Path | None) -> SchedulerLink:
    """Starts the cluster that a table describes."""
    module, package = KINDS[table.kind]
    try:
        kind: Any = getattr(importlib.import_module(module), table.kind)
        security = security_of(certificates) if certificates else Security.temporary()
        settings = {"security": security, "n_workers": table.workers, **table.settings}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cluster = kind(**settings)
    except ImportError as error:
        raise ClusterError(
            f"{table.kind} needs another package ({error}). Install it with `pip install {package}`"
        ) from None
    except Exception as error:  # noqa: BLE001 - the class checks its own settings
        raise ClusterInputError(
            f"{table.kind} does not start with these settings ({type(error).__name__}: {_first_line(error)})"
        ) from None
    return SchedulerLink(cluster, security)


def _first_line(error: Exception) -> str:
    """Returns what an error says before it goes into details: dask-jobqueue lists all settings, keys included (0.9)."""
    return str(error).partition("\n")[0].rstrip(":")


def _say(sentence: str) -> None:
    print(f"autograder: {sentence}", file=sys.stderr, flush=True)
