"""The timeline as text: the rows of each storage that explains the outcome, and the storages that share a column."""

import pytest

from autograder.tape import record
from autograder.view.scene.timeline import timeline_of, timeline_text

HEAD = "import torch\nw = torch.ones(2, requires_grad=True)\n"
ONE_LINE = "a, b = w.exp(), w.exp()\nfor h in (a, b):\n    h.mul_(2)\n(a + b).sum().backward()\n"
TWO_LINES = "a, b = w.exp(), w.exp()\na.mul_(2)\nb.mul_(2)\n(a + b).sum().backward()\n"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param(ONE_LINE, [("b and a", [3, 5, 6])], id="the same lines"),
        pytest.param(TWO_LINES, [("b", [3, 5, 6]), ("a", [3, 4, 6])], id="other lines"),
    ],
)
def test_storages_with_the_same_lines_share_a_column(lines, expected):
    """A line makes and saves two results; one line, or two lines, modify them. A column names all its storages."""
    timeline = timeline_of(record(HEAD + lines, file="bug.py"))

    assert expected == [(column.name, [int(row.line) for row in column.rows]) for column in timeline.columns]
    assert ("2 storages" in timeline_text(timeline)) == (len(expected) == 1)
