"""Schedulers and certificates that cannot be used, and batch systems that take no job: each is one sentence that says why."""

import datetime
import shutil
import socket
import sys
import threading
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from distributed import Scheduler, Security
from tornado.ioloop import IOLoop

from autograder.cli import main
from autograder.grade.where.cluster.cluster_choice import choose_cluster
from autograder.grade.where.cluster.scheduler.batch_cluster import start_batch_cluster
from autograder.grade.where.cluster.scheduler.certificates import make_certificates, security_of
from autograder.grade.where.cluster.scheduler.cluster_table import ClusterTable
from autograder.grade.where.cluster.scheduler.scheduler_link import ClusterError, ClusterInputError
from autograder.grade.where.cluster.scheduler.scheduler_probe import obstacle_at

PATIENCE = 60.0  # of a probe that is to be answered; one that is not gets a second


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The certificates of two clusters that know nothing of each other."""
    folder = tmp_path_factory.mktemp("certificates")
    make_certificates(folder / "ours")
    make_certificates(folder / "theirs")
    return folder


@pytest.fixture(scope="module")
def schedulers(folders):
    """The ports of real schedulers on the loopback address: with our certificates, with theirs, and without."""
    loop, ports, ready = IOLoop(make_current=False), {}, threading.Event()

    async def start():
        for name, security in {
            "ours": security_of(folders / "ours"),
            "theirs": security_of(folders / "theirs"),
        }.items():
            ports[name] = (await Scheduler(host="127.0.0.1", port=0, protocol="tls", security=security, **QUIET)).port
        ports["without"] = (await Scheduler(host="127.0.0.1", port=0, **QUIET)).port
        ready.set()

    def run():
        loop.add_callback(start)
        loop.start()

    threading.Thread(target=run, daemon=True).start()
    assert ready.wait(120)
    yield ports
    loop.add_callback(loop.stop)


QUIET = {"dashboard": False, "dashboard_address": "127.0.0.1:0"}


def obstacle(scheme: str, port: int, folder: Path | None, seconds: float = PATIENCE) -> str:
    """Returns what the probe says of a port on this machine."""
    return obstacle_at(f"{scheme}://127.0.0.1:{port}", security_of(folder) if folder else None, seconds)


def test_a_scheduler_that_can_be_used_has_no_obstacle(schedulers, folders):
    """With the certificates that it was started with, and without any where it has none."""
    assert "" == obstacle("tls", schedulers["ours"], folders / "ours")
    assert "" == obstacle("tcp", schedulers["without"], None)


def test_each_reason_is_told_from_the_others(schedulers, folders):
    """Another authority's scheduler, one without certificates, one with certificates that is called without, and nobody."""
    assert "do not accept each other's certificates" in obstacle("tls", schedulers["theirs"], folders / "ours")
    assert "does not encrypt" in obstacle("tls", schedulers["without"], folders / "ours")
    assert "does not answer as a Dask scheduler does" in obstacle("tcp", schedulers["ours"], None, 1)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        for scheme, folder in (("tls", folders / "ours"), ("tcp", None)):
            said = obstacle(scheme, nobody.getsockname()[1], folder, 1)
            assert "there is no Dask scheduler" in said
            assert "refused" in said


@pytest.mark.parametrize("greeting", [b"", b"SSH-2.0-OpenSSH_9.2\r\n", b"220"])
def test_a_listener_that_is_no_scheduler_is_not_waited_for(greeting, folders):
    """One that stays silent, for which Dask's own client waits without end, and others that greet in their own way."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        connections = []

        def greet():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                connections.append(connection)
                connection.sendall(greeting)

        threading.Thread(target=greet, daemon=True).start()
        port = listener.getsockname()[1]
        assert "does not answer as a Dask scheduler does" in obstacle("tcp", port, None, 1)
        assert "" != obstacle("tls", port, folders / "ours", 1)
        listener.shutdown(socket.SHUT_RDWR)


def test_a_name_that_nobody_has_is_told(folders):
    """The address is named, and that nobody answers to it."""
    said = obstacle_at("tls://nowhere.invalid:8786", security_of(folders / "ours"), 1)
    assert said.startswith("there is no Dask scheduler at tls://nowhere.invalid:8786 (")


def write_expired(folder: Path) -> None:
    """Writes certificates of which that of the cluster ended yesterday."""
    folder.mkdir()
    now = datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "cluster")])
    key = ec.generate_private_key(ec.SECP256R1())
    for file, days in (("ca.pem", 30), ("cert.pem", -1)):
        made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        made = made.serial_number(1 if days > 0 else 2).not_valid_before(now - datetime.timedelta(days=400))
        signed = made.not_valid_after(now + datetime.timedelta(days=days)).sign(key, hashes.SHA256())
        (folder / file).write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(written(key, serialization.NoEncryption()))


def written(key, protection) -> bytes:
    """Returns a key as its file."""
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, protection)


def with_password(key: bytes) -> bytes:
    """Returns a key's file with a password."""
    return written(serialization.load_pem_private_key(key, None), serialization.BestAvailableEncryption(b"secret"))


@pytest.mark.parametrize(
    ("file", "change", "said"),
    [
        ("ca.pem", lambda folder: b"no certificate", r"ca\.pem holds no certificate"),
        ("ca.pem", lambda folder: b"", r"ca\.pem is empty"),
        ("cert.pem", lambda folder: b"no certificate", r"are no certificate and its key"),
        ("key.pem", lambda folder: (folder / "theirs" / "key.pem").read_bytes(), r"are no certificate and its key"),
        ("key.pem", lambda folder: with_password((folder / "ours" / "key.pem").read_bytes()), "without a password"),
    ],
)
def test_a_file_that_is_no_certificate_is_named(folders, tmp_path, file, change, said):
    """Before anything is connected to: what OpenSSL cannot read, another certificate's key, and a key with a password."""
    mine = tmp_path / "mine"
    shutil.copytree(folders / "ours", mine)
    (mine / file).write_bytes(change(folders))
    with pytest.raises(ClusterInputError, match=said):
        security_of(mine)


def test_an_expired_certificate_is_named_with_its_days(tmp_path):
    """OpenSSL calls it a failure of verification; the sentence says which file, and until when it was valid."""
    write_expired(tmp_path / "old")
    with pytest.raises(ClusterInputError, match=r"cert\.pem is valid from .* UTC, and not now"):
        security_of(tmp_path / "old")


def test_certificates_that_nobody_would_use_are_refused(folders, tmp_path, capsys):
    """Without a cluster, beside local:N, and for an address that is not encrypted."""
    for choice, said in (("local:1", "certificates of its own"), ("tcp://127.0.0.1:1", "uses no certificates")):
        with pytest.raises(ClusterInputError, match=said):
            choose_cluster(choice, tmp_path, folders / "ours", "bubblewrap", 0)
    assert 2 == main(["grade", "small", "--course", str(tmp_path), "--certificates", str(folders / "ours")])
    assert "--certificates goes with --cluster" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (None, r"takes no job \(.*No such file or directory: 'sbatch'\)"),
        (
            "echo 'sbatch: error: invalid partition: normal' >&2; exit 1",
            r"takes no job \(sbatch: error: invalid partition",
        ),
    ],
)
def test_a_batch_system_that_takes_no_job_is_not_waited_for(tmp_path, monkeypatch, script, said):
    """Its command is missing, or refuses the job: what it said is said, where dask-jobqueue logs it and waits without end."""
    if script is not None:
        (tmp_path / "sbatch").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "sbatch").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    settings = {"cores": 1, "memory": "1GB", "python": sys.executable, "scheduler_options": {"host": "127.0.0.1"}}
    with pytest.raises(ClusterError, match=said):
        start_batch_cluster(ClusterTable(kind="SLURMCluster", workers=2, settings=settings), Security.temporary())
