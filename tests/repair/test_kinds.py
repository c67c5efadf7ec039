import pytest

from autograder.tape.explain import prove, record, record_program
from autograder.tape.repair import candidates
from autograder.tape.repair.candidates import KINDS
from autograder.tape.repair.edits import EditableSource, apply_fix
from autograder.tape.repair.kinds.aliases import remove_aliases
from autograder.tape.repair.repairs import Repairs, find_repairs
from autograder.tape.repair.trial.program_factory import factory_of_text
from tests.repair.plain import flat, plain, slopes
from tests.repair.programs import BROKEN, Broken

# Their faults are seen by finite differences alone; `test_untracked.py` repairs them against such a proof.
UNTRACKED = {"mark_dirty"}


def repaired(broken: Broken, monkeypatch) -> Repairs:
    """Return the repair of one kind for the program."""
    monkeypatch.setattr(candidates, "KINDS", (broken.kind,))
    factory = factory_of_text(broken.source, "broken.py", function=broken.function)
    return find_repairs(factory, record_program(factory.original).verdict, prove)


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.name)
def test_kind_repairs(broken, monkeypatch):
    """Each kind repairs its program by itself, in plain PyTorch the gradient is the one that the formula has.

    A repair that changes the value of a name or the path of a gradient says so; any other does not.
    """
    found = repaired(broken, monkeypatch)
    texts = [apply_fix(broken.source, fix) for fix in found.fixes]
    place = next((at for at, text in enumerate(texts) if broken.after in text), None)
    assert place is not None, found
    chosen, changes = texts[place], found.fixes[place].changes
    assert broken.says in changes if broken.says else changes == ""
    got = plain(chosen, broken.function).gradients
    for leaf, expected in broken.gradients.items():
        assert pytest.approx(expected, rel=1e-4) == flat(got[leaf])
        assert (
            broken.free or broken.function or pytest.approx(expected, rel=1e-4) == slopes(chosen, leaf, len(expected))
        )


def test_every_kind_has_a_program():
    """No kind of repair goes untested."""
    tested = {broken.kind.__name__ for broken in BROKEN} | UNTRACKED
    assert {kind.__name__ for kind in KINDS} == tested


def test_what_a_class_calls_data_is_no_alias():
    """`self.data = []` is a list of the program's own; `x.data` is a tensor's memory."""
    source = EditableSource("class Memory:\n    def clear(self, x):\n        self.data = []\n        x.data.mul_(2)\n")
    assert [".data"] == [source.data[one.start : one.stop].decode() for one in remove_aliases(source, source.tree)]


HEAD = "import torch\nw = torch.tensor([1.0, 2.0], requires_grad=True)\nh = w * 1\n"

USED = {
    "y = (h * h).sum()\nh.data.zero_()\ny.backward()\n": ("Line 5", ".data", "does not detect it"),
    "y = (h * h).sum()\nd = h.data\nd.zero_()\ny.backward()\n": ("Line 6", ".data", "does not detect it"),
    "y = (h * h).sum()\nh += 1\ny.backward(retain_graph=True)\n": ("Line 6", "retain_graph=True", "it still raises"),
    "with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):\n"
    "    y = (h * h).sum()\nh.mul_(10)\ny.backward()\n": ("Line 4", "identity", "[20, 40] where [2, 4] is right"),
    "with torch.autograd.graph.allow_mutation_on_saved_tensors():\n    y = (h * h).sum()\n    h[1:].zero_()\n    y.backward()\n": (
        "Line 4", "offset views", "[2, 0] where [2, 4] is right"
    ),
    "y = (h * h).sum()\nwith torch.no_grad():\n    h.zero_()\ny.backward()\n": ("Line 6", "no_grad", "it still raises"),
}  # fmt: skip


@pytest.mark.parametrize(
    "body", [pytest.param(body, marks=[pytest.mark.slow] if number > 1 else []) for number, body in enumerate(USED)]
)
def test_program_that_uses_one_is_warned(body):
    """If the program itself contains a known wrong cure, a warning names its line with the figures of this run."""
    source = HEAD + body
    found = find_repairs(factory_of_text(source, "text.py"), record(source, file="text.py").verdict, prove)
    assert any(all(word in warning for word in USED[body]) for warning in found.warnings), found.warnings


CARRIED = """import torch
w = torch.ones(2, requires_grad=True)
state, total = torch.zeros(2), torch.zeros(2)
for step in range(2):
    state = (state + w).exp()
    loss = (state * w).sum()
    loss.backward()
    w.data -= 0.1
    with torch.no_grad():
        total += state
"""


def test_a_write_that_takes_no_part_is_not_warned():
    """The graph is used twice; an update through `.data` and a sum under `no_grad` are unrelated."""
    verdict = record(CARRIED, file="text.py").verdict
    assert "second time" in verdict.error.message
    assert () == find_repairs(factory_of_text(CARRIED, "text.py"), verdict, prove).warnings


def test_an_alias_is_the_one_of_the_line_above():
    """`d` is an array when line 6 modifies it; the assignment from `.data` comes later."""
    source = HEAD + "y = (h * h).sum()\nd = h.detach().numpy()\nd *= 2\ny.backward()\nd = h.data\n"
    found = find_repairs(factory_of_text(source, "text.py"), record(source, file="text.py").verdict, prove)
    assert not any(".data" in warning for warning in found.warnings)


def test_harmless_use_is_not_warned():
    """A correct program is not lectured for its `.data`."""
    source = HEAD + "h.data.clamp_(0)\n(h * h).sum().backward()\n"
    found = find_repairs(factory_of_text(source, "text.py"), record(source, file="text.py").verdict, prove)
    assert () == found.warnings
