"""A cluster that a batch system runs: its jobs are submitted for one batch, with the settings of a table of cluster.toml."""

from __future__ import annotations

import contextlib
import importlib
import logging
import warnings
from typing import Any

from distributed import Security

from autograder.grade.where.cluster.scheduler.cluster_table import KINDS, ClusterTable
from autograder.grade.where.cluster.scheduler.scheduler_link import ClusterError, ClusterInputError, SchedulerLink


def start_batch_cluster(table: ClusterTable, security: Security | None) -> SchedulerLink:
    """Starts a scheduler here and submits the jobs that a table describes; without certificates the cluster gets some of its own.

    Raises:
        ClusterInputError: the class does not take the settings.
        ClusterError: its package is missing, or the batch system takes no job; none is left in its queue then.
    """
    module, package = KINDS[table.kind]
    security = security or Security.temporary()
    settings = {"security": security, "n_workers": table.workers, **table.settings}
    workers = settings.pop("n_workers")
    try:
        kind: Any = getattr(importlib.import_module(module), table.kind)
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
    _submit(cluster, table.kind, workers)
    return SchedulerLink(cluster, security)


def _submit(cluster: Any, kind: str, workers: int) -> None:
    """Submits the jobs, and waits until the batch system has taken them; when it runs them is its own matter."""
    # A refused job is otherwise a traceback in a log, and the class waits without end for its workers (dask-jobqueue 0.9).
    logging.getLogger("tornado.application").setLevel(logging.CRITICAL)

    async def scaled() -> None:
        cluster.scale(workers)
        await cluster._correct_state()

    try:
        cluster.sync(scaled)
    except Exception as error:  # noqa: BLE001 - whatever the batch system's command, or starting it, raises
        with contextlib.suppress(Exception):
            cluster.close(timeout=10)
        raise ClusterError(f"{kind}: the batch system takes no job ({_refusal(error)})") from None


def _first_line(error: Exception) -> str:
    """Returns what an error says before it goes into details: dask-jobqueue lists all settings, keys included (0.9)."""
    return str(error).partition("\n")[0].rstrip(":")


def _refusal(error: Exception) -> str:
    """Returns what a command of the batch system wrote to its standard error, which dask-jobqueue quotes at the end (0.9)."""
    said = [line for line in str(error).rpartition("stderr:\n")[2].splitlines() if line.strip()]
    return said[0] if said else type(error).__name__
