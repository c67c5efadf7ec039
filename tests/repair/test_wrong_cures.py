import pytest

from autograder.tape.diagnose.record import record
from autograder.tape.repair.repairs import find_repairs, prove_by_recording
from autograder.tape.repair.trial.program_factory import factory_of_text
from autograder.tape.repair.wrong_cures import wrong_cures
from tests.repair.plain import flat, plain

HEAD = "import torch\nw = torch.tensor([1.0, 2.0], requires_grad=True)\nh = w * 1\n"
RAISES = HEAD + "y = (h * h).sum()\nh.detach().zero_()\ny.backward()\n"


def shown(source: str):
    """Returns the copied cures of a text by kind."""
    verdict = record(source, file="text.py").verdict
    cures = wrong_cures(source, verdict, prove_by_recording(factory_of_text(source, "text.py")), file="text.py")
    return {cure.kind: cure for cure in cures}


def test_data_for_detach_silences_the_error():
    """`.data` for `.detach()` runs without an error, and the sentence has the wrong gradient beside the right one."""
    cure = shown(RAISES)[".data in place of .detach()"]
    assert "silently-wrong" == cure.outcome
    assert [0.0, 0.0] == flat(plain(cure.text).gradients["w"])
    assert "the gradient of w is [0, 0] where [2, 4] is right." in cure.says


def test_cures_that_raise_still():
    """retain_graph and no_grad around the write change nothing about a version error."""
    cures = shown(RAISES)
    for kind in ("retain_graph=True", "torch.no_grad() around the write"):
        assert "raises-backward" == cures[kind].outcome
        assert "still raises" in cures[kind].says
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            plain(cures[kind].text)


def test_offset_view_under_allow_mutation():
    """allow_mutation_on_saved_tensors is silently wrong for a write through an offset view."""
    source = HEAD + "y = (h * h).sum()\nh[1:].zero_()\ny.backward()\n"
    cure = shown(source)["allow_mutation_on_saved_tensors"]
    assert "silently-wrong" == cure.outcome
    assert [2.0, 0.0] == flat(plain(cure.text).gradients["w"])


def test_a_cure_that_cures_is_not_called_wrong():
    """allow_mutation_on_saved_tensors is right for a write to the whole tensor, and is not listed there."""
    source = HEAD + "y = (h * h).sum()\nh.zero_()\ny.backward()\n"
    assert "allow_mutation_on_saved_tensors" not in shown(source)


USED = {
    "y = (h * h).sum()\nh.data.zero_()\ny.backward()\n": ("Line 5", ".data", "[0, 0] where [2, 4] is right"),
    "y = (h * h).sum()\nd = h.data\nd.zero_()\ny.backward()\n": ("Line 6", ".data", "[0, 0] where [2, 4] is right"),
    "y = (h * h).sum()\nh += 1\ny.backward(retain_graph=True)\n": ("Line 6", "retain_graph=True", "it still raises"),
    "with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):\n"
    "    y = (h * h).sum()\nh.mul_(10)\ny.backward()\n": ("Line 4", "identity", "[20, 40] where [2, 4] is right"),
    "y = (h * h).sum()\nwith torch.no_grad():\n    h.zero_()\ny.backward()\n": ("Line 6", "no_grad", "it still raises"),
}  # fmt: skip


@pytest.mark.parametrize("body", USED)
def test_program_that_uses_one_is_warned(body):
    """Where the program itself holds a copied cure, a warning names its line and gives the figures of this run."""
    source = HEAD + body
    found = find_repairs(factory_of_text(source, "text.py"), record(source, file="text.py").verdict)
    assert any(all(word in warning for word in USED[body]) for warning in found.warnings), found.warnings


def test_harmless_use_is_not_warned():
    """A correct program is not lectured for its `.data`."""
    source = HEAD + "h.data.clamp_(0)\n(h * h).sum().backward()\n"
    found = find_repairs(factory_of_text(source, "text.py"), record(source, file="text.py").verdict)
    assert () == found.warnings
