"""The smaller corpora on features around autograd's engine: plain PyTorch and the tape agree with the declared outcome."""

import pytest

from tests.corpus.declared import assert_declared, assert_explained
from tests.corpus.programs import HERE, programs

FOLDERS = ("checkpoints", "engine", "threads")
EACH = pytest.mark.parametrize(
    "program", [one for folder in FOLDERS for one in programs(HERE / folder)], ids=lambda program: program.name
)


@EACH
def test_declared_outcome_is_what_pytorch_does(program):
    """Plain PyTorch raises as declared, or gives the reference's gradients, or others."""
    assert_declared(program)


@EACH
def test_outcome_and_line(program):
    """The outcome is the declared one, and the lines that wrote and that saved.

    No parameter's initialisation is blamed for a checkpointed block, and of a thread its own line is named, not the one that waited.
    """
    assert_explained(program)
