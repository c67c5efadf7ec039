"""The one door to PyTorch's internals: every private or undocumented name that this project uses stands in this package.

Each has a probe for what it can do (never a version number), something to fall back on or a sentence for the reader
(`support.shortcomings`), and a test in tests/tape/internals/test_internals.py that compares it with plain PyTorch.
"""

from autograder.tape.internals.support import require_internals

require_internals()
