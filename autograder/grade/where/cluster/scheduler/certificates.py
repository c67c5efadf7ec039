"""Certificates for a cluster that has none: one authority and one key for scheduler, workers and client."""

from __future__ import annotations

import os
from pathlib import Path

from distributed import Security

from autograder.grade.where.cluster.scheduler.scheduler_link import CERTIFICATE_FILES, ClusterInputError


def make_certificates(folder: Path) -> list[Path]:
    """Writes ca.pem, cert.pem and key.pem, valid for a year; the key can be read by their owner alone. Returns the files.

    They are those of `distributed.Security.temporary` (2026.8): anyone with the key may join the cluster, nobody else.

    Raises:
        ClusterInputError: one of the files is there already, or the folder cannot be written.
    """
    files = [folder / name for name in CERTIFICATE_FILES]
    made = Security.temporary()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in files:
            if file.exists():
                raise ClusterInputError(f"{file} is there already; remove it, or name another folder")
        for file, text in zip(files, (made.tls_ca_file, made.tls_client_cert, made.tls_client_key), strict=True):
            with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as opened:
                opened.write(text)
    except OSError as error:
        raise ClusterInputError(f"{folder} cannot be written: {error.strerror}") from None
    return files
