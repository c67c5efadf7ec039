"""Removes hidden tests from a graded notebook before a learner sees it."""

from __future__ import annotations

from typing import Any

from nbformat import NotebookNode, v4
from nbgrader.preprocessors import ClearHiddenTests, NbGraderPreprocessor
from traitlets import Enum

from autograder.locale.languages import language_of, speaking
from autograder.locale.translations import retold, translated

HIDDEN_TEST_LEVELS = ("none", "name", "message")


def told_of_hidden_test(level: str, name: str, message: str) -> str:
    """Returns what a learner reads of a hidden test that failed.

    Args:
        level: one of `HIDDEN_TEST_LEVELS`.
        name: what the teacher calls it; "" if it has no name.
        message: what it said.
    """
    told = translated("A hidden test did not pass.")
    if level != "none" and name:
        told = translated("A hidden test did not pass: {name}.", name=name)
    return f"{told}\n{message}" if level == "message" else told


class CoverHiddenTests(NbGraderPreprocessor):
    """Removes hidden tests from a graded notebook's cells, and from their outputs as far as the teacher wants."""

    level = Enum(
        HIDDEN_TEST_LEVELS, "name", help="What to show of a hidden test that failed: none, name or message."
    ).tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """Returns the notebook as a learner may see it, in its own language."""
        with speaking(language_of(nb.metadata)):
            return super().preprocess(nb, resources)

    def preprocess_cell(self, cell: NotebookNode, resources: Any, index: int) -> tuple[NotebookNode, Any]:
        """Return the cell as a student may see it."""
        hidden = self._hidden_lines(cell)
        if not hidden:
            return cell, resources
        cell.source = _covered(cell, hidden)
        if cell.cell_type != "code":
            return cell, resources
        name = next(iter(hidden.values()))
        # Without the grader's note an error may come from the hidden part, so it is replaced as well.
        covered = cell.metadata.get("autograder", {}).get("hidden", True)
        cell.outputs = [
            self._replacement(output, name) if covered else _without_lines(output) for output in cell.outputs
        ]
        return cell, resources

    def _hidden_lines(self, cell: NotebookNode) -> dict[int, str]:
        """Return the hidden lines of a cell, from 0, in order, each with what the teacher calls its part."""
        parts = cell.metadata.get("autograder", {}).get("hidden_parts", [])
        hidden = {line - 1: name for first, last, name in parts for line in range(first, last + 1)}
        # In a notebook that an earlier release or nbgrader itself has graded, only the marks say what is hidden.
        marks, name = ClearHiddenTests(config=self.config), None
        for number, line in enumerate(cell.source.split("\n")):
            if marks.begin_test_delimeter in line:
                name = line.partition(marks.begin_test_delimeter)[2].strip(" #:")
            if name is not None:
                hidden.setdefault(number, name)
            if marks.end_test_delimeter in line:
                name = None
        return dict(sorted(hidden.items()))

    def _replacement(self, output: NotebookNode, name: str) -> NotebookNode:
        if output.output_type != "error":
            text = translated("(the output of a hidden test is not shown)") + "\n"
            return v4.new_output("stream", name="stdout", text=text)
        text = told_of_hidden_test(self.level, name, f"{output.ename}: {retold(output.evalue)}")
        return v4.new_output("error", ename="HiddenTest", evalue=text, traceback=[text])


def _without_lines(output: NotebookNode) -> NotebookNode:
    """Return an error of the visible part without its traceback, which quotes the lines around it, also hidden ones."""
    if output.output_type == "error":
        output.traceback = [f"{output.ename}: {output.evalue}"]
    return output


def _covered(cell: NotebookNode, hidden: dict[int, str]) -> str:
    """Return a cell's text, in code with a comment for each hidden part."""
    lines = []
    for number, line in enumerate(cell.source.split("\n")):
        if number not in hidden:
            lines.append(line)
        elif cell.cell_type == "code" and hidden.get(number - 1) != hidden[number]:
            lines.append("# hidden tests" + (f": {hidden[number]}" if hidden[number] else ""))
    return "\n".join(lines)
