import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autograder.tape.diagnose.record import record
from autograder.tape.repair.edits import EditableSource, apply_fix, as_fix, carried_names, delete, wrap
from autograder.tape.repair.repairs import find_repairs
from autograder.tape.repair.trial.program_factory import factory_of_text
from tests.repair.plain import flat, plain

HEAD = "import torch\nw = torch.tensor([1.0, 2.0], requires_grad=True)\n"
EXP = [2.718282, 7.389056]

ODD = {
    "tabs": ("def f(x):\n\th = x.exp()\n\tif True:\n\t\th += 1\n\treturn h\ny = f(w)\ny.sum().backward()\n", "\t\th = h + 1\n"),
    "one line": ("h = w.exp(); h += 1; y = h.sum(); y.backward()\n", "h = w.exp(); h = h + 1; y = h.sum(); y.backward()\n"),
    "inline suite": ("h = w.exp()\nif True: h += 1; y = h.sum()\ny.backward()\n", "if True: h = h + 1; y = h.sum()\n"),
    "comment at the end": ("h = w.exp()\nh += 1  # é: +=\nh.sum().backward()\n", "h = h + 1  # é: +=\n"),
    "over several lines": (
        "h = w.exp()\nh += (  # why\n    1 + 0 * 2\n)\nh.sum().backward()\n",
        "h = h + (  # why\n    1 + 0 * 2\n)\n",
    ),
    "backslash": ("h = w.exp()\nh += \\\n    1\nh.sum().backward()\n", "h = h + \\\n    1\n"),
    "weak operator": ("h = w.exp()\nh *= 1 if True else 2\nh.sum().backward()\n", "h = h * (1 if True else 2)\n"),
    "decorator and nested": (
        "import functools\ndef twice(f):\n    @functools.wraps(f)\n    def inner(x):\n        h = x.exp()\n"
        "        h.add_(\n            f(1)  # one\n        )\n        return h\n    return inner\n"
        "@twice\ndef one(x): return x\none(w).sum().backward()\n",
        "        h = h.add(\n            f(1)  # one\n        )\n",
    ),
    "no line feed at the end": ("h = w.exp()\nh += 1\nh.sum().backward()", "h = h + 1\nh.sum().backward()"),
    "Windows line ends": ("h = w.exp()\r\nh += 1\r\nh.sum().backward()\r\n", "h = h + 1\r\n"),
    "another alphabet": ("höhe = w.exp()\nx = 'ü'; höhe += 1\nhöhe.sum().backward()\n", "x = 'ü'; höhe = höhe + 1\n"),
    "a string over lines": ('h = w.exp()\ns = """a\n  h += 1\n"""\nh += 1\nh.sum().backward()\n', '  h += 1\n"""\nh = h + 1\n'),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_odd_syntax_is_rewritten_without_damage(name):
    """The write changes, every other byte stays, and the result computes the right gradient."""
    body, after = ODD[name]
    source = HEAD + body
    found = find_repairs(factory_of_text(source, "odd.py"), record(source, file="odd.py").verdict)
    texts = [apply_fix(source, fix) for fix in found.fixes]
    assert any(after in text for text in texts), texts
    for text in texts:
        ast.parse(text)
        assert pytest.approx(EXP, rel=1e-4) == flat(plain(text).gradients["w"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a = 1; b = 2; c = 3\n", "a = 1; c = 3\n", id="between semicolons"),
        pytest.param("a = 1; b = 2\n", "a = 1\n", id="last of its line"),
        pytest.param("a = 1\nb = 2  # gone too\nc = 3\n", "a = 1\nc = 3\n", id="a line of its own"),
        pytest.param("if a:\n    b = 2\nc = 3\n", "if a:\n    pass\nc = 3\n", id="the only one of its block"),
        pytest.param("b = 2\nc = 3\n", "c = 3\n", id="the first line"),
    ],
)
def test_deletion_leaves_python(text, expected):
    """A statement is taken out with its line, or with its semicolon, or leaves `pass`."""
    source = EditableSource(text)
    gone = next(one for one in source.statements() if source.of(one) == "b = 2")
    assert expected == source.apply([delete(source, gone)])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a = 1\nb = 2\n", "a = 1\nwith x:\n    b = 2\n", id="a line of its own"),
        pytest.param("a = 1; b = 2; c = 3\n", "a = 1\nwith x: b = 2\nc = 3\n", id="between semicolons"),
        pytest.param("def f():\n\tb = 2\n", "def f():\n\twith x:\n\t\tb = 2\n", id="tabs"),
        pytest.param("if a: b = 2\n", "if a: b = 2\n", id="an inline suite has no room"),
    ],
)
def test_wrapping_leaves_python(text, expected):
    """A block is put around exactly one statement."""
    source = EditableSource(text)
    inside = next(one for one in source.statements() if source.of(one) == "b = 2")
    assert expected == source.apply(wrap(source, inside, "with x:"))


LINES = st.lists(st.sampled_from(["a = 1", "    b = 2", "", "  ", "\tc", "        d()", "é"]), min_size=1, max_size=8)


@given(LINES, LINES)
def test_fix_holds_the_whole_change(before, after):
    """For any change, applying the fix to the old text gives the new one."""
    old, new = "\n".join(before), "\n".join(after)
    assert new == apply_fix(old, as_fix(old, new, "any"))


@pytest.mark.parametrize(
    ("body", "carried"),
    [
        pytest.param("for x in data:\n    h = cell(x, h)", ["h"], id="read, then assigned"),
        pytest.param("for x in data:\n    z = noise()\n    y = net(z)\n    x = x + y", [], id="assigned, then read"),
        pytest.param(
            "for epoch in data:\n    for x in epoch:\n        z = noise()\n        x = z", [], id="in an inner loop"
        ),
        pytest.param(
            "for x in data:\n    if x:\n        h = start()\n    h = cell(x, h)", ["h"], id="assigned in one branch"
        ),
        pytest.param(
            "for x in data:\n    if x:\n        h = a()\n    else:\n        h = b()\n    h = f(h)", [], id="in both"
        ),
        pytest.param("while True:\n    with gate() as g:\n        self.h = g(self.h)", ["self.h"], id="an attribute"),
    ],
)
def test_a_name_is_carried_where_a_round_reads_what_the_last_one_left(body, carried):
    """Names that are assigned before they are read, and the loop's own, start afresh in each round."""
    assert carried == carried_names(ast.parse(body).body[0])
