"""What a worker shows below a cell, as a notebook has it."""

from __future__ import annotations

import nbformat
from nbformat import NotebookNode

from autograder.grade.wire.outputs import ReceivedOutputs
from autograder.locale.translations import in_english


def received_outputs(data: bytes, received: ReceivedOutputs) -> list[NotebookNode]:
    """Returns outputs that a worker sent, in nbformat's form and nothing else."""
    try:
        return [nbformat.from_dict(output) for output in received.read(data)]
    except ValueError:
        return [ended_output(in_english("the cell's outputs were in no known form and are left out"))]


def ended_output(reason: str) -> NotebookNode:
    """Returns the output to show below a cell that did not run to its end."""
    return nbformat.v4.new_output("error", ename="Ended", evalue=reason, traceback=[reason])
