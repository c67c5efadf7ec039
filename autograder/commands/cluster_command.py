"""The command `cluster`: what a cluster needs before a class is graded on it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from autograder.locale.translations import translated


def add_to(verbs: Any) -> None:
    """Adds the command to the parser's verbs."""
    cluster = verbs.add_parser("cluster", help=translated("prepare a Dask cluster for `grade --cluster`"))
    tasks = cluster.add_subparsers(required=True, metavar="TASK")
    certificates = tasks.add_parser("certificates", help="make certificates, so that nobody else can join the cluster")
    certificates.add_argument("folder", type=Path, metavar="DIR", help="for ca.pem, cert.pem and key.pem")
    certificates.set_defaults(run=_certificates)


def _certificates(chosen: argparse.Namespace) -> int:
    from autograder.grade.where.cluster.scheduler.certificates import make_certificates

    authority, certificate, key = make_certificates(chosen.folder)
    options = f"--tls-ca-file {authority} --tls-cert {certificate} --tls-key {key}"
    print(f"made {authority}, {certificate} and {key}, valid for a year. Anyone with the key can use the cluster.\n")
    print(f"dask scheduler --host SCHEDULER --protocol tls --port 8786 {options}")
    print(f"dask worker tls://SCHEDULER:8786 {options}")
    print(f"autograder grade ASSIGNMENT --cluster tls://SCHEDULER:8786 --certificates {chosen.folder}")
    return 0
