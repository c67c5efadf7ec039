"""A class graded by workers in separate processes: the rows are the same as on one machine, whatever process is killed."""

import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from tests.cluster.small_class import make_class, without_seconds

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("isolated")]
ROOT = Path(__file__).resolve().parents[2]
AUTOGRADER, DASK = [sys.executable, "-m", "autograder"], [sys.executable, "-m", "dask"]

# Tries every port of the machine, and gives a right answer if none of them answers. A socket that by chance was given the very
# port that it tries is connected to itself.
LOOKING_FOR_PORTS = """import math, socket
    for port in range(1024, 65536):
        try:
            with socket.socket() as one:
                one.settimeout(1)
                if one.connect_ex(("127.0.0.1", port)) == 0 and one.getsockname() != one.getpeername():
                    return -1
        except OSError:
            break
    return math.pi * r * r"""


def grade(course, *options):
    """Start `grade`; its rows go to rows.json in the course's folder, and its messages to errors.txt."""
    command = [*AUTOGRADER, "grade", "small", "--course", str(course), "--json", *options]
    with open(course / "rows.json", "w") as rows, open(course / "errors.txt", "w") as errors:
        return subprocess.Popen(command, cwd=ROOT, stdout=rows, stderr=errors)


def rows(course, client):
    """Return the rows that `grade` has printed in the end, without times."""
    assert client.wait(500) in (0, 1), (course / "errors.txt").read_text()
    return without_seconds(json.loads((course / "rows.json").read_text())["students"])


def wait_for(course, count, client):
    """Wait until as many students are graded."""
    until = time.monotonic() + 400
    while sum(1 for _ in course.glob("autograded/*/small")) < count:
        assert client.poll() is None, (course / "errors.txt").read_text()
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.fixture
def machines(tmp_path):
    """Return a function that starts a `dask` command with the certificates that docs/cluster.md makes; each is killed at the end."""
    folder, started = tmp_path / "certs", []
    folder.mkdir()
    made = "openssl req -x509 -newkey rsa:2048 -nodes -days 365 -subj /CN=dask -keyout key.pem -out cert.pem"
    subprocess.run(made.split(), cwd=folder, check=True, capture_output=True, timeout=60)
    shutil.copy(folder / "cert.pem", folder / "ca.pem")
    files = {"--tls-ca-file": "ca.pem", "--tls-cert": "cert.pem", "--tls-key": "key.pem"}
    certificates = [word for option, name in files.items() for word in (option, str(folder / name))]

    def start(*words):
        with open(tmp_path / "dask.log", "a") as log:
            command = [*DASK, *words, "--no-dashboard", *certificates]
            started.append(subprocess.Popen(command, cwd=tmp_path, stdout=log, stderr=log, start_new_session=True))
        return started[-1]

    yield start
    for process in started:
        process.terminate()
        process.wait(60)


def free_port():
    """Return a port without a listener."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def test_two_workers_give_the_rows_of_one_machine(tmp_path):
    """`local:2`: equal rows; each grade names the worker, its machine and the level; no submission reaches a port."""
    here = make_class(tmp_path / "here", 8, {"student0003": LOOKING_FOR_PORTS})
    shutil.copytree(here, tmp_path / "there")
    there = rows(tmp_path / "there", grade(tmp_path / "there", "--cluster", "local:2"))
    assert rows(here, grade(here)) == there
    assert 3 == there[3]["points"]
    with closing(sqlite3.connect(tmp_path / "there" / "gradebook.db")) as book:
        made = [json.loads(text) for (text,) in book.execute("SELECT made_with FROM autograder_grade")]
    assert {"0", "1"} >= {one["graded by"]["small"]["worker"].split(" on ")[0] for one in made}
    assert all("processors" in one["graded by"]["small"]["machine"] for one in made)
    assert {"bubblewrap"} == {one["isolation"] for one in made}
    outside = {}
    exec(f"def area(r):\n    {LOOKING_FOR_PORTS}", outside)
    with socket.create_server(("127.0.0.1", 0)):
        assert -1 == outside["area"](2)


def test_a_killed_worker_and_a_killed_scheduler_change_no_row(tmp_path, machines):
    """A worker is killed and its nanny starts another; the scheduler is killed, which ends the run; `--resume` grades the rest."""
    there = make_class(tmp_path / "there", 20)
    here = shutil.copytree(there, tmp_path / "here")
    address = f"tls://127.0.0.1:{free_port()}"
    words = ["--cluster", address, "--certificates", str(tmp_path / "certs")]
    scheduler = ["scheduler", "--host", "127.0.0.1", "--protocol", "tls", "--port", address.rpartition(":")[2]]
    first, worker = machines(*scheduler), machines("worker", address, "--nthreads", "2")
    client = grade(there, *words)
    wait_for(there, 3, client)
    for process in psutil.Process(worker.pid).children():
        process.kill()
    wait_for(there, 8, client)
    os.kill(first.pid, signal.SIGKILL)
    assert 2 == client.wait(100)
    assert "scheduler" in (said := (there / "errors.txt").read_text())
    assert "Grades so far are kept; run again with --resume" in said
    machines(*scheduler)
    machines("worker", address, "--nthreads", "1")
    resumed = rows(there, grade(there, *words, "--resume"))
    assert 8 <= sum(row.pop("unchanged") for row in resumed) < 20
    assert [row for row in rows(here, grade(here)) if row.pop("unchanged") is False] == resumed


def test_a_file_names_the_class_of_a_cluster(tmp_path):
    """dask-jobqueue submits two jobs with the file's settings, here to a stub of Slurm that starts them on this machine."""
    course, folder = make_class(tmp_path / "course", 4), tmp_path / "slurm"
    folder.mkdir()
    job = f'cp "$1" {folder}/job-$$.sh\nsetsid sh -c \'echo $$ >{folder}/pid-$0; exec sh "$1"\' $$ {folder}/job-$$.sh'
    (folder / "sbatch").write_text(
        f"#!/bin/sh\n{job} >{folder}/log-$$ 2>&1 </dev/null &\necho Submitted batch job $$\n"
    )
    (folder / "scancel").write_text(f"#!/bin/sh\ntouch {folder}/ended-$1\nkill -- -$(cat {folder}/pid-$1)\n")
    for command in ("sbatch", "scancel"):
        (folder / command).chmod(0o755)
    settings = {"class": "dask_jobqueue.SLURMCluster", "queue": "normal", "memory": "2GB", "walltime": "00:20:00"}
    settings |= {"python": sys.executable} | dict.fromkeys(("local_directory", "log_directory"), str(folder))
    lines = [f"{name} = {json.dumps(value)}\n" for name, value in settings.items()]
    shared = f'shared_temp_directory = "{folder}"\nscheduler_options = {{host = "127.0.0.1"}}\n'
    (course / "slurm.toml").write_text(f"n_workers = 2\ncores = 1\n{''.join(lines)}{shared}")
    command = [*AUTOGRADER, "grade", "small", "--course", str(course), "--cluster", str(course / "slurm.toml")]
    path = {"PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500, env=os.environ | path)
    assert done.returncode in (0, 1), done.stderr
    assert 4 == len(list((course / "autograded").iterdir()))
    scripts = [file.read_text() for file in folder.glob("job-*.sh")]
    assert 2 == len(scripts) == len(list(folder.glob("ended-*")))
    for script in scripts:
        assert {"#SBATCH -p normal", "#SBATCH --cpus-per-task=1", "#SBATCH -t 00:20:00"} <= set(script.splitlines())
        assert "tls://127.0.0.1:" in script
