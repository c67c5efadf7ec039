"""Whole training scripts are explained: what harms them, and a repair after which they train as their twins do."""

import pytest

from tests.corpus.script_answers import ask, judge
from tests.corpus.whole_scripts import scripts

SHORT = {"resnet_tiny", "style_pixels", "two_task_trunk", "word_vectors"}
"""Those that every run of the tests explains; all of them take minutes."""


@pytest.mark.parametrize(
    "script",
    [pytest.param(one, id=one.name, marks=() if one.name in SHORT else pytest.mark.slow) for one in scripts()],
)
def test_answer_is_true(script):
    """The outcome, a marked line and where it was saved; the first repair is the true one, and nothing false is called proven.

    Of a right script, no line is blamed.
    """
    answer = ask(script)
    judged = judge(script, answer.found)
    assert judged.outcome, answer.found["outcome"]
    assert not judged.alarm
    assert () == judged.false_proven
    assert answer.screen <= 25
    if script.twin:
        assert judged.line
        assert frozenset() == judged.innocent
        assert judged.saved is not False or script.stashes
        assert judged.first, answer.found["fixes"]
