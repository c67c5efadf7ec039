"""A browser has neither threads nor processes: recording a program must not need them."""

from __future__ import annotations

import subprocess
import sys

import pytest

REFUSED = """
import os, subprocess, threading, _thread, torch

def refuse(*_, **__):
    raise AssertionError("a thread or a process was started")

threading.Thread.start = _thread.start_new_thread = subprocess.Popen.__init__ = os.fork = refuse
"""
RECORDED = """
from autograder.tape import record
from autograder.view.scene.composition import build_scene

recording = record('''
import torch
w = torch.tensor([2.0], requires_grad=True)
d = w * 3
f = d * d
d.data[:] = 1
f.backward()
''')
print(recording.verdict.outcome, build_scene(recording).outcome)
"""


@pytest.mark.thorough
def test_recording_starts_no_thread_and_no_process():
    """The whole way from the text to the scene, with everything unusable that a browser has not."""
    done = subprocess.run([sys.executable, "-c", REFUSED + RECORDED], capture_output=True, text=True)
    assert "silently-wrong silently-wrong\n" == done.stdout, done.stderr
    broken = subprocess.run(
        [sys.executable, "-c", REFUSED + "threading.Timer(1, print).start()"], capture_output=True, text=True
    )
    assert "a thread or a process was started" in broken.stderr
