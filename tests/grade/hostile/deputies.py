# ruff: noqa: E501 - a submission's text, or a row of a table, is easier to read on one line
"""Attacks by an answer that does nothing itself: it names a file, or writes one, and the test does the harm with the teacher's rights."""

from __future__ import annotations

from typing import NamedTuple

SECRET = "SECRET41317"


class Deputy(NamedTuple):
    """One way to make a test act.

    Attributes:
        name: what the test is made to do.
        test: the teacher's test, harmless with the model answer.
        answer: the submission's; `{path}` is a file of the teacher's that holds SECRET, `{folder}` the folder around it.
    """

    name: str
    test: str
    answer: str


NAMES = "def f(): return {path!r}"
MODEL = "def f():\n    with open('own.txt', 'w') as file:\n        file.write('1')\n    return 'own.txt'"
SCRIPT = """
import torch
class Net(torch.nn.Module):
    def forward(self, x):
        return x + torch.from_file({path!r}, True, 4, dtype=torch.uint8).fill_(65).sum() * 0
def f():
    torch.jit.save(torch.jit.script(Net()), 'own.txt')
    return 'own.txt'
"""
ARCHIVE = """
import io, tarfile
def f():
    with tarfile.open('own.txt', 'w') as archive:
        entry = tarfile.TarInfo({path!r})
        entry.size = 4
        archive.addfile(entry, io.BytesIO(b'AAAA'))
    return 'own.txt'
"""


DEPUTIES = (
    Deputy("read numbers", "import numpy as np\nassert np.loadtxt(f()) == 1", NAMES),
    Deputy("read text", "text = open(f()).read()\nassert text == '1', text", NAMES),
    Deputy("read by way of /proc", "text = open(f()).read()\nassert text == '1', text", "def f(): return '/proc/self/root' + {path!r}"),
    Deputy("read the environment", "text = open(f()).read()\nassert text == '1', text", "def f(): return '/proc/self/environ'"),
    Deputy("list", "import os\nassert os.path.isfile(f()) and os.listdir(os.path.dirname(f()) or '.')", NAMES),
    Deputy("overwrite", "with open(f(), 'a') as file:\n    file.write('1')", NAMES),
    Deputy("delete", "import os\nos.remove(f())", NAMES),
    Deputy("delete a folder", "import os, shutil\nname = f()\nif os.path.isdir(name):\n    shutil.rmtree(name)", "def f(): return {folder!r}"),
    Deputy("rename", "import os\nos.rename(f(), 'other')", NAMES),
    Deputy("link and read", "import os\nos.symlink(f(), 'link')\ntext = open('link').read()\nassert text == '1', text", NAMES),
    Deputy("unpack an archive", "import tarfile\nname = f()\nif tarfile.is_tarfile(name):\n    tarfile.open(name).extractall()", ARCHIVE),
    Deputy("build what a text describes", "import yaml\nyaml.unsafe_load(f())", "def f(): return '!!python/object/apply:os.remove [{path}]'"),
    Deputy("open a database", "import sqlite3\nsqlite3.connect(f() + '.db').execute('CREATE TABLE a (b)')", NAMES),
    Deputy("open a database by its address", "import sqlite3\nsqlite3.connect(f(), uri=True).execute('CREATE TABLE a (b)')", "def f(): return 'file:{path}.db'"),
    Deputy("attach a database", "import sqlite3\nsqlite3.connect(':memory:').execute(f())", "def f(): return \"ATTACH '{path}.db' AS other\""),
    Deputy("copy a database", "import sqlite3\nfound = sqlite3.connect(':memory:')\nfound.execute('CREATE TABLE a (b)')\nfound.commit()\nfound.execute(f())", "def f(): return \"VACUUM INTO '{path}.db'\""),
    Deputy("save weights", "import torch\ntorch.save([1], f())", NAMES),
    Deputy("save a model", "import torch\ntorch.jit.save(torch.jit.script(torch.nn.Linear(1, 1)), f())", NAMES),
    Deputy("save a model by its method", "import torch\ntorch.jit.script(torch.nn.Linear(1, 1)).save(f())", NAMES),
    Deputy("map a file", "import torch\ntorch.from_file(f(), True, 4, dtype=torch.uint8).fill_(65)", NAMES),
    Deputy("map a storage", "import torch\ntorch.UntypedStorage.from_file(f(), True, 4).fill_(65)", NAMES),
    Deputy("save a profile", "import torch\nwith torch.profiler.profile() as found:\n    pass\nfound.export_chrome_trace(f())", NAMES),
    Deputy("make a pipe", "import os\nos.mkfifo(f() + '.pipe')", NAMES),
    Deputy("make a socket", "import socket\nsocket.socket(socket.AF_UNIX).bind(f() + '.sock')", NAMES),
    Deputy("run a model", "import torch, zipfile\nname = f()\nif zipfile.is_zipfile(name):\n    torch.jit.load(name)(torch.zeros(1))", SCRIPT),
)  # fmt: skip
