# ruff: noqa: E501 - an answer with its test is easier to read on few lines
"""A graded lesson runs as in JupyterLab, and tests may await, replace `input` or a clock, and hand over files and iterators."""

import json
import sys
import types

import msgspec
import nbformat
import pytest

from autograder import graded as grading
from autograder.course.canonical import read
from autograder.course.paths import SOLUTIONS, lessons
from autograder.grade.submission.submission_grader import recordings_of
from autograder.grade.validation.validate import model_answers, with_answers
from autograder.grade.wire import messages
from tests.grade.conftest import grader_of
from tests.grade.small_course import answer, graded_cell, hand_in, points, source, source_of, teacher
from tests.grade.submission.one_kernel import alone, graded, judged

LESSONS = [path for path in lessons(SOLUTIONS) if path.parent.name != "start"]
LOADED = "import sys\nprint(sorted(name for name in sys.modules if name.partition('.')[0] == 'autograder'))"


def printed(worker, text):
    """Return the text that a cell printed."""
    return [one["text"] for one in json.loads(worker.ask(messages.RunCell(text), messages.CellRan).outputs)]


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_no_cell_of_a_right_hand_in_ends_in_an_error(server, path):
    """Neither the first cell, with all its imports, nor `play` and `can_now`, nor the plots; a prediction is still to be made."""
    lesson = source_of(path.stem, read(path))
    grade = grader_of(server).grade(lesson, nbformat.writes(model_answers(lesson)).encode(), {}, 5)
    cells = nbformat.reads(grade.notebook, 4).cells
    others = [cell for cell in cells if not cell.metadata.get("nbgrader", {}).get("grade")]
    raised = [(cell.source[:60], one.evalue) for cell in others for one in cell.get("outputs", ()) if "evalue" in one]
    assert ([], "") == (raised, grade.ended)
    assert sum(bool(cell.get("outputs")) for cell in cells) > len(lesson.tests)


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_the_server_has_loaded_what_a_lesson_imports(server, path):
    """Its first cell, which every submission runs, loads no further module of ours: a quarter of a second for each of them."""
    lesson = source_of(path.stem, read(path))
    first = next(cell.source for cell in with_answers(lesson, {}).cells if cell.cell_type == "code")
    with server.worker({}) as worker:
        before = printed(worker, LOADED)
        assert [] == printed(worker, first)
        assert before == printed(worker, LOADED)


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_no_demonstration_is_recorded_again(server, path):
    """Recordings of the source's own cells are made once for the class, also for a student who added a cell above them."""
    lesson = source_of(path.stem, read(path))
    made_once = recordings_of(lesson, server)
    with server.worker({}, recordings=made_once) as worker:
        for cell in ["1", *(cell.source for cell in with_answers(lesson, {}).cells if cell.cell_type == "code")]:
            worker.ask(messages.RunCell(cell), messages.CellRan)
        known = worker.ask(messages.ListRecordings(), messages.Recorded).data
    pictures = [cell.text for cell in lesson.cells if "picture=False" not in cell.text]
    shown = sum("@observed" in text or "@versions_hidden" in text for text in pictures)
    assert shown == len(msgspec.msgpack.decode(made_once or b"\x80")) == len(msgspec.msgpack.decode(known))


@pytest.mark.parametrize("magic", ["%%explain", "%%explain found", "%%time"])
def test_a_magic_above_an_answer_leaves_it_to_be_graded(server, magic):
    """As in JupyterLab, where the clinic proposes it, the cell runs, and its definitions are available."""
    known = source(
        answer("first", "pass"), answer("f", "def f(x):\n    return 2 * x"), graded_cell("test", "assert f(2) == 4")
    )
    answers = {"first": "%load_ext autograder\n%explain", "f": f"{magic}\ndef f(x):\n    return x + x"}
    assert {"test": 1.0} == points(grader_of(server).grade(known, hand_in(known, answers), {}, 5))


def test_an_explanation_is_refused_in_one_line(server):
    """The search for repairs is hidden from submissions; a call that needs it prints so and does not raise."""
    with server.worker({}) as worker:
        assert ["Explanations are off while a submission is graded.\n"] == printed(
            worker, "import autograder\nautograder.explain('x = 1')"
        )


def test_this_process_is_marked_only_while_it_tests(server, monkeypatch):
    """A program that grades and then explains, as this test suite does, explains: the mark is gone after each submission."""
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
    asks = "import autograder.graded\nassert autograder.graded.is_graded()"
    known = source(answer("f", "f = 1"), graded_cell("test", asks))
    assert {"test": 1.0} == points(grader_of(server).grade(known, hand_in(known, {"f": "f = 1"}), {}, 5))
    assert not grading.is_graded()


def test_only_grading_is_meant(monkeypatch):
    """Only nbgrader's own environment during autograde counts; its validation, and a student's kernel, do not."""
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
    assert not grading.is_graded()
    monkeypatch.setenv("NBGRADER_EXECUTION", "validate")
    assert not grading.is_graded()
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    assert grading.is_graded()
    assert sys.modules["autograder"].explain is grading.explain


def test_a_program_that_the_answer_defines_again_is_not_judged(server):
    """The check judges the locked program, whose backward raises, and not the one of the same name in the answer's cell."""
    program = (
        "def late():\n    w = torch.ones(2, requires_grad=True)\n    a = w.exp()\n    a.add_(1)\n    a.sum().backward()"
    )
    known = source(
        teacher("import torch\nfrom autograder.check import predicted"),
        teacher(program),
        answer("answer_guess", 'guess = "..."'),
        graded_cell("guess", 'predicted("guess", late)'),
    )
    again = "\n\n\ndef late():\n    return {}"
    for outcome, points_given in {"correct": 0.0, "raises-backward": 1.0}.items():
        answers = {"answer_guess": f'guess = "{outcome}"{again}'}
        assert {"guess": points_given} == points(grader_of(server).grade(known, hand_in(known, answers), {}, 5))


ASYNC = "import asyncio\nasync def f(x):\n    await asyncio.sleep(0.001)\n    if x < 0:\n        raise ValueError('below 0')\n    return x + 1\nasync def both(xs):\n    return await asyncio.gather(*map(f, xs))\nclass Queue:\n    async def take(self):\n        return 3"
ASK = "import sys\ndef ask():\n    return int(input('n? ')) + 1\ndef rest():\n    return sys.stdin.read()"
SAY = "import sys, time, random\ndef complain():\n    print('bad', file=sys.stderr)\ndef say():\n    print('hi', 3)\ndef slow():\n    time.sleep(5)\n    return random.randint(1, 6)"
FILES = "def lines(f):\n    return [line.strip() for line in f]\ndef write(f):\n    f.write('x')\n    print('y', file=f)\ndef total(it):\n    return sum(it)\ndef first(it):\n    return next(iter(it))"
KINDS = "from decimal import Decimal\nimport datetime\nclass Money(Decimal):\n    pass\nclass Day(datetime.date):\n    def next(self):\n        return self + datetime.timedelta(days=1)\nclass Moment(datetime.datetime):\n    pass\nclass Span(datetime.timedelta):\n    pass\ndef kinds():\n    return Money('1.5'), Day(2020, 1, 31), Moment(2020, 1, 2, 3, tzinfo=datetime.timezone.utc), Span(days=2)"

CLASSES = "import abc, dataclasses\nclass Shape(abc.ABC):\n    @abc.abstractmethod\n    def area(self): ...\nclass Square(Shape):\n    def __init__(self, a):\n        self.a = a\n    @property\n    def side(self):\n        return self.a\n    def area(self):\n        return self.a ** 2\n@dataclasses.dataclass\nclass Card:\n    rank: int\n    tags: list = dataclasses.field(default_factory=list)\nclass Twice(dict):\n    def __missing__(self, key):\n        if isinstance(key, int):\n            raise KeyError(key)\n        return 2 * key\ndef parse(text):\n    try:\n        return int(text)\n    except ValueError as error:\n        raise RuntimeError('bad') from error"

FORMS = [
    (CLASSES, "import abc\nassert issubclass(Shape, abc.ABC) and isinstance(Square(2), Shape) and 'area' in Shape.__abstractmethods__ and Shape.__bases__ == (abc.ABC,)\nassert Square(3).area() == 9"),
    (CLASSES, "import inspect\nassert inspect.isabstract(Shape) and not inspect.isabstract(Square) and not inspect.isabstract(Card)"),
    (CLASSES, "assert Twice()['ab'] == 'abab' and Twice(a=1)['a'] == 1 and dict(Twice(a=1)) == {'a': 1}\nwith pytest.raises(KeyError):\n    Twice()[1]"),
    (CLASSES, "import abc\nassert not issubclass(Card, abc.ABC) and [kind.__name__ for kind in Card.__mro__] == ['Card', 'object'] and Card.__base__ is object"),
    (CLASSES, "assert isinstance(Square.side, property) and Square.mro()[:2] == [Square, Shape]\nassert not isinstance(Square.area, property)"),
    (CLASSES, "import dataclasses\nassert [field.name for field in dataclasses.fields(Card)] == ['rank', 'tags'] and dataclasses.asdict(Card(1)) == {'rank': 1, 'tags': []}"),
    (CLASSES, "with pytest.raises(RuntimeError) as caught:\n    parse('x')\nassert isinstance(caught.value.__cause__, ValueError) and 'invalid literal' in str(caught.value.__cause__)"),
    (ASYNC, "import asyncio, inspect\nassert asyncio.run(f(2)) == 3 and asyncio.run(both([1, 2])) == [2, 3] and asyncio.run(Queue().take()) == 3 and inspect.iscoroutinefunction(f)\nwith pytest.raises(ValueError, match='below 0'):\n    asyncio.run(f(-1))"),
    (ASYNC, "import asyncio\nasync def main():\n    return [await f(1), *await asyncio.gather(f(2), f(3))]\nassert asyncio.run(main()) == [2, 3, 4]"),
    (ASYNC, "import asyncio\nfound = f(1)\nasyncio.run(found)\nasyncio.run(found)"),
    (ASK, "from unittest import mock\nwith mock.patch('builtins.input', side_effect=['4', '5']) as asked:\n    assert [ask(), ask()] == [5, 6]\nassert asked.call_count == 2"),
    (SAY, "import io, contextlib\nsaid = io.StringIO()\nwith contextlib.redirect_stderr(said):\n    complain()\ncomplain()\nassert said.getvalue() == 'bad\\n'"),
    (SAY, "import io, sys\nfrom unittest import mock\nwith mock.patch('sys.stdout', new_callable=io.StringIO) as said:\n    say()\nassert said.getvalue() == 'hi 3\\n'"),
    (SAY, "from unittest import mock\nwith mock.patch('builtins.print') as said:\n    say()\nsaid.assert_called_once_with('hi', 3)"),
    (SAY, "import time\nimport random as dice\nfrom unittest import mock\nwith mock.patch('time.sleep') as slept, mock.patch.object(dice, 'randint', return_value=40):\n    assert slow() == 40\nslept.assert_called_once_with(5)"),
    (FILES, "import io\nassert lines(io.StringIO('a\\nb')) == ['a', 'b']\nf = io.StringIO()\nwrite(f)\nwrite(f)\nassert f.getvalue() == 'xy\\nxy\\n'\nassert list(map(bytes.strip, io.BytesIO(b'a \\nb'))) == [b'a', b'b']"),
    (FILES, "assert total(n * n for n in [1, 2]) == 5 and total(map(int, '12')) == 3 and lines(iter([' a'])) == ['a']\nrest = iter([1, 2])\nassert first(rest) == 1 and list(rest) == [2]"),
    (FILES, "def broken():\n    yield 1\n    raise KeyError('inside')\nwith pytest.raises(KeyError, match='inside'):\n    total(broken())"),
    ("scale = 2\ndef scaled(x):\n    return scale * x", "scale = 5\nassert scaled(2) == 10\nfor scale in (1, 3):\n    assert scaled(2) == 2 * scale"),
    ("times = [0, 1]\ndef solve(a):\n    return [a * t for t in times]", "times = [1, 2]\nassert solve(3) == [3, 6]"),
    (KINDS, "import datetime\nfrom decimal import Decimal\nm, d, t, s = kinds()\nassert m == Decimal('1.5') and m + 1 == Decimal('2.5') and isinstance(m, Decimal) and f'{m:.2f}' == '1.50'\nassert d == datetime.date(2020, 1, 31) and d.next() == datetime.date(2020, 2, 1) and d.month == 1\nassert t.hour == 3 and t.utcoffset() == datetime.timedelta(0) and s.days == 2 and s * 2 == datetime.timedelta(4)"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "test"), FORMS, ids=[test.replace("\n", " ")[:60] for _, test in FORMS])
def test_a_test_of_this_form_ends_as_in_one_kernel(server, text, test):
    """A right answer gets full points: outside its process, or in process if the test needs that."""
    assert (alone(text, test)[0] == "passed") == graded(server, text, test)


LIES = [
    ("import json\ndef f():\n    return json.kept", "import json, math\nmath.kept = 42\nassert f() == math.kept"),
    ("from decimal import Decimal\nclass Same(Decimal):\n    def __eq__(self, other):\n        return True\n    def __sub__(self, other):\n        return Decimal(0)\ndef f():\n    return Same(1)", "from decimal import Decimal\nassert f() == 4 or abs(f() - 4) < 1"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "test"), LIES)
def test_none_of_these_forms_lets_an_answer_decide(server, text, test):
    """An answer that reads the test's data, or equals everything, gets no points: 0, or points that a person gives."""
    found = judged(server, text, test, "def f():\n    return 4")
    assert found.kind != "in process"
    assert not found.points


def test_a_test_may_ask_whether_a_name_is_defined(server):
    """`"total" in globals()` finds the student's name if it is defined, and otherwise not."""
    of = source(
        answer("a", "total = 3"), graded_cell("t", "assert 'total' in globals()\nassert globals()['total'] == 3")
    )
    grader = grader_of(server)
    assert {"t": 1.0} == points(grader.grade(of, hand_in(of), {}, 7))
    assert {"t": 0.0} == points(grader.grade(of, hand_in(of, {"a": "other = 3"}), {}, 7))
    assert {"t": 0.0} == points(grader.grade(of, hand_in(of, {"a": "total = 4"}), {}, 7))


RATES = "def rate():\n    return 2\ndef cost(x):\n    return x * rate()"
TIMED = "import timeit\nassert timeit.timeit(lambda: double(2), number=3) < 60\n"
TIMED += "assert min(timeit.repeat('''double(n)\ndouble(n)''', '''n = 2\nm = 3''', globals=globals(), number=3)) < 60\nassert double(4) == 8"
DELETED = "import os, pytest\nsave('one.txt')\nassert load('one.txt') == 'kept'\nos.remove('one.txt')\n"
DELETED += "with pytest.raises(FileNotFoundError):\n    load('one.txt')\nsave('two.txt')\nassert drop('two.txt') is None and not os.path.exists('two.txt')"
WRAPPED = "@traced\ndef area(r):\n    'Returns the area.'\n    return 3 * r * r\nassert area(2) == 12\nassert (area.__name__, area.__doc__) == ('area', 'Returns the area.')"
TRACED = "import functools\ndef traced(f):\n    @functools.wraps(f)\n    def g(*a):\n        return f(*a)\n    return g"
SAVING = "import os\ndef save(p):\n    open(p, 'w').write('kept')\ndef load(p):\n    return open(p).read()\ndef drop(p):\n    os.remove(p)"
IN_ONE_KERNEL = [
    (RATES, "from unittest.mock import patch\nassert cost(3) == 6\nwith patch('__main__.rate', return_value=10):\n    assert cost(3) == 30\nassert cost(3) == 6", RATES.replace("x * rate()", "2 * x")),
    (RATES, "assert cost(3) == 6\nkept = rate\ndef rate():\n    return 5\nassert cost(3) == 15\nrate = kept\nassert cost(3) == 6", RATES.replace("x * rate()", "2 * x")),
    ("def double(x):\n    return 2 * x", TIMED, "def double(x):\n    return x + 2"),
    (SAVING, DELETED, SAVING.replace("os.remove(p)", "pass")),
    (TRACED, WRAPPED, TRACED.replace("    @functools.wraps(f)\n", "")),
    ("def double(x):\n    return 2 * x", "assert double.__name__ == 'double'", "def other(x):\n    return 2 * x\ndouble = other"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("right", "test", "wrong"), IN_ONE_KERNEL, ids=["patches", "replaces", "times", "deletes", "decorates", "names"]
)
def test_a_test_finds_what_it_finds_in_one_kernel(server, tmp_path, monkeypatch, right, test, wrong):
    """Changes by a test to the answer's names, files and functions are visible to both, at the time of the change."""
    kernel = types.ModuleType("__main__")
    with monkeypatch.context() as alone_here:
        alone_here.chdir(tmp_path)
        alone_here.setitem(sys.modules, "__main__", kernel)
        exec(f"{right}\n{test}", vars(kernel))
    assert graded(server, right, test)
    assert not graded(server, wrong, test, right)
