"""Values of `--cluster` that are not clusters, and clusters that cannot be used: one sentence each, and nothing is written."""

import re
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from distributed import Client, LocalCluster, Security

from autograder.cli import main
from autograder.errors import InputError
from autograder.grade.backends import dask_cluster
from autograder.grade.backends.dask_cluster import choose_cluster, is_exposed
from autograder.grade.batch.gradebook import exclusive_lock
from autograder.grade.sandbox.isolation import LEVELS, STRONGEST
from tests.cluster.small_class import make_class

ROOT = Path(__file__).resolve().parents[2]
FILES = {
    "empty.toml": "",
    "broken.toml": "[s\n",
    "list.json": '{"id": 1}',
    "class.toml": 'class = "dask_jobqueue.SlurmCluster"',
    "argument.toml": 'class = "dask_jobqueue.SLURMCluster"\ncores = 1\nmemory = "1GB"\nline = "normal"\n',
    "package.toml": 'class = "nowhere.Cluster"',
}


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A course with one submission, and files that name clusters."""
    folder = make_class(tmp_path_factory.mktemp("class") / "course", 1)
    for name, text in FILES.items():
        (folder / name).write_text(text)
    (folder / "cluster.toml").write_text('[old]\naddress = "tls://127.0.0.1:8786"\ncertificates = "certs"\n')
    return folder


def refused(course, capsys, *options):
    """Return the sentence with which `grade` refuses, after checking that it has written only the gradebook's lock file."""

    def written():
        return sorted(path for path in course.rglob("*") if path.suffix != ".lock")

    before = written()
    assert (2, before) == (main(["grade", "small", "--course", str(course), *options]), written())
    said = capsys.readouterr().err.strip()
    assert said.startswith("autograder: ")
    assert "\n" not in said
    return said


def test_nothing_of_dask_is_imported_without_the_option():
    """`grade` on this machine loads no Dask, whatever of the grader is imported."""
    code = (
        "import sys, autograder.cli, autograder.grade.batch.assignment, autograder.grade.batch.dry_run\n"
        "import autograder.grade.backends.local_processes\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('dask', 'distributed')])"
    )
    assert "[]\n" == subprocess.check_output([sys.executable, "-c", code], text=True, cwd=ROOT)


@pytest.mark.parametrize(("choice", "said"), [
    ("{}/missing.toml", "contains neither"),
    ("department", "contains neither a scheduler's `address` nor a cluster's `class`"),
    ("old", "there is no .*ca.pem; docs/cluster.md shows how"),
    ("tls://127.0.0.1:8786", "needs certificates: --certificates DIR, or Dask's configuration"),
    ("tcp://127.0.0.1", "missing port number"),
    ("tcp://10.0.0.5:8786", "strangers can run programs as you"),
    ("tcp://grading:8786", "strangers can run programs as you"),
    ("{}/empty.toml", "contains neither"),
    ("{}/broken.toml", "line 1"),
    ("{}/list.json", "contains neither"),
    ("{}/class.toml", "does not start with these arguments .*no attribute 'SlurmCluster'"),
    ("{}/argument.toml", "does not start with these arguments .*unexpected keyword argument 'line'"),
    ("{}/package.toml", "does not start with these arguments .*No module named 'nowhere'"),
])  # fmt: skip
def test_a_choice_that_names_no_cluster_is_refused(course, capsys, choice, said):
    """An address without port or certificates, an open port, no workers, a file or a table that is of no use."""
    message = refused(course, capsys, "--cluster", choice.format(course))
    assert re.search(said, message), message


@pytest.mark.parametrize("choice", ["", "local:0", "local:1000", "host", "host:8786"])
def test_the_kinds_of_choices_are_named(tmp_path, choice):
    """A choice of no known kind, in a course without a cluster.toml, is answered with the kinds that there are."""
    kinds = "is neither an address such as tls://host:8786, nor local:2, nor a file that can be read"
    with pytest.raises(InputError, match=kinds), choose_cluster(choice, tmp_path, None, STRONGEST, 0):
        pass


def test_certificates_without_a_cluster_are_refused(course, capsys):
    """`--certificates` has a meaning only with `--cluster`."""
    assert "--certificates requires --cluster" in refused(course, capsys, "--certificates", str(course))


@pytest.mark.parametrize("level", [name for name in LEVELS if name != STRONGEST])
def test_a_weaker_level_is_refused_on_a_cluster(course, level):
    """At another level than the strongest a submission would reach the scheduler's port, so no connection is made."""
    with (
        pytest.raises(InputError, match="submissions reach the scheduler's port"),
        choose_cluster("tls://h:1", course, None, level, 0),
    ):
        pass


def test_no_cluster_is_started_for_a_class_that_cannot_be_graded(course, capsys, monkeypatch):
    """A misspelled assignment, and one that another client grades, are refused before a machine is asked for."""
    monkeypatch.setattr(dask_cluster, "_started", lambda _: pytest.fail("a cluster was started"))
    assert 2 == main(["grade", "nowhere", "--course", str(course), "--cluster", "local:1"])
    assert "nowhere" in capsys.readouterr().err
    with exclusive_lock(f"sqlite:///{course}/gradebook.db", "small"):
        assert "another `autograder grade` is grading 'small'" in refused(course, capsys, "--cluster", "local:1")


@pytest.fixture
def impatient(monkeypatch):
    """A client that waits one second for a scheduler."""
    monkeypatch.setattr(dask_cluster, "CONNECT_SECONDS", 1)


def reason(address, security=None):
    """Return why a scheduler is not used."""
    with pytest.raises(InputError) as caught, dask_cluster._connected(address, security or Security()):
        pass
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.usefixtures("impatient")
def test_a_listener_that_is_no_scheduler_is_not_waited_for():
    """For a missing listener, or one that is silent or uses another protocol, the sentence names the address."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{unused.getsockname()[1]}"
        assert reason(address).startswith(f"no Dask scheduler can be used at {address} (OSError: Timed out")
    for greeting in (b"", b"SSH-2.0-OpenSSH_9.2\r\n"):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            connections = []
            threading.Thread(target=lambda: greet(listener, greeting, connections), daemon=True).start()  # noqa: B023
            assert "no Dask scheduler can be used" in reason(f"tcp://127.0.0.1:{listener.getsockname()[1]}")
            listener.shutdown(socket.SHUT_RDWR)


def greet(listener, greeting, connections):
    """Accept connections until the listener is shut down."""
    try:
        while True:
            connections.append(listener.accept()[0])
            connections[-1].sendall(greeting)
    except OSError:
        pass


@pytest.mark.usefixtures("impatient")
def test_a_stranger_is_told_that_the_certificates_differ():
    """A scheduler with certificates refuses a client with other certificates or without any, and accepts one with the same."""
    options = {"processes": False, "dashboard_address": None, "silence_logs": 50, "host": "127.0.0.1"}
    with LocalCluster(n_workers=0, security=True, **options) as cluster:
        assert "certificate does not match" in reason(cluster.scheduler_address, Security.temporary())
        assert "no Dask scheduler can be used" in reason(cluster.scheduler_address.replace("tls", "tcp"))
        with dask_cluster._connected(cluster.scheduler_address, cluster.security) as client:
            assert isinstance(client, Client)


@pytest.mark.parametrize(("address", "exposed"), [
    ("tls://10.0.0.5:1", False),
    ("tcp://127.0.0.1:1", False),
    ("tcp://[::1]:1", False),
    ("tcp://0.0.0.0:1", True),
    ("tcp://192.168.1.7:1", True),
    ("tcp://grading:1", True),
])  # fmt: skip
def test_an_address_that_others_can_use_is_exposed(address, exposed):
    """Encrypted or on loopback is not; a name that may be another machine's is."""
    assert exposed == is_exposed(address)
