"""Whole training scripts are explained: the cause of the harm, and a repair after which they train like their correct versions."""

import pytest

from tests.corpus.script_answers import ask, judge
from tests.corpus.whole_scripts import scripts

SHORT = {"resnet_tiny", "style_pixels", "two_task_trunk", "word_vectors"}
"""Those that every run of the tests explains; all of them take minutes."""


@pytest.mark.parametrize(
    "script", [pytest.param(one, id=one.name, marks=() if one.name in SHORT else pytest.mark.slow) for one in scripts()]
)
def test_answer_is_true(script):
    """The outcome, a marked line and the line that saved; the first repair is the true one, and no wrong repair is called proven.

    In a correct script, no line is blamed.
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
        assert judged.saved is not False
        assert judged.first, answer.found["fixes"]
