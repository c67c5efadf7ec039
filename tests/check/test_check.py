"""The check itself: its calls, its comparison, and its messages."""

import re
import subprocess
import sys

import pytest
import torch
from torch import nn

from autograder.check import (
    Incorrect,
    NotAttempted,
    check,
    check_outcome,
    constant,
    events,
    exercise,
    indices,
    leaf,
    predicted,
    result,
    shown_message,
)
from autograder.check.comparison import format_values
from autograder.check.exercise import ROUNDS
from autograder.check.expected import Trials
from autograder.check.learner import Missing, use_names
from autograder.check.message import VALIDATING, WIDTH, Unfinished, Unsolved
from autograder.check.shown_message import message_card, show_first
from autograder.check.subject.call_report import Report, array
from autograder.check.subject.inputs import Generator, UndecisiveInputs
from autograder.check.subject.subjects import LocalSubject
from autograder.course.paths import ROOT
from autograder.grade.sandbox.warmup import WARM_UP_CELLS
from autograder.locale.languages import use_language


class Names:
    """Hands a check the names of a test."""

    def __init__(self, **names):
        self.names = names

    def subject(self, name):
        """Return the subject of that name, made from a function if it is one."""
        found = self.names[name]
        return found if hasattr(found, "call") else LocalSubject(found)

    def value(self, name):
        """Return the plain value of that name."""
        return self.names[name]


def given(d, w):
    """The program that the tests below hand out."""
    f = d * w
    d[:] = 1
    return f


def judged(answer) -> str:
    """Return the message of the check of `given` for an answer, "" if it passes; whitespace is folded."""
    with use_names(Names(task=answer)):
        try:
            check("task", like=given, d=result("n", 3), w=leaf(3))
        except Incorrect as no:
            return re.sub(r"\s+", " ", str(no))
    return ""


def right(d, w):
    """A right answer."""
    f = d.clone() * w
    d[:] = 1
    return f


def test_a_right_answer_passes_silently(capfd):
    """One line on stdout states the comparison; stderr is empty, and the return value is None."""
    with use_names(Names(task=right)):
        assert check("task", like=given, d=result("n", 3), w=leaf(3)) is None
    shown = capfd.readouterr()
    held = "the values; what it leaves in d; the gradients of d, w, in 3 rounds with new numbers"
    assert (f"task: correct ({held})\n", "") == (shown.out, shown.err)


def test_a_right_answer_passes_in_chinese(capfd):
    """The line contains no English word except names, and no half-width punctuation."""
    with use_names(Names(task=right)), use_language("zh-CN"):
        check("task", like=given, d=result("n", 3), w=leaf(3))
    said = capfd.readouterr().out.removeprefix("task: ")
    assert said.startswith("正确（")
    assert {"d", "w"} == set(re.findall(r"[A-Za-z]+", said))
    assert not re.search(r"[(),;]", said)


def zeros(d, w):
    """Return zeros of the right shape."""
    d[:] = 1
    return 0 * d * w


def nan(d, w):
    """Return nan, with which every comparison is false."""
    return right(d, w) * float("nan")


def half(d, w):
    """Compute in half precision, near enough for a loose tolerance."""
    return right(d, w).half().double()


def single(d, w):
    """Return another dtype."""
    return right(d, w).float()


def broadcast(d, w):
    """Return a shape that broadcasts to the right one."""
    return right(d, w)[:1]


def nothing(d, w):
    """Return None."""
    right(d, w)


def remembered(d, w):
    """Return the result of the first call."""
    if not hasattr(remembered, "value"):
        remembered.value = right(d, w)
    d[:] = 1
    return remembered.value


@pytest.mark.parametrize(("answer", "phrase"), [
    (zeros, "wrong return value"),
    (nan, "wrong return value"),
    (half, "wrong return value"),
    (single, "wrong return value"),
    (broadcast, "wrong return value"),
    (nothing, "value is None"),
    (remembered, "task:"),
])  # fmt: skip
def test_near_misses_are_refused(answer, phrase):
    """Values are held tightly: dtype, shape, every number, on fresh inputs each time."""
    assert phrase in judged(answer)


def test_what_differs_is_shown():
    """Where only the sixth number is wrong, the message shows that number and not the first four."""

    def program(x):
        return x.repeat(6)

    def answer(x):
        return x.repeat(6) + torch.tensor([0.0, 0, 0, 0, 0, 100])

    with use_names(Names(task=answer)), pytest.raises(Incorrect) as no:
        check("task", like=program, x=leaf(1, low=1.0, high=2.0))
    assert "saw value = [… 10" in re.sub(r"\s+", " ", str(no.value))


def test_each_round_asks_with_fresh_inputs():
    """Every call draws new numbers, and sizes that the exercise leaves open vary."""
    asked = []

    class Watched(LocalSubject):
        def call(self, request):
            asked.append(request)
            return super().call(request)

    for _ in range(12):
        with use_names(Names(task=Watched(right))):
            check("task", like=given, d=result("n", 3), w=leaf(3))
    values = {request.arguments["w"].values.data for request in asked}
    sizes = {request.arguments["d"].values.shape[0] for request in asked}
    # `given` writes into d, so each round is asked again with a backward that starts in d, too.
    assert 2 * 12 * ROUNDS == len(asked) == 2 * len(values)
    assert len(sizes) > 1


def test_only_the_subject_is_asked():
    """The verdict rests on the report alone: a subject in another process would do as well."""

    class Elsewhere:
        def call(self, request):
            return Report()

        def uses(self, function):
            return False

    with use_names(Names(task=Elsewhere())), pytest.raises(Incorrect, match="different structure"):
        check("task", like=given, d=result("n", 3), w=leaf(3))


def test_the_oracle_agrees_with_autograd():
    """On a program without a fault, the expected gradients are PyTorch's own."""

    class Net(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.linear = nn.Linear(width, 2)

        def forward(self, x, index):
            return torch.tanh(self.linear(x))[index]

    inputs = {"x": leaf("n", 3), "index": indices(4, below=2), "width": 3}
    expected = next(iter(Trials(Net, Net, inputs)))
    report = LocalSubject(Net).call(expected.call)
    assert {"x", "linear.weight", "linear.bias"} == expected.gradients.keys()
    for name, slope in expected.gradients.items():
        assert torch.allclose(slope, report.gradients[name].tensor(), rtol=1e-6, atol=1e-7)


def test_an_untouched_answer_is_recognised_by_its_code():
    """Comments, blank lines and a docstring do not make an attempt."""

    def untouched(d, w):
        # a comment of the learner's
        f = d * w

        d[:] = 1
        return f

    with use_names(Names(task=untouched)), pytest.raises(NotAttempted):
        check("task", like=given, d=result("n", 3), w=leaf(3))


def test_an_answer_that_still_raises_the_stubs_error_is_not_attempted():
    """A line above the `raise NotImplementedError` of a released cell does not make an attempt."""

    def begun(d, w):
        f = d * w
        raise NotImplementedError(f)

    with use_names(Names(task=begun)), pytest.raises(NotAttempted):
        check("task", like=given, d=result("n", 3), w=leaf(3))


def test_a_missing_answer_is_told_in_words():
    """A cell that was not run, was deleted or ended in an error is reported as such."""
    with use_names(Names()), pytest.raises(Missing, match="nothing to check"):
        check("task", like=given, d=result("n", 3), w=leaf(3))


@pytest.mark.parametrize(
    ("guess", "kind"), [("...", NotAttempted), (..., NotAttempted), ("perhaps", Incorrect), (3, Incorrect)]
)
def test_a_prediction_comes_before_the_run(guess, kind):
    """Without one of the four words, the program is not run and the result is not shown."""
    ran = []
    with use_names(Names(mine=guess)), pytest.raises(kind):

        @predicted("mine")
        def program():
            ran.append(1)

    assert [] == ran


@pytest.mark.parametrize("text", ["short", "word " * 60, "x" * 300])
def test_no_line_is_cut_by_nbgrader(text):
    """Messages have four labeled parts, and no line is longer than nbgrader shows."""
    lines = str(Unsolved.of(text, saw=text, expected=text, look_at=text)).splitlines()
    assert max(map(len, lines)) <= WIDTH
    labels = [line.split()[0] for line in lines if line.startswith("  ") and not line.startswith(" " * 4)]
    assert ["saw", "expected", "look"] == labels


def test_the_first_check_of_a_kernel_waits_for_nothing(tmp_path):
    """Slow modules are loaded with the lesson's imports, or not at all; oracle: the modules before and after."""
    silent = WARM_UP_CELLS[2].replace("a.mul_", "a.data.mul_")
    cells = f"""
import sys
from autograder.grade.sandbox.shell import make_shell
from autograder.graded import being_graded
shell = make_shell(1 << 20)
shell.takes_recordings = False  # as a kernel, which draws
shell.run("import torch; from autograder.check import check, observed")
before = set(sys.modules)
with being_graded():  # without the widget, which needs the message that a kernel answers
    errors = [shell.run(text).error for text in {[*WARM_UP_CELLS[:3], silent]!r}]
late = [name for name in sys.modules if name not in before and not name.startswith("autograder")]  # ours are short, and load in 30 ms
print(any(errors), len(late), "igraph" in before)
"""
    done = subprocess.run([sys.executable, "-c", cells], capture_output=True, text=True, cwd=ROOT, check=True)
    failed, late, drawn = done.stdout.split()
    assert (failed, drawn) == ("False", "True")
    assert int(late) < 20


@pytest.mark.parametrize(("imports", "expected"), [
    ("import autograder.check", "False False"),
    ("from autograder.check import slope", "True False"),
    ("from autograder.check import check", "True True"),
    ("from autograder.check import observed", "True True"),
])  # fmt: skip
def test_a_name_loads_what_it_needs(imports, expected):
    """Importing the package runs nothing; a formula loads PyTorch, and only functions that show pictures load the drawing code."""
    program = f"import sys; {imports}; print('torch' in sys.modules, 'autograder.view' in sys.modules)"
    assert f"{expected}\n" == subprocess.check_output([sys.executable, "-c", program], text=True, cwd=ROOT)


@pytest.mark.parametrize(("verdict", "lines"), [("short: no", 1), ("long: " + "word " * 30, 3)])
def test_below_a_picture_the_whole_verdict_stands_again(verdict, lines, capsys):
    """Once shown above the picture, a message has its verdict below it, whole and in one line, which the pane's edge breaks."""
    wrong = Incorrect.of(verdict, saw="a", expected="b", look_at="c")
    assert lines + 3 == len(wrong._render_traceback_())
    show_first(wrong)
    assert [verdict.strip()] == wrong._render_traceback_()
    assert str(wrong) in capsys.readouterr().out


def test_inputs_are_drawn_until_they_are_decisive():
    """Every round has the properties that a check cell requires; if no draw has them, the author gets an error."""
    generator, inputs = Generator(seed=1), {"x": constant(2), "n": indices(1, below=9)}
    for _ in range(20):
        found = generator.arguments(inputs, lambda x, n: n[0] == 4 and x[0] > 0)
        assert 4 == found["n"].values.tensor().item()
        assert found["x"].values.tensor()[0] > 0
    with pytest.raises(UndecisiveInputs, match="satisfies its `decisive`"):
        generator.arguments(inputs, lambda x, n: n[0] > 9)


def test_in_a_notebook_a_message_has_one_element_for_each_line_that_its_author_wrote():
    """The edge of the pane breaks lines, so a line wrapped at 76 columns is joined again; printed text of an answer is not markup."""
    verdict = "drain: " + ("something else happened " * 5).strip()
    told = str(Unsolved.of(verdict, saw="buffer holds <b>[[0, 1]]</b> " * 5, expected="x", look_at="line 4"))
    shown = message_card(told)
    elements = re.findall(r"<span[^>]*>([^<]*)</span>([^<]*)</div>", shown)
    buffer = ("buffer holds &lt;b&gt;[[0, 1]]&lt;/b&gt; " * 5).strip()
    rows = [("saw ", buffer), ("expected ", "x"), ("look at ", "line 4")]
    assert [(f"✗ {verdict}", ""), *rows] == elements


@pytest.mark.parametrize(("answer", "words"), [
    pytest.param(lambda x: 3 * x, r"saw       value = \[3, 6\] ", id="seen with integers"),
    pytest.param(lambda x: 2 * (x + x.detach().round() - x.detach()), r"\d\.\d\d", id="hidden by integers"),
])  # fmt: skip
def test_a_refused_answer_is_shown_with_small_integers(monkeypatch, answer, words):
    """In a notebook the same verdict has numbers that can be computed by hand, unless the answer is right for them."""
    monkeypatch.setattr(exercise, "is_learners_notebook", lambda: True)
    with use_names(Names(double=LocalSubject(answer))), pytest.raises(Incorrect) as wrong:
        check("double", like=lambda x: 2 * x, x=leaf("n"))
    assert re.search(words, str(wrong.value))


def test_small_integers_at_a_kink_are_not_used():
    """At 0 the finite difference of relu is 0.5, which is the gradient on neither side, so it is not shown as the right one."""

    def steep(x, w):
        return torch.relu((x * w).sum() + 5)

    inputs = {"x": leaf(2), "w": leaf(2)}  # 1, 2 and -1, -2: the sum is -5
    trials = Trials(steep, steep, inputs)
    assert trials.small() is None
    assert Trials(lambda x, w: x * w, steep, inputs).small() is not None


def test_two_values_of_a_message_differ_in_their_digits():
    """A difference in the fifth digit is shown; numbers that are equal, or far apart, keep four digits."""
    got, right = array(torch.tensor([1.0, 2.0])), array(torch.tensor([1.0, 2.00004]))
    assert (format_values(right, got), format_values(got, right)) == (
        "[… 2.00004] (float32, shape (2,))",
        "[… 2] (float32, shape (2,))",
    )
    assert format_values(array(torch.tensor(1 / 3)), array(torch.tensor(0.5))) == "[0.3333] (float32, shape ())"


def test_a_program_that_does_not_end_is_stopped():
    """A program without arguments is stopped too; the message names the time limit and the line, and no outcome."""

    def loop():
        while True:
            pass

    names = Names(loop=LocalSubject(loop, 2.0))
    with use_names(names), pytest.raises(Unfinished, match="stopped after 2 seconds") as stopped:
        check_outcome("loop", "silently-wrong", given=lambda: None)
    assert re.search(r"look at   line \d+: (while True:|pass)", str(stopped.value))


def test_a_notebook_shows_each_verdict_once(monkeypatch):
    """The card has all lines, and the error below it only refers to it; passed and refused answers have the same card."""
    cards = []
    monkeypatch.setattr(shown_message, "is_learners_notebook", lambda: True)
    monkeypatch.setattr(shown_message, "display", lambda bundle, raw: cards.append(bundle))

    def right(x):
        return x * 2

    def twice(x):
        return x * 3

    with use_names(Names(twice=twice)), pytest.raises(Incorrect, match="wrong return value") as wrong:
        check("twice", like=right, x=leaf(2))
    assert ["twice: see the message above"] == wrong.value._render_traceback_()
    monkeypatch.setenv(VALIDATING, "1")
    assert str(wrong.value).splitlines() == wrong.value._render_traceback_()[:5]
    events.show_passed("twice")
    refused, passed = (card["text/html"].partition("border-left")[0] for card in cards)
    assert refused == passed
    assert str(wrong.value) == cards[0]["text/plain"]
