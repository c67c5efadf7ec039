"""What `--cluster` means: a scheduler's address or file, `local:N`, or a table of cluster.toml; and the cluster as a place to grade."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from distributed import LocalCluster, Security

from autograder.grade.sandbox.isolation.levels import STRONGEST
from autograder.grade.where.cluster.scheduler.batch_cluster import start_batch_cluster
from autograder.grade.where.cluster.scheduler.certificates import security_of
from autograder.grade.where.cluster.scheduler.cluster_table import read_table
from autograder.grade.where.cluster.scheduler.scheduler_link import (
    ClusterInputError,
    SchedulerLink,
    open_door,
)

if TYPE_CHECKING:
    from autograder.grade.where.cluster.client.cluster_graders import ClusterGraders
    from autograder.grade.where.grading_job import GradingTerms


class DaskCluster:
    """A cluster as the place where a class is graded."""

    def __init__(self, link: SchedulerLink, jobs: int) -> None:
        self._link, self._jobs = link, jobs

    def graders(self, terms: GradingTerms) -> ClusterGraders:
        """Returns what grades by these terms; a context manager."""
        from autograder.grade.where.cluster.client.cluster_graders import ClusterGraders

        return ClusterGraders(self._link, terms, self._jobs, _say)


def choose_cluster(
    choice: str, course: Path, certificates: Path | None, isolation: str, jobs: int
) -> AbstractContextManager[DaskCluster]:
    """Returns the cluster that was chosen. What has to be started for it is started when the block begins, and ended after it.

    The block raises a ClusterError where the cluster cannot be reached, or is open to others.

    Args:
        choice: what `--cluster` was given.
        course: the folder with cluster.toml.
        certificates: the folder with ca.pem, cert.pem and key.pem, or None.
        isolation: the name of the level that is asked for.
        jobs: how many submissions each worker grades at once; 0 takes one for each of its threads.

    Raises:
        ClusterInputError: the choice names no cluster.
    """
    if isolation != STRONGEST and not choice.startswith("local:"):
        raise ClusterInputError(
            f"--cluster needs the isolation level {STRONGEST!r}: at {isolation!r} a submission would reach the ports of the "
            "scheduler and of its worker"
        )
    return _open(_how_to_connect(choice, course, certificates, jobs), jobs)


@contextlib.contextmanager
def _open(connect: Callable[[], SchedulerLink], jobs: int) -> Iterator[DaskCluster]:
    with connect() as link:
        yield DaskCluster(link, jobs)


def _how_to_connect(choice: str, course: Path, certificates: Path | None, jobs: int) -> Callable[[], SchedulerLink]:
    if choice.startswith("local:"):
        return _local(choice, certificates, jobs)
    if "://" in choice:
        return _by_address(choice, certificates)
    if Path(choice).is_file():
        return _by_address(_address_in(Path(choice)), certificates)
    table = read_table(course, choice)
    certificates = certificates or (course / table.certificates if table.certificates else None)
    if table.address:
        return _by_address(table.address, certificates)
    return partial(start_batch_cluster, table, security_of(certificates) if certificates else None)


def _by_address(address: str, certificates: Path | None) -> Callable[[], SchedulerLink]:
    port = re.fullmatch(r"(?:tls|tcp)://[^\s/]+:(\d{1,5})/?", address)
    if port is None or not 0 < int(port[1]) < 65536:
        raise ClusterInputError(f"{address!r} is no address of a Dask scheduler; one looks like tls://host:8786")
    if problem := open_door(address):
        raise ClusterInputError(f"the cluster at {address} is not used. {problem}")
    if address.startswith("tls:") and certificates is None:
        raise ClusterInputError(
            f"{address} needs certificates: name the folder that `autograder cluster certificates` made with --certificates DIR"
        )
    if certificates and not address.startswith("tls:"):
        raise ClusterInputError(f"{address} uses no certificates: write tls://, or leave out --certificates")
    return partial(SchedulerLink, address, security_of(certificates) if certificates else None)


def _address_in(file: Path) -> str:
    try:
        return str(json.loads(file.read_text("utf-8"))["address"])
    except (ValueError, LookupError, TypeError, OSError) as error:
        raise ClusterInputError(f"{file} is no scheduler file of Dask ({type(error).__name__}: {error})") from None


def _local(choice: str, certificates: Path | None, jobs: int) -> Callable[[], SchedulerLink]:
    found = re.fullmatch(r"local:([1-9]\d{0,2})", choice)
    if found is None:
        raise ClusterInputError(f"--cluster {choice}: write local:N with 1 to 999 workers, such as local:2")
    if certificates:
        raise ClusterInputError(f"--cluster {choice} makes certificates of its own; leave out --certificates")
    count = int(found[1])
    return partial(_started_here, count, jobs or max(1, len(os.sched_getaffinity(0)) // count))


def _started_here(count: int, threads: int) -> SchedulerLink:
    security = Security.temporary()
    with warnings.catch_warnings():  # of the dashboard's port, where a second cluster runs here
        warnings.simplefilter("ignore")
        cluster = LocalCluster(
            n_workers=count,
            threads_per_worker=threads,
            host="127.0.0.1",
            protocol="tls://",
            security=security,
            dashboard_address=None,
            silence_logs=50,
        )
    return SchedulerLink(cluster, security)


def _say(sentence: str) -> None:
    print(f"autograder: {sentence}", file=sys.stderr, flush=True)
