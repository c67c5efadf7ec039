"""Adapters for the private and undocumented names of PyTorch. No other subpackage uses such names.

Each adapter has a probe for the feature (never a version number), a fallback or a sentence for the user
(`support.shortcomings`), and a test in tests/tape/internals/test_internals.py that compares it with plain PyTorch.
"""

from autograder.tape.internals.support import require_internals

require_internals()
