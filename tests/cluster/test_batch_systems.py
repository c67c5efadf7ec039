"""Clusters that a table of cluster.toml starts: dask-jobqueue itself, with stand-ins for the batch system's own commands."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.small_class import make_class

ROOT = Path(__file__).resolve().parents[2]

# What the real commands print when they take a job; dask-jobqueue finds the job's number there.
SUBMITTING = {"SLURMCluster": ("sbatch", "Submitted batch job $$"), "PBSCluster": ("qsub", "$$.headnode")}
ENDING = {"SLURMCluster": "scancel", "PBSCluster": "qdel"}
DIRECTIVES = {
    "SLURMCluster": ["#SBATCH -p normal", "#SBATCH --cpus-per-task=1", "#SBATCH -t 00:20:00"],
    "PBSCluster": ["#PBS -q normal", "#PBS -l select=1:ncpus=1:mem=1908MB", "#PBS -l walltime=00:20:00"],
}
TABLE = """
[department]
kind = "{kind}"
workers = 2
[department.settings]
queue = "normal"
cores = 1
memory = "2GB"
walltime = "00:20:00"
python = "{python}"
local_directory = "{folder}"
log_directory = "{folder}"
shared_temp_directory = "{folder}"
scheduler_options = {{host = "127.0.0.1"}}
"""


def make_commands(kind: str, folder: Path) -> None:
    """Writes commands that keep a job's script and run it on this machine, in a session of its own, and that end it."""
    name, answer = SUBMITTING[kind]
    job = f'cp "$1" {folder}/job-$$.sh\nsetsid sh -c \'echo $$ >{folder}/pid-$0; exec sh "$1"\' $$ {folder}/job-$$.sh'
    (folder / name).write_text(f"#!/bin/sh\n{job} >{folder}/log-$$ 2>&1 </dev/null &\necho {answer}\n")
    number = "${1%%.*}"
    (folder / ENDING[kind]).write_text(
        f"#!/bin/sh\ntouch {folder}/ended-{number}\nkill -- -$(cat {folder}/pid-{number})\n"
    )
    for command in (name, ENDING[kind]):
        (folder / command).chmod(0o755)


@pytest.mark.slow
@pytest.mark.usefixtures("isolated")
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[] if kind == "SLURMCluster" else pytest.mark.exhaustive) for kind in SUBMITTING]
)
def test_a_batch_system_runs_the_workers(kind, tmp_path):
    """Two jobs with the table's settings are submitted, grade the class over TLS, and are ended afterwards."""
    course, folder = make_class(tmp_path / "course", 6), tmp_path / "batch"
    folder.mkdir()
    make_commands(kind, folder)
    (course / "cluster.toml").write_text(TABLE.format(kind=kind, python=sys.executable, folder=folder))
    command = [sys.executable, "-m", "autograder", "grade", "small", "--course", str(course), "--cluster", "department"]
    path = {"PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run(
        [*command, "--json"], cwd=ROOT, capture_output=True, text=True, timeout=500, env=os.environ | path
    )
    assert done.returncode in (0, 1), done.stderr
    assert 6 == len(json.loads(done.stdout)["students"])
    scripts = [file.read_text() for file in folder.glob("job-*.sh")]
    assert 2 == len(scripts) == len(list(folder.glob("ended-*")))
    for script in scripts:
        assert [] == [line for line in DIRECTIVES[kind] if line not in script.splitlines()]
        assert "tls://127.0.0.1:" in script


@pytest.mark.slow
@pytest.mark.usefixtures("isolated")
def test_the_slurm_script_grades_a_class_in_one_job(tmp_path):
    """docs/cluster/slurm.sh, with a stand-in for `srun` that starts the worker twice: the class is graded, and no key is left."""
    course, folder = make_class(tmp_path / "course", 4), tmp_path / "commands"
    folder.mkdir()
    (folder / "srun").write_text('#!/bin/sh\n"$@" &\n"$@" &\ntrap "kill $(jobs -p)" TERM\nwait\n')
    (folder / "hostname").write_text("#!/bin/sh\necho 127.0.0.1\n")
    for command in folder.iterdir():
        command.chmod(0o755)
    path = f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    variables = os.environ | {"PATH": path, "SLURM_CPUS_PER_TASK": "1", "PYTHONPATH": str(ROOT)}
    script = ["bash", str(ROOT / "docs" / "cluster" / "slurm.sh"), "small"]
    done = subprocess.run(script, cwd=course, capture_output=True, text=True, timeout=500, env=variables)
    assert done.returncode in (0, 1), done.stderr
    assert 4 == len(list((course / "autograded").iterdir()))
    assert [] == list(course.glob(".certificates-*"))
