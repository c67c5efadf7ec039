"""Names that an answer must not use, such as `data` or `optim`, because they would make an exercise too easy."""

from __future__ import annotations

from autograder.check.message import Incorrect, message
from autograder.locale.translations import translated

INDIRECT = (
    *("getattr", "__getattribute__", "attrgetter", "methodcaller", "__dict__", "vars", "globals"),
    *("exec", "eval", "__import__", "import_module"),
)
"""Ways to access a name without writing it; an answer must not use these either if a name is forbidden."""


def require_without(exercise: str, used: tuple[str, ...], forbidden: tuple[str, ...], look_at: str) -> None:
    """Raise an error if an answer uses a forbidden name or a way to access one indirectly.

    Args:
        exercise: its id.
        used: every name and attribute in the answer's code.
        forbidden: the forbidden names; if empty, everything is allowed.
        look_at: the place to look at, for the message.

    Raises:
        Incorrect: the answer uses such a name.
    """
    refused = (*forbidden, *INDIRECT) if forbidden else ()
    if found := next((name for name in refused if name in used), ""):
        raise Incorrect(
            message(
                translated("{exercise}: this name is not allowed here", exercise=exercise),
                saw=translated("{word} in your code", word=found),
                expected=translated("an answer without {words}", words=translated(", ").join(forbidden)),
                look_at=look_at,
            )
        )
