# ruff: noqa: E501 - a submission's text, or a row of a table, is easier to read on one line
"""A worker runs cells as a kernel does, is isolated, and ends with every process that it started."""

import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from autograder.course.paths import ROOT
from autograder.grade.sandbox.isolation import LEVELS
from autograder.grade.sandbox.launch import HostProcess
from autograder.grade.sandbox.warmup import late_modules
from autograder.grade.submission.server_client import ServerClient, WorkerEnded
from autograder.grade.wire import messages
from autograder.grade.wire.limits import MEBIBYTE, Limits
from autograder.grade.wire.plain_values import encode


@pytest.fixture(scope="module")
def strict(bubblewrap):
    """A warm server that gives a cell one second."""
    limits = Limits(cell_seconds=1, submission_seconds=10, processes=20, memory_bytes=256 * MEBIBYTE)
    with ServerClient(LEVELS["bubblewrap"], limits) as server:
        yield server


def outputs(worker, text: str) -> list[dict]:
    """Return the outputs of a cell that ran in the worker."""
    return json.loads(worker.ask(messages.RunCell(text), messages.CellRan).outputs)


def printed(worker, text: str) -> str:
    """Return the text that a cell wrote to stdout."""
    return "".join(output["text"] for output in outputs(worker, text) if output.get("name") == "stdout")


@pytest.mark.parametrize(
    ("text", "kind", "holds"),
    [
        pytest.param("1 + 1", "execute_result", "'text/plain': '2'", id="the last value is shown"),
        pytest.param("print('a')", "stream", "'text': 'a\\n'", id="print"),
        pytest.param("import sys; print('e', file=sys.stderr)", "stream", "stderr", id="stderr"),
        pytest.param("1 / 0", "error", "ZeroDivisionError", id="a traceback"),
        pytest.param("def (", "error", "SyntaxError", id="a syntax error"),
        pytest.param("%time 1", "stream", "CPU times", id="a magic"),
        pytest.param("!echo shell", "stream", "shell", id="a shell command"),
        pytest.param("await __import__('asyncio').sleep(0, 5)", "execute_result", "5", id="await at the top"),
        pytest.param("input()", "error", "StdinNotImplementedError", id="nobody answers input"),
        pytest.param("import os; os.write(1, b'low');", "stream", "low", id="what C code writes"),
        pytest.param("import matplotlib.pyplot as p; p.plot([1]);", "display_data", "image/png", id="a plot"),
        pytest.param("%matplotlib inline\nimport pylab\npylab.plot([1]);", "display_data", "image/png", id="matplotlib"),
        pytest.param("%pylab inline\nplot([1]);", "stream", "pylab", id="pylab"),
        pytest.param("open('data.txt').read()", "execute_result", "handed in", id="the files beside it"),
        pytest.param("import inspect\ndef f(): return 7\nprint(inspect.getsource(f))", "stream", "return 7", id="source"),
    ],
)  # fmt: skip
def test_a_cell_does_what_it_does_in_a_kernel(server, text, kind, holds):
    """Rich outputs, streams, errors and magics come back in nbformat's form."""
    with server.worker({"data.txt": b"handed in"}) as worker:
        found = outputs(worker, text)
    assert kind in [output["output_type"] for output in found]
    assert holds in str(found)


@pytest.mark.slow
def test_what_a_notebook_loads_late_is_loaded_once_for_all(bubblewrap):
    """PyTorch imports many modules with the first optimizer; for a notebook that uses one, its workers have them already."""
    (name,) = late_modules(["optimizer = torch.optim.SGD(layer.parameters())"])
    sources = [
        "import pandas as pd",
        "from sklearn.metrics import f1_score\nimport helpers, os",
        "import sklearn.no_such",
    ]
    assert ("pandas", "sklearn.metrics", "sklearn.no_such") == late_modules(sources)
    loaded = "import sys; print('torch._dynamo' in sys.modules)"
    with ServerClient(LEVELS["bubblewrap"], Limits()) as server, server.worker({}) as worker:
        before = printed(worker, loaded)
        made = printed(worker, f"import torch; torch.optim.SGD([torch.ones(1)]); {loaded}")
    with (
        ServerClient(LEVELS["bubblewrap"], Limits(), modules=("sklearn.no_such", name)) as server,
        server.worker({}) as worker,
    ):
        after = printed(worker, loaded)
    assert ("False\n", "True\n", "True\n") == (before, made, after)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        pytest.param("import socket; s = socket.socket(); s.settimeout(1); print(s.connect_ex(('1.1.1.1', 53)) != 0)", "True", id="no network"),
        pytest.param("import os; print(os.listdir('/home') if os.path.exists('/home') else [])", "[]", id="nobody's home"),
        pytest.param("import os; print(os.path.exists('{root}/solutions'), os.path.exists('{root}/class'))", "False False", id="no sources, no gradebook"),
        pytest.param("import os; print(os.path.exists('{root}/tests'), os.path.exists('{root}/.git'))", "False False", id="nothing else of the clone"),
        pytest.param("import os; print([n for n in os.environ if 'TOKEN' in n])", "[]", id="no tokens"),
        pytest.param("import os; print(len([p for p in os.listdir('/proc') if p.isdigit()]) < 4)", "True", id="no other process"),
        pytest.param("import os; print(os.path.exists('/tmp/left'), os.listdir('/dev/shm'))", "False []", id="nothing of the one before"),
        pytest.param("from importlib.util import find_spec as find; print([find(f'autograder.tape.repair.{n}') for n in ('search', 'kinds')])", "[None, None]", id="no search for repairs"),
        pytest.param("import os, sys; print([n for p in sys.path for f, _, n in os.walk(f'{p}/autograder/tape/repair')])", "[[]]", id="nor its files"),
        pytest.param("import os, sys; print([n for p in sys.path for f, _, n in os.walk(f'{p}/autograder/course/explanations')])", "[[]]", id="nor explanations"),
    ],
)  # fmt: skip
def test_a_worker_sees_nothing_but_itself(server, monkeypatch, question, expected):
    """A submission cannot see other files, processes, variables or the network."""
    from autograder.course.paths import ROOT

    monkeypatch.setenv("GRADERS_TOKEN", "secret")
    with server.worker({}) as worker:
        outputs(worker, "open('/tmp/left', 'w').write('x'); open('/dev/shm/left', 'w').write('x')")
    with server.worker({}) as worker:
        assert expected == printed(worker, question.replace("{root}", str(ROOT))).strip()


@pytest.mark.parametrize("path", ["/usr/x", "/x", "/dev/x", "/etc/x", "{root}/autograder/x.py"])
def test_a_worker_writes_nowhere_else(server, path):
    """The system and the package are read-only."""
    from autograder.course.paths import ROOT

    with server.worker({}) as worker:
        found = outputs(worker, f"open({path.replace('{root}', str(ROOT))!r}, 'w')")
    assert found[0]["ename"] in ("OSError", "PermissionError", "FileNotFoundError")


def test_a_worker_has_no_privileges(server):
    """Not even in its own user namespace: it cannot mount or unmount anything."""
    with server.worker({}) as worker:
        words = printed(
            worker,
            "import ctypes\nlibc = ctypes.CDLL(None)\n"
            "print(libc.mount(b'none', b'/tmp', b'tmpfs', 0, None), libc.umount(b'/tmp'))",
        )
    assert "-1 -1" == words.strip()


FORKS = """
import os
while True:
    try:
        os.fork()
    except OSError:  # the kernel's limit of processes, which would end the cell
        pass
"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("import os; os._exit(0)", "exited", id="it ends itself"),
        pytest.param("import ctypes; ctypes.string_at(0)", "exited", id="it crashes"),
        pytest.param(FORKS, "processes|time|memory", id="it forks without end"),
        pytest.param("import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\nwhile True: pass", "time", id="it takes no signal"),
    ],
)  # fmt: skip
def test_the_end_of_a_worker_has_a_reason_and_leaves_nothing(strict, text, reason):
    """Whatever a cell does, the server continues, the grade has a reason, and no process is left."""
    with pytest.raises(WorkerEnded, match=reason), strict.worker({}) as worker:
        worker.ask(messages.RunCell(text), messages.CellRan)
    with strict.worker({}) as worker:
        assert "2" in str(outputs(worker, "1 + 1"))
    assert [] == strict._process.children(recursive=True)


ENDLESS = """
class Endless(Exception):
    def __str__(self):
        while True:
            pass
def fail():
    raise Endless()
"""


def test_an_error_without_end_ends_its_own_call(strict):
    """A test calls an answer that raises an exception whose text takes forever to make; the cells after it run."""
    with strict.worker({}) as worker:
        outputs(worker, ENDLESS)
        with pytest.raises(KeyError, match="CellTimeoutError"):
            worker.ask(messages.CallStudent("fail", encode(((), {}))), messages.Returned)
        assert printed(worker, "print(6 * 7)") == "42\n"


def test_survivors_end_with_their_submission(server):
    """A daemon that a cell leaves behind is gone when the next submission begins."""
    with server.worker({}) as worker:
        outputs(worker, "import subprocess\nsubprocess.Popen(['sleep', '600'], start_new_session=True)")
        during = [process.name() for process in psutil.Process().children(recursive=True)]
    after = [process.name() for process in psutil.Process().children(recursive=True)]
    assert (True, False) == ("sleep" in during, "sleep" in after)


def test_a_flood_of_output_is_cut_and_not_punished(server):
    """The cell continues, its outputs are limited, and the last output reports it."""
    with server.worker({}) as worker:
        found = outputs(worker, "for _ in range(100):\n    print('x' * 1_000_000)\n")
        outputs(worker, "after = 7")
        assert "int" == worker.ask(messages.DescribeName("after"), messages.NameDescription).type_name
    assert sum(len(output["text"]) for output in found) < 5_000_000
    assert "truncated" in found[-1]["text"]


@pytest.mark.slow
def test_a_course_in_tmp_stays_visible(bubblewrap):
    """A clone or an environment below /tmp can be imported from, read-only, though a submission has its own /tmp."""
    with tempfile.TemporaryDirectory(dir="/tmp") as clone:
        shutil.copytree(ROOT / "autograder", Path(clone) / "autograder")
        program = (
            "from autograder.grade.sandbox.isolation import LEVELS\n"
            "from autograder.grade.submission.server_client import ServerClient\n"
            "from autograder.grade.wire import limits, messages\n"
            "with ServerClient(LEVELS['bubblewrap'], limits.Limits()) as server, server.worker({}) as worker:\n"
            f"    print(worker.ask(messages.RunCell({LOOKS_AROUND!r}), messages.CellRan).outputs.decode())"
        )
        done = subprocess.run([sys.executable, "-c", program], cwd=clone, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        words = "".join(output["text"] for output in json.loads(done.stdout))
        expected = f"{clone}/autograder/view/scene/folding.py Read-only file system {[Path(clone).name]}\n"
        assert f"{expected}{clone}/autograder/tape/repair []\n" == words


LOOKS_AROUND = """
import os, autograder.view.scene.folding as late
try:
    open(late.__file__, "a")
except OSError as error:
    print(late.__file__, error.strerror, [name for name in os.listdir("/tmp") if os.path.isdir(f"/tmp/{name}/autograder")])
import autograder.tape.repair as repair
for folder in repair.__path__:
    print(folder, os.listdir(folder))
"""


def test_servers_that_share_a_start_share_nothing_else(bubblewrap):
    """Two forks of one process: a worker sees no file and no process of the other's, and outlives the other's server."""
    host = HostProcess(LEVELS["bubblewrap"])
    first, second = (ServerClient(LEVELS["bubblewrap"], Limits(), host.fork("server")) for _ in range(2))
    with contextlib.closing(host), first, second, first.worker({}) as left:
        outputs(left, "import os; open('/tmp/mine', 'w').close()")
        with second.worker({}) as right:
            assert "False\n" == printed(right, "import os; print(os.path.exists('/tmp/mine'))")
            assert "True\n" == printed(right, "print(os.getpid() <= 3)")  # the numbers of a namespace of its own
        second.close()
        assert "True\n" == printed(left, "print(os.path.exists('/tmp/mine'))")
        processes = first._process.children(recursive=True)
        assert 2 == len(processes)  # the worker, and the process that holds its namespaces


def test_the_rehearsal_is_run_to_its_end():
    """What is slow the first time is done before the first fork: only the cell that is meant to raise raises."""
    program = (
        "from autograder.grade.sandbox.warmup import WARM_UP_CELLS\n"
        "from autograder.grade.sandbox.shell import make_shell\n"
        "from autograder.graded import being_graded\n"
        "shell = make_shell(1 << 20)\n"
        "with being_graded():\n"
        "    print([type(shell.run(text).error).__name__ for text in WARM_UP_CELLS])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (
        "['NoneType', 'NoneType', 'NoneType', 'NoneType', 'NoneType', 'ZeroDivisionError', 'NoneType', 'NoneType']\n"
        == done.stdout
    )


@pytest.mark.slow
@pytest.mark.parametrize("text", [
    pytest.param(
        "class Odd(Exception):\n    def __str__(self):\n        while True: pass\nraise Odd()", id="the text"
    ),
    pytest.param(
        "class Meta(type):\n    @property\n    def __name__(cls):\n        while True: pass\n"
        "class Odd(Exception, metaclass=Meta): pass\nraise Odd()",
        id="the name of its class",
    ),
    pytest.param("class Odd:\n    def __repr__(self):\n        while True: pass\nOdd()", id="the last value"),
])  # fmt: skip
def test_an_error_that_takes_forever_to_tell_ends_its_cell_only(strict, text):
    """The cell ends as one that took too long, and the next one runs."""
    with strict.worker({}) as worker:
        assert [output.get("ename") for output in outputs(worker, text)] == ["CellTimeoutError"]
        assert printed(worker, "print('next')") == "next\n"
