import pytest

from autograder.grade.submission.cell_analysis import cell_names


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ("assert [f(n) for n in range(3)] == [0, 1, 4]", {"f"}),
        ("assert all(f(n) == g(n) for n in given)", {"f", "g", "given"}),
        ("rows = [[f(i) for i in range(k)] for k in {name for name in sizes}]", {"f", "sizes"}),
        ("def helper():\n    return [f(n) for n in given]", {"f", "given"}),
    ],
)
def test_names_in_a_comprehension_are_needed(text, needs):
    """A comprehension has its own scope, and runs with its statement."""
    assert needs == cell_names(text).needs
