"""What keeps a gradient from its leaf without any write: named with the line and a change, and never on right programs."""

from __future__ import annotations

from textwrap import dedent

import pytest

from autograder.tape import record
from autograder.tape.recording.verdict_types import Verdict
from tests.tape.graph_fault_programs import HEAD, PROGRAMS, RIGHT, FaultyProgram

EACH = pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)


def verdict_of(source: str) -> Verdict:
    """Returns the verdict on a text."""
    return record(source, file="bug.py").verdict


@EACH
def test_the_line_is_named_with_a_change(program: FaultyProgram):
    """The marked line, its kind, and a note that names both; the outcome is what happens, and no write is blamed."""
    verdict = verdict_of(program.source)

    assert (program.outcome, ()) == (verdict.outcome, verdict.harms)
    assert [(program.kind, line) for line in program.lines] == [
        (fault.kind, fault.place.line) for fault in verdict.graph_faults if fault.place.line in program.lines
    ], verdict.graph_faults
    for line in program.lines:
        assert any(note.startswith(f"Line {line}: ") for note in verdict.notes)
    assert all(fault.change.endswith(".") for fault in verdict.graph_faults)


@EACH
def test_the_repaired_program_is_left_in_peace(program: FaultyProgram):
    """The same program with the change made: it runs, and nothing is said of it."""
    verdict = verdict_of(program.repaired)

    assert ("correct", (), ()) == (verdict.outcome, verdict.harms, verdict.graph_faults)


@pytest.mark.parametrize("name", RIGHT)
def test_nothing_is_said_of_what_is_meant(name: str):
    """Accumulation, logs, frozen parts, players with an optimizer each: they do what the faulty ones do, on purpose."""
    verdict = verdict_of(HEAD + dedent(RIGHT[name]).lstrip("\n"))

    assert ("correct", ()) == (verdict.outcome, verdict.graph_faults)


def test_an_optimizer_that_an_error_kept_from_its_step_is_none_that_is_missing():
    """The first optimizer also holds an unused layer, the second one's step was to come: of neither anything is said."""
    source = """
        critic, actor, unused = nn.Linear(2, 1), nn.Linear(2, 2), nn.Linear(2, 1)
        first = torch.optim.SGD([*critic.parameters(), *unused.parameters()], lr=0.1)
        second = torch.optim.SGD(actor.parameters(), lr=0.1)
        value = critic(actor(torch.ones(3, 2)))
        value.pow(2).mean().backward(retain_graph=True)
        first.step()
        (-value.mean()).backward()
        second.step()
        """
    verdict = verdict_of(HEAD + dedent(source).lstrip("\n"))

    assert ("raises-backward", ()) == (verdict.outcome, verdict.graph_faults)


def test_each_kind_is_shown():
    """Every kind of fault that is looked for has a program here."""
    from autograder.tape.diagnose.graph_faults.fault_registry import KINDS

    assert {kind.KIND for kind in KINDS} == {program.kind for program in PROGRAMS}
