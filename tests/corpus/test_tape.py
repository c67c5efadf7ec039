"""The tape agrees with the proven truth of every program of the corpus."""

import re
from dataclasses import astuple
from math import isfinite
from xml.etree import ElementTree

import pytest

from autograder.view.draw.timeline import draw_timeline
from autograder.view.playback import Playback
from autograder.view.scene.timeline import timeline_of, timeline_text
from autograder.view.text.first_screen import as_screen
from autograder.view.text.headline import is_compared
from autograder.view.text.sentences import Sentences
from tests.corpus.judgement import judged
from tests.corpus.once import recorded, run
from tests.corpus.programs import programs
from tests.stored import assert_stored
from tests.view.shown import everything_shown

CORPUS = programs()
EACH = pytest.mark.parametrize("program", CORPUS, ids=lambda program: program.name)


@pytest.fixture
def judgement(program):
    """The judgement of one program."""
    return judged(program)


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
    """Right code is called right, and no line is blamed that an independent witness finds innocent; nor is a fault of the graph told."""
    assert not judgement.alarm, recorded(program).verdict
    assert not judgement.innocent, (sorted(program.harm), recorded(program).verdict.harms)
    assert program.outcome != "correct" or recorded(program).verdict.graph_faults == ()


@EACH
def test_forecast(program, judgement):
    """What the tape forecasts just before backward is what happens."""
    assert judgement.forecast is not False, [step.forecast for step in recorded(program).steps if step.forecast]


@EACH
def test_the_badge_and_the_rows_agree_with_the_outcome(program):
    """At a backward call the badge is the outcome of this call, wrong rows are those of a wrong call, and none gives a false alarm.

    What a hook or a custom backward does is not forecast before the call; the timeline shows it below the call's line.
    """
    found = recorded(program)
    calls = {visit.step for visit in found.backward if visit.step is not None}
    badges = {call: found.steps[call].forecast.outcome for call in calls}
    raised = {visit.step for visit in found.backward if visit.status == "raised"}
    wrong = {visit.step for visit in found.backward if visit.true and visit.true != visit.got}
    assert {call for call, badge in badges.items() if badge == "raises-backward"} == raised
    assert all(badges[call] != "correct" for call in wrong)
    assert program.outcome != "correct" or not (wrong or raised)
    before = {call: found.steps[call - 1].forecast for call in calls if call}
    if len(calls) == 1 and (earlier := before.get(*calls)) is not None and earlier.outcome != badges[(*calls,)[0]]:
        rows = timeline_of(found).columns[0].rows
        assert earlier.outcome == "correct"
        assert max(row.step for row in rows if row.is_lit) >= min(calls)


@EACH
def test_recording_disturbs_nothing(program, judgement):
    """The recorded run ends in the same error or in equal gradients as a run that nobody watches."""
    assert judgement.undisturbed, recorded(program).verdict


@EACH
def test_the_first_screen(program):
    """At most 25 lines of 100 columns; every line that does harm is there as `line N`, and no gradient is called right unchecked."""
    found = recorded(program)
    lines = as_screen(found).splitlines()
    text = " ".join(lines)

    assert len(lines) <= 25, lines
    assert max(map(len, lines)) <= 100
    assert all(f"line {place.line}" in text for harm in found.verdict.harms for place in harm.mutated_at)
    assert is_compared(found.verdict) or "  right " not in text


@pytest.mark.parametrize("program", [p for p in CORPUS if p.harm and p.saves], ids=lambda p: p.name)
def test_the_timeline(program):
    """The timeline lights a line that is marked as the harm, rings one that is marked as saving, and quotes the program.

    Its text has these lines, and the versions of PyTorch's own message.
    """
    timeline = timeline_of(recorded(program))
    lines = program.source.splitlines()
    rows = timeline.columns[0].rows
    saving = {int(row.line) for row in rows for mark in row.marks if mark.kind == "saved"}
    assert timeline.title.startswith(program.outcome)
    assert all(row.code in lines[int(row.line) - 1] for row in rows if "\n" not in row.code)
    if program.outcome != "raises-forward" and not program.unseen:
        assert {int(row.line) for row in rows if row.is_lit} & program.harm
        assert saving & program.saves
    assert ElementTree.fromstring(draw_timeline(timeline))
    text = timeline_text(timeline)
    assert text.startswith(timeline.title)
    assert all(f"{line} " in text for line in saving)
    if versions := re.search(r"is at version (\d+); expected version (\d+)", run(program).message):
        assert f"expects version {versions[2]}, finds {versions[1]}" in text


@EACH
def test_captions_are_short_and_complete(program):
    """The two lines of a caption have at most four numbers, and caption and details have each sentence of the step's text."""
    playback = Playback(recorded(program))
    sentences = Sentences(playback)
    for frame, _ in playback.play():
        caption = sentences.caption(frame)
        words = f"{caption.fact} {caption.meaning} {caption.effect}".split()
        assert sum(is_number(word.strip("[](),.:;")) for word in words) <= 4, words
        assert set(sentences.describe(frame).split()) <= set(" ".join(astuple(caption)).split())


# torch.empty leaves other values each time, and torch.compile turns off the checks of torch.distributions (PyTorch 2.13).
@pytest.mark.parametrize(
    "program", [p for p in CORPUS if not re.search(r"empty\(|distributions", p.source)], ids=lambda p: p.name
)
def test_recording_and_pictures_are_the_stored_ones(program):
    """Screen, timeline, each part of the recording, each caption and each frame of the scene are those that were stored."""
    assert_stored("corpus.txt", program.name, everything_shown(recorded(program)))


def is_number(word: str) -> bool:
    """Returns whether Python reads a word as a finite number."""
    try:
        return isfinite(float(word))
    except ValueError:
        return False
