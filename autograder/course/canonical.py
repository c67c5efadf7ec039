"""The stored form of notebooks: no outputs, stable ids and one format, so that a diff shows only real changes."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbformat import NotebookNode

from autograder.course.paths import replace_file
from autograder.errors import InputError
from autograder.locale.languages import METADATA

KERNEL = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}

# nbgrader uses "deletable" and "editable" to lock a cell in JupyterLab; "jupyter" folds the source of a check.
KEPT = ("nbgrader", "tags", "deletable", "editable", "jupyter")


class NotebookError(InputError):
    """The file is not a notebook; the message gives the reason and a way to fix it."""


def read(path: Path) -> NotebookNode:
    """Return the notebook in nbformat 4, validated.

    Raises:
        NotebookError: the file is missing, is not JSON, or is not a notebook.
    """
    try:
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook, relax_add_props=True)  # as nbgrader: editors write ids of cells into older formats
    except FileNotFoundError:
        raise NotebookError.of(
            "notebook.missing|There is no notebook {path}. Check the name, or see the lessons in notebooks/.", path=path
        ) from None
    except (nbformat.reader.NotJSONError, UnicodeDecodeError):
        raise NotebookError.of(
            "notebook.not_json|{path} is not JSON, so it is not a notebook. Save it again from JupyterLab, or take a fresh copy.",
            path=path,
        ) from None
    except (nbformat.ValidationError, AttributeError, KeyError, TypeError, OSError) as error:
        reason = str(error).splitlines()[0][:120]
        raise NotebookError.of(
            "notebook.not_valid|{path} is not a valid notebook: {reason}. Save it again from JupyterLab, or take a fresh copy.",
            path=path,
            reason=reason,
        ) from None
    return notebook


def canonical(notebook: NotebookNode) -> NotebookNode:
    """Return a copy without outputs, execution counts and editor metadata; cell ids and the notebook's language are kept."""
    language_code = {METADATA: notebook.metadata[METADATA]} if METADATA in notebook.metadata else {}
    stored = nbformat.v4.new_notebook(metadata=KERNEL | language_code, nbformat_minor=5)
    for cell in notebook.cells:
        metadata = {key: cell.metadata[key] for key in KEPT if key in cell.metadata}
        copy = getattr(nbformat.v4, f"new_{cell.cell_type}_cell")(cell.source.strip("\n"), metadata=metadata)
        copy.id = cell.get("id", copy.id)
        stored.cells.append(copy)
    return stored


def write(notebook: NotebookNode, path: Path) -> None:
    """Write the canonical form, completely or not at all."""
    replace_file(path, f"{nbformat.writes(canonical(notebook))}\n".encode())
