"""The text form contains the information of the picture."""

import msgspec
import pytest

from autograder import view
from autograder.view.playback import Playback


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        pytest.param("raises_backward", "raises-backward: backward() stops with an error", id="the outcome, first"),
        pytest.param("raises_backward", "MulBackward0 joins the graph and keeps", id="who keeps"),
        pytest.param("raises_backward", "d is now at version 1.", id="the version that ticked"),
        pytest.param(
            "raises_backward",
            "MulBackward0 (line 8) keeps d from version 0, and it is now at version 1: backward will raise an error.",
            id="what the write means for backward",
        ),
        pytest.param("raises_backward", "d was saved at version 0 and is at version 1.", id="why backward stopped"),
        pytest.param("silently_wrong", "It writes into d.data, the same memory as d.", id="the alias and its memory"),
        pytest.param(
            "silently_wrong", "a different counter from the one that autograd checks", id="what autograd misses"
        ),
        pytest.param("silently_wrong", "the check will pass and the gradient will be wrong.", id="what follows"),
        pytest.param("silently_wrong", "If you call backward now: silently wrong.", id="the forecast"),
        pytest.param(
            "silently_wrong", "w2.grad gets [1]; the right value is [4].", id="the wrong gradient beside the right one"
        ),
        pytest.param("silently_wrong", "w2.grad  got [1]  right [4]  <- differs", id="the gradients' table"),
        pytest.param("correct", "It shares memory and version counter with out.", id="detach shares both"),
        pytest.param("correct", "frees 1 saved tensor.", id="backward frees"),
        pytest.param(
            "raises_forward", "Line 4 stops: a leaf Variable that requires grad", id="an error in the forward"
        ),
        pytest.param("views", "u now comes from CopySlices", id="history is rebased"),
        pytest.param("views", "It writes into u, the same memory as i.", id="a write to the base reaches the view"),
        pytest.param(
            "detached", "from version 0, and it is now at version 1: backward", id="a view's write counts once"
        ),
        pytest.param("modules", "9 new tensors are initialized.", id="a module's first values in one sentence"),
        pytest.param("modules", "x (also batch) is now at version 1.", id="both names of one tensor"),
        pytest.param(
            "modules",
            "It writes into model.1.num_batches_tracked and a tensor without a name. Their",
            id="a write into a tensor without a name",
        ),
        pytest.param("modules", "and 3 more. Their version counters move.", id="an optimizer's step in one sentence"),
        pytest.param("odd_values", "nan is [nan, inf, -inf].", id="not a number"),
        pytest.param("odd_values", "重み is [2, 2].", id="a name in another script"),
        pytest.param("odd_values", "empty is [].", id="no element"),
    ],
)
def test_text_tells(recorded, name, sentence):
    """The text form has each fact that the picture shows, for readers who do not see the picture."""
    assert sentence in view.as_text(recorded(name))


def test_every_step_has_its_sentence(recording):
    """Each frame of each recording has its line."""
    text = view.as_text(recording)
    frames = Playback(recording).frames

    assert all(f"{frame.number:>3}  " in text for frame in frames if frame.kind == "step")
    assert len(recording.backward) == sum(frame.kind == "visit" for frame in frames)


def test_a_long_run_is_cut_in_the_middle_only_where_asked(recorded):
    """`most` keeps the first and the last steps and gives the number of the others; without it all are printed."""
    whole, cut = view.as_text(recorded("loop")), view.as_text(recorded("loop"), most=10)

    assert "more steps" not in whole
    assert "… 82 more steps …" in cut
    assert whole.splitlines()[:5] == cut.splitlines()[:5]


def test_a_backward_that_is_refused_does_not_run_to_its_end(recorded):
    """The sentence states how many saved tensors it freed, and that it stopped."""
    whole = recorded("raises_backward")
    *before, last = whole.steps
    freed = msgspec.structs.replace(whole, steps=(*before, msgspec.structs.replace(last, freed=(whole.saved[0].id,))))
    text = view.as_text(freed)

    assert "Backward starts, frees 1 saved tensor, and stops with an error." in text
    assert "Backward runs" not in text
