"""Checkpointed blocks: computed a second time during backward, with or without reentrance, where other rules hold."""

import pytest

from tests.corpus.declared import assert_explained
from tests.corpus.programs import HERE, programs

CORPUS = programs(HERE / "checkpoints")


@pytest.mark.parametrize("name", ["tower[bug]", "tower_view[bug]", "inside_reentrant[bug]"])
def test_a_write_in_a_recomputed_block_is_one_harm(name):
    """One write is one harm, and it changed bytes: the error is not called needless."""
    (program,) = (one for one in CORPUS if one.name == f"checkpoints/{name}")
    verdict = assert_explained(program)
    assert [True] == [harm.bytes_changed for harm in verdict.harms]
    assert not any("not needed" in note for note in verdict.notes)
