"""Programs whose random numbers have no seed: each run draws the same ones, or no outcome is named."""

import datetime
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
    "perf_counter": "k = time.perf_counter() % 1.0",
    "perf_counter_ns": "k = time.perf_counter_ns() % 10007",
    "datetime.now": "import datetime; k = datetime.datetime.now().microsecond",
    "now in a zone": "from datetime import datetime, timezone; k = datetime.now(tz=timezone.utc).microsecond",
    "a library draws in the first run": "draw = lambda: vars(uuid).setdefault('first', os.urandom(2))\n"
    "if 'first' not in vars(uuid): draw()\nk = int.from_bytes(os.urandom(2), 'big')",
    "seeded by today": "import datetime; torch.manual_seed(datetime.datetime.today().microsecond); k = torch.rand(1).item()",
}
OTHER_EACH_TIME = "k = torch.rand(1, generator=(g := torch.Generator(), g.seed())[0]).item()"


@pytest.mark.parametrize("draw", SAME.values(), ids=SAME.keys())
def test_what_has_no_seed_repeats(draw):
    """Each run draws the numbers of the first: a correct program is not called wrong, and differences are not reported."""
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


def test_pandas_is_imported(tmp_path):
    """A program that imports pandas, whose C code extends `datetime`, is explained. Oracle: the process ends with 0."""
    pytest.importorskip("pandas")
    (tmp_path / "p.py").write_text("import pandas, torch\ntorch.ones(2, requires_grad=True).sum().backward()\n")

    assert 0 == autograder("explain", "p.py", cwd=tmp_path).returncode


def test_a_library_that_draws_during_its_import_changes_no_run(tmp_path):
    """Only the first run imports it, so its draws would make the later runs differ, as those of rich."""
    library = tmp_path / "site-packages" / "draws_at_import.py"
    library.parent.mkdir()
    library.write_text("import random, numpy, torch\nrandom.random(), numpy.random.rand(), torch.rand(1)\n")
    draw = f"import sys; sys.path.insert(0, {str(library.parent)!r}); import draws_at_import\n"

    test_what_has_no_seed_repeats(draw + "k = random.random() + np.random.rand() + torch.rand(1).item()")


def test_the_system_is_given_back():
    """After a run, the system gives random bytes, seeds and the time as before."""

    def sources():
        return os.urandom, random.Random.seed, random.seed, torch.seed, time.time, time.perf_counter, datetime.datetime

    before = sources()

    record(PROGRAM.format(draw=SAME["urandom"]))

    assert before == sources()
    assert os.urandom(8) != os.urandom(8)


def test_where_runs_differ_no_outcome_is_named(tmp_path):
    """A generator that asks the system by itself: null, exit code 2, and one sentence; not silently wrong."""
    (tmp_path / "chance.py").write_text(PROGRAM.format(draw=OTHER_EACH_TIME))

    done = autograder("explain", "chance.py", "--json", cwd=tmp_path)

    assert (2, None) == (done.returncode, json.loads(done.stdout)["outcome"])
    assert "two runs of the program differ" in done.stderr
    assert 1 == sum(
        " s: " not in line for line in done.stderr.strip().splitlines()
    )  # without progress, on a busy machine


def test_a_harm_is_named_where_runs_differ():
    """Bytes that a write changed under a saved tensor are a fault in every run, whatever the numbers are."""
    draw = f"{OTHER_EACH_TIME}\nh = w.exp()\nk = k * h\nh.data.mul_(3)\n"

    verdict = record(PROGRAM.format(draw=draw).replace("* k)", "* k.sum())")).verdict

    assert "silently-wrong" == verdict.outcome
    assert verdict.harms


def test_what_differs_is_an_error_of_the_family():
    """`record` and the functions built on it raise an error that their callers report in one sentence."""
    with pytest.raises(ProgramError, match="cannot determine the outcome"):
        record(PROGRAM.format(draw=OTHER_EACH_TIME))


def test_a_date_stays_a_date():
    """Objects from C code are instances of the class that a program imports, and can be pickled, read, and compared."""
    record(
        "import datetime, os, pickle, torch\n"
        "now = datetime.datetime.now()\n"
        "assert isinstance(now, datetime.datetime) and isinstance(now, datetime.date)\n"
        "assert isinstance(datetime.datetime.strptime('2024', '%Y') - now, datetime.timedelta)\n"
        "class Own(datetime.datetime): pass\n"
        "assert not isinstance(now, Own) and isinstance(Own(2024, 1, 2), datetime.datetime)\n"
        "assert pickle.loads(pickle.dumps(datetime.datetime(2024, 1, 2))).day == 2 == datetime.date(2024, 1, 2).day\n"
        "assert issubclass(datetime.datetime, datetime.date) and datetime.datetime.fromtimestamp(0).year in (1969, 1970)\n"
        "torch.ones(2, requires_grad=True).sum().backward()\n"
    )
