"""A table of cluster.toml, beside a course: an address with its certificates, or a cluster to start, with the settings of its class."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any

import msgspec

from autograder.grade.where.cluster.scheduler.scheduler_link import ClusterInputError

FILE = "cluster.toml"
# Class -> the module that has it, and the package to install where that is missing. KubeCluster and SSHCluster are
# none of them: they start a scheduler without certificates (dask-kubernetes 2026.3, distributed 2026.8).
KINDS = {
    "SLURMCluster": ("dask_jobqueue", "dask-jobqueue"),
    "PBSCluster": ("dask_jobqueue", "dask-jobqueue"),
    "SGECluster": ("dask_jobqueue", "dask-jobqueue"),
    "LSFCluster": ("dask_jobqueue", "dask-jobqueue"),
    "HTCondorCluster": ("dask_jobqueue", "dask-jobqueue"),
}


class ClusterTable(msgspec.Struct, forbid_unknown_fields=True):
    """One table of cluster.toml.

    Attributes:
        address: of a scheduler that runs already; or
        kind: the class of a cluster that is started for the batch, such as "SLURMCluster".
        workers: how many workers that has.
        settings: the class's own, as its documentation names them.
        certificates: the folder with ca.pem, cert.pem and key.pem, relative to the course.
    """

    address: str = ""
    kind: str = ""
    workers: Annotated[int, msgspec.Meta(ge=1)] = 1
    settings: dict[str, Any] = {}
    certificates: str = ""


def read_table(course: Path, name: str) -> ClusterTable:
    """Returns a table of the course's cluster.toml.

    Raises:
        ClusterInputError: there is no such file or table, or something in it has a meaning for nobody.
    """
    file = course / FILE
    try:
        tables = tomllib.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        raise ClusterInputError(
            f"--cluster {name}: that is no address (tls://…), no scheduler file and not local:N, and there is no {file} with a "
            "table of that name"
        ) from None
    except (OSError, ValueError) as error:
        raise ClusterInputError(f"{file} cannot be read: {error}") from None
    if not isinstance(tables.get(name), dict):
        raise ClusterInputError(f"{file} has no table [{name}]. It has: {', '.join(tables) or 'none'}")
    try:
        table = msgspec.convert(tables[name], ClusterTable)
    except msgspec.ValidationError as error:
        known = ", ".join(ClusterTable.__struct_fields__)
        raise ClusterInputError(f"{file}, [{name}]: {error}. What may stand there: {known}") from None
    if bool(table.address) == bool(table.kind):
        raise ClusterInputError(
            f"{file}, [{name}]: give either the address of a scheduler or the kind of cluster to start"
        )
    if table.address and (of_no_use := {"workers", "settings"} & tables[name].keys()):
        raise ClusterInputError(
            f"{file}, [{name}]: {' and '.join(sorted(of_no_use))} belong to the kind of a cluster that is started, not to an address"
        )
    if table.kind and table.kind not in KINDS:
        known = ", ".join(KINDS)
        raise ClusterInputError(
            f"{file}, [{name}]: there is no kind {table.kind!r}. There are: {known}. Elsewhere, start scheduler and workers "
            "as docs/cluster.md says for your own machines and for Kubernetes, and give the address"
        )
    return table
