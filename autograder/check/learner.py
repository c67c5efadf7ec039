"""The lookup of the student's names: in this kernel, or in another process while grading."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from autograder.check.answer_cell import require_finished
from autograder.check.message import Unsolved
from autograder.locale.languages import bound
from autograder.locale.translations import translated

if TYPE_CHECKING:
    from autograder.check.subject.subjects import LocalSubject, Subject

T = TypeVar("T")
CALL_SECONDS = 10.0  # the time limit of one call of an answer in this process, in seconds; a grader sets its own limits


class LearnerNames(Protocol):
    """A lookup of the student's functions and values, in this process or another."""

    def subject(self, name: str) -> Subject:
        """Return the student's function or module class of that name. Raise KeyError if it does not exist."""

    def value(self, name: str) -> Any:
        """Return the student's plain value (text, number) of that name. Raise KeyError if it does not exist."""


def local_subject(name: str, target: Any) -> LocalSubject:
    """Return the subject for a function or class of this process. Raise KeyError for anything else."""
    from autograder.check.subject.subjects import LocalSubject  # here, as it loads torch, which `passed` does not need

    if not (inspect.isfunction(target) or inspect.isclass(target)):
        raise KeyError(name)
    return LocalSubject(target, CALL_SECONDS)


class KernelNames:
    """The student's names in this process: the notebook's namespace, or the module that runs as a script."""

    def subject(self, name: str) -> Subject:
        """Return a local subject for the function or class of that name."""
        return local_subject(name, self.value(name))

    def value(self, name: str) -> Any:
        """Return the value of a name in the student's namespace. Raise NotJudged if the last run of its cell raised an error."""
        require_finished(name)
        # IPython stores the cells' names in its own namespace; without a kernel they are those of the running script.
        ipython = sys.modules.get("IPython")
        shell = ipython.get_ipython() if ipython else None
        return (shell.user_ns if shell else vars(sys.modules["__main__"]))[name]


_names: ContextVar[LearnerNames] = ContextVar("learner_names")


def use_names(names: LearnerNames) -> AbstractContextManager[object]:
    """Look up the names of all checks inside the block in `names`."""
    return bound(_names, names)


def current_names() -> LearnerNames:
    """Return the names of the innermost `use_names`; by default, those of this process."""
    return _names.get(KernelNames())


class Missing(Unsolved):
    """The answer's cell was not run, was deleted, or raised an error."""


def find(look_up: Callable[[str], T], name: str) -> T:
    """Return the student's function, class or value of this name. Raise Missing if it is not defined."""
    try:
        return look_up(name)
    except KeyError:
        raise Missing.of(
            translated("{name}: there is nothing to check", name=name),
            saw=translated("no function, class or value called {name}", name=name),
            expected=translated("the cell that defines {name} to have run", name=name),
            look_at=translated("that cell: run it; if it shows an error, fix that first"),
        ) from None
