"""Names that a test and the learner's code share, as in one kernel: what one side binds or deletes, the other sees.

The attributes of modules that the test replaces are among them, with their module: "builtins.input".
"""

from __future__ import annotations

import ast
from typing import Any

from autograder.grade.submission.cell_analysis import names_in_main, statements
from autograder.grade.submission.stand_ins.patched_attributes import PatchedAttributes

DELETED, BOUND, RESTORED = "deleted", "bound", "restored"
_MISSING = object()
BASES = {"issubclass", "__bases__", "__base__", "__mro__", "mro"}
SEEDS = {"seed", "manual_seed"}
READING = ("open", "read", "load", "exists", "isfile", "glob", "listdir", "scandir", "Path", "stat")
"""Parts of the names by which a test may look at files."""


class TestNames:
    """The names of one test, watched while it runs.

    Args:
        namespace: the test's; None shares no names.
        text: the test's.
        answers: the names that the model answers define, which are the only ones that both sides bind.
        read: those that functions of the model answers read: what the test binds to one, the learner's functions find.
    """

    def __init__(
        self,
        namespace: dict[str, Any] | None = None,
        text: str = "",
        answers: frozenset[str] = frozenset(),
        read: frozenset[str] = frozenset(),
    ) -> None:
        self._space, self._answers = namespace, answers
        nodes = [node for part in statements(text) for node in ast.walk(part)]
        words = {_word(node) for node in nodes}
        self.seeds, self.asks_for_bases = bool(words & SEEDS), bool(words & BASES)
        self.reads_files = any(part in word for word in words for part in READING)
        self._bound = _bound(nodes) & (answers | read)
        self._first = {name: self._now(name) for name in answers | read}
        self._last = dict(self._first)
        self._patches = PatchedAttributes(nodes, namespace or {})

    def changed(self) -> dict[str, Any]:
        """Returns what the test has bound, deleted or put back since the last time: the action and the value, by name."""
        changed = {name: value for name in self._bound if (value := self._now(name)) is not self._last[name]}
        self._last |= changed
        gone = {name for name, value in changed.items() if value is _MISSING}
        patched = self._patches.changed()
        gone |= {name for name in patched if self._patches.is_back(name)}
        back = {name for name, value in changed.items() if value is self._first[name]} - gone
        found = {name: (BOUND, value) for name, value in (changed | patched).items() if name not in gone | back}
        return found | dict.fromkeys(gone, (DELETED, None)) | dict.fromkeys(back, (RESTORED, None))

    def has_changed(self) -> bool:
        """Returns whether the test has bound or deleted a name since the last time."""
        return self._patches.has_changed() or any(self._now(name) is not self._last[name] for name in self._bound)

    def receive(self, names: dict[str, Any]) -> None:
        """Binds what the learner's code has bound again, unless the test has done so meanwhile."""
        for name, value in names.items():
            if self._space is not None and name in self._answers and self._now(name) is self._last[name]:
                self._space[name] = self._last[name] = value

    def leave(self, name: str) -> dict[str, Any]:
        """Leaves a name to each side; returns what that changes on the other."""
        self._bound.discard(name)
        return {name: (DELETED, None)} if "." in name else {}

    def _now(self, name: str) -> Any:
        return _MISSING if self._space is None else self._space.get(name, _MISSING)


def _bound(nodes: list[ast.AST]) -> set[str]:
    """Returns the names that are bound or deleted anywhere in a test, also inside its functions."""
    names = {node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    names |= {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    return names | names_in_main(nodes)


def _word(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
