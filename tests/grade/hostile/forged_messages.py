# ruff: noqa: E501 - a submission's text is easier to read on one line
"""Attacks by a worker under an attacker's control: it sends any answer, to any request, at any time."""

from __future__ import annotations

from tests.grade.hostile.attacks import WRONG, Attack

TAKEN_OVER = """
import gc, json, struct, time
try:
    import msgspec
    from autograder.check.subject.call_report import Array, Call, Report
    from autograder.grade.wire import messages as M
except ImportError:
    pass
me = next((one for one in gc.get_objects() if type(one).__name__ == '_Worker'), None)
def value(node):
    return msgspec.msgpack.encode(node)
def names(message):
    me.answers[M.DescribeName] = lambda request: message
def calls(make):
    me.answers[M.MakeCall] = lambda request: make(msgspec.msgpack.decode(request.call, type=Call))
def made(report):
    return M.Returned(msgspec.msgpack.encode(report))
def raw(payload):
    me.connection.sendall(struct.pack('!Q', len(payload)) + payload)
def shown(data):
    raw(msgspec.msgpack.encode(M.Reply(me.number, M.CellRan(data))))
"""


def _forged(threat: str, name: str, code: str) -> Attack:
    return Attack(threat, f"forged: {name}", WRONG + TAKEN_OVER + code)


def _value(name: str, node: str) -> Attack:
    return _forged("D", name, f"names(M.NameDescription('data', 'x', value({node})))")


FORGED = [
    _value("a quantized tensor", "{'tensor': ['qint8', [4], b'abcd', False, None]}"),
    _forged("D", "a quantized answer", "calls(lambda call: made(Report(outputs={'value': Array('qint32', (2,), b'abcdefgh')})))"),
    _value("a time zone that is a folder", "{'datetime': ['2020-01-01T00:00:00', 0, 'America']}"),
    _value("a dtype too deep to parse", "{'array': ['(' + '-' * 9000 + '1)', [1], b'']}"),
    _value("a terabyte of zeros", "{'bytearray': [10**12]}"),
    _forged("D", "reasons of 60 MB", "names(M.NameDescription('data', 'x', unsendable='x' * 60_000_000))\ncalls(lambda call: M.Failure('x' * 60_000_000))"),
    _forged("D", "nesting", "raw(b'\\x91' * 1_000_000 + b'\\xc0')"),
    _forged("D", "a length of 2 ** 63", "me.connection.sendall(struct.pack('!Q', 2**63))"),
    _forged("D", "half a message, then silence", "me.connection.sendall(struct.pack('!Q', 1000) + b'x')\ntime.sleep(60)"),
    _forged("D", "outputs without end", "shown(json.dumps([{'output_type': 'stream', 'name': 'stdout', 'text': 'x'}] * 900_000).encode())"),
    _forged("D", "outputs of empty lists", "shown(b'[{\"output_type\":\"display_data\",\"metadata\":{},\"data\":{\"a\":[' + b'[],' * 20_000_000 + b'[]]}}]')"),
    _forged("A", "answers of another kind", "names(M.CellRan(b'[]'))\ncalls(lambda call: M.NameDescription('data', 'int', value([])))"),
    _forged("A", "answers before the questions", "for number in range(me.number + 1, me.number + 40):\n    raw(msgspec.msgpack.encode(M.Reply(number, made(Report()))))"),
    _forged("A", "two answers to each question", "before = me._answer\ndef twice(request):\n    found = before(request)\n    raw(msgspec.msgpack.encode(M.Reply(me.number, found)))\n    return found\nme._answer = twice"),
    _forged("A", "a question of a judge's", "calls(lambda call: M.Asked(M.DescribeName('w')))"),
    _forged("A", "a passed test", "calls(lambda call: M.TestRan(b'[]', 'passed', 1e9))"),
    _forged("A", "the arguments come back", "calls(lambda call: made(Report(outputs={'value': call.arguments['d'].values}, after={n: a.values for n, a in call.arguments.items()}, gradients={n: a.values for n, a in call.arguments.items()})))"),
    _forged("A", "a report without numbers", "calls(lambda call: made(Report(outputs={'value': Array('float64', (0,), b'')}, gradients={'d': None, 'w': None}, allocated=-5)))"),
    _forged("C", "its own words in the reason", "raw(msgspec.msgpack.encode([me.number, {'type': 'LEAKED'}]))"),
    _forged("E", "a recording of 60 MB", "shown(json.dumps([dict(output_type='display_data', metadata={}, data={'application/vnd.autograder.recording+json': '[' * 60_000_000})]).encode())"),
]  # fmt: skip

SHOW = "\nfrom IPython.display import HTML, Markdown, display\n"
SLOW = [
    Attack("E", "slow to show: attributes", WRONG + SHOW + "display(HTML('<a ' + ' '.join(f'x{n}' for n in range(500_000)) + '>'))"),
    Attack("E", "slow to show: ampersands", WRONG + SHOW + "display(HTML('&' * 3_000_000))"),
    Attack("E", "slow to show: formulas", WRONG + SHOW + "display(Markdown('$ a' * 300_000))"),
    Attack("E", "slow to show: colours", WRONG + "print('\\x1b[m' * 1_000_000)"),
    Attack("E", "slow to show: code", WRONG + "'''" + "@a.b{\n" * 40_000 + "'''"),
    Attack("E", "slow to show: many small outputs", WRONG + "import sys\nfor _ in range(100_000):\n    print(1)\n    print(2, file=sys.stderr)"),
]  # fmt: skip

ENDLESS = [
    Attack("D", "an iterator without an end", WRONG, mean_square="def mean_square(values):\n    while True:\n        yield 0"),
    Attack("D", "a range without an end", WRONG, mean_square="def mean_square(values):\n    return range(10**13)", number="number = range(10**13)"),
    Attack("D", "a bomb of double forks", WRONG + "import os\nwhile True:\n    try:\n        if os.fork() == 0 and os.fork():\n            os._exit(0)\n    except OSError:\n        pass"),
    Attack("D", "a bomb of threads and forks", WRONG + "import os, threading, time\nwhile True:\n    try:\n        os.fork()\n        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n    except (OSError, RuntimeError):\n        pass"),
]  # fmt: skip

TAKEOVERS = [*FORGED, *SLOW, *ENDLESS]
