import hashlib
import linecache
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from autograder.locale.messages import id_of
from autograder.tape import explain_program
from autograder.tape.explain import prove, record, record_program
from autograder.tape.recording.verdict_types import Check, Excerpt, Gradient, Harm, Place, Verdict
from autograder.tape.repair import candidates, code_reader, optimizer_changes, search, suggestions
from autograder.tape.repair.edits import EditableSource, apply_fix
from autograder.tape.repair.repairs import find_repairs
from autograder.tape.repair.trial.program_factory import factory_of_file, factory_of_text
from autograder.tape.run import budget
from autograder.view.scene.timeline import timeline_of
from tests.repair.plain import flat, plain, slopes
from tests.repair.programs import texts_of
from tests.tape.graph_fault_programs import PROGRAMS

HEAD = "import torch\nw = torch.tensor([1.0, 2.0], requires_grad=True)\n"
TEXTS = texts_of("search.txt")
BROKEN = HEAD + "h = w.exp()\nh += 1\nh.sum().backward()\n"


def repairs_of(source: str):
    """Return the repairs of a text that runs from top to bottom."""
    return find_repairs(factory_of_text(source, "text.py"), record(source, file="text.py").verdict, prove)


def test_correct_program_gets_no_fix():
    """What is right is left alone, in-place writes or not."""
    found = repairs_of(HEAD + "h = w * 3\nh += 1\nh.sum().backward()\n")
    assert ((), None, ()) == (found.fixes, found.reason, found.notes)


@pytest.mark.parametrize(
    ("body", "word"), [("(w @ torch.ones(3)).backward()\n", "line 3"), ("raise ValueError('no')\n", "ValueError")]
)
def test_no_repair_says_why(body, word):
    """If no change helps, there is no fix, and one sentence says so."""
    found = repairs_of(HEAD + body)
    assert () == found.fixes
    assert word in found.reason


def test_cheapest_and_least_change_comes_first():
    """A repair that keeps every value comes before one that changes the value of a name; the repairs differ in kind."""
    source = HEAD + "h = w * 1\ny = (h * h).sum()\nd = h.detach()\nd.zero_()\ny.backward()\n"
    found = repairs_of(source)
    changes = [bool(fix.changes) for fix in found.fixes]
    assert sorted(changes) == changes
    assert {True, False} == set(changes)
    assert len(found.fixes) <= 5
    assert len({(fix.kind, fix.line) for fix in found.fixes}) == len(found.fixes)


def test_a_program_that_exits_with_an_error_is_fixed():
    """`sys.exit(3)` at the end is the program's own; a change that reaches it is not rejected for it."""
    assert "h = h + 1" == repairs_of(BROKEN + "import sys\nsys.exit(3)\n").fixes[0].after


def test_two_faults_need_two_changes():
    """If a single change is not sufficient, two together are found, and the fix contains both."""
    source = HEAD + "h = w.exp()\nk = w.sigmoid()\nh += 1\nk *= 2\n(h.sum() + k.sum()).backward()\n"
    found = repairs_of(source)
    assert found.fixes
    text = apply_fix(source, found.fixes[0])
    assert 2 <= sum(one != other for one, other in zip(source.split("\n"), text.split("\n"), strict=False))
    assert pytest.approx(slopes(text, "w", 2), rel=1e-4) == flat(plain(text).gradients["w"])


def test_values_must_stay_if_nothing_is_differentiated():
    """Without a backward call, no loss shows that a copy made in each round loses the earlier rounds."""
    source = HEAD + "for place in range(2):\n    w[place] += 1\n    w[place] *= 3\nprint(w.sum().item())\n"
    found = repairs_of(source)
    assert found.fixes[0].proven
    assert [6.0, 9.0] == plain(apply_fix(source, found.fixes[0])).values["w"]


def test_file_and_tracebacks_stay_the_users(tmp_path, monkeypatch):
    """Repairing a file does not write into it, and a traceback still shows the user's own lines."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "bug.py"
    file.write_text(BROKEN)
    before = hashlib.sha256(file.read_bytes()).hexdigest(), file.stat().st_mtime_ns
    factory = factory_of_file("bug.py")
    found = find_repairs(factory, record_program(factory.original).verdict, prove)
    assert found.fixes
    assert before == (hashlib.sha256(file.read_bytes()).hexdigest(), file.stat().st_mtime_ns)
    assert [file.name] == [one.name for one in tmp_path.iterdir()]
    assert linecache.getline(str(file), 4) == "h += 1\n"


def test_one_function_of_a_file(tmp_path):
    """FILE::FUNCTION is repaired inside the function, and its return value is kept."""
    source = "import torch\ndef run():\n    w = torch.tensor([1.0], requires_grad=True)\n    h = w.exp()\n    h += 1\n"
    source += "    h.sum().backward()\n    return {'w': w.grad}\n"
    file = tmp_path / "bug.py"
    file.write_text(source)
    factory = factory_of_file(file, "run")
    found = find_repairs(factory, record_program(factory.original).verdict, prove)
    assert any("    h = h + 1\n" in apply_fix(source, fix) for fix in found.fixes)


def test_a_loss_of_an_imported_function_is_computed_again_and_its_batch_is_not(tmp_path, monkeypatch):
    """The operation that saved the weight is in another file. A step of the same optimizer is above backward."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "losses.py").write_text("def loss_of(net, x):\n    return net(x).tanh().pow(2).mean()\n")
    (tmp_path / "train.py").write_text(
        "import torch\nfrom losses import loss_of\nnet = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))\n"
        "sgd, batches = torch.optim.SGD(net.parameters(), lr=0.1), iter(torch.randn(9, 3, 2))\nfor step in range(4):\n"
        "    x = next(batches)\n    loss = loss_of(net, x)\n    if step % 2 == 0:\n        sgd.zero_grad()\n"
        "        net(x).mean().backward()\n        sgd.step()\n    sgd.zero_grad()\n    loss.backward()\n    sgd.step()\n"
    )
    first = explain_program(factory_of_file("train.py")).verdict.fixes[0]
    assert ("forward again after the write", "loss = loss_of(net, x)") == (
        first.kind,
        first.after.splitlines()[0].strip(),
    )


def test_a_shared_value_is_detached_in_the_file_that_computes_both_losses(tmp_path, monkeypatch):
    """The gradient that the actor's loss has for the critic is cleared before a step."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "losses.py").write_text(
        "def losses_of(value, log_prob, returns):\n    advantage = returns - value\n"
        "    actor = -(log_prob * advantage).mean()\n    return actor, advantage.pow(2).mean()\n"
    )
    (tmp_path / "train.py").write_text(
        "import torch\nfrom losses import losses_of\nactor, critic = torch.nn.Linear(3, 1), torch.nn.Linear(3, 1)\n"
        "adams = [torch.optim.Adam(net.parameters()) for net in (actor, critic)]\nfor step in range(3):\n"
        "    x, returns = torch.randn(4, 3), torch.randn(4, 1)\n"
        "    first, second = losses_of(critic(x), actor(x).sigmoid().log(), returns)\n    adams[0].zero_grad()\n"
        "    first.backward()\n    adams[0].step()\n    adams[1].zero_grad()\n    second.backward()\n    adams[1].step()\n"
    )
    first = explain_program(factory_of_file("train.py")).verdict.fixes[0]
    assert ("losses.py", "actor = -(log_prob * advantage.detach()).mean()") == (
        Path(first.file).name,
        first.after.strip(),
    )


def test_time_is_reserved_for_a_change_of_another_file(monkeypatch):
    """A search does not use the time in which a change of an imported file is proven, or a change for a fault is run."""
    monkeypatch.setattr(search, "current_budget", lambda: SimpleNamespace(left=20, is_spent=False))
    group: list[search.Search] = []
    group += [search.Search(factory_of_text(BROKEN), Verdict("correct"), prove, time=100, others=group) for _ in "ab"]
    assert not group[0].is_almost_late()
    group[1].changing.append(None)
    assert group[0].is_almost_late()
    faulty = Verdict("correct", graph_faults=(None,))
    assert search.Search(factory_of_text(BROKEN), faulty, prove, time=100).is_almost_late()


def test_text_that_needs_names():
    """A text is repaired together with the values from which it starts, which the runs do not change."""
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    factory = factory_of_text("h = w.exp()\nh += 1\nh.sum().backward()\n", "text.py", {"w": w})
    found = find_repairs(factory, record_program(factory.original).verdict, prove)
    assert any("h = h + 1" in fix.after for fix in found.fixes)
    assert w.grad is None
    assert {"w", "v"} == code_reader.unbound_names("h = w.exp()\ndef f(x): return h, v, len\ndef g(v): return f(v)\n")


def test_search_ends_in_time(monkeypatch):
    """However slow the program, no further change is tried after the time is up; every run advances the test's clock by a second."""
    clock = [0.0]
    monkeypatch.setattr(budget, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    tried, attempt = [], search.run_trial

    def slow(runner, trial):
        clock[0] += 1.0
        tried.append(runner)
        return attempt(runner, trial)

    monkeypatch.setattr(search, "run_trial", slow)
    verdict = record(BROKEN, file="slow.py").verdict
    with budget.Budget(100.0, began=clock[0]).active():
        find_repairs(factory_of_text(BROKEN, "slow.py"), verdict, prove)
    enough = len(tried)
    with budget.Budget(2.0, began=clock[0]).active():
        find_repairs(factory_of_text(BROKEN, "slow.py"), verdict, prove)
    assert len(tried) - enough <= 3 < enough


def test_lesson_snippet_stays_snappy():
    """The repairs of a snippet, all of them proven, take less than four seconds of the processor, however busy the machine is."""
    source = HEAD + "d = w * 2\nf = (d * w).sum()\nd[:] = 1\nf.backward()\n"
    verdict = record(source, file="text.py").verdict
    start = time.process_time()
    found = find_repairs(factory_of_text(source, "text.py"), verdict, prove)
    assert time.process_time() - start < 4.0
    assert found.fixes
    assert all(fix.proven for fix in found.fixes)


UNTRACKED = {
    "with torch.no_grad():\n    h.mul_(3)": "h.mul_(3)\n",
    "h.data.mul_(3)": "h.mul_(3)\n",
    "h.detach().numpy()[:] *= 3": "h[:] *= 3\n",
    "a = h.detach()\na.mul_(3)": "a = h\na.mul_(3)\n",
    "a = h.detach().numpy()\na *= 3": "a = h\na *= 3\n",
}


@pytest.mark.parametrize("write", UNTRACKED)
def test_untracked_write_is_tracked(write):
    """An untracked write before the save is made visible, if finite differences can decide that it is the fix."""
    source = HEAD + f"h = w * 1\n{write}\n(h * h).sum().backward()\n"
    factory, undecided = factory_of_text(source, "text.py"), Check("finite differences", "", "not known")
    assert not find_repairs(factory, by_differences(source), lambda *_: Verdict("correct", checks=(undecided,))).fixes
    found = find_repairs(factory, by_differences(source), lambda program, _: by_differences(program.source))
    texts = [apply_fix(source, fix) for fix in found.fixes]
    assert any(f"h = w * 1\n{UNTRACKED[write]}" in text for text in texts), texts
    assert all(pytest.approx([18.0, 36.0]) == flat(plain(text).gradients["w"]) for text in texts)


def test_an_unrecorded_write_is_recorded_before_changes_that_keep_it(monkeypatch):
    """Of a program whose list contains itself, only this change is proven: the copies of the saved value keep the write."""
    source = (
        "import torch\nnet = torch.nn.Linear(3, 70)\nkept = []\nkept.append(kept)\nfor step in range(3):\n"
        "    h = net(torch.ones(4, 3)).tanh()\n    h.data.clamp_(-0.1, 0.1)\n    h.pow(2).sum().backward()\n"
    )
    proofs = []

    def verdict_of(self, text, judge=search.Search.verdict_of):
        proofs.append(text)
        return judge(self, text)

    monkeypatch.setattr(search.Search, "verdict_of", verdict_of)
    first = explain_program(factory_of_text(source)).verdict.fixes[0]
    assert (True, True) == (first.proven, "h = h.clamp(-0.1, 0.1)" in first.after)
    assert "h = h.clamp(-0.1, 0.1)" in proofs[0]


def test_a_gradient_that_a_later_backward_adds_to_is_copied(monkeypatch):
    """A long loop keeps `.data` of a `.grad`, which a network saves. The recording has the next call, which shows the line."""
    monkeypatch.setattr("autograder.tape.oracle.excerpt.LONG", 10)
    source = (
        "import torch\nnet = torch.nn.Linear(1, 1)\nfor step in range(9):\n    p = w = torch.ones(3, requires_grad=True)\n"
        "    for _ in range(3):\n        p.pow(2).sum().backward(retain_graph=True)\n"
        "        seen = w.grad.view(3, 1).data.requires_grad_()\n        p = p + net(seen).view(3)\n"
    )
    verdict = explain_program(factory_of_text(source)).verdict
    assert 6 == verdict.harms[0].mutated_at[0].line
    assert verdict.fixes[0].proven
    assert "w.grad.view(3, 1).detach().clone().requires_grad_()" in verdict.fixes[0].after


def test_a_moved_block_does_not_clear_the_gradients_of_a_step():
    """Both losses have one optimizer. The block of the critic is moved below the step, and not above it."""
    source = (
        "import torch\nnet = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))\n"
        "sgd = torch.optim.SGD(net.parameters(), lr=0.1)\nfor step in range(4):\n    loss = net(torch.ones(3, 2)).mean()\n"
        "    if step % 2 == 0:\n        other = net(torch.rand(3, 2)).pow(2).mean()\n        sgd.zero_grad()\n"
        "        other.backward()\n        sgd.step()\n    sgd.zero_grad()\n    loss.backward()\n    sgd.step()\n"
    )
    texts = [apply_fix(source, fix) for fix in explain_program(factory_of_text(source)).verdict.fixes]
    assert any("loss.backward()\n    sgd.step()\n    if step" in text for text in texts), texts


def test_mark_dirty():
    """A custom Function that writes its input is repaired with mark_dirty, and the other uses of that input get the right gradient."""
    source = """import torch
class Triple(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(3)
        return x
    @staticmethod
    def backward(ctx, grad):
        return 3 * grad
w = torch.tensor([1.0, 2.0], requires_grad=True)
h = w * 1
y = Triple.apply(h)
(y.sum() + (h * h).sum()).backward()
"""
    expected = [3 + 18.0, 3 + 36.0]
    assert pytest.approx(expected) == slopes(source, "w", 2)
    assert pytest.approx(expected) != flat(plain(source).gradients["w"])
    found = find_repairs(
        factory_of_text(source, "text.py"), by_differences(source), lambda program, _: by_differences(program.source)
    )
    texts = [apply_fix(source, fix) for fix in found.fixes]
    assert [()] == [record(text).verdict.notes for text in texts if "ctx.mark_dirty(x)" in text], found
    assert all(pytest.approx(expected) == flat(plain(text).gradients["w"]) for text in texts)


def by_differences(source: str) -> Verdict:
    """Return a verdict in which the right gradient is that of finite differences."""
    try:
        got, true = plain(source).gradients["w"], slopes(source, "w", 2)
    except RuntimeError:
        return Verdict("raises-backward")
    right = pytest.approx(true, rel=1e-3) == flat(got)
    place = Place("text.py", 4, "")
    harm = Harm("h", (place,), None, place, "MulBackward0", None, None, True)
    return Verdict("correct" if right else "silently-wrong", None, () if right else (harm,), {"w": Gradient(got, true)})


class CountedRuns(budget.Budget):
    """A budget that ends after so many runs, however long they take."""

    most = 16

    @property
    def left(self) -> float:
        """Return a large number of seconds, until the runs are used up."""
        return 1000.0 * max(0, self.most - self.runs)


def test_time_is_kept_for_the_proof_of_what_works():
    """If a program has more changes than there is time for, the first one that works is proven before others are tried."""
    found = explain_program(factory_of_text(TEXTS["MANY_CHANGES"]), budget=CountedRuns())
    assert "f = f + a" == found.verdict.fixes[0].after.strip()
    assert found.verdict.fixes[0].proven


def test_of_a_slow_program_the_first_change_that_works_is_proven_at_once(monkeypatch):
    """If a run takes 3 of 60 seconds, a proof takes a third of them: no other change is tried first; runs advance the clock."""
    clock = [0.0]
    monkeypatch.setattr(budget, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    attempt, stages = search.run_trial, []

    def slow(runner, trial):
        clock[0] += 3.0
        stages.append("tried")
        return attempt(runner, trial)

    def proven(program, scope):
        clock[0] += 20.0
        stages.append("proven")
        return prove(program, scope)

    verdict = record(TEXTS["MANY_CHANGES"], file="slow.py").verdict
    monkeypatch.setattr(search, "run_trial", slow)
    with budget.Budget(60.0, began=clock[0]).active():
        found = find_repairs(factory_of_text(TEXTS["MANY_CHANGES"], "slow.py"), verdict, proven)
    assert "f = f + a" == found.fixes[0].after.strip()
    assert stages.index("proven") <= 5


@pytest.mark.parametrize(("source", "most"), [("MANY_CHANGES", 6), ("CARRIED", 5)])
def test_it_is_said_where_the_time_was_too_short(source, most):
    """If the runs use up the time before anything is proven, the stated reason is the time, whatever the error."""
    little = CountedRuns()
    little.most = most
    notes = explain_program(factory_of_text(TEXTS[source]), budget=little).verdict.notes
    assert any("The time limit was reached before a fix was verified" in note for note in notes)


def test_it_is_said_where_the_rest_of_the_time_is_reserved(monkeypatch):
    """Changes that were left, because the rest is for the change of a graph fault, are no reason: the time is."""
    monkeypatch.setattr(search, "RESERVE", 2.0)
    text = next(program.source for program in PROGRAMS if program.name == "two_losses_of_one_graph")
    verdict = record(text, file="bug.py").verdict
    with budget.Budget(60.0).active():
        found = find_repairs(factory_of_text(text, "bug.py"), verdict, prove)
    assert ((), "fix.time_limit") == (found.fixes, id_of(found.reason))


def test_a_time_that_is_measured_is_no_change():
    """A name with another number in each run does not count against a repair."""
    (first, *_) = repairs_of("import time\n" + BROKEN + "ended = time.perf_counter()\n").fixes
    assert ("", "same losses and gradients") == (first.changes, first.effect)


def test_a_kind_that_fails_does_not_cost_the_others(monkeypatch):
    """Its failure shows as a note, and the repair that another kind proposes is offered."""

    def broken(_program):
        raise IndexError("of its own")
        yield

    monkeypatch.setattr(candidates, "KINDS", (broken, *candidates.KINDS))
    found = repairs_of(BROKEN.replace("h += 1", "h.add_(1)"))
    assert "h = h.add(1)" in [fix.after for fix in found.fixes]
    assert [note for note in found.notes if "of its own" in note and "Please report" in note]


def test_the_reason_says_nothing_about_members_of_an_empty_list(monkeypatch):
    """Without a known change that applies, none was tried."""
    monkeypatch.setattr(candidates, "KINDS", ())
    assert "No fix was found: no known change applies." == repairs_of(BROKEN).reason


def test_a_method_that_writes_into_itself_is_no_obstacle():
    """`self` is not an argument of the call: other writes of the program are repaired, and every kind works."""
    found = repairs_of(TEXTS["METHOD_WRITES_SELF"])
    assert "h = h.add(1)" in [fix.after for fix in found.fixes]
    assert not [note for note in found.notes if "report" in note]


def test_what_two_losses_share_is_detached_however_far_from_backward():
    """The shared tensor is in a statement that leads to the second loss through another one; the loop's own names are not state."""
    found = repairs_of(TEXTS["SHARED_BY_TWO_LOSSES"])
    assert "fake = critic(code.detach() * 2).square().mean()" in [fix.after for fix in found.fixes]
    assert found.fixes[0].proven


FIRST = """    oq.zero_grad()
    q_loss.backward()
    oq.step()
"""


def test_a_step_may_move_beyond_the_call_at_which_the_runs_end():
    """The runs end in the third round, before the moved step. A move without `inputs`, after which Q also learns from the
    policy's loss, differs only in the second step of Adam, and is not offered."""
    fixes = repairs_of(TEXTS["SAC"]).fixes
    assert ["op.param_groups" in one.diff for one in fixes if one.proven] == [True]


def test_no_update_moves_beyond_an_average_of_its_parameters():
    """If Q is trained after the target network has averaged it, the target ends with other values; no backward reaches it."""
    assert not any(one.proven for one in repairs_of(TEXTS["DELAYED_POLICY"]).fixes)


def test_a_write_may_move_beyond_the_call_at_which_the_runs_end():
    """The runs of this long loop end before a backward call, when the program has clamped the weight, and the fix has not."""
    (fix,) = repairs_of(TEXTS["CLAMPED"]).fixes
    assert (True, "move the write after backward", "") == (fix.proven, fix.kind, fix.changes)


def test_two_states_are_detached_together_before_a_pair_of_kinds():
    """Each state alone leaves the error. A clone of the other one removes it, but then backward starts from other losses."""
    first = repairs_of(TEXTS["TWO_STATES"]).fixes[0]
    assert ("detach the carried state", True) == (first.kind, "a, b into earlier iterations" in first.changes)


def test_no_change_detaches_what_only_the_second_loss_trains():
    """`q_new.detach()` would take the gradient of the policy, which no earlier loss trains; Q is computed again instead."""
    fixes = repairs_of(TEXTS["SAC"].replace(FIRST, "    fit(oq, q_loss)\n")).fixes
    assert "q_new = q(torch.cat([s, new], 1)) ** 2" in fixes[0].after
    assert not any("q_new.detach())." in one.diff for one in fixes)


def test_a_loop_elsewhere_may_bind_the_same_name():
    """`x = x + y` at the end of a loop is an update, although another loop of the file has an otherwise unused variable x."""
    found = repairs_of(TEXTS["NAMED_AS_A_LOOP_VARIABLE"])
    assert "x = x + y" in [fix.after for fix in found.fixes]


def test_what_is_computed_again_in_backward_is_no_change():
    """A checkpointed block runs again in backward, the last one first; the resulting values of its names do not count as a change."""
    found = repairs_of(TEXTS["CHECKPOINTED"])
    assert "h = h + y" in [fix.after for fix in found.fixes]
    assert {fix.changes for fix in found.fixes} == {""}


def test_a_carried_state_is_detached_before_the_time_is_up():
    """If a graph is used again, changes for several backward calls are tried first, and time is kept for their proof."""
    little = CountedRuns()
    little.most = 26

    (first, *_) = explain_program(factory_of_text(TEXTS["CARRIED"]), budget=little).verdict.fixes
    assert "h = h.detach()" == first.after.strip()
    assert first.proven
    assert "into earlier iterations" in first.changes
    exec(apply_fix(TEXTS["CARRIED"], first), {})


def test_no_fix_clears_the_gradients_between_backward_and_step():
    """`zero_grad()` on the line of a suspect is not moved after `backward()`; the state of the LSTM is detached."""
    (first, *_) = explain_program(factory_of_text(TEXTS["STATEFUL"])).verdict.fixes
    assert "self.hidden = tuple(part.detach() for part in self.hidden)" in first.after


def test_a_state_that_a_loop_is_given_is_detached():
    """The state of an earlier forward is trained on twice with a step between: its history is cut, with a note. Run plainly."""
    first = repairs_of(TEXTS["GIVEN"]).fixes[0]
    exec(apply_fix(TEXTS["GIVEN"], first), {})
    assert "first = tuple(part.detach() for part in first)" in first.after
    assert (False, True) == (first.proven, "No gradient flows through first" in first.changes)


def test_what_vmap_maps_over_has_no_values_to_compare():
    """A captured tensor is written after `vmap`: the repair is found, and trains as one by hand."""
    source = (
        "import torch\nw = torch.tensor([1.0, 2.0], requires_grad=True)\nscale = torch.tensor([1.0, 1.0])\n"
        "def f(x):\n    scaled = x * w * scale\n    return scaled.sum()\n"
        "out = torch.vmap(f)(torch.ones(3, 2))\nscale.mul_(2)\nout.sum().backward()\n"
    )
    first = repairs_of(source).fixes[0]
    space: dict = {}
    exec(apply_fix(source, first), space)
    assert first.proven
    assert [3.0, 3.0] == space["w"].grad.tolist()


def test_a_leaf_that_a_loop_of_one_line_writes_is_written_under_no_grad_after_backward():
    """A copy of the loop's variable, which no line reads, would not write the parameters."""
    first = explain_program(factory_of_text(TEXTS["CLIPPED"])).verdict.fixes[0]
    after = "loss.backward()\n    with torch.no_grad():\n        for p in net.parameters(): p.clamp_(-0.1, 0.1)\n    optimizer"
    assert first.proven
    assert after in apply_fix(TEXTS["CLIPPED"], first)


@pytest.mark.parametrize(("name", "new"), [
    ("a root behind where", "+torch.where(w > 0, w.clamp(min=1e-12).sqrt(), 0 * w)"),
    ("eval_before_the_second_round", "+        head.train()\n+        net.train()\n         optimizer.zero_grad()"),
    ("gradients clipped after the step, on a condition", "+    if limit:\n+        nn.utils.clip_grad_norm_(net.parameters(), limit)\n"),
    ("an optimizer without a step that a scheduler and a function are given", "+    second.step()\n     first.zero_grad()"),
    ("both_steps_after_both_losses", "backward(inputs=[p for group in second.param_groups for p in group[\"params\"]])"),
    ("gradients that an inner loop over networks does not clear", "+    optimizer.zero_grad()\n     for net in nets:"),
    ("step_before_its_backward", "     loss.backward()\n+    optimizer.step()"),
    ("a softmax before a cross-entropy", "+    scores = net(torch.ones(4, 2))  # fault\n"),
    ("an optimizer that is given the parameters of the other one", "+            params=filter(lambda p: p.requires_grad, self.encoder.p"),
    ("an optimizer without a step in a class that is given its type", "loss.backward()\n+            self.optimizer.step()"),
    ("weights of examples that an inner step without a graph does not train", "list(net.parameters()), create_graph=True)"),
    ("a step of an optimizer with the gradients of a scaled loss", "+    scaler.update()"),
    ("a critic that stays frozen, next to a copy of it that is never trained", "+        p.requires_grad = True"),
    ("a target of Q-learning with a graph", "(r + 0.9 * q(after).max(1)[0]).detach()"),
    ("codes of each batch in a new leaf", "z.copy_(codes[rows].clone().requires_grad_())"),
    ("an encoder that its decoder's step leaves frozen", "+        p.requires_grad = True"),
    ("an input that each iteration of an attack computes", "(x + 0.1 * x.grad.sign()).detach().requires_grad_()"),
    ("a comparison in place of an assignment", "p.requires_grad = False"),
    ("scaler_with_another_name", "+        sc.step(opt); opt.zero_grad(); sc.update()"),
])  # fmt: skip
def test_a_change_for_a_fault_of_the_graph_is_run(name, new):
    """The root is taken of a small number above 0; both modules are switched, and no argument of their function is.

    A call moves with the `if` around it. An optimizer steps after its own backward, not after that of another one. The
    generator's loss is restricted to the generator, whose step is the later one.
    """
    factory = factory_of_text(next(one.source for one in PROGRAMS if one.name == name), "bug.py")
    recording = explain_program(factory)
    fault = recording.verdict.graph_faults[0]
    assert (True, True) == (fault.was_run, new in fault.diff), fault.diff
    code = fault.diff.replace("  # fault", "")
    added = next(line[1:].strip() for line in code.splitlines() if line[:1] == "+" != line[1:2])
    assert any(text.startswith(f"New code: {added[:60]}") for text in timeline_of(recording).rest)


def test_features_of_several_tasks_are_not_detached_after_the_first_one():
    """Else the encoder would learn from the first task only; the features are random, so that they are not computed again."""
    text = (
        "import torch\nenc, heads = torch.nn.Linear(2, 2), [torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)]\n"
        "optimizer = torch.optim.SGD(torch.nn.ModuleList([enc, *heads]).parameters(), lr=0.1)\n"
        "seen = enc(torch.rand(3, 2)).exp()\nfor head in heads:\n    head(seen).pow(2).mean().backward()\noptimizer.step()\n"
    )
    (fault,) = explain_program(factory_of_text(text, "bug.py")).verdict.graph_faults
    assert (True, True) == (fault.was_run, "+    head(seen).pow(2).mean().backward(retain_graph=True)" in fault.diff)


def test_a_value_from_before_the_loop_is_computed_in_it():
    """The encoder learns if each round computes the features, and only in the first round if they are detached after it."""
    text = (
        "import torch\nenc, out = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)\nseen = enc(torch.ones(3, 2)).exp()\n"
        "for _ in range(3):\n    out(seen).pow(2).mean().backward()\n"
    )
    (fault,) = explain_program(factory_of_text(text, "bug.py")).verdict.graph_faults
    assert (True, True) == (fault.was_run, "+    seen = enc" in fault.diff)


@pytest.mark.parametrize(
    ("made", "new"),
    [("torch.tensor(values", "torch.stack(values)"), ("torch.tensor(np.mean(values)", "torch.stack(values).mean()")],
)
def test_a_list_of_numbers_becomes_a_list_of_tensors(made, new):
    """The list keeps the losses, and the loss is computed from them, so that backward reaches the network."""
    text = (
        "import torch, numpy as np\nnet = torch.nn.Linear(2, 1)\nvalues = []\n"
        "sgd = torch.optim.SGD(net.parameters(), lr=0.1)\nfor x in torch.ones(3, 2):\n"
        f"    values.append(net(x).exp().item())\n{made}, requires_grad=True).sum().backward()\nsgd.step()\n"
    )
    (fault,) = explain_program(factory_of_text(text, "bug.py")).verdict.graph_faults
    assert (True, True) == (fault.was_run, f"+{new}.sum()" in fault.diff)
    assert "+    values.append(net(x).exp())" in fault.diff


def test_a_change_is_run_in_a_program_that_fails_at_another_line():
    """The error of the last line has nothing to do with autograd and stays, so the change is proven without it."""
    text = (
        "import torch\nw = torch.ones(2, requires_grad=True)\nh = w * 2\nh.sum().backward()\nprint(h.grad)\n"
        "[].append(missing)\n"
    )
    (fault,) = explain_program(factory_of_text(text)).verdict.graph_faults
    assert (True, True) == (fault.was_run, "+h.retain_grad()" in fault.diff), fault


def test_a_change_whose_run_the_time_limit_ends_is_suggested_before_another(monkeypatch):
    """The gradients of `one` are not cleared. Once the time is over, no other change is named than the one that ran last."""
    text = (
        "import torch\na, b = (torch.ones(2, requires_grad=True) for _ in 'ab')\n"
        "one, two = torch.optim.SGD([a], lr=0.1), torch.optim.SGD([b], lr=0.1)\nfor _ in range(3):\n"
        "    two.zero_grad()\n    (a * b).exp().sum().backward()\n    two.step()\n    one.step()\n"
    )
    verdict, over = explain_program(factory_of_text(text)).verdict, SimpleNamespace(is_spent=False, runs=9)
    monkeypatch.setattr(suggestions, "current_budget", lambda: over)
    unknown = suggestions.structs.replace(verdict, graph_faults=(), excerpt=Excerpt(2, 2, 1, 1, ended=False))
    late = suggestions.with_suggestions(
        verdict, factory_of_text(text), suggestions.Scope(), lambda *_: setattr(over, "is_spent", True) or unknown
    )
    assert (False, True) == (late.graph_faults[0].was_run, "+    one.zero_grad()" in late.graph_faults[0].diff)


RAISING = [program for program in PROGRAMS if program.outcome != "correct"]


@pytest.mark.parametrize("program", RAISING, ids=lambda program: program.name)
def test_no_fix_is_denied_if_a_change_was_run_with_success(monkeypatch, program):
    """A change for a graph fault counts like a fix of a modification; without any change, a note gives the reason."""
    for changes in (suggestions.CHANGES, {}):
        monkeypatch.setattr(suggestions, "CHANGES", changes)
        verdict = explain_program(factory_of_text(program.source, "bug.py")).verdict
        is_found = bool(verdict.fixes) or any(fault.was_run for fault in verdict.graph_faults)
        is_denied = any(note.startswith("No fix was found") for note in verdict.notes)
        assert not (is_denied and is_found)
        assert is_denied or is_found or verdict.graph_faults


@pytest.mark.parametrize(("change", "works"), [("h = h * 2", True), ("h = h * 2 if x > 1.5 else h", False)])
def test_a_change_that_is_right_for_the_drawn_numbers_only_comes_later(change, works):
    """With seed 0, x is 1.54: both changes give the intended gradient. With other seeds only the first one does."""
    head = (
        "import torch\ntorch.manual_seed(0)\nx = torch.randn(1)\nw = torch.ones(2, requires_grad=True)\nh = w.exp()\n"
    )
    source = f"{head}h.mul_(2)\nh.sum().backward()\n"
    found = search.Search(factory_of_text(source, "bug.py"), record(source, file="bug.py").verdict, prove)
    changed = SimpleNamespace(text=source.replace("h.mul_(2)", change))
    assert plain(changed.text).losses == plain(source.replace("h.mul_(2)", "h = h * 2")).losses
    assert works == found.works_for_other_data(changed)


def test_an_optimizer_may_be_an_argument():
    """A `step()` without arguments in the function that calls backward belongs to an optimizer, unless it is a scheduler's."""
    source = EditableSource(
        "def train(o, sched, env):\n    loss().backward()\n    o.step(), sched.step(), env.step(1)\n"
    )
    assert ["o"] == optimizer_changes._names_of_optimizers(source, source.statements_at(2)[0])


def test_a_target_keeps_its_detach_after_another_detach():
    """If the remembered values are cut, the loss does not require grad; a graph of the target would change what is trained."""
    verdict = explain_program(factory_of_text(TEXTS["A_MEMORY_OF_VALUES"], "bug.py")).verdict
    assert "raises-backward" == verdict.outcome
    assert [] == [fix.kind for fix in verdict.fixes if "self.net(nxt).max()\n" in f"{fix.after}\n"]
