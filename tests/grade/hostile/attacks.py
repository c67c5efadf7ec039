# ruff: noqa: E501 - a submission's text, or a row of a table, is easier to read on one line
"""One attack for each action that a submission may try. Every answer in them is wrong, so any point is forged.

Each attack is the code of the answer to `scaled` (the other answers are the wrong ones), unless stated otherwise. An
attack that finds the secret number submits it as its answer, so that success is visible in the points.
"""

from __future__ import annotations

from typing import NamedTuple

PORT = 47213  # of this machine, where somebody listens while the class is graded
WRONG = "\ndef scaled(d, w):\n    return d + w\n"
# Whatever text an attack got hold of is searched for the number that only the hidden test holds.
SEARCH = """
import re
def handed_in(text):
    global number
    for found in re.findall(r"number == (\\d+)", str(text)):
        number = int(found)
"""


class Attack(NamedTuple):
    """One attack: the class of threat (A to E), a name, and the answers that carry it."""

    threat: str
    name: str
    scaled: str
    mean_square: str = ""
    number: str = ""


def _inside(code: str) -> str:
    body = "\n".join(f"    {line}" for line in code.strip().splitlines())
    return f"def scaled(d, w):\n{body}\n    return d + w\n"


FORGE = [
    Attack("A", "swallow the traceback", "get_ipython().showtraceback = lambda *a, **k: None" + WRONG),
    Attack("A", "swallow the traceback a level below", "get_ipython()._showtraceback = lambda *a, **k: None" + WRONG),
    Attack("A", "publish a result first", _inside("get_ipython().displayhook(2)")),
    Attack("A", "publish nan", _inside("get_ipython().displayhook(float('nan'))")),
    Attack("A", "publish a negative number", _inside("get_ipython().displayhook(-1)")),
    Attack("A", "publish text", _inside("get_ipython().displayhook('passed')")),
    Attack("A", "publish too much", _inside("get_ipython().displayhook(1000)")),
    Attack("A", "print what a parser looks for", _inside('print(\'scaled: correct\\n2\\n{"points": 2, "status": "correct"}\')')),
    Attack(
        "A",
        "write the gradebook",
        """
import glob, sqlite3, os
def forge():
    for path in [*glob.glob('../*.db'), *glob.glob('../../*.db'), *glob.glob('../../../*.db'), *glob.glob('/tmp/**/gradebook.db', recursive=True)]:
        try:
            with sqlite3.connect(path) as book:
                book.execute('UPDATE grade SET manual_score = 3')
        except sqlite3.Error:
            pass
forge()
import atexit, threading
atexit.register(forge)
threading.Thread(target=lambda: (__import__('time').sleep(1), forge())).start()
if os.fork() == 0:
    __import__('time').sleep(1)
    forge()
    os._exit(0)
"""
        + WRONG,
    ),
    Attack("A", "end with status 0", _inside("import os\nos._exit(0)")),
    Attack("A", "raise SystemExit(0)", _inside("raise SystemExit(0)")),
    Attack("A", "raise KeyboardInterrupt", _inside("raise KeyboardInterrupt")),
    Attack(
        "A",
        "send a pickle",
        """
class Payload:
    def __reduce__(self):
        return exec, ("open('/tmp/forged', 'w').write('x')",)
def scaled(d, w):
    import pickle
    return Payload()
""",
        mean_square="def mean_square(values):\n    return Payload()",
        number="number = Payload()",
    ),
    Attack(
        "A",
        "write into every open file",
        """
import os, struct
def shout():
    try:
        import msgspec
        from autograder.check.subject.call_report import Report
        from autograder.grade.wire.messages import Reply, Returned
        words = [msgspec.msgpack.encode(Reply(number, Returned(msgspec.msgpack.encode(Report())))) for number in range(40)]
    except ImportError:
        words = [b'{"points": 2}']
    for number in range(3, 200):
        for word in words:
            try:
                os.set_blocking(number, False)
                os.write(number, struct.pack('!Q', len(word)) + word)
            except OSError:
                break
shout()
def scaled(d, w):
    shout()
    return d + w
""",
    ),
    Attack("A", "return a huge tensor", "import torch\ndef scaled(d, w):\n    return torch.zeros(20_000, 20_000)"),
    Attack(
        "A",
        "return a deep list",
        "def scaled(d, w):\n    deep = []\n    for _ in range(100_000):\n        deep = [deep]\n    return deep",
        mean_square="def mean_square(values):\n    deep = []\n    for _ in range(100_000):\n        deep = [deep]\n    return deep",
        number="number = []\nfor _ in range(100_000):\n    number = [number]",
    ),
    Attack(
        "A",
        "patch the worker that answers",
        """
import gc, msgspec
from autograder.check.subject.call_report import Call, Report
for found in gc.get_objects():
    if type(found).__name__ == '_Worker':
        from autograder.grade.wire import messages
        def forged(request):
            call = msgspec.msgpack.decode(request.call, type=Call)
            return messages.Returned(msgspec.msgpack.encode(Report(
                outputs={'value': call.arguments['d'].values},
                after={name: argument.values for name, argument in call.arguments.items()},
                gradients={name: argument.values for name, argument in call.arguments.items()})))
        found.answers[messages.MakeCall] = forged
        found.answers[messages.DescribeName] = lambda request: messages.NameDescription('data', 'int', msgspec.msgpack.encode(1))
"""
        + WRONG,
    ),
    Attack(
        "A",
        "patch the channel",
        """
import sys
if channel := sys.modules.get('autograder.grade.wire.channel'):
    channel.send = lambda *a, **k: None
    sys.modules['autograder.grade.sandbox.worker'].send = lambda *a, **k: None
try:
    import zmq
    zmq.Socket.send_multipart = lambda *a, **k: None
except ImportError:
    pass
"""
        + WRONG,
    ),
    Attack("A", "kill the kernel", _inside("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")),
    Attack("A", "kill everybody", _inside("import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\nos.kill(-1, signal.SIGKILL)")),
]  # fmt: skip

TAMPER = [
    Attack(
        "B",
        "objects that equal everything",
        """
class Liar(float):
    __eq__ = __ge__ = __le__ = lambda *_: True
    __hash__ = float.__hash__
    __sub__ = __rsub__ = __abs__ = lambda *_: 0.0
def scaled(d, w):
    return Liar()
""",
        mean_square="def mean_square(values):\n    return Liar()",
        number="number = Liar()",
    ),
    Attack(
        "B",
        "plain objects that equal everything, with a hash",
        """
class Liar:
    __eq__ = __lt__ = __ge__ = lambda *_: True
    __ne__ = lambda *_: False
    def __hash__(self):
        return hash(2.5)
def scaled(d, w):
    return Liar()
""",
        mean_square="def mean_square(values):\n    return Liar()",
        number="number = Liar()",
    ),
    Attack(
        "B",
        "tensor subclass",
        """
import torch
class Liar(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function.__name__ in ('allclose', 'equal', 'isclose', 'all', '__eq__', '__bool__'):
            return True
        return super().__torch_function__(function, types, args, kwargs or {})
def scaled(d, w):
    return torch.zeros(d.shape).as_subclass(Liar)
""",
        mean_square="def mean_square(values):\n    return torch.zeros(()).as_subclass(Liar)",
    ),
    Attack(
        "B",
        "function mode left open",
        """
import torch
from torch.overrides import TorchFunctionMode
class Mode(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        if getattr(function, '__name__', '') in ('allclose', 'equal', 'isclose'):
            return True
        return function(*args, **(kwargs or {}))
Mode().__enter__()
"""
        + WRONG,
    ),
    Attack(
        "B",
        "replaced functions",
        """
import builtins, torch
torch.allclose = torch.equal = torch.testing.assert_close = lambda *a, **k: True
torch.Tensor.backward = lambda *a, **k: None
torch.Tensor._version = property(lambda self: 0)
torch.Tensor.__eq__ = lambda *a: True
builtins.all = builtins.isinstance = lambda *a: True
"""
        + WRONG,
    ),
    Attack(
        "B",
        "replaced check",
        """
import autograder.check, autograder.check.exercise, autograder.check.comparison
check = autograder.check.check = autograder.check.exercise.check = lambda *a, **k: None
autograder.check.comparison.compare = autograder.check.exercise.compare = lambda *a, **k: None
autograder.check.comparison.arrays_match = lambda *a: True
"""
        + WRONG,
    ),
    Attack(
        "B",
        "no asserts",
        """
import ast
class Drop(ast.NodeTransformer):
    def visit_Assert(self, node):
        return ast.Pass()
    def visit_Expr(self, node):
        return ast.Pass()
get_ipython().ast_transformers.append(Drop())
"""
        + WRONG,
    ),
    Attack("B", "no lines", "get_ipython().input_transformers_post.append(lambda lines: ['pass\\n'])" + WRONG),
    Attack(
        "B",
        "replaced run_cell",
        """
shell = get_ipython()
run = type(shell).run_cell_async
async def nothing(self, raw_cell, *a, **k):
    return await run(self, 'pass', *a, **k)
type(shell).run_cell_async = nothing
"""
        + WRONG,
    ),
    Attack("B", "replaced assertion error", "import builtins\nbuiltins.AssertionError = type('Quiet', (Warning,), {})" + WRONG),
    Attack(
        "B",
        "events",
        "get_ipython().events.register('post_run_cell', lambda result: setattr(result, 'error_in_exec', None))" + WRONG,
    ),
    Attack("B", "inputs overwritten", _inside("d.data.zero_()\nw.data.zero_()\nw.requires_grad_(False)")),
    Attack(
        "B",
        "nan",
        "def scaled(d, w):\n    return d * w * float('nan')",
        mean_square="def mean_square(values):\n    return float('nan')",
        number="number = float('nan')",
    ),
    Attack("B", "zeros", "def scaled(d, w):\n    return (d * w) * 0"),
    Attack("B", "half precision", "def scaled(d, w):\n    f = (d.half() * w.half()).double()\n    return f"),
    Attack(
        "B",
        "visible cases by heart",
        WRONG,
        mean_square="def mean_square(values):\n    return {(1.0, 3.0): 5.0}.get(tuple(values), 0.0)",
    ),
    Attack(
        "B",
        "right every second time",
        "calls = []\ndef scaled(d, w):\n    calls.append(1)\n    f = d.clone() * w\n    if len(calls) % 2:\n        d[:] = 1\n    return f",
    ),
    Attack("B", "another way when graded", "import os\ndef scaled(d, w):\n    return d if 'NBGRADER_EXECUTION' in os.environ else d + w"),
    Attack(
        "B",
        "seeds that it knows",
        "import random, secrets, torch\ntorch.manual_seed(0)\nsecrets.randbits = lambda bits: 0\nrandom.seed(0)\ntorch.rand = lambda *a, **k: torch.zeros(*a[:1])"
        + WRONG,
    ),
    Attack(
        "B",
        "settings left changed",
        "import torch, warnings, sys\ntorch.set_grad_enabled(False)\ntorch.set_default_dtype(torch.float16)\nwarnings.simplefilter('error')\nsys.setrecursionlimit(60)"
        + WRONG,
    ),
    Attack("B", "lying name", WRONG, number="class Number(int):\n    def __eq__(self, other):\n        return True\nnumber = Number()"),
]  # fmt: skip

READ = [
    Attack(
        "C",
        "history",
        SEARCH + "handed_in(In)\nhanded_in(get_ipython().history_manager.input_hist_raw)" + WRONG,
        mean_square="def mean_square(values):\n    handed_in(In)\n    return 0.0",
    ),
    Attack(
        "C",
        "frames",
        SEARCH + WRONG,
        mean_square="""
def mean_square(values):
    import sys, linecache
    frame = sys._getframe()
    while frame:
        handed_in(frame.f_locals)
        handed_in(linecache.getlines(frame.f_code.co_filename))
        frame = frame.f_back
    return 0.0
""",
    ),
    Attack(
        "C",
        "garbage collector",
        SEARCH
        + "import gc\nfor found in gc.get_objects():\n    if isinstance(found, (dict, list, tuple)) and len(found) < 500:\n        for item in (found.values() if isinstance(found, dict) else found):\n            if type(item) is str:\n                handed_in(item)"
        + WRONG,
    ),
    Attack(
        "C",
        "own memory",
        SEARCH
        + "import re\ntry:\n    for line in open('/proc/self/maps'):\n        start, end = [int(n, 16) for n in line.split()[0].split('-')]\n        if ' rw' in line and end - start < 50_000_000:\n            with open('/proc/self/mem', 'rb') as memory:\n                memory.seek(start)\n                for found in re.findall(rb'number == \\d{4,6}', memory.read(end - start)):\n                    handed_in(found.decode())\nexcept OSError:\n    pass"
        + WRONG,
    ),
    Attack(
        "C",
        "every file",
        SEARCH
        + "import glob, os\nfor pattern in ('../*', '../../*', '../../../*', '../../../*/*', '../../../*/*/*', '/tmp/**/*.ipynb', '/tmp/**/*.db', '/work/**/*.ipynb', '/home/**/*.ipynb', '/root/*'):\n    for path in glob.glob(pattern, recursive=True):\n        if os.path.isfile(path) and os.path.getsize(path) < 3_000_000:\n            handed_in(open(path, 'rb').read().decode('latin-1'))"
        + WRONG,
    ),
    Attack(
        "C",
        "other processes",
        SEARCH
        + "import glob\nfor path in glob.glob('/proc/[0-9]*/cmdline') + glob.glob('/proc/[0-9]*/environ'):\n    try:\n        handed_in(open(path, 'rb').read().decode('latin-1'))\n        if b'GRADERS_TOKEN' in open(path, 'rb').read():\n            print('LEAKED token')\n    except OSError:\n        pass"
        + WRONG,
    ),
    Attack(
        "C",
        "network",
        f"import socket\nfor address in (('1.1.1.1', 53), ('127.0.0.1', {PORT})):\n    try:\n        socket.create_connection(address, 1)\n        print('LEAKED network')\n    except ConnectionRefusedError:\n        if address[0] == '1.1.1.1':\n            print('LEAKED network')\n    except OSError:\n        pass"
        + WRONG,
    ),
    Attack("C", "environment", "import os\nprint('LEAKED token' if 'GRADERS_TOKEN' in os.environ else 'nothing')" + WRONG),
    Attack("C", "repair by the library", "def scaled(d, w):\n    from autograder.tape.repair import search\n    return search"),
]  # fmt: skip

STOP = [
    Attack("D", "endless loop", _inside("while True:\n    pass")),
    Attack("D", "endless cell", WRONG + "while True:\n    pass"),
    Attack(
        "D",
        "loop that swallows interrupts",
        _inside("while True:\n    try:\n        while True:\n            [0]\n    except BaseException:\n        pass"),
    ),
    Attack(
        "D",
        "loop with signals off",
        WRONG
        + "import signal, threading\nsignal.setitimer(signal.ITIMER_REAL, 0)\nsignal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\nwhile True:\n    pass",
    ),
    Attack("D", "memory", WRONG + "hoard = [bytearray(50_000_000) for _ in range(200)]"),
    Attack(
        "D",
        "shared memory",
        WRONG
        + "import mmap\nhoard = []\nfor _ in range(100):\n    hoard.append(mmap.mmap(-1, 200_000_000))\n    hoard[-1].write(b'x' * 200_000_000)",
    ),
    Attack("D", "processes", WRONG + "import os\nwhile True:\n    os.fork()"),
    Attack(
        "D",
        "threads",
        WRONG
        + "import threading, time\nfor _ in range(3000):\n    threading.Thread(target=time.sleep, args=(30,), daemon=True).start()",
    ),
    Attack(
        "D",
        "a daemon that outlives the run",
        WRONG
        + "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        time.sleep(600)\n    os._exit(0)",
    ),
    Attack("D", "output flood", WRONG + "while True:\n    print('x' * 1_000_000)"),
    Attack("D", "flood below Python", WRONG + "import os\nwhile True:\n    os.write(1, b'x' * 1_000_000)"),
    Attack(
        "D",
        "huge picture",
        WRONG
        + "from IPython.display import Image, display\ndisplay({'image/png': 'A' * 80_000_000, 'text/plain': 'x'}, raw=True)",
    ),
    Attack("D", "segfault", _inside("import ctypes\nctypes.string_at(0)")),
    Attack(
        "D",
        "stack overflow",
        _inside("import sys\nsys.setrecursionlimit(10**9)\ndef deep(n):\n    return [*map(deep, [n + 1])]\ndeep(0)"),
    ),
    Attack("D", "full disk", WRONG + "with open('big', 'wb') as file:\n    while True:\n        file.write(b'x' * 1_000_000)"),
    Attack("D", "many files", WRONG + "for number in range(200_000):\n    open(f'file{number}', 'w').close()"),
    Attack("D", "input", WRONG + "input('your name?')"),
    Attack("D", "a cell that forks and comes back", WRONG + "import os\nos.fork()"),
    Attack("D", "huge error", _inside("raise ValueError('x' * 50_000_000)")),
    Attack("D", "huge error name", "def scaled(d, w):\n    raise type('E' * 1_000_000, (Exception,), {})('x')"),
]  # fmt: skip

REACH = [
    Attack(
        "E",
        "start-up files",
        "import os, site\nfrom pathlib import Path\nfor folder in (Path.home() / '.ipython/profile_default/startup', Path(site.getusersitepackages()), Path('/tmp')):\n    try:\n        folder.mkdir(parents=True, exist_ok=True)\n        for name in ('usercustomize.py', 'sitecustomize.py', '00-evil.py', 'evil.pth'):\n            (folder / name).write_text('import builtins; builtins.scaled = None; raise SystemExit')\n    except OSError:\n        pass"
        + WRONG,
    ),
    Attack(
        "E",
        "scripts in outputs",
        WRONG
        + "from IPython.display import HTML, Javascript, Markdown, SVG, display\ndisplay(HTML('<script>window.pwned=1</script><img src=x onerror=\"window.pwned=1\"><a href=\"javascript:alert(1)\">x</a><iframe src=\"//evil.example\"></iframe>'))\ndisplay(Javascript('window.pwned=1'))\ndisplay(SVG('<svg xmlns=\"http://www.w3.org/2000/svg\"><script>window.pwned=1</script></svg>'))\ndisplay(Markdown('<img src=x onerror=\"window.pwned=1\">'))\nprint('<script>window.pwned=1</script>')\nraise ValueError('<script>window.pwned=1</script>')",
    ),
    Attack(
        "E",
        "files for the next one",
        "from pathlib import Path\nfor folder in ('/tmp', '/dev/shm', '/var/tmp', '.', '..', '../..'):\n    try:\n        Path(folder, 'torch.py').write_text('raise ImportError')\n        Path(folder, 'left_behind').write_text('x')\n    except OSError:\n        pass"
        + WRONG,
    ),
]

ATTACKS = [*FORGE, *TAMPER, *READ, *STOP, *REACH]
