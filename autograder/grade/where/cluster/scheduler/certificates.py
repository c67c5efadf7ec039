"""Certificates of a cluster: one authority and one key for scheduler, workers and client; made for those who have none, and read."""

from __future__ import annotations

import datetime
import os
import ssl
from pathlib import Path

from distributed import Security

from autograder.grade.where.cluster.scheduler.scheduler_link import ClusterInputError

CERTIFICATE_FILES = ("ca.pem", "cert.pem", "key.pem")


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


def security_of(certificates: Path) -> Security:
    """Returns what Dask needs of a folder with the three files of `autograder cluster certificates`.

    Raises:
        ClusterInputError: one of them is missing, cannot be read or has expired, or they do not belong together.
    """
    authority, certificate, key = files = [certificates / name for name in CERTIFICATE_FILES]
    for file in files:
        try:
            if not file.read_bytes().strip():
                raise ClusterInputError(f"{file} is empty. {_new_ones(certificates)}")
        except (FileNotFoundError, NotADirectoryError):
            raise ClusterInputError(f"there is no {file}. {_new_ones(certificates)}") from None
        except OSError as error:
            raise ClusterInputError(f"{file} cannot be read: {error.strerror}") from None
    _refuse_unusable(authority, certificate, key)
    roles = {
        f"tls_{role}_{kind}": str(file)
        for role in ("client", "scheduler", "worker")
        for kind, file in (("cert", certificate), ("key", key))
    }
    return Security(tls_ca_file=str(authority), require_encryption=True, **roles)


def _refuse_unusable(authority: Path, certificate: Path, key: Path) -> None:
    """Raises the error for what OpenSSL does not take, and for a certificate that is not valid today."""
    try:
        context = ssl.create_default_context(cafile=str(authority))
    except ssl.SSLError as error:
        raise ClusterInputError(f"{authority} holds no certificate ({error.reason or error})") from None
    try:
        context.load_cert_chain(certificate, key, password=lambda: "")  # otherwise OpenSSL asks at the terminal for it
    except (ssl.SSLError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise ClusterInputError(
            f"{certificate} and {key} are no certificate and its key without a password ({reason}). "
            f"{_new_ones(certificate.parent)}"
        ) from None
    for file in (authority, certificate):
        _refuse_outdated(file)


def _refuse_outdated(file: Path) -> None:
    from cryptography.x509 import load_pem_x509_certificate

    found = load_pem_x509_certificate(file.read_bytes())
    first, last = found.not_valid_before_utc, found.not_valid_after_utc
    if not first <= datetime.datetime.now(datetime.UTC) <= last:
        raise ClusterInputError(
            f"{file} is valid from {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} UTC, and not now. {_new_ones(file.parent)}"
        )


def _new_ones(folder: Path) -> str:
    return (
        f"`autograder cluster certificates {folder}` makes new certificates where there are none; scheduler and workers have to "
        "use the same"
    )
