"""A check is planned without an answer, and the plan is compared with any number of answers."""

import pytest
import torch

from autograder.check import check, check_outcome, constant, culprit, leaf, passed, predicted, predicted_value, result
from autograder.check.expected import ROUNDS
from autograder.check.learner import current_names, find, use_names
from autograder.check.message import Incorrect, Unsolved
from autograder.check.plan import Unplannable, planning
from autograder.check.subject.inputs import use_seed
from autograder.check.subject.subjects import LocalSubject
from tests.check.test_check import Names, given


def right(d, w):
    """A right answer."""
    f = d.clone() * w
    d[:] = 1
    return f


def harmful():
    """Write into the saved result of exp."""
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    a = w.exp()
    a.mul_(2)
    a.sum().backward()


def wrong_value(d, w):
    """Compute something else."""
    return right(d, w) + 1


def verdict(plan, names) -> str:
    """Return the message of the comparison, "" if it passes."""
    try:
        plan.compare(names)
    except Unsolved as refusal:
        return str(refusal)
    return ""


def cell(**changed):
    """Call every kind of check once; return the results of the decorators for their program."""
    check("task", like=given, at_most=lambda d, w: 2 * d.nbytes, d=result("n", 3), w=leaf(3))
    check_outcome("own", "raises-backward", given=right)
    named = [predicted("outcome")(harmful), culprit("line")(harmful), predicted_value("two")(lambda: 2)]
    passed("all")
    return named


def test_planning_compares_nothing_and_returns_as_for_a_right_answer(capsys):
    """Every check of a cell becomes a plan, in order, with the names that it will look up; nothing is printed."""
    with planning() as plans:
        named = cell()
    assert [harmful, harmful] == named[:2]
    assert "" == capsys.readouterr().out
    asked = [("task", "subject"), ("own", "program"), ("outcome", "value"), ("line", "value"), ("two", "value")]
    assert [*asked, ("all", None)] == [(plan.name, plan.asks) for plan in plans]


def test_comparing_prints_and_raises_as_the_check_does(capsys):
    """Each plan's line is the one that a notebook shows for the same answer."""
    names = Names(task=right, own=harmful, outcome="raises-backward", line="a.mul_(2)", two=2)
    with use_names(names):
        cell()
    immediate = capsys.readouterr().out
    with planning() as plans:
        cell()
    assert [""] * 6 == [verdict(plan, names) for plan in plans]
    assert immediate == capsys.readouterr().out
    assert immediate.endswith("all: correct\n")


def test_a_plan_is_compared_with_many_answers_and_again():
    """The verdict on an answer depends on no earlier one; the program of the cell runs once, in planning."""
    ran = []

    def program():
        ran.append(1)
        return 2

    with planning() as plans:
        check("task", like=given, d=result("n", 3), w=leaf(3))
        predicted_value("two")(program)
    known, answers = len(ran), [(right, 2), (wrong_value, 3), (given, ...)]
    first, *others = [
        [verdict(plan, Names(task=task, two=two)) for task, two in answers for plan in plans] for _ in range(3)
    ]
    assert [first, first] == others
    assert ["", ""] == first[:2]
    assert all(first[2:])
    assert known == len(ran) > 0


def test_the_calls_of_a_plan_are_those_that_comparing_makes():
    """A grader may make the calls in advance; only the measuring call for a right answer is not among them."""
    made = []

    class Watched(LocalSubject):
        def call(self, request):
            made.append(request)
            return super().call(request)

    with planning() as plans:
        check("task", like=given, at_most=lambda d, w: 2 * d.nbytes, d=result("n", 3), w=leaf(3))
    (plan,) = plans
    assert 2 * ROUNDS == len(plan.calls)  # `given` writes into d, so backward starts there, too
    plan.compare(Names(task=Watched(right)))
    *calls, measured = made
    assert list(plan.calls) == calls
    assert measured.measure
    made.clear()
    assert verdict(plan, Names(task=Watched(wrong_value)))
    assert [plan.calls[0]] == made


def test_every_call_of_a_check_is_its_own():
    """A second check of an exercise in one cell draws other inputs, and is compared with its own program."""

    def tripled(x):
        return 3 * x

    def doubled(x):
        return 2 * x

    with use_seed(1), planning() as plans:
        for like in (doubled, doubled, tripled):
            check("task", like=like, x=constant(4))
    drawn = {call.arguments["x"].values.data for plan in plans for call in plan.calls}
    assert 3 * ROUNDS == len(drawn)
    verdicts = [verdict(plan, Names(task=lambda x: x + x)) for plan in plans]
    assert ["", ""] == verdicts[:2]
    assert "wrong return value" in verdicts[2]
    with use_seed(1), planning() as again:
        check("task", like=doubled, x=constant(4))
    assert plans[0].calls == again[0].calls


def test_in_a_notebook_no_more_is_drawn_than_the_answer_needs():
    """An answer that is refused before the first call costs no trial."""
    ran = []

    def program(x):
        ran.append(1)
        return 2 * x

    with use_names(Names(task=program)), pytest.raises(Incorrect, match="the check's own function"):
        check("task", like=program, x=constant(4))
    assert [] == ran


@pytest.mark.parametrize("needs_an_answer", [
    lambda: check("task", like=given, d=result(3), w=leaf(find(current_names().value, "width"))),
    lambda: check("task", like=lambda x: students_function(x), x=leaf(3)),  # noqa: F821
    lambda: predicted("mine")(lambda: students_function()),  # noqa: F821
    lambda: predicted_value("mine")(lambda: students_value),  # noqa: F821
], ids=["an argument", "the right program", "a predicted program", "a predicted value"])  # fmt: skip
def test_a_check_that_needs_an_answer_cannot_be_planned(needs_an_answer):
    """A grader then runs the cell for each student."""
    with pytest.raises(Unplannable), planning():
        needs_an_answer()


def test_a_recording_may_come_later():
    """A grader without a recording compares again when it is available; only then does the message name a line."""

    class Later(LocalSubject):
        is_there = False

        def recording(self, request, knows_gradients=False):
            return super().recording(request, knows_gradients) if self.is_there else None

    def late(d, w):
        f = d * w
        d[:] = 1
        return 1 * f

    with planning() as plans:
        check("task", like=given, d=result(3), w=leaf(3))
    subject = Later(late)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("autograder.check.attempt_picture.draws_here", lambda: True)
        patch.setattr("autograder.check.attempt_picture.show", lambda *_, **__: None)
        before = verdict(plans[0], Names(task=subject))
        subject.is_there = True
        after = verdict(plans[0], Names(task=subject))
    assert before.splitlines()[0] == after.splitlines()[0]
    assert "d[:] = 1 writes" not in before
    assert "d[:] = 1 writes" in after
