"""The tape agrees with the proven truth of every program of the corpus."""

import pytest

from .judgement import judged, recorded
from .programs import programs

CORPUS = programs()
EACH = pytest.mark.parametrize("program", CORPUS, ids=lambda program: program.name)


@pytest.fixture
def judgement(program, figures):
    """The judgement of one program, which also goes into the table of figures."""
    figures[program] = judged(program)
    return figures[program]


@EACH
def test_outcome(program, judgement):
    """The tape says in one of the four words what plain PyTorch does."""
    assert program.outcome == recorded(program).verdict.outcome, recorded(program).verdict
    assert judgement.outcome


@pytest.mark.parametrize(
    "program", [p for p in CORPUS if p.harm or p.outcome == "raises-forward"], ids=lambda p: p.name
)
def test_harmful_line(program, judgement):
    """The line that wrote into what backward needs, or that PyTorch refused, is named."""
    assert judgement.line, (sorted(program.harm), recorded(program).verdict)


@pytest.mark.parametrize("program", [p for p in CORPUS if p.harm and p.saves], ids=lambda p: p.name)
def test_saving_line(program, judgement):
    """Beside a harmful line stands the line that had saved the tensor."""
    assert judgement.saved is not False, (sorted(program.saves), recorded(program).verdict.harms)


@EACH
def test_no_false_alarm(program, judgement):
    """Right code is called right, and no line is blamed that an independent witness finds innocent."""
    assert not judgement.alarm, recorded(program).verdict
    assert not judgement.innocent, (sorted(program.harm), recorded(program).verdict.harms)


@EACH
def test_forecast(program, judgement):
    """What the tape forecasts just before backward is what happens."""
    assert judgement.forecast is not False, [step.forecast for step in recorded(program).steps if step.forecast]


@EACH
def test_recording_disturbs_nothing(program, judgement):
    """The recorded run ends in the same error or in equal gradients as a run that nobody watches."""
    assert judgement.undisturbed, recorded(program).verdict
