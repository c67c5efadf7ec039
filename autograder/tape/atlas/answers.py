"""Text output of `autograder atlas`."""

from __future__ import annotations

from autograder.errors import InputError
from autograder.tape.atlas.atlas_difference import difference_text
from autograder.tape.atlas.atlas_table import installed_version, load_atlas, nearest_version, table_text
from autograder.tape.atlas.atlas_text import operation_text, sentence, summary_text, version_line, what_is_kept
from autograder.tape.atlas.operation_names import find_operations, plain_name


def of_operation(word: str) -> str:
    """Return the tensors that the operations called `word` save, from the table closest to the installed PyTorch.

    Raises:
        InputError: if `word` is not the name of an operation.
    """
    atlas = load_atlas()
    return f"{operation_text(find_operations(atlas, word))}\n\n{version_line(atlas, installed_version())}"


def summary() -> str:
    """Return the number of operations by the kind of tensors they save, from the table closest to the installed PyTorch."""
    atlas = load_atlas()
    return f"{summary_text(atlas)}\n\n{version_line(atlas, installed_version())}"


def whole_table() -> str:
    """Return the table closest to the installed PyTorch as a JSON object."""
    return table_text(nearest_version(installed_version()))


def difference(older: str, newer: str) -> str:
    """Return the differences between two PyTorch releases in the tensors that operations save.

    Raises:
        InputError: if a release has no table.
    """
    return difference_text(load_atlas(older), load_atlas(newer))


def words_on_node(kind: str, *, advice: bool = True) -> str:
    """Return a sentence on the tensors that a node's operation saves, such as "exp keeps its output: …" for ExpBackward0.

    Several operations can create the same kind of node; the sentence is about the operation that gives the node its
    name. The result is "" if the operation is unknown.

    Args:
        kind: name of the node's class.
        advice: whether to include advice on in-place modifications.
    """
    named = plain_name(kind.partition("Backward")[0])
    try:
        operations = find_operations(load_atlas(), kind)
    except InputError:
        return ""
    words = sentence if advice else what_is_kept
    return next((words(one) for one in operations if named == plain_name(one.name) and one.keeps), "")
