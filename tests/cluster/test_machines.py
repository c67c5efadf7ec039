"""A class on machines of its own: crashes, a cable that is out, strangers, and workers that must get nothing."""

import sqlite3
import time
from contextlib import closing

import pytest

from autograder.grade.where.cluster.scheduler.certificates import make_certificates
from tests.cluster import machines as namespaces
from tests.cluster.kills import crash_while_grading, graded, rows_here, rows_of
from tests.cluster.machines import DaskMachines, Machines
from tests.cluster.small_class import make_class

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("isolated")]
PATIENCE = 500.0


@pytest.fixture
def cluster(tmp_path):
    """Four machines, with a scheduler on the first one; the workers are the test's to start, and the client is on the fourth."""
    if namespaces.obstacle():
        pytest.skip(namespaces.obstacle())
    make_certificates(tmp_path / "certs")
    with Machines(4, tmp_path) as machines:
        cluster = DaskMachines(machines, tmp_path / "certs")
        cluster.start_scheduler()
        yield cluster


def wait_for(course, count, client):
    """Waits until as many students are graded."""
    until = time.monotonic() + PATIENCE
    while graded(course) < count:
        assert client.poll() is None
        assert time.monotonic() < until
        time.sleep(0.05)


def said(folder):
    """Returns what the client printed."""
    return (folder / "client.log").read_text()


def test_crashes_and_a_cable_that_is_out_change_no_row(cluster, tmp_path):
    """Two workers crash, one is cut off and comes back; every submission has one grade, the one that a single machine gives."""
    course = make_class(tmp_path / "there", 30)
    cluster.start_worker(2)
    cluster.start_worker(3)
    client = cluster.grade(4, course)
    wait_for(course, 5, client)
    with cluster.machines.unplugged(3):
        wait_for(course, 12, client)
    crash_while_grading(cluster, course, range(2, 4), client, 2, 30)
    assert client.returncode in (0, 1), said(tmp_path)
    assert rows_here(make_class(tmp_path / "here", 30)) == rows_of(tmp_path / "client.log")
    with closing(sqlite3.connect(course / "gradebook.db")) as book:
        assert [(30, 30)] == book.execute("SELECT count(*), count(DISTINCT student) FROM autograder_grade").fetchall()


@pytest.mark.exhaustive
def test_the_scheduler_and_the_client_are_replaced(cluster, tmp_path):
    """A new scheduler takes over at the same address; then the client is killed, and --resume goes on where it stopped."""
    course = make_class(tmp_path / "there", 30)
    cluster.start_worker(2)
    first = cluster.grade(4, course)
    wait_for(course, 5, first)
    cluster.machines.crash(1)
    cluster.start_scheduler()
    wait_for(course, 15, first)
    cluster.machines.crash(4)
    before = graded(course)
    second = cluster.grade(4, course, "--resume")
    second.wait(PATIENCE)
    assert second.returncode in (0, 1), said(tmp_path)
    rows = rows_of(tmp_path / "client.log")
    assert 30 == len(rows)
    assert before <= sum(row["unchanged"] for row in rows) + 1


@pytest.mark.exhaustive
def test_a_disk_that_fills_up_changes_no_row(cluster, tmp_path):
    """One of two workers has all its temporary files on a disk that is full from some moment on; every row is as elsewhere."""
    course, disk, now = make_class(tmp_path / "there", 30), tmp_path / "disk", tmp_path / "now"
    disk.mkdir()
    fill = f"(while [ ! -e {now} ]; do sleep 0.1; done; head -c 64M /dev/zero >{disk}/all) 2>/dev/null"
    mounted = f"mount -t tmpfs -o size=32m none {disk}; {fill} &"
    cluster.start_worker(2, f"TMPDIR={disk}", f"DASK_TEMPORARY_DIRECTORY={disk}", beside=f"{mounted} true")
    cluster.start_worker(3)
    client = cluster.grade(4, course)
    wait_for(course, 5, client)
    now.touch()
    assert client.wait(PATIENCE) in (0, 1), said(tmp_path)
    assert rows_here(make_class(tmp_path / "here", 30)) == rows_of(tmp_path / "client.log")


def test_strangers_and_other_installations_get_nothing(cluster, tmp_path):
    """A client with other certificates is refused; so is a worker with them; one with another level or version gets no job."""
    course = make_class(tmp_path / "there", 1)
    make_certificates(tmp_path / "strange")
    before = sorted(course.rglob("*"))
    stranger = cluster.grade(4, course, certificates=tmp_path / "strange")
    assert 2 == stranger.wait(PATIENCE)
    assert "do not accept each other's certificates" in said(tmp_path)
    cluster.start_worker(3, certificates=tmp_path / "strange")
    few = tmp_path / "programs"
    few.mkdir()
    (few / "sleep").symlink_to("/bin/sleep")
    cluster.start_worker(2, f"PATH={few}")
    late = cluster.grade(4, course)
    assert 2 == late.wait(PATIENCE)
    assert "worker machine2 on" in said(tmp_path)
    assert "bubblewrap is missing" in said(tmp_path)
    assert "nothing was graded" in said(tmp_path)
    assert "machine3" not in said(tmp_path)
    assert before == [path for path in sorted(course.rglob("*")) if path.name != "gradebook.db"]


def test_a_worker_without_the_package_is_named(cluster, tmp_path):
    """A machine with Dask and nothing of ours gets no job, alone or beside another one; the reason is said."""
    course, bare = make_class(tmp_path / "there", 6), tmp_path / "bare" / "autograder"
    bare.mkdir(parents=True)
    (bare / "__init__.py").write_text("raise ModuleNotFoundError(\"No module named 'autograder'\")\n")
    without = ("PYTHONSAFEPATH=1", f"PYTHONPATH={bare.parent}")
    cluster.start_worker(2, *without)
    alone = cluster.grade(4, course)
    assert 2 == alone.wait(PATIENCE)
    assert "no worker of the cluster can grade, so nothing was graded" in said(tmp_path)
    assert "autograder is not installed there as it is here" in said(tmp_path)
    cluster.start_worker(3)
    both = cluster.grade(4, course)
    assert both.wait(PATIENCE) in (0, 1), said(tmp_path)
    assert 6 == len(rows_of(tmp_path / "client.log"))
