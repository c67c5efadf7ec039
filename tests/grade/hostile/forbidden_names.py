"""Answers that use a name which their exercise forbids, `check(…, without=("clone",))`, unseen in their own text."""

from __future__ import annotations

HELPER = b"def copied(tensor):\n    return tensor.clone()\n"
ANSWER = "def f(d, w):\n    out = {copy} * w\n    d[:] = 1\n    return out"

HIDDEN = {
    "a module of its own": "import helper\n" + ANSWER.format(copy="helper.copied(d)"),
    "a name of its own module's": "from helper import copied as c\n" + ANSWER.format(copy="c(d)"),
    "every name of its own module": "from helper import *\n" + ANSWER.format(copy="copied(d)"),
    "its own module, run": "%run helper.py\n" + ANSWER.format(copy="copied(d)"),
    "getattr": ANSWER.format(copy="getattr(d, 'clo' + 'ne')()"),
    "the class's dictionary": "import torch\n" + ANSWER.format(copy="torch._C.TensorBase.__dict__['clo' + 'ne'](d)"),
    "eval": ANSWER.format(copy="eval('d.clo' + 'ne()')"),
    "a caller of methods": "import operator\n" + ANSWER.format(copy="operator.methodcaller('clo' + 'ne')(d)"),
}
ALLOWED = {
    "written out": ANSWER.format(copy="(d + 0)"),
    "a module of its own": "import helper\n" + ANSWER.format(copy="helper.added(d)"),
}
