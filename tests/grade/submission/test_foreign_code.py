"""What a submission hands over never becomes code in the trusted process, and never stops the grader."""

from asyncio import events

import pytest

from autograder.grade.submission.submission_grader import SubmissionGrader
from tests.grade.conftest import LIMITS
from tests.grade.small_course import answer, graded_cell, hand_in, points, source, teacher

SETUP = "import asyncio, bdb, code, cProfile, ctypes, functools, importlib.machinery, jinja2, marshal, subprocess, threading, trace, yaml"
RUNS_TEXT = {
    "run_cell": "get_ipython().run_cell(f())",
    "ex": "get_ipython().ex(f())",
    "ev": "get_ipython().ev(f())",
    "a magic": "get_ipython().run_line_magic('timeit', '-n1 -r1 ' + f())",
    "a cell magic": "get_ipython().run_cell_magic('capture', 'x', f())",
    "a thread": "t = threading.Thread(target=exec, args=(f(),))\nt.start()\nt.join()",
    "map": "list(map(eval, [f()]))",
    "partial": "functools.partial(exec, f())()",
    "a profiler": "cProfile.run(f())",
    "a tracer": "trace.Trace().run(f())",
    "a debugger": "bdb.Bdb().run(f())",
    "an interpreter": "code.InteractiveInterpreter().runsource(f())",
}
"""Ways to run the text that an answer returns."""
RUNS_SCRIPT = {
    "asyncio": "f()\np = await asyncio.create_subprocess_exec('sh', 'r.sh')\nawait p.wait()",
    "asyncio's shell": "f()\np, = await asyncio.gather(asyncio.create_subprocess_shell('sh r.sh'))\nawait p.wait()",
    "a program in a thread": "f()\nt = threading.Thread(target=subprocess.run, args=(['sh', 'r.sh'],))\nt.start()\nt.join()",
    "a shell's magic": "f()\nget_ipython().run_cell_magic('bash', '', 'sh r.sh')",
}
"""Ways to run the script that an answer wrote."""
LOADER = "f()\nimportlib.machinery.SourceFileLoader('r', 'r.txt').load_module()"
CALLS = "class E:\n    def __reduce__(self): return __import__('os').mkdir, ({path!r},)\n"


@pytest.fixture(autouse=True)
def no_loop_is_running():
    """Tests with a browser leave playwright's event loop running in their thread, where a second one would be refused."""
    left = events._get_running_loop()
    events._set_running_loop(None)
    yield
    events._set_running_loop(left)


@pytest.fixture
def grade(server):
    """A function that returns the points of an answer to a test, and the reason."""

    def graded(setup: str, test: str, text: str, model: str = "def f():\n    return 1"):
        of = source(teacher(setup), answer("a", model), graded_cell("t", test))
        found = SubmissionGrader(server, LIMITS).grade(of, hand_in(of, {"a": text}), {}, 5)
        return points(found)["t"], found.cells["t"].reason

    return graded


@pytest.mark.parametrize(
    ("setup", "test", "text"),
    [
        (
            "import pickle",
            "assert pickle.loads(f()) is not None",
            CALLS + "import pickle\ndef f(): return pickle.dumps(E())",
        ),
        (
            "import pickle",
            "f()\nassert pickle.load(open('r.pkl', 'rb')) is not None",
            CALLS + "import pickle\ndef f(): open('r.pkl', 'wb').write(pickle.dumps(E()))",
        ),
        ("", "assert eval(f())", "def f(): return \"open({path!r}, 'w')\""),
        ("", "exec(f())", "def f(): return \"open({path!r}, 'w')\""),
        ("import typing", "typing.get_type_hints(f)", "def f(x: \"open({path!r}, 'w')\"): return x"),
        (
            "import subprocess",
            "f()\nsubprocess.run(['sh', 'r.sh'])",
            "def f(): open('r.sh', 'w').write('touch {path}')",
        ),
        *((SETUP, test, "def f(): return \"open({path!r}, 'w')\"") for test in RUNS_TEXT.values()),
        *((SETUP, test, "def f(): open('r.sh', 'w').write('touch {path}')") for test in RUNS_SCRIPT.values()),
        (SETUP, "f()\n%run r.txt", "def f(): open('r.txt', 'w').write(\"open({path!r}, 'w')\")"),
        (SETUP, LOADER, "def f(): open('r.txt', 'w').write(\"open({path!r}, 'w')\")"),
        (SETUP, "exec(marshal.loads(f()))", "import marshal\ndef f(): return marshal.dumps(compile(\"open({path!r}, 'w')\", 'a', 'exec'))"),
        (SETUP, "yaml.unsafe_load(f())", "def f(): return '!!python/object/apply:os.system [touch {path}]'"),
        (SETUP, "jinja2.Template(f()).render()", "def f(): return \"{{{{ cycler.__init__.__globals__.os.system('touch {path}') }}}}\""),
        (SETUP, "f()\nctypes.CDLL('./r.bin')", "def f(): open('r.bin', 'w').write('x')"),
    ],
    ids=["pickle", "pickle in a file", "eval", "exec", "annotation", "script", *RUNS_TEXT, *RUNS_SCRIPT,
         "%run", "loader", "marshal", "yaml", "jinja2", "ctypes"],
)  # fmt: skip
def test_no_code_of_the_answers_runs_here(grade, tmp_path, setup, test, text):
    """A test that would run it gives no points and says so, and nothing has run."""
    path = tmp_path / "ran"
    got, reason = grade(setup, test, text.format(path=str(path)))
    assert not got
    assert not path.exists()
    assert reason.startswith("this test")


@pytest.mark.parametrize(
    "test",
    [
        "import pickle\nassert pickle.loads(pickle.dumps([f(), 'a'])) == [1, 'a']",
        "assert eval('1 + 1') == f() + 1",
        "import ast, inspect\nassert isinstance(ast.parse(inspect.getsource(f)).body[0], ast.FunctionDef) and f() == 1",
        "import collections\nP = collections.namedtuple('P', 'a b')\nassert P(f(), 2) == (1, 2)",
        "import dataclasses\n@dataclasses.dataclass\nclass D:\n    a: int = 1\nassert D().a == f()",
        "%timeit -n1 -r1 f()\nassert f() == 1",
        "import networkx as nx\nassert nx.is_isomorphic(nx.path_graph(3), nx.path_graph(3)) and f() == 1",
        "import asyncio\nasync def go(): return f()\nassert await go() == 1",
        "get_ipython().run_cell('1 + 1')\nassert f() == 1",
        "import platform\nplatform.platform()\nassert f() == 1",
        "import pandas as pd\nd = pd.DataFrame({'a': [1, 2]}).query('a>=2 and a<9')\nassert len(d) == f()",
        "import pandas as pd\nassert pd.DataFrame({'a': [1, 2]}).eval('b = a*2 + 1').b.sum() == 7 + f()",
    ],
)
def test_the_teachers_own_code_runs(grade, test):
    """Text of the notebook's, a pickle of plain data, and what Python's libraries generate."""
    assert grade("", test, "def f(): return 2 - 1") == (1, "")


def test_a_library_looks_for_its_plugins_wherever_the_grader_imports_from(grade, tmp_path, monkeypatch):
    """Networkx does for entry points: on the whole path, where the course's folder is; a package may do it in Python's place."""
    pytest.importorskip("importlib_metadata", reason="dask brings it with Python 3.11 only; install it to run this")
    monkeypatch.syspath_prepend(tmp_path)
    test = "import importlib.metadata\nassert importlib.metadata.version('numpy') and f() == 1"
    assert grade("", test, "def f(): return 2 - 1") == (1, "")


@pytest.mark.parametrize(
    "text",
    [
        "class A:\n    def __float__(self): raise KeyError(1)\ndef f(): return A()",
        "def f(): return 10 ** 100_000",
        "import os\nopen('a', 'w').write('b')\ndef f(): os._exit(0)",
        "def f():\n    open(b'\\xff', 'w').write('b')\n    return 1",
        "def f():\n    for i in range(40): open(f'{i}', 'wb').write(b'0' * 2 ** 21)",
    ],
    ids=["float raises", "long integer", "ends itself", "file name that is no text", "many large files"],
)
def test_the_grader_goes_on(grade, text):
    """Whatever a test's last line shows, and whatever files there are, the test has an end."""
    got, _ = grade("", "import os\nos.path.exists('a')\nf()", text)
    assert got in (0, 1, None)
    assert not grade("", "os = __import__('os')\nos.path.exists('a')\nassert f() == 2", text)[0]


LIAR = """class Vector:
    def __eq__(self, other): return True
    def __lt__(self, other): return True
    def __sub__(self, other): return self
    def __mul__(self, other): return 0.0
    def __abs__(self): return 0.0
def f(): return Vector()"""


@pytest.mark.parametrize(
    "test", ["f() == 5", "5 == f()", "abs(f() - 5) < 1e-9", "f() < 5", "f() * 5 == 0", "f() in [5]"]
)
def test_an_object_is_no_number(grade, test):
    """Operators that the model answer's class has do not make another class of that name pass for the expected number."""
    assert not grade("", f"assert {test}", LIAR, LIAR)[0]


DECOY = "def decoy(x):\n    for i in x: pass\ndef f(x): return sum(x)\nf.__qualname__ = f.__name__ = 'decoy'"


def test_source_text_belongs_to_the_name(grade):
    """A function that says it is another one is shown as what the notebook defines under its own name."""
    test = "import inspect\nassert 'for i' in inspect.getsource(f)"
    assert not grade("", test, DECOY)[0]
    assert grade("", test, "def g(x):\n    for i in x: pass\nf = g")[0] == 1


@pytest.mark.parametrize("wanted", ["issubclass(f, enum.Enum)", "not issubclass(f, enum.Enum)"])
def test_bases_that_stay_behind(grade, wanted):
    """Whether a class is an Enum cannot be said from here, so it is not said to be none."""
    assert not grade("import enum", f"assert {wanted}", "class f(enum.Enum): pass", "class f(enum.Enum): pass")[0]


def test_a_tests_function_ends_with_the_test(server):
    """An answer that keeps the function of an earlier test cannot have it answer a later one."""
    of = source(
        teacher("def reference(x): return x * 2 + 1"),
        answer("a", "def apply(g, x): return g(x)\ndef f(x): return x * 2 + 1"),
        graded_cell("first", "assert apply(reference, 3) == 7"),
        graded_cell("second", "assert f(5) == 11"),
    )
    kept = "kept = []\ndef apply(g, x):\n    kept.append(g)\n    return g(x)\ndef f(x): return kept[0](x)"
    found = SubmissionGrader(server, LIMITS).grade(of, hand_in(of, {"a": kept}), {}, 5)
    assert points(found)["first"] == 1
    assert not points(found)["second"]
