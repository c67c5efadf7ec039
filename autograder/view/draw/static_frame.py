"""The shapes of one frame of a scene, each in its state, without hidden ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from autograder.view.scene.composition import Scene
from autograder.view.shapes import Shape

SHOWN_IN = {"field": {"stale", "silent"}, "tick": {"passed"}, "cross": {"raised", "wrong"}}
"""Class of a shape → the states of the enclosing part in which the shape is visible."""


@dataclass
class StaticFrame:
    """The state of every key at one frame, and the keys that the frame highlights."""

    states: dict[str, str]
    now: set[str]

    def render(self, tree: Shape) -> Shape | None:
        """Return a shape in its state, without hidden or empty parts; None if it becomes empty."""
        tag, attributes, *children = tree
        key = attributes.get("k")
        if key is not None and key not in self.states:
            return None
        kept = {name: value for name, value in attributes.items() if name not in ("k", "s", "opens")}
        if tag == "text" and key is not None:
            children = [self.states[key]]
        elif key is not None:
            state = self.states[key].replace("on", "", 1).strip()
            kept["class"] = " ".join(filter(None, [kept.get("class"), state, "now" if key in self.now else ""]))
        elif tag == "g" and any(isinstance(c, list) and c[1].get("k") in self.now for c in children):
            kept["class"] = f"{kept.get('class', '')} now"
        around = set(str(kept.get("class", "")).split())
        children = [child for child in children if not _is_idle(child, around)]
        shown = [child if isinstance(child, str) else self.render(child) for child in children]
        shown = [child for child in shown if child]
        return [tag, kept, *shown] if shown or tag not in ("g", "text") else None


def freeze(scene: Scene, number: int) -> StaticFrame:
    """Return the state of every key at a frame, counted from 0."""
    states: dict[str, str] = {}
    for frame in scene.frames[: number + 1]:
        states |= frame.changes
    if scene.counters is not None:
        states |= {key: words for key, words in scene.counters.hidden.items() if key in states}
    return StaticFrame(states, set(scene.frames[number].now))


def is_kind(tree: Shape | str, kind: str) -> bool:
    """Return whether a shape's first class is `kind`."""
    return isinstance(tree, list) and tree[1].get("class", "").split(" ")[0] == kind


def _is_idle(child: Any, around: set[str]) -> bool:
    """Return whether a shape is invisible while the enclosing part is in these states."""
    return any(is_kind(child, kind) and not states & around for kind, states in SHOWN_IN.items())
