"""Differences between two PyTorch releases in the tensors that operations save."""

from __future__ import annotations

from collections.abc import Iterator

from autograder.tape.atlas.atlas_table import Atlas, Operation
from autograder.tape.atlas.atlas_text import state_of


def difference_text(older: Atlas, newer: Atlas) -> str:
    """Return a text with a line for each operation that was added, removed or changed, and the changes of each tensor."""
    before = {one.key: one for one in older.operations}
    after = {one.key: one for one in newer.operations}
    changed = [key for key in before if key in after and _answer(before[key]) != _answer(after[key])]
    lines = [
        f"PyTorch {older.pytorch} has {len(before)} differentiable operations here, {newer.pytorch} has {len(after)}; "
        f"{len(before.keys() & after.keys()) - len(changed)} keep the same in both."
    ]
    lines += _names("only in", older.pytorch, [key for key in before if key not in after])
    lines += _names("only in", newer.pytorch, [key for key in after if key not in before])
    for key in changed:
        lines += ["", key, *_changes(before[key], after[key])]
    return "\n".join(lines)


def _changes(before: Operation, after: Operation) -> Iterator[str]:
    """Yield a line for each tensor whose rule differs."""
    for name in dict.fromkeys((*before.arguments, *after.arguments, *before.outputs, *after.outputs)):
        was, now = state_of(before, name), state_of(after, name)
        if was != now:
            yield f"  {name}: {was} → {now}"


def _names(words: str, version: str, keys: list[str]) -> Iterator[str]:
    if keys:
        yield f"{words} {version}: {', '.join(keys)}"


def _answer(operation: Operation) -> set[tuple[str, tuple[str, ...], str, bool]]:
    return {(keep.what, keep.gradients, keep.when, keep.guarded) for keep in operation.keeps}
