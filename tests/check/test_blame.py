"""Answers to questions: a named line is compared with the cause in the recording, a predicted value with the run."""

import contextlib

import msgspec
import pytest
import torch

from autograder.check import culprit, predicted_value
from autograder.check.attempt_picture import describe
from autograder.check.expected import BrokenExercise
from autograder.check.learner import Missing, use_names
from autograder.check.message import Incorrect, NotAttempted
from autograder.tape import record


class Named:
    """A namespace in which a student has named one line; a name that was never defined raises KeyError."""

    def __init__(self, **values):
        self.values = values

    def value(self, name):
        """Return the student's value of that name."""
        return self.values[name]


def late_write():
    """A write that backward refuses."""
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    a = w.exp()
    b = a + 1  # nobody saves a here
    a.mul_(2)
    (a + b).sum().backward()
    return {"w": w.grad}


def unseen_write():
    """A write that no version shows."""
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    a = w.exp()
    a.data.mul_(2)
    a.sum().backward()
    return {"w": w.grad}


def no_write():
    """A program that is right."""
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    a = w.exp()
    a.sum().backward()
    return {"w": w.grad}


def two_writes():
    """Two writes into the same saved tensor."""
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    a = w.exp()
    a.mul_(2)
    a.add_(1)
    a.sum().backward()
    return {"w": w.grad}


def judged(program, **named):
    """Run the check on one program, with these names defined."""
    with use_names(Named(**named)):
        culprit("line")(program)


@pytest.mark.parametrize("line", ["a.mul_(2)", "    a.mul_(2)", "a.mul_(2)   # this one"])
def test_the_line_that_wrote_passes_however_it_is_spaced(line, capsys):
    """Spaces around it and a comment behind it do not count."""
    judged(late_write, line=line)
    assert "line: correct" in capsys.readouterr().out


@pytest.mark.parametrize("line", ["a.mul_(2)", "a.add_(1)"])
def test_each_line_that_wrote_passes(line):
    """If two lines modify a saved tensor, either is a right answer."""
    judged(two_writes, line=line)


@pytest.mark.parametrize(("line", "phrase"), [
    pytest.param("a = w.exp()", "made the node that saved", id="the line that saved"),
    pytest.param("b = a + 1", "not write into a tensor that backward still needed", id="a harmless line"),
    pytest.param(
        "(a + b).sum() .backward()  # it raised",
        "(a + b).sum().backward(), which did not write into a tensor that backward",
        id="the line that raised, shown as the program has it",
    ),
    pytest.param("a.mul_(3)", "not a line of the program", id="a line that is not there"),
    pytest.param("", "not a line of the program", id="an empty text"),
    pytest.param(4, "not a line of the program", id="a number"),
    pytest.param(None, "not a line of the program", id="nothing"),
])  # fmt: skip
def test_any_other_answer_is_told_why(line, phrase):
    """A wrong line is rejected with a description of its effect, and the message never contains the right line."""
    with pytest.raises(Incorrect) as refused:
        judged(late_write, line=line)
    told = " ".join(str(refused.value).split())
    assert phrase in told
    assert "a.mul_(2)" not in told
    assert max(map(len, str(refused.value).splitlines())) <= 76


@pytest.fixture
def shown(monkeypatch):
    """Return the recordings that the check shows, as they come."""
    recordings = []
    monkeypatch.setattr("autograder.check.prediction.show", recordings.append)
    return recordings


@pytest.mark.parametrize("line", ["...", ...])
def test_no_line_yet_shows_no_picture_and_is_not_attempted(line, shown):
    """The program runs only after a line was named."""
    with pytest.raises(NotAttempted):
        judged(late_write, line=line)
    assert [] == shown


@pytest.mark.parametrize(("line", "verdict"), [("a = w.exp()", "line: not this line"), ("a.mul_(2)", "line: correct")])
def test_the_verdict_stands_before_the_picture(line, verdict, monkeypatch, capsys):
    """As with every prediction: who has named a line reads first whether it is the one."""
    printed = []
    monkeypatch.setattr("autograder.check.prediction.show", lambda _: printed.append(capsys.readouterr().out))
    with contextlib.suppress(Incorrect):
        judged(late_write, line=line)
    assert [True] == [text.startswith(verdict) for text in printed]


@pytest.mark.parametrize("program", [late_write, unseen_write])
def test_the_picture_blames_nobody_until_the_answer_is_right(program, shown):
    """The effect of each step is always visible; the summary that names the line is shown with the right answer."""
    line = "a.mul_(2)" if program is late_write else "a.data.mul_(2)"
    with pytest.raises(Incorrect):
        judged(program, line="a = w.exp()")
    judged(program, line=line)
    wrong, right = shown
    assert () == wrong.verdict.harms
    assert {line} == {place.text for harm in right.verdict.harms for place in harm.mutated_at}
    assert wrong.steps == right.steps


def test_a_name_that_was_never_defined_is_missing():
    """A deleted or unrun answer cell is reported as such."""
    with pytest.raises(Missing):
        judged(late_write)


def test_a_program_that_harms_nothing_is_its_authors_mistake():
    """Since no answer could be right, the error names the exercise and does not blame the student."""
    with pytest.raises(BrokenExercise, match="does not write into a saved tensor"):
        judged(no_write, line="a = w.exp()")


def test_a_tensor_without_a_name_is_said_to_have_none():
    """The name in a Recording ("result of ExpBackward0") is not a name that a reader has seen."""

    def nameless():
        w = torch.tensor([1.0, 2.0], requires_grad=True)
        kept = [w.exp()]
        loss = kept[0].sum()
        for one in map(torch.Tensor.detach, kept):
            one.mul_(2)
        kept.clear()
        loss.backward()

    harm = record(nameless).verdict.harms[0]
    told = describe(msgspec.structs.replace(harm, tensor=f"result of {harm.saved_by}"))
    assert "writes into the memory of a tensor without a name, which ExpBackward0 keeps" in told


def judged_of_predicted_value(guess, value):
    """Return the message of the check for a prediction of a program's return value; None if it passes."""
    ran = []

    def program():
        ran.append(1)
        return value

    raised = None
    try:
        with use_names(Named(mine=guess)):
            predicted_value("mine")(program)
    except (Incorrect, NotAttempted) as refusal:
        raised = refusal
    assert bool(ran) != isinstance(raised, NotAttempted)
    return raised


@pytest.mark.parametrize(("guess", "value"), [
    (torch.tensor(2.0), 2.0),
    ([torch.tensor([2.0, 8.0]), None], [[2.0, 8.0], None]),
    (1, 1.0),
    (0.197, 0.1966),
    ([0.2, 0.1], (0.1996, 0.101)),
    ("Same ", "same"),
    ([[2, 8], None], [[2.0, 8.0], None]),
    (0, 1e-9),
])  # fmt: skip
def test_what_one_works_out_on_paper_is_right(guess, value):
    """Two digits are enough; lists and tuples are alike; words in any case, spaces around them aside."""
    assert judged_of_predicted_value(guess, value) is None


@pytest.mark.parametrize(("guess", "value"), [
    (4, 1.0),
    (True, 1.0),
    ("one", 1.0),
    ([1.0], 1.0),
    (1.0, [1.0]),
    ([1.0, 2.0], [1.0]),
    (None, 0.0),
    (0, None),
    ("", "same"),
])  # fmt: skip
def test_another_value_is_refused_beside_the_right_one(guess, value):
    """The message contains both values; a truth value is not a number, a list is not an item, and None is not zero."""
    assert Incorrect is type(wrong := judged_of_predicted_value(guess, value))
    assert "you predicted" in str(wrong)
    assert "the value of this program" in str(wrong)


@pytest.mark.parametrize(("guess", "place"), [
    (0.25, "brackets"), ([0.25], "brackets"), ([[0.25], 1.0], "brackets"), ([0.25, 7], "picture"),
])  # fmt: skip
def test_a_prediction_of_another_form_is_told_so(guess, place):
    """The reader of the picture would look in vain for a missing number."""
    text = str(judged_of_predicted_value(guess, [0.25, 0.25])).partition("look at")[2]
    assert place in text


@pytest.mark.parametrize("guess", [..., "...", [..., 1], [[1, ...], None]])
def test_a_gap_is_not_attempted(guess):
    """While one value is missing, the program is not run and no result is shown."""
    assert NotAttempted is type(judged_of_predicted_value(guess, [1.0, 2.0]))
