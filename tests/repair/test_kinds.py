import pytest

from autograder.tape.diagnose.record import record_program
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
    return find_repairs(factory, record_program(factory.original).verdict)


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.name)
def test_kind_repairs(broken, monkeypatch):
    """Each kind repairs its program by itself, in plain PyTorch the gradient is the one that the formula has.

    A repair that changes the value of a name or the path of a gradient says so; any other does not.
    """
    found = repaired(broken, monkeypatch)
    texts = [apply_fix(broken.source, fix) for fix in found.fixes]
    place = next((at for at, text in enumerate(texts) if broken.after in text), None)
    assert place is not None, found
    chosen, meaning = texts[place], found.meanings[place]
    assert meaning is None if broken.says is None else broken.says in (meaning or "")
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
