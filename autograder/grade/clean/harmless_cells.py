"""The cells of a graded notebook, as they are stored: safe in every program that shows them."""

from __future__ import annotations

from typing import Any

from nbformat import NotebookNode

from autograder.grade.clean.drawn_recordings import Drawings
from autograder.grade.clean.harmless_markdown import as_code_block, harmless_markdown
from autograder.grade.clean.harmless_outputs import harmless_output
from autograder.grade.clean.raster_images import raster_base64


def harmless_cell(cell: NotebookNode, drawings: Drawings, released: NotebookNode | None = None) -> NotebookNode:
    """Returns the cell as it is stored.

    A student's raw cell becomes Markdown: formgrader puts the text of raw cells into its page (nbconvert 7.17, `rawcell`).

    Args:
        cell: of the submission, after it ran.
        drawings: limits the time for its pictures.
        released: the teacher's cell that has the same text; this text and its attachments are kept as they are.
    """
    clean = NotebookNode({name: value for name, value in cell.items() if name != "attachments"})
    if "outputs" in cell:
        clean.outputs = [harmless_output(output, drawings) for output in cell.outputs]
    if cell.cell_type == "code":
        return clean
    pictures = harmless_attachments(cell.get("attachments")) if released is None else released.get("attachments")
    if pictures:
        clean.attachments = pictures
    if released is None and cell.cell_type == "raw":
        clean.cell_type, clean.source = "markdown", as_code_block(cell.source)
    elif released is None:
        clean.source = harmless_markdown(cell.source, pictures or ())
    return clean


def harmless_attachments(attachments: Any) -> NotebookNode:
    """Returns the pictures among a cell's attachments, each by its name and its MIME type."""
    kept = NotebookNode()
    for name, forms in attachments.items() if isinstance(attachments, dict) else ():
        for kind, value in forms.items() if isinstance(forms, dict) else ():
            data = raster_base64(kind, value) if isinstance(value, str) else None
            if data:
                kept.setdefault(str(name), NotebookNode())[kind] = data
    return kept
