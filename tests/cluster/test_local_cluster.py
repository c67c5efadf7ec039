"""`--cluster local:N`, from the command to the gradebook."""

import json
import shutil
import socket
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.cluster.small_class import make_class, without_seconds

ROOT = Path(__file__).resolve().parents[2]


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


def grade(course, *options: str):
    """Returns the rows that the command prints, without times."""
    command = [sys.executable, "-m", "autograder", "grade", "small", "--course", str(course), "--json", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500)
    assert done.returncode in (0, 1), done.stderr
    return without_seconds(json.loads(done.stdout))


@pytest.mark.slow
@pytest.mark.usefixtures("isolated")
def test_two_workers_give_the_rows_of_one_machine(tmp_path):
    """The same class here and on two workers: equal rows; each grade names the worker, its machine and the level."""
    here = make_class(tmp_path / "here", 10)
    shutil.copytree(here, tmp_path / "there")
    assert grade(here) == grade(tmp_path / "there", "--cluster", "local:2")
    with closing(sqlite3.connect(tmp_path / "there" / "gradebook.db")) as book:
        made = [json.loads(text) for (text,) in book.execute("SELECT made_with FROM autograder_grade")]
    assert {"0", "1"} == {one["graded by"]["small"]["worker"].split(" on ")[0] for one in made}
    assert all("processors" in one["graded by"]["small"]["machine"] for one in made)
    assert {"bubblewrap"} == {one["isolation"] for one in made}


@pytest.mark.slow
@pytest.mark.usefixtures("isolated")
def test_a_submission_reaches_neither_scheduler_nor_worker(tmp_path):
    """A submission that tries every port finds none while scheduler and workers listen; the same lines outside find one."""
    course = make_class(tmp_path / "course", 1, {"student0000": LOOKING_FOR_PORTS})
    [row] = grade(course, "--cluster", "local:2")["students"]
    assert 3 == row["points"]
    outside = {}
    exec(f"def area(r):\n    {LOOKING_FOR_PORTS}", outside)
    with socket.create_server(("127.0.0.1", 0)):
        assert -1 == outside["area"](2)
