"""Ties the text of a learner's function to the name by which the test has found it, whatever the function says of itself."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from autograder.grade.submission.stand_ins.class_stand_in import ClassStandIn, InstanceStandIn
from autograder.grade.submission.stand_ins.function_stand_in import FunctionStandIn, set_code

CodeOf = Callable[[str], types.CodeType | None]


def tie_to_name(value: Any, name: str, code_of: CodeOf) -> None:
    """Gives a function, or a class, the text that the notebook has under this name."""
    if type(value) is FunctionStandIn:
        set_code(value, code_of(name))
    elif type(value) is ClassStandIn:
        type.__setattr__(value, "_path", name)


def tie_to_class(value: Any, owner: Any, name: str, code_of: CodeOf) -> None:
    """Gives a method the text that the notebook has under this name in its owner's class, or in a base of that."""
    if type(value) is not FunctionStandIn:
        return
    kind = owner if type(owner) is ClassStandIn else type(owner)
    if not issubclass(kind, InstanceStandIn) or type(kind) is not ClassStandIn:
        return
    paths = [
        type.__getattribute__(base, "_path")
        for base in type.__getattribute__(kind, "__mro__")
        if type(base) is ClassStandIn
    ]
    set_code(value, next((code for path in paths if (code := code_of(f"{path}.{name}")) is not None), None))
