"""Saved tensors whose bytes changed while their counter stood still, as harms."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from autograder.tape.diagnose.harms.uncounted_write import UNCOUNTED_WRITE
from autograder.tape.internals.tensor_fields import version_of
from autograder.tape.recording.verdict_types import Harm
from autograder.tape.watch.post_mortem import PostMortem


def silent_harms(changed: Iterable[tuple[Any, str]], post_mortem: PostMortem) -> tuple[Harm, ...]:
    """Returns a harm for each saved tensor that changed and that backward will use all the same.

    Args:
        changed: nodes, and the names under which they keep the tensors.
        post_mortem: what reads the logs.
    """
    harms = []
    for node, name in changed:
        for kept in post_mortem.kept(node):
            if kept.name == name and kept.expected == version_of(kept.tensor):
                harms.append(post_mortem.harm(kept, UNCOUNTED_WRITE, changed=True))
    return tuple(dict.fromkeys(harms))
