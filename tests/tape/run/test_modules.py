"""Programs at the size of real training code: the right ones are left in peace, the wrong ones are caught at their line."""

import pytest

from autograder.tape import record
from tests.tape.modules import MODULES


@pytest.mark.parametrize("name", MODULES)
def test_outcome_and_harmful_line(name):
    """The outcome is that of PyTorch; a fault is attributed to the marked line, and a correct program has no blamed line."""
    outcome, lines, source = MODULES[name]

    verdict = record(source, file=f"{name}.py", function="run" if "def run" in source else None).verdict

    assert outcome == verdict.outcome, verdict
    if outcome == "correct":
        assert () == verdict.harms
    elif lines and outcome != "raises-forward":
        assert set(lines) & {place.line for place in verdict.harms[0].mutated_at}, verdict.harms
