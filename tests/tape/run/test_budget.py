"""The time budget applies to all runs; a long program is recorded at the important calls, and compared at all of them."""

import re
import sys
import time
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from msgspec import structs

from autograder.tape.diagnose.unknown_outcome import UnknownOutcomeError, refuse_uncompared
from autograder.tape.explain import explain_program, record_program
from autograder.tape.observe.observer import Observer
from autograder.tape.oracle import all_runs, excerpt
from autograder.tape.oracle.cloned_saves import ClonedSavesRun
from autograder.tape.oracle.excerpt import FEW, Scope
from autograder.tape.oracle.untracked_writes import effect_of_untracked_writes
from autograder.tape.repair import search
from autograder.tape.repair.trial.program_factory import factory_of_file, factory_of_text
from autograder.tape.run.budget import QUIET, Budget
from autograder.tape.run.engine import LastCall
from autograder.tape.run.finished_run import Run, time_was_up
from autograder.tape.run.programs import program as program_module
from autograder.tape.run.programs.program import from_source
from autograder.tape.run.programs.source_text import ProgramError
from autograder.tape.run.runner import Runner
from autograder.tape.run.time_limit import TimeUp
from autograder.view.text.first_screen import as_screen
from autograder.view.text.headline import headline
from tests.commands import autograder

TRAINING = """
import torch
w = torch.tensor([0.5, -0.5], requires_grad=True)
for step in range({steps}):
    h = (w * 2).exp()
    loss = h.sum()
    if step {harmed}:
        h.{write}
    w.grad = None
    loss.backward()
    with torch.no_grad():
        w -= 0.01 * w.grad
"""
HARM = 8
"""The line of TRAINING that writes."""


def training(steps: int = 12, harmed: str = "== 8", write: str = "data.mul_(2)") -> str:
    """Return a training loop that writes into a saved output in some steps."""
    return TRAINING.format(steps=steps, harmed=harmed, write=write)


@pytest.fixture
def every_loop_is_long(monkeypatch):
    """Only a part is recorded of however short a loop."""
    monkeypatch.setattr(excerpt, "LONG", 0)


def test_a_run_ends_before_the_call_that_need_not_be_run():
    """After this number of backward calls the program is ended, its `finally` blocks run, and that is not an error."""
    seen = []
    source = training().replace("for step", "try:\n  pass\nfinally:\n  pass\nfor step") + "seen.append(1)\n"
    run = Runner(from_source(source, names={"seen": seen}), calls=3).run()

    assert (3, True, None, []) == (len(run.calls), run.is_truncated, run.error, seen)
    assert not issubclass(LastCall, Exception)


def test_a_time_limit_does_not_interrupt_the_removal_of_the_modules_of_a_run(monkeypatch, tmp_path):
    """The limit raises again while the modules are removed; one that stayed would not fit those of the next run."""

    def slow(module):
        time.sleep(0.01)
        return place(module)

    place = program_module._place
    monkeypatch.setattr(program_module, "_place", slow)
    for number in range(30):
        (tmp_path / f"part_{number}.py").write_text("")
    imports = "".join(f"import part_{number}\n" for number in range(30))
    (tmp_path / "train.py").write_text(f"{imports}while True:\n    pass\n")
    runner = Runner(factory_of_file(str(tmp_path / "train.py")).original, 0.2)
    assert isinstance(runner.run_again().error, ProgramError)
    assert [] == [name for name in sys.modules if name.startswith("part_")]


def test_a_run_that_runs_out_of_time_keeps_its_complete_calls():
    """A loop without an end is compared as far as it came; without the permission it is refused as before."""
    endless = from_source(training().replace("range(12)", "iter(int, 1)"))

    run = Runner(endless, 0.3).run(partial=True)
    assert run.is_truncated
    assert run.calls
    with pytest.raises(ProgramError, match="still running"):
        Runner(endless, 0.3).run()


@pytest.mark.parametrize("write", ["data.mul_(2)", "mul_(2)"])
@pytest.mark.usefixtures("every_loop_is_long")
def test_a_long_loop_is_recorded_where_it_was_harmed(write):
    """The ninth of twelve calls is harmed: only it is recorded, and harms, lines and error equal those of the whole recording."""
    found = record_program(from_source(training(write=write)))
    whole = _whole(training(write=write))

    part = found.verdict.excerpt
    assert (9, 9) == (part.first, part.last)
    assert whole.verdict.outcome == found.verdict.outcome
    assert whole.verdict.error == found.verdict.error
    assert [[HARM]] == [[place.line for place in harm.mutated_at] for harm in found.verdict.harms]
    assert [h.mutated_at for h in whole.verdict.harms] == [h.mutated_at for h in found.verdict.harms]
    assert [h.saved_at for h in whole.verdict.harms] == [h.saved_at for h in found.verdict.harms]
    assert whole.verdict.gradients.keys() == found.verdict.gradients.keys()
    assert len(found.steps) < len(whole.steps) / 3


def _whole(source: str):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(excerpt, "LONG", 1 << 30)
        return record_program(from_source(source))


@pytest.mark.usefixtures("every_loop_is_long")
def test_a_graph_made_earlier_is_recorded_from_its_beginning():
    """The sixth call uses a graph that was made and changed before the fourth: the recording begins there, and names the line."""
    source = (
        "import torch\nw = torch.ones(2, requires_grad=True)\nfor step in range(9):\n"
        "    if step == 3:\n        kept = w.exp()\n        later = kept.sum()\n        kept.data.mul_(3)\n"
        "    loss = later if step == 5 else (w * w).sum()\n    loss.backward()\n"
    )
    verdict = record_program(from_source(source)).verdict

    assert "silently-wrong" == verdict.outcome
    assert (4, 6) == (verdict.excerpt.first, verdict.excerpt.last)
    assert [7] == [place.line for harm in verdict.harms for place in harm.mutated_at]


def test_the_first_step_of_a_parameter_without_a_gradient_is_recorded(monkeypatch):
    """The second of two loops cuts a layer off: the line is named, though the first one trains a layer of the same shape."""
    monkeypatch.setattr(excerpt, "LONG", 20)
    loop = (
        "net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))\nsgd = torch.optim.SGD(net.parameters(), 0.1)\n"
        "for _ in range(6):\n    sgd.zero_grad()\n    net[1](net[0](torch.ones(3, 2)){}).sum().backward()\n    sgd.step()\n"
    )
    verdict = record_program(from_source("import torch\n" + loop.format("") + loop.format(".detach()"))).verdict
    assert (7, 8) == (verdict.excerpt.first, verdict.excerpt.last)
    assert [("graph cut", 12)] == [(fault.kind, fault.place.line) for fault in verdict.graph_faults]


@pytest.mark.parametrize(("harmed", "compared"), [("> 7", FEW), ("> 50", 60)])
@pytest.mark.usefixtures("every_loop_is_long")
def test_a_harm_of_the_first_steps_ends_the_comparison(harmed, compared):
    """A run with copies ends a few calls after the first harmed one, and finds a later harm as well."""
    verdict = record_program(from_source(training(60, harmed))).verdict

    assert "silently-wrong" == verdict.outcome
    assert compared == verdict.excerpt.checked
    assert int(harmed[2:]) + 2 == verdict.excerpt.first


@pytest.mark.usefixtures("every_loop_is_long")
def test_a_right_loop_is_compared_to_its_end():
    """Its first two calls are recorded; the text and the data say that all calls were compared."""
    verdict = record_program(from_source(training(harmed="< 0"))).verdict

    part = verdict.excerpt
    assert ("correct", 12, 12, 1, 2) == (verdict.outcome, part.calls, part.checked, part.first, part.last)
    assert any("12 backward calls. All gradients were compared;" in note for note in verdict.notes)
    assert "no write broke backward" == headline(verdict)
    for checked, told in (
        (7, "no write broke backward in the first 7 calls; later ones were not compared"),
        (0, "no write broke backward; but the time was up before gradients were compared"),
    ):
        excerpt_of_part = structs.replace(verdict.excerpt, checked=checked)
        assert told == headline(structs.replace(verdict, excerpt=excerpt_of_part))


def test_a_recording_that_is_cut_names_its_calls(monkeypatch):
    """All gradients were compared, but only the first three calls were searched line by line."""
    observe = all_runs._observe
    monkeypatch.setattr(all_runs, "_observe", lambda runner, *rest: observe(replace(runner, calls=3), *rest))
    verdict = record_program(from_source(training(harmed="< 0"))).verdict
    assert (12, 1, 3) == (verdict.excerpt.calls, verdict.excerpt.first, verdict.excerpt.last)
    assert any("All gradients were compared; numbers 1 to 3 are recorded" in note for note in verdict.notes)


def test_a_run_that_is_cut_after_its_first_backward_says_so():
    """The headline, the data and the notes make no statement about later calls."""
    found = record_program(from_source(training(2, "== 1", "mul_(2)")), scope=Scope(calls=1))

    assert ("correct", 1, False) == (found.verdict.outcome, found.verdict.excerpt.calls, found.verdict.excerpt.ended)
    told = "no write broke backward in the first call; later ones were not compared"
    assert f"correct: {told}" == as_screen(found).splitlines()[0]
    assert any("before the program's end; backward calls until then: 1" in note for note in found.verdict.notes)


@pytest.mark.parametrize(("observed", "is_refused"), [(Run(is_truncated=True), True), (Run(), False)])
def test_no_outcome_is_named_where_nothing_was_compared(observed, is_refused):
    """The copies, or the observed run, ran out of time: "correct" would have no basis."""
    late = ProgramError("too late")
    late.__cause__ = TimeUp()
    runs = SimpleNamespace(cloned_saves=Run(error=late), observed=observed, plain=Run(calls=[None], is_truncated=True))
    evidence = SimpleNamespace(outcome="correct", runs=runs, file="train.py")
    expected = pytest.raises(UnknownOutcomeError, match="backward calls until then: 1") if is_refused else nullcontext()
    with expected:
        refuse_uncompared(evidence)


def test_a_message_that_is_due_does_not_wait():
    """The first answer is printed when it is due, also in a log with rare messages; the next one waits again."""
    told = []
    limit = Budget(tell=told.append, quiet=1000.0)
    limit.progress()
    assert told == []
    limit.due = time.monotonic()
    limit.progress()
    limit.progress()
    assert len(told) == 1


def test_no_outcome_is_named_if_the_reference_failed():
    """Without the gradients of the run with copies, "correct" would have no basis."""
    runs = SimpleNamespace(cloned_saves=Run(error=KeyError("name")), observed=Run(), plain=Run())
    evidence = SimpleNamespace(outcome="correct", runs=runs, file="train.py")
    with pytest.raises(UnknownOutcomeError, match="could not be compared, because .* raised KeyError"):
        refuse_uncompared(evidence)


def test_one_step_can_be_asked_for(tmp_path):
    """`--only-step 3` and `--last-step` record that backward call; a step that was not made is one sentence."""
    file = tmp_path / "train.py"
    file.write_text(training(harmed="< 0"))
    third = record_program(from_source(file.read_text()), scope=Scope(shown=2)).verdict.excerpt
    last = record_program(from_source(file.read_text()), scope=Scope(shown=-1)).verdict.excerpt

    assert ((3, 3), (12, 12)) == ((third.first, third.last), (last.first, last.last))
    none = autograder("explain", file, "--only-step", 13)
    assert (2, "") == (none.returncode, none.stdout)
    assert "There is no step 13 to record; backward calls of the program: 12." in none.stderr


@pytest.mark.usefixtures("every_loop_is_long")
def test_a_repair_is_tried_for_a_few_steps_only(monkeypatch):
    """In a loop of 200 steps that is harmed in the second, a changed program runs six; the first repair is that of a short loop."""
    lengths, attempt = [], search.run_trial

    def noted(runner, trial):
        done = attempt(runner, trial)
        lengths.append(len(done.calls))
        return done

    monkeypatch.setattr(search, "run_trial", noted)
    long = explain_program(factory_of_text(training(200, "== 1"))).verdict
    short = explain_program(factory_of_text(training(6, "== 1"))).verdict

    assert 6 == max(lengths)
    assert long.fixes
    assert long.fixes[0].proven
    assert short.fixes[0].after == long.fixes[0].after


def test_the_budget_holds_for_proofs_too():
    """Each run takes a quarter of a second, so a search with proofs takes half a minute; with a budget of three it ends in time."""
    source = "import time\ntime.sleep(0.25)\n" + training(1, "== 0", "mul_(2)")
    start, told = time.monotonic(), []
    verdict = explain_program(factory_of_text(source), budget=Budget(3.0), first=told.append).verdict
    assert time.monotonic() - start < 6
    assert "raises-backward" == verdict.outcome
    assert [HARM + 2] == [place.line for harm in verdict.harms for place in harm.mutated_at]
    assert [("raises-backward", ())] == [(one.verdict.outcome, one.verdict.fixes) for one in told]


def test_a_change_that_never_ends_is_ended(monkeypatch):
    """In one changed program the queue stays empty, so it waits forever; a later change is proven all the same."""
    monkeypatch.setattr(search, "RUNAWAY_SECONDS", 0.3)
    source = "import queue, threading, torch\nq, w = queue.Queue(), torch.ones(3, requires_grad=True)\ndef work():\n    h = q.get()\n"
    source += (
        "    h += 1\n    q.put(h)\nt = threading.Thread(target=work)\nt.start()\nh = w.exp()\nq.put(h)\nt.join()\n"
    )
    assert explain_program(factory_of_text(f"{source}q.get().sum().backward()\n"), budget=Budget(20.0)).verdict.fixes


def test_runs_are_counted():
    """A correct program runs three times, according to the data; each trial of a repair counts as well."""
    right, wrong = (explain_program(factory_of_text(training(1, harmed))).verdict.runs for harmed in ("< 0", "== 0"))
    assert 3 == right < 8 < wrong


def test_progress_is_told_now_and_then(monkeypatch):
    """At most once every few seconds, with the number of the run and how far it is."""
    clock, told = [0.0], []
    monkeypatch.setattr("autograder.tape.run.budget.time", SimpleNamespace(monotonic=lambda: clock[0]))
    budget = Budget(60, told.append, began=0.0, stage="running the program unchanged", runs=1)
    for second in range(8):
        clock[0] = float(second)
        budget.progress(10 * second)
    assert 3.0 == QUIET
    assert [
        "3 s: running the program unchanged (run 1, 30 backward calls)",
        "6 s: running the program unchanged (run 1, 60 backward calls)",
    ] == told


DEAF = """
import signal, sys, time
sys.runs_of_test = getattr(sys, "runs_of_test", 0) + 1
if sys.runs_of_test > {most}:  # what a long call inside PyTorch is: no signal ends it
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    time.sleep(600)
"""


def test_a_run_that_nothing_interrupts_is_ended_with_what_is_known(tmp_path):
    """The seventh run never ends: at the time promised there is the outcome with its line, and a note on the rest."""
    file = tmp_path / "train.py"
    file.write_text(training(1, "== 0"))
    start = time.monotonic()
    autograder("explain", file, "--no-repair")
    budget = round(9 + 4 * (time.monotonic() - start))  # six runs fit into it, however busy the machine is
    file.write_text(DEAF.format(most=6) + training(1, "== 0"))
    start = time.monotonic()
    done = autograder("explain", file, "--budget", budget)

    assert time.monotonic() - start < 3 * budget
    assert 1 == done.returncode
    assert all(text in done.stdout for text in ("h.data.mul_(2)", "silently-wrong", "The time limit was reached"))


def test_a_program_of_which_nothing_is_known_in_time_is_one_sentence(tmp_path):
    """Not even its first run ends; where loading took long, its share of the time was up earlier."""
    file = tmp_path / "train.py"
    file.write_text(DEAF.format(most=0) + training(1, "== 0"))
    done = autograder("explain", file, "--budget", 3)

    assert (2, "") == (done.returncode, done.stdout)
    assert re.search(r"still running after ([\d.]+ of the )?3 seconds", done.stderr)


@pytest.mark.parametrize("case", ["correct", "wrong", "not compared"])
def test_compared_gradients_are_an_answer_before_a_recording_that_may_take_too_long(monkeypatch, case):
    """One long call of PyTorch may exceed the rest of the time. Only compared, correct gradients are an answer without a line."""
    monkeypatch.setattr(all_runs, "SHORT", 1.0)  # as if the comparison had taken most of the time
    if case == "not compared":
        monkeypatch.setattr(all_runs, "_run_with_copies", lambda *_: (ClonedSavesRun(), Run(error=time_was_up())))
    seen, text = [], training(3, "== 2" if case == "wrong" else "== 3")
    explain_program(factory_of_text(text, "train.py"), repair=False, compared=seen.append)

    assert ["correct"] * (case == "correct") == [recording.verdict.outcome for recording in seen]
    assert all("before a backward call was recorded" in as_screen(recording) for recording in seen)


def test_the_time_told_is_the_time_that_was_given():
    """A run with the rest of a budget is reported with the whole budget, not the rest."""
    endless = from_source("while True: pass")

    with (
        Budget(seconds=30, began=time.monotonic() - 29.8).active(),
        pytest.raises(ProgramError, match="after 30 seconds"),
    ):
        Runner(endless).run()


LATE = """
import time, torch
time.sleep({start})
w = torch.tensor([0.5, -0.5], requires_grad=True)
for step in range(50):
    h = (w * 2).exp()
    {write}
    loss = h.sum()
    time.sleep({pause})
    w.grad = None
    loss.backward()
    with torch.no_grad():
        w -= 0.01 * w.grad
"""


@pytest.mark.slow
def test_a_program_that_begins_late_is_answered():
    """Half of the time is gone before the first backward call, which is then waited for: the answer has its outcome and the line."""
    with Budget(10).active():
        found = record_program(from_source(LATE.format(start=4.3, pause=0, write="h.mul_(2)")))

    assert "raises-backward" == found.verdict.outcome
    assert [7] == [place.line for harm in found.verdict.harms for place in harm.mutated_at]


@pytest.mark.slow
def test_a_loop_of_slow_steps_gets_a_repair():
    """Each step takes a twentieth of the time: no run goes further beyond the error than the time allows."""
    found = explain_program(factory_of_text(LATE.format(start=0, pause=1, write="h.mul_(2)")), budget=Budget(20))

    assert "h = h.mul(2)" in found.verdict.fixes[0].after
    assert found.verdict.fixes[0].proven


@pytest.mark.slow
def test_that_the_time_was_up_is_not_called_chance():
    """A gradient differs from that of private copies, and no further run ends: neither a write nor a missing seed is blamed."""
    with (
        Budget(5).active(),
        pytest.raises(UnknownOutcomeError, match="time limit was reached before explain could decide"),
    ):
        record_program(from_source(LATE.format(start=1.9, pause=0, write="h.data.mul_(2)")))


def test_that_the_time_was_up_says_nothing_of_finite_differences():
    """Differences that were not taken for want of time are not said to be of no use for this program."""
    program = from_source(LATE.format(start=0.1, pause=0, write="h.data.mul_(2)").replace("range(50)", "range(1)"))
    observer = Observer(program)
    Runner(program).run(observer)

    with Budget(0.01).active():
        note = effect_of_untracked_writes(Runner(program), observer).note

    assert note is not None
    assert note.startswith("The time limit was reached")


LATE_ERROR = """import time
import torch
w = torch.ones(3, requires_grad=True)
w.sum().backward()
if not hasattr(torch, "has_waited"):
    torch.has_waited = True
    time.sleep(60)
raise ValueError("no data")
"""


def test_an_error_that_only_a_later_run_reaches_is_not_one_of_the_comparison(monkeypatch):
    """The first run is stopped before line 8, later runs are faster; the gradients up to there are compared."""
    monkeypatch.setattr(torch, "has_waited", False, raising=False)
    del torch.has_waited
    verdict = explain_program(factory_of_text(LATE_ERROR), budget=Budget(15)).verdict
    assert ("correct", 1, 1) == (verdict.outcome, verdict.excerpt.calls, verdict.excerpt.checked)


def test_a_recording_without_time_lists_no_call(monkeypatch):
    """The notes agree: no backward call was recorded, and none is said to be."""
    monkeypatch.setattr(all_runs, "_observe", lambda runner, *_: (Observer(runner.program), Run(error=time_was_up())))
    source = LATE.format(start=0, pause=0, write="h.sum()").replace("range(50)", "range(3)")
    notes = " ".join(record_program(from_source(source), scope=Scope(shown=0)).verdict.notes)

    assert "before a backward call was recorded" in notes
    assert "no call is recorded line by line" in notes
    assert "call number 1 is recorded" not in notes
