"""What `autograder atlas` prints."""

from __future__ import annotations

from autograder.errors import InputError
from autograder.tape.atlas.atlas_difference import difference_text
from autograder.tape.atlas.atlas_table import installed_version, load_atlas, nearest_version, table_text
from autograder.tape.atlas.atlas_text import operation_text, sentence, summary_text, version_line, what_is_kept
from autograder.tape.atlas.operation_names import find_operations, plain_name


def of_operation(word: str) -> str:
    """Return the tensors that the operations named by a word save, from the table nearest to the installed PyTorch.

    Raises:
        InputError: the word does not name an operation.
    """
    atlas = load_atlas()
    return f"{operation_text(find_operations(atlas, word))}\n\n{version_line(atlas, installed_version())}"


def summary() -> str:
    """Returns how many operations keep what, by the table nearest to the PyTorch installed here."""
    atlas = load_atlas()
    return f"{summary_text(atlas)}\n\n{version_line(atlas, installed_version())}"


def whole_table() -> str:
    """Returns the table nearest to the PyTorch installed here as one JSON object."""
    return table_text(nearest_version(installed_version()))


def difference(older: str, newer: str) -> str:
    """Return the tensors that operations save in one release of PyTorch and not in another.

    Raises:
        InputError: one of them has no table.
    """
    return difference_text(load_atlas(older), load_atlas(newer))


def words_on_node(kind: str, *, advice: bool = True) -> str:
    """Return a sentence on the tensors that a node's operation saves, such as "exp keeps its output: …" for ExpBackward0; "" if unknown.

    Several operations are recorded as one kind; meant is the one that it is called after.

    Args:
        advice: say what to write instead, too.
    """
    named = plain_name(kind.partition("Backward")[0])
    try:
        operations = find_operations(load_atlas(), kind)
    except InputError:
        return ""
    words = sentence if advice else what_is_kept
    return next((words(one) for one in operations if named == plain_name(one.name) and one.keeps), "")
