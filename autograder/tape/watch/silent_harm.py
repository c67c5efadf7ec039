"""Convert changed saved tensors with an unchanged version counter to harms."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from autograder.tape.diagnose.harms.uncounted_write import UNCOUNTED_WRITE
from autograder.tape.internals.tensor_fields import version_of
from autograder.tape.recording.verdict_types import Harm
from autograder.tape.watch.post_mortem import PostMortem


def silent_harms(changed: Iterable[tuple[Any, str]], post_mortem: PostMortem) -> tuple[Harm, ...]:
    """Return a harm for each saved tensor that changed and for which backward will not raise an error.

    Args:
        changed: nodes, and the names of their saved tensors.
        post_mortem: reader of the logs.
    """
    harms = []
    for node, name in changed:
        for kept in post_mortem.kept(node):
            if kept.name == name and kept.expected == version_of(kept.tensor):
                harms.append(post_mortem.harm(kept, UNCOUNTED_WRITE, changed=True))
    return tuple(dict.fromkeys(harms))
