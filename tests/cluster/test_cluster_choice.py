"""What `--cluster` is given, and what is wrong with it: one sentence, in seconds, and nothing written."""

import json
import socket
import stat
import subprocess
import sys
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest

from autograder.cli import main
from autograder.grade.batch.records.grading_lock import only_client
from autograder.grade.sandbox.isolation.levels import LEVELS, STRONGEST
from autograder.grade.where.cluster import cluster_choice
from autograder.grade.where.cluster.cluster_choice import choose_cluster
from autograder.grade.where.cluster.scheduler.certificates import make_certificates
from autograder.grade.where.cluster.scheduler.cluster_table import ClusterTable, read_table
from autograder.grade.where.cluster.scheduler.scheduler_link import ClusterInputError, open_door
from tests.cluster.small_class import make_class

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A course with one hand-in."""
    return make_class(tmp_path_factory.mktemp("class") / "course", 1)


def refused(course, capsys, *options: str) -> str:
    """Returns the sentence with which `grade` refuses; it has taken seconds, and has written nothing."""
    before = sorted(course.rglob("*"))
    start = time.monotonic()
    code = main(["grade", "small", "--course", str(course), *options])
    assert (2, before) == (code, sorted(course.rglob("*")))
    assert time.monotonic() - start < 60
    said = capsys.readouterr().err.strip()
    assert said.startswith("autograder: ")
    assert "\n" not in said
    return said


def test_nothing_of_dask_is_imported_without_the_option():
    """`grade` on this machine loads no Dask, whatever of the grader is imported."""
    code = (
        "import sys, autograder.cli, autograder.grade.batch.assignment, autograder.grade.batch.dry_run\n"
        "import autograder.grade.where.local_processes, autograder.grade.where.this_machine\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('dask', 'distributed')])"
    )
    assert "[]\n" == subprocess.check_output([sys.executable, "-c", code], text=True, cwd=ROOT)


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ("tls://host", "one looks like tls://host:8786"),
        ("tls://127.0.0.1:99999", "one looks like tls://host:8786"),
        ("", "that is no address"),
        ("tls://127.0.0.1:8786", "needs certificates"),
        ("tcp://10.0.0.5:8786", "anyone who reaches the port can run programs as you"),
        ("local:0", "such as local:2"),
        ("department", "there is no"),
    ],
)
def test_a_choice_that_means_nothing_is_refused(course, capsys, choice, said):
    """An address without port or certificates, an open door, no workers, a table that is not there."""
    assert said in refused(course, capsys, "--cluster", choice)


@pytest.mark.parametrize("level", [name for name in LEVELS if name != STRONGEST])
def test_a_weaker_level_is_refused_on_a_cluster(course, level):
    """At another level than the strongest a submission would reach the scheduler's port, so no connection is made."""
    address = "tls://127.0.0.1:8786"
    with pytest.raises(ClusterInputError, match="would reach the ports"):
        choose_cluster(address, course, None, level, 0)


def test_no_cluster_is_started_for_a_class_that_cannot_be_graded(course, capsys, monkeypatch):
    """A misspelt assignment, and one that another client grades, are refused before a machine is asked for."""
    monkeypatch.setattr(cluster_choice, "LocalCluster", lambda **_: pytest.fail("a cluster was started"))
    assert 2 == main(["grade", "nowhere", "--course", str(course), "--cluster", "local:1"])
    assert "nowhere" in capsys.readouterr().err
    with only_client(f"sqlite:///{course}/gradebook.db", "small"):
        assert "another `autograder grade` is grading 'small'" in refused(course, capsys, "--cluster", "local:1")
    assert [] == list(course.glob(".*.lock"))


@pytest.mark.thorough
def test_no_scheduler_there(course, capsys):
    """A port where nobody listens, and one where somebody else does."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        assert f"there is no Dask scheduler at {address}" in refused(course, capsys, "--cluster", address)


TABLES = """
[typo]
server = "tls://host:8786"
[both]
address = "tls://host:8786"
kind = "SLURMCluster"
[strange]
kind = "SlurmCluster"
[kubernetes]
kind = "KubeCluster"
[number]
kind = "PBSCluster"
workers = "many"
[nobody]
kind = "PBSCluster"
workers = 0
[useless]
address = "tls://host:8786"
workers = 3
"""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("typo", "unknown field `server`. What may stand there: address, kind"),
        ("both", "give either"),
        ("strange", "no kind 'SlurmCluster'. There are: SLURMCluster"),
        ("kubernetes", "for your own machines and for Kubernetes"),
        ("number", "Expected `int`"),
        ("nobody", "`int` >= 1"),
        ("useless", "workers belong to the kind of a cluster that is started"),
        ("none", "has no table [none]. It has: typo, both"),
    ],
)
def test_a_mistake_in_a_table_is_named(tmp_path, name, said):
    """An unknown key, two meanings at once, a class that does not exist, a wrong type or number, a missing table."""
    (tmp_path / "cluster.toml").write_text(TABLES)
    with pytest.raises(ClusterInputError) as caught:
        read_table(tmp_path, name)
    assert said in str(caught.value)


def test_a_setting_that_its_class_does_not_know_is_one_sentence(course, capsys, monkeypatch):
    """The class's long complaint, with all settings in it, is cut to its first line, and its warnings are not shown."""

    def complaining(**settings):
        warnings.warn("no interface", stacklevel=1)
        raise ValueError(
            "unexpected keyword argument 'line'. It was passed to the constructor:\nsettings={'key': 'secret'}"
        )

    monkeypatch.setitem(sys.modules, "dask_jobqueue", SimpleNamespace(SLURMCluster=complaining))
    (course / "cluster.toml").write_text('[department]\nkind = "SLURMCluster"\nsettings = {line = "normal"}\n')
    said = refused(course, capsys, "--cluster", "department")
    (course / "cluster.toml").unlink()
    assert said.endswith("(ValueError: unexpected keyword argument 'line'. It was passed to the constructor)")


def test_a_table_passes_the_settings_of_its_class_on(tmp_path):
    """What stands under `settings` is not looked into."""
    (tmp_path / "cluster.toml").write_text(
        '[s]\nkind = "SLURMCluster"\nworkers = 3\n[s.settings]\nqueue = "q"\ncores = 4\n'
    )
    assert ClusterTable(kind="SLURMCluster", workers=3, settings={"queue": "q", "cores": 4}) == read_table(
        tmp_path, "s"
    )


def test_a_file_that_is_not_toml_is_named(tmp_path):
    """The sentence names the file and the line."""
    (tmp_path / "cluster.toml").write_text("[s\n")
    with pytest.raises(ClusterInputError, match=r"cluster\.toml cannot be read: .*line 1"):
        read_table(tmp_path, "s")


def test_a_scheduler_file_that_is_none(course, capsys, tmp_path):
    """A file without an address is refused by its name."""
    (tmp_path / "scheduler.json").write_text(json.dumps({"id": 1}))
    assert "is no scheduler file" in refused(course, capsys, "--cluster", str(tmp_path / "scheduler.json"))


@pytest.mark.parametrize(
    ("address", "is_open"),
    [
        ("tls://10.0.0.5:1", False),
        ("tcp://127.0.0.1:1", False),
        ("tcp://[::1]:1", False),
        ("tcp://0.0.0.0:1", True),
        ("tcp://192.168.1.7:1", True),
        ("tcp://grading:1", True),
    ],
)
def test_what_others_can_reach_is_an_open_door(address, is_open):
    """Encrypted or on loopback is closed; a name that may be another machine's is open."""
    assert is_open == bool(open_door(address))


def test_certificates_are_made_once_and_for_their_owner(tmp_path, capsys):
    """Three files that nobody else can read; a second call changes none of them."""
    assert 0 == main(["cluster", "certificates", str(tmp_path / "certs")])
    assert "--certificates" in capsys.readouterr().out
    files = sorted((tmp_path / "certs").iterdir())
    assert ["ca.pem", "cert.pem", "key.pem"] == [file.name for file in files]
    assert {0o600} == {stat.S_IMODE(file.stat().st_mode) for file in files}
    before = [file.read_bytes() for file in files]
    with pytest.raises(ClusterInputError, match="is there already"):
        make_certificates(tmp_path / "certs")
    assert before == [file.read_bytes() for file in files]
