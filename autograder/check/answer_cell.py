"""The runs of the cells that define answers: which run a check judges, and whether the last run raised an error."""

from __future__ import annotations

import ast
import contextlib
import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from IPython.core.getipython import get_ipython

from autograder.check.message import Unsolved
from autograder.check.subject.learner_code import own_function
from autograder.locale.translations import translated

if TYPE_CHECKING:
    from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult


@dataclass
class CellRuns:
    """The runs of a notebook's cells."""

    # name → id of the cell that last defined it, and the execution count of that run. The front end assigns the ids
    defined: dict[str, tuple[str, int]] = field(default_factory=dict)
    # id of a cell → execution count of its last run, and the error that the run raised, as text; "" if it succeeded
    last: dict[str, tuple[int, str]] = field(default_factory=dict)
    running: str = ""  # the source of the running cell; "" between cells

    def begin(self, info: ExecutionInfo) -> None:
        """Store the source of a cell that begins to run; IPython calls this before each cell (event `pre_run_cell`)."""
        self.running = info.raw_cell or ""

    def add(self, result: ExecutionResult) -> None:
        """Add a run; IPython calls this after each cell (event `post_run_cell`)."""
        info, number, self.running = result.info, result.execution_count, ""
        if info is None or info.cell_id is None or number is None:
            return
        error = result.error_before_exec or result.error_in_exec
        # A cell that contains both an answer and its check raises the verdict after the answer was defined.
        is_broken = error is not None and not isinstance(error, Unsolved)
        problem = f"{type(error).__name__}: {str(error).partition(' (')[0]}" if is_broken else ""
        self.last[info.cell_id] = (number, problem)
        if result.error_before_exec is None:
            self.defined |= dict.fromkeys(_names_defined(info.raw_cell), (info.cell_id, number))

    def error_after(self, name: str) -> tuple[int, str]:
        """Return the execution count and the error of the last run of the cell that defines a name; (0, "") if it succeeded."""
        cell, defined = self.defined.get(name, ("", 0))
        number, error = self.last.get(cell, (0, ""))
        if name in _names_defined(self.running):  # A cell that contains both an answer and its check is still running.
            return 0, ""
        return (number, error) if error and number >= defined else (0, "")


_runs: CellRuns | None = None


def follow_cells() -> None:
    """Record the runs of the cells in this student's notebook from now on; further calls have no effect."""
    global _runs
    shell = get_ipython()
    if _runs is None and shell is not None:
        _runs = CellRuns()
        shell.events.register("pre_run_cell", _runs.begin)
        shell.events.register("post_run_cell", _runs.add)


def require_finished(name: str) -> None:
    """Raise NotJudged if the last run of the cell that defines a name raised an error."""
    number, error = _runs.error_after(name) if _runs else (0, "")
    if error:
        raise NotJudged.of(
            translated("{name}: not judged, because its cell raised an error", name=name),
            saw=translated("{error} (in In [{number}])", error=error[:200], number=number),
            expected=translated("the cell that defines {name} to run to its end", name=name),
            look_at=translated("that cell: correct it and run it, then run this check again"),
        )


class NotJudged(Unsolved):
    """The answer's cell was changed and raised an error, so the name still refers to an older definition."""

    @property
    def whole_text(self) -> str:
        """The message, without the line about the judged run: nothing was judged."""
        return str(self)


def judged_run(name: str) -> str:
    """Return the run that defined the student's function, class or value, such as "drain, as run in In [12]"; "" if unknown."""
    shell = get_ipython()
    if _runs is None or shell is None or name not in shell.user_ns:
        return ""
    code = getattr(inspect.unwrap(own_function(shell.user_ns.get(name))), "__code__", None)
    label = shell.compile.format_code_name(code.co_filename) if code else None
    number = shell.execution_count if name in _names_defined(_runs.running) else _runs.defined.get(name, ("", 0))[1]
    cell = label[1].replace("In[", "In [") if label else f"In [{number}]" if number else ""
    return translated("{name}, as run in {cell}", name=name, cell=cell) if cell else ""


def _names_defined(source: str) -> set[str]:
    """Return the names that a cell's statements bind; an empty set if the cell contains a magic or a syntax error."""
    body: list[Any] = []
    with contextlib.suppress(SyntaxError, ValueError):
        body = ast.parse(source).body
    targets = [target for node in body if isinstance(node, ast.Assign) for target in node.targets]
    names = {target.id for target in targets if isinstance(target, ast.Name)}
    return names | {node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
