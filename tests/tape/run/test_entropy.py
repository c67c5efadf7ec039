"""Programs whose random numbers have no seed: each run draws the same ones, or no outcome is named."""

import json
import os
import random
import time

import pytest
import torch

from autograder.tape import ProgramError, record
from tests.commands import autograder

PROGRAM = """
import os, random, secrets, time, uuid
import numpy as np
import torch

w = torch.ones(2, requires_grad=True)
{draw}
((w * w).sum() * k).backward()
"""
SAME = {
    "urandom": "k = int.from_bytes(os.urandom(2), 'big')",
    "SystemRandom": "k = random.SystemRandom().random()",
    "secrets": "k = secrets.randbelow(10**6)",
    "uuid4": "k = uuid.uuid4().int % 10007",
    "default_rng": "k = float(np.random.default_rng().normal())",
    "RandomState": "k = float(np.random.RandomState().normal())",
    "Random": "k = random.Random().random()",
    "random.seed": "random.seed(); k = random.random()",
    "torch.seed": "torch.seed(); k = torch.rand(1).item()",
    "seeded by time": "torch.manual_seed(time.time_ns() % 2**31); k = torch.rand(1).item()",
    "time": "k = time.time() % 1.0",
}
OTHER_EACH_TIME = "k = torch.rand(1, generator=(g := torch.Generator(), g.seed())[0]).item()"


@pytest.mark.parametrize("draw", SAME.values(), ids=SAME.keys())
def test_what_has_no_seed_repeats(draw):
    """Each run draws the numbers of the first: a right program is no wrong one, and nothing is said of differences."""
    verdict = record(PROGRAM.format(draw=draw)).verdict

    assert ("correct", ()) == (verdict.outcome, verdict.notes)


def test_two_draws_differ_within_a_run():
    """The numbers of one run are not all the same, and a seed that is given is kept. Oracle: Python's own generator."""
    source = (
        "import os, random, time, torch\n"
        "assert os.urandom(8) != os.urandom(8) and random.Random().random() != random.Random().random()\n"
        f"assert random.Random(7).random() == {random.Random(7).random()!r}\n"
        "began = time.time()\n"
        "while time.time() - began < 0.01: pass\n"
        "torch.ones(2, requires_grad=True).sum().backward()\n"
    )

    assert "correct" == record(source).verdict.outcome


def test_the_system_is_given_back():
    """After a run, the system gives random bytes, seeds and the time as before."""
    before = os.urandom, random.Random.seed, random.seed, torch.seed, time.time

    record(PROGRAM.format(draw=SAME["urandom"]))

    assert before == (os.urandom, random.Random.seed, random.seed, torch.seed, time.time)
    assert os.urandom(8) != os.urandom(8)


def test_where_runs_differ_no_outcome_is_named(tmp_path):
    """A generator that asks the system by itself: null, exit code 2, and one sentence; not silently wrong."""
    (tmp_path / "chance.py").write_text(PROGRAM.format(draw=OTHER_EACH_TIME))

    done = autograder("explain", "chance.py", "--json", cwd=tmp_path)

    assert (2, None) == (done.returncode, json.loads(done.stdout)["outcome"])
    assert "two runs of the program differ" in done.stderr
    assert 1 == len(done.stderr.strip().splitlines())


def test_a_harm_is_named_where_runs_differ():
    """Bytes that a write changed under a saved tensor are a fault in every run, whatever the numbers are."""
    draw = f"{OTHER_EACH_TIME}\nh = w.exp()\nk = k * h\nh.data.mul_(3)\n"

    verdict = record(PROGRAM.format(draw=draw).replace("* k)", "* k.sum())")).verdict

    assert "silently-wrong" == verdict.outcome
    assert verdict.harms


def test_what_differs_is_an_error_of_the_family():
    """`record` and the functions built on it raise what their callers tell in one sentence."""
    with pytest.raises(ProgramError, match="no outcome"):
        record(PROGRAM.format(draw=OTHER_EACH_TIME))
