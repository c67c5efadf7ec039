"""After a wrong answer, a notebook shows its recording: the student's own lines, with the harmful write marked."""

import re
from urllib.parse import unquote

import pytest

from autograder.check import events
from autograder.check.message import Incorrect
from autograder.check.subject.inputs import use_seed
from autograder.course.paths import SOLUTIONS, lessons
from autograder.view.notebook import drawn_mimebundle
from autograder.view.scene.composition import build_scene
from autograder.view.text.gradient_values import is_wrong
from autograder.view.text.report import as_text
from tests.lessons.solving import verdict
from tests.lessons.sources import exercises
from tests.stored import assert_stored, digest

WRONG = [
    pytest.param(path, exercise, answer, id=f"{exercise.id}: {answer.name}")
    for path in lessons(SOLUTIONS)
    for exercise in exercises(path)
    if re.search(r"^check(_outcome)?\(", exercise.check, re.MULTILINE)
    for answer in exercise.of_kind("wrong")
]
REFUSED = {
    "silent_without_data: uses .data, which is not allowed",
    "unnoticed_lookup: uses .data, which is not allowed",
    "unseen_row: uses .data, as in lesson 3",
}
"""Answers that are refused for a name in their text, before they run."""


@pytest.mark.parametrize(("path", "exercise", "answer"), [one.values for one in WRONG if one.id in REFUSED])
def test_an_answer_that_did_not_run_has_no_picture(path, exercise, answer, shown):
    """There is no recording to draw; the message names the name that is not allowed."""
    assert answer.phrase in " ".join(str(verdict(path, exercise, answer.source)).split())
    assert [] == shown


@pytest.mark.thorough
@pytest.mark.parametrize(("path", "exercise", "answer"), [one for one in WRONG if one.id not in REFUSED])
def test_each_wrong_answer_has_its_picture(path, exercise, answer, shown, capsys):
    """For a harmful write, the message names the student's own line, and the picture opens at it; the saved form is small.

    Message, report and picture are those that were stored.
    """
    with use_seed(0):
        raised = verdict(path, exercise, answer.source)
    assert Incorrect is type(raised)
    told = " ".join(str(raised).split())
    assert 1 == len(shown)
    (recording,) = shown
    picture = digest(capsys.readouterr().out, "" if "torch.empty" in answer.source else as_text(recording))
    assert_stored("wrong_answers.txt", f"{exercise.id}: {answer.name}", f"{raised}\n{picture}")
    if "read_counters" == exercise.id:  # it returns numbers: the program that they are about is shown
        assert "blind.zero_()" in recording.programs[0].source
        return
    assert set(recording.programs[0].source.splitlines()) >= set(answer.source.splitlines())
    assert 30_000 >= sum(len(form.encode()) for form in drawn_mimebundle(recording).values())
    named = [int(line) for line in re.findall(r"line (\d+): ", told.partition(" look at ")[2])]
    if "writes into the memory of" in told:
        harmful = {place.line for harm in recording.verdict.harms for place in harm.mutated_at}
        assert harmful.intersection(named)
    elif "backward() raises: a saved tensor was modified" in told:
        pytest.fail(f"no line is named: {told}")
    require_no_praise(recording, told)
    require_a_marked_line(recording, f"{exercise.id}: {answer.name}")
    if re.search(r"^check\(", exercise.check, re.MULTILINE):
        require_no_repair_of_gradients(exercise, told)
    if "received no gradient" in told or "nothing to start from" in told:
        assert re.search(r"look at line \d+: ", told), f"no line is named: {told}"
    if named and not re.search(r"copies more|different outcome", told):
        ran = [line for line in named if line in {step.place.line for step in recording.steps}]
        assert [scene_line(recording)] == ran[:1]


UNMARKED = {"two_steps: leaves the steps to an optimizer": "its name is refused while it runs"}
"""Wrong answers whose pictures mark no line at the opening step, and the reason for each."""

MARKED = {"hit", "unseen", "lost", "named", "failed"}


def require_a_marked_line(recording, case):
    """The picture opens at a line with a mark, and does not announce a backward that the run does not do."""
    scene = build_scene(recording)
    start, states = scene.frames[scene.start], {}
    for frame in scene.frames[: scene.start + 1]:
        states |= frame.changes
    marks = set(states.get(start.line, "").split()) & MARKED
    assert bool(marks) != (case in UNMARKED), (case, start.line, states.get(start.line))
    if "silently-wrong" == recording.verdict.outcome and start.forecast:
        assert "silently-wrong" == start.forecast[0]
    if "raises-backward" != recording.verdict.outcome:
        assert not any("backward will raise an error" in frame.effect + frame.others for frame in scene.frames)


def require_no_praise(recording, told):
    """The picture of a rejected answer never says "correct", and says "silently wrong" only of gradients of backward."""
    scene, forms = build_scene(recording), unquote("".join(drawn_mimebundle(recording).values()))
    end = " ".join((scene.frames[-1].fact, scene.frames[-1].meaning, scene.frames[-1].details))
    assert "Outcome: correct" not in end
    assert not re.search("^correct:|✓ *correct" + "|every node reads" * bool(recording.verdict.named), forms, re.M)
    if "correct" == recording.verdict.outcome:
        assert scene.is_refused
        reason = scene.title.removeprefix("not passed: ")
        assert told.partition(": ")[2].startswith(reason) or "the outcome is correct; the task asks for" in reason
        assert not scene.gradients
        assert re.search(r"right for what this program computes|In this program itself", end)
    if "wrong return value" in told and "silently-wrong" == recording.verdict.outcome:
        assert recording.verdict.harms


def require_no_repair_of_gradients(exercise, told):
    """If the author's answer runs backward and no leaf is drawn, a value may be a gradient, and the message says so."""
    if "wrong return value" not in told or "dtype and shape" in told:
        return
    returns_gradients = ".backward(" in exercise.of_kind("answer")[0].source and "leaf(" not in exercise.check
    if returns_gradients and "constant(" in exercise.check:
        assert re.search(r"this function runs backward itself|keeps for backward|look at line \d+: .*backward", told)
    else:
        assert "this function runs backward itself" not in told


def scene_line(recording) -> int:
    """Return the number of the line at which a picture opens."""
    scene = build_scene(recording)
    return int(scene.frames[scene.start].line.removeprefix("line0."))


def test_a_write_past_the_history_is_shown_where_it_happens(shown):
    """`.data` does not harm a saved tensor here; the picture opens at it, agrees with the check, and draws none of its nodes."""
    path, exercise, answer = next(
        one.values for one in WRONG if "update_first_row: hides the write from the autograd graph" == one.id
    )
    verdict(path, exercise, answer.source)
    (recording,) = shown
    lines = answer.source.splitlines()
    assert "u.data[0] = weights @ row" == lines[scene_line(recording) - 1].strip()
    scene = build_scene(recording)
    assert "silently-wrong" == scene.frames[scene.start].forecast[0]
    shown = {key for frame in scene.frames for key in frame.changes}
    drawn = set(re.findall(r"'k': '(node\d+)'", repr(scene.views[0].shapes)))
    assert drawn
    assert drawn <= shown


def test_a_program_with_another_outcome_counts_as_a_try(shown, monkeypatch):
    """If a student's program has the wrong outcome, the student comes closer to the model answer, as in other exercises."""
    tried = []
    monkeypatch.setitem(events._listeners, "failed", [lambda exercise, choice: tried.append(exercise)])
    path, exercise = next(one.values[:2] for one in WRONG if "silent_without_data" == one.values[1].id)
    answer = exercise.stub.replace("    loss.backward()", "    out.detach().zero_()\n    loss.backward()")
    assert "a different outcome" in str(verdict(path, exercise, answer))
    assert ([exercise.id], 1) == (tried, len(shown))


SILENT = """
def silent_without_data():
    a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    out = torch.sigmoid(a){early}
    loss = out.sum(){middle}
    loss.backward(){late}
    return {{"a": a.grad}}
"""
HARMLESS_WRITES = {
    "after backward": ({"late": "out.detach().numpy()[:] = 0"}, "line 7: out.detach()", "after backward has run"),
    "the same values": ({"middle": "out.detach().mul_(1)"}, "line 6: out.detach()", "keeps for backward"),
    "before any node": ({"early": "a.detach().numpy()[:] = 5"}, "line 5: a.detach()", "no saved value that backward reads"),
    "none": ({"early": "mean = out.mean()"}, "", "which tensor backward needs"),
}  # fmt: skip


@pytest.mark.parametrize(("lines", "line", "phrase"), HARMLESS_WRITES.values(), ids=HARMLESS_WRITES)
def test_a_write_that_changed_no_gradient_is_named(lines, line, phrase, shown):
    """If a program must be silently wrong, the message names the write of the answer that was harmless, without praise."""
    path, exercise = next(one.values[:2] for one in WRONG if "silent_without_data" == one.values[1].id)
    filled = {part: f"\n    {lines[part]}" if part in lines else "" for part in ("early", "middle", "late")}
    told = " ".join(str(verdict(path, exercise, SILENT.format(**filled))).split())
    assert line in told
    assert phrase in told
    require_no_praise(shown[0], told)


PLACES = {
    "read in the line that writes": (
        "fill_powers",
        "def fill_powers(table, d):\n    for k in range(1, len(table)):\n"
        "        table.data[k] = table[k - 1] * d\n    return table.sum(0)",
        3,
    ),
    "several lines that are not recorded": (
        "double_first_row",
        "def double_first_row(u):\n    with torch.no_grad():\n        u[0] *= 4\n        u[0] /= 2\n    return u.square()",
        3,
    ),
}


@pytest.mark.parametrize(("exercise", "answer", "line"), PLACES.values(), ids=PLACES)
def test_the_message_and_the_picture_name_the_same_write(exercise, answer, line, shown):
    """The first write that is missing in the history is named, and the picture opens at it."""
    path, known = next(one.values[:2] for one in WRONG if exercise == one.values[1].id)
    assert f"line {line}: " in str(verdict(path, known, answer))
    assert line == scene_line(shown[0])


def test_a_line_that_fails_is_not_said_to_run(shown):
    """If the failing line made a node first, or is the first line, the picture opens at it and shows the error."""
    path, known = next(one.values[:2] for one in WRONG if "drain" == one.values[1].id)
    verdict(path, known, "def drain(buffer, total):\n    total += buffer\n    return total")
    scene = build_scene(shown[0])
    assert "Line 2 stops: a leaf Variable" in scene.frames[scene.start].fact
    assert ("raises-forward", "raises") == scene.frames[scene.start].forecast  # and not what backward would do
    assert "Line 2 runs" not in scene.frames[scene.start].fact


MESSAGES = {
    "None in place of several values": ("product_then_zero", "def product_then_zero(u, w):\n    u @ w", "returns None"),
    "a tuple in place of one value": (
        "drain",
        "def drain(buffer, total):\n    return total + buffer, buffer.zero_()",
        "without a list, tuple or dict around it",
    ),
    "backward inside the function": (
        "clear_after_use",
        "def clear_after_use(d, w2):\n    f = d.clone() * w2\n    f.sum().backward()\n    d[:] = 1\n    return f",
        "the caller runs backward",
    ),
    "a parameter by another name": (
        "GatedBlock",
        "class GatedBlock(nn.Module):\n    def __init__(self, width):\n        super().__init__()\n"
        "        self.door, self.value = nn.Linear(width, width), nn.Linear(width, width)\n\n"
        "    def forward(self, x):\n        return self.door(x)",
        "gate.bias: a parameter that saved weights",
    ),
    "no forward": (
        "GatedBlock",
        "class GatedBlock(nn.Module):\n    def __init__(self, width):\n        super().__init__()\n"
        "        self.gate, self.value = nn.Linear(width, width), nn.Linear(width, width)\n\n"
        "    def front(self, x):\n        return self.gate(x)",
        "the module has no forward",
    ),
    "no module at all": (
        "GatedBlock",
        "class GatedBlock:\n    def __init__(self, width):\n        self.gate = nn.Linear(width, width)\n\n"
        "    def forward(self, x):\n        return self.gate(x)",
        "a class that is a module: class Name(nn.Module)",
    ),
    "an argument by another name": (
        "clear_after_use",
        "def clear_after_use(x, w2):\n    return x * w2",
        "its arguments differ from the original's",
    ),
}


@pytest.mark.parametrize(("exercise", "answer", "phrase"), MESSAGES.values(), ids=MESSAGES)
def test_the_message_says_what_to_change(exercise, answer, phrase):
    """Each of these mistakes has one cause, and the last line names it."""
    path, known = next(one.values[:2] for one in WRONG if exercise == one.values[1].id)
    assert phrase in " ".join(str(verdict(path, known, answer)).split())


def test_no_line_of_pytorch_is_shown_as_the_answers(shown):
    """A module without a forward is recorded by its own text, which does not contain PyTorch's lines."""
    path, known = next(one.values[:2] for one in WRONG if "GatedBlock" == one.values[1].id)
    _, answer, _ = MESSAGES["no forward"]
    assert "line " not in str(verdict(path, known, answer)).partition("look at")[2]
    assert answer.splitlines() == shown[0].programs[0].source.splitlines()


MANY = "".join(f"    t{number} = d * {number}.0\n" for number in range(300))
ODD = {
    "prints three megabytes": ("    print('x' * 3_000_000)\n    f = d * w2\n    d[:] = 1.0\n    return f", "a saved tensor was modified"),
    "raises in its own repr": (
        "    class Odd:\n        def __repr__(self):\n            raise ValueError\n\n    return Odd()",
        "neither a tensor nor a number",
    ),
    "raises what cannot be told": (
        "    class Odd(Exception):\n        def __str__(self):\n            raise ValueError\n\n    raise Odd",
        "your own code raises an error",
    ),
    "is 300 lines long": (f"{MANY}    f = d * w2\n    d[:] = 1.0\n    return f", "a saved tensor was modified"),
    "calls itself for ever": ("    return clear_after_use(d, w2)", "your own code raises an error"),
    "leaves the program": ("    raise SystemExit(3)", "your own code raises an error"),
}  # fmt: skip


@pytest.mark.parametrize(("body", "phrase"), ODD.values(), ids=ODD)
def test_an_odd_answer_gets_its_verdict_and_at_most_a_short_picture(body, phrase, shown, capsys):
    """For any answer, the check states the reason of the rejection, and the picture is small."""
    path, exercise = next(
        (path, one) for path in lessons(SOLUTIONS) for one in exercises(path) if one.id == "clear_after_use"
    )
    raised = verdict(path, exercise, f"def clear_after_use(d, w2):\n{body}\n")
    assert 50_000 > len(capsys.readouterr().out)  # Jupyter stops sending at a megabyte a second, the verdict too
    assert Incorrect is type(raised)
    assert phrase in str(raised)
    assert len(shown) <= 1
    assert all(30_000 >= sum(len(form.encode()) for form in drawn_mimebundle(one).values()) for one in shown)


CUTS = {
    "a detached factor": (
        "use_and_reset",
        "def use_and_reset(w, b, x):\n    y = x * w.detach().clone() + b\n    with torch.no_grad():\n"
        "        w.zero_()\n        b.zero_()\n    return y",
        2,
        ".detach() takes the values of w without their history",
    ),
    "numbers": (
        "clear_after_use",
        "def clear_after_use(d, w2):\n    numbers = d.tolist()\n    f = torch.tensor(numbers) * w2\n    d[:] = 1\n    return f",
        2,
        ".tolist() makes a plain number of d",
    ),
    "a result without recording": (
        "train_the_head",
        "def train_the_head(body, head, x):\n    features = torch.tanh(x * body)\n    with torch.no_grad():\n"
        "        return (features * head).square().sum()",
        4,
        "while recording is off (no_grad)",
    ),
    "a write under no_grad into memory without history": (
        "StateRecurrence",
        "class StateRecurrence(nn.Module):\n    def __init__(self, width):\n        super().__init__()\n"
        "        self.read = nn.Linear(width, width)\n        self.recur = nn.Linear(width, width)\n\n"
        "    def forward(self, x):\n        states = torch.zeros(len(x) + 1, x.shape[1])\n        for t in range(len(x)):\n"
        "            new = torch.tanh(self.read(x[t]) + self.recur(states[t].clone()))\n"
        "            with torch.no_grad():\n                states[t + 1] = new\n        return states[1:]",
        12,
        "computes with new while recording is off",
    ),
}


@pytest.mark.parametrize(("exercise", "answer", "line", "told"), CUTS.values(), ids=CUTS)
def test_a_line_that_cuts_the_path_is_named_and_lit(exercise, answer, line, told, shown):
    """The message names the line and its effect on the values; the picture opens there and says the same."""
    path, known = next(one.values[:2] for one in WRONG if exercise == one.values[1].id)
    message = " ".join(str(verdict(path, known, answer)).split())
    assert f"look at line {line}: " in message
    assert told in message
    scene = build_scene(shown[0])
    start = scene.frames[scene.start]
    assert line == scene_line(shown[0])
    assert told in start.effect + start.others
    marks = [frame.changes[start.line] for frame in scene.frames[: scene.start + 1] if start.line in frame.changes]
    assert "lost" in marks[-1].split()  # in a loop the line has its mark from the first round


def test_a_value_that_is_only_looked_at_is_not_blamed(shown):
    """A detached value for a report does not cut the path: the harmful write is named."""
    path, known = next(one.values[:2] for one in WRONG if "loss_and_count" == one.values[1].id)
    answer = (
        "def loss_and_count(a):\n    peak = a.detach().max()\n    out = torch.exp(a)\n    loss = (out * out).sum()\n"
        "    shown = out.data\n    shown /= peak.exp()\n    return loss, (shown > 0.5).sum()"
    )
    assert "look at line 6: " in " ".join(str(verdict(path, known, answer)).split())
    assert 6 == scene_line(shown[0])


class Quick:
    """A stub for the search with finite differences, which takes many runs; it fails when the search begins."""

    def __init__(self, *_):
        raise AssertionError("finite differences are taken although the check has the gradients")


def test_a_value_is_refused_without_a_search_for_slopes(shown, monkeypatch):
    """A write past the counter makes the value another one: the picture comes without the many runs of finite differences."""
    monkeypatch.setattr("autograder.tape.oracle.untracked_writes.FiniteDifferences", Quick)
    path, known, answer = next(one.values for one in WRONG if "MixtureWithReport: centres before the mixture" == one.id)
    assert "wrong return value" in str(verdict(path, known, answer.source))
    assert "silently-wrong" == shown[0].verdict.outcome


def test_a_picture_does_not_search_what_the_check_knows(shown, monkeypatch):
    """A write past the counter is found by one run with private copies; the right gradients are the check's own."""
    monkeypatch.setattr("autograder.tape.oracle.untracked_writes.FiniteDifferences", Quick)
    path, known, answer = next(one.values for one in WRONG if "attend: silences the counter" == one.id)
    told = str(verdict(path, known, answer.source))
    assert "look at   line 5: weights.data.masked_fill_" in told
    assert all(is_wrong(shown[0].verdict.gradients[name]) for name in ("q", "k"))
    assert 5 == scene_line(shown[0])


def test_a_decorated_answer_is_an_attempt():
    """`@torch.no_grad()` above the original program changes its behavior, so it is rejected for that and not called unchanged."""
    path, known = next(one.values[:2] for one in WRONG if "use_and_reset" == one.values[1].id)
    assert Incorrect is type(verdict(path, known, f"@torch.no_grad()\n{known.stub}"))
