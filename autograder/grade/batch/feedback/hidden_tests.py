"""Removes hidden tests from a graded notebook before a learner sees it."""

from __future__ import annotations

import re
from typing import Any

from nbformat import NotebookNode, v4
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Enum

from autograder.locale.languages import language_of, speaking
from autograder.locale.translations import retold, translated

HIDDEN_TEST_LEVELS = ("none", "name", "message")
HIDDEN = re.compile(r"^.*BEGIN HIDDEN TESTS(?P<name>.*)\n(?:.*\n)*?.*END HIDDEN TESTS.*$", re.MULTILINE)
REPLACEMENT = "# hidden tests{name}"


def hidden_test_name(source: str) -> str:
    """Returns what the teacher calls the hidden tests in a cell; "" where they have no name, or there are none."""
    found = HIDDEN.search(source)
    return found["name"].strip(" #:") if found else ""


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
        """Returns the cell as a learner may see it."""
        if cell.cell_type != "code" or not HIDDEN.search(cell.source):
            return cell, resources
        name = hidden_test_name(cell.source)
        cell.source = HIDDEN.sub(lambda match: REPLACEMENT.format(name=_after(match["name"])), cell.source)
        # Without the grader's note an error may come from the hidden part, so it is replaced as well.
        covered = cell.metadata.get("autograder", {}).get("hidden", True)
        cell.outputs = [
            self._replacement(output, name) if covered else _without_lines(output) for output in cell.outputs
        ]
        return cell, resources

    def _replacement(self, output: NotebookNode, name: str) -> NotebookNode:
        if output.output_type != "error":
            return v4.new_output(
                "stream", name="stdout", text=translated("(the output of a hidden test is not shown)") + "\n"
            )
        text = told_of_hidden_test(self.level, name, f"{output.ename}: {retold(output.evalue)}")
        return v4.new_output("error", ename="HiddenTest", evalue=text, traceback=[text])


def _without_lines(output: NotebookNode) -> NotebookNode:
    """Returns an error of the visible part without its traceback, which quotes the lines around it, also hidden ones."""
    if output.output_type == "error":
        output.traceback = [f"{output.ename}: {output.evalue}"]
    return output


def _after(name: str) -> str:
    words = name.strip(" #:")
    return f": {words}" if words else ""
