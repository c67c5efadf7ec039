"""Every declaration of the whole scripts holds under plain PyTorch, and each broken one has a twin that is its true repair."""

from functools import cache

import pytest

from tests.corpus.script_runs import run_script, same_call, same_training, watched_script
from tests.corpus.whole_scripts import Script, scripts

SCRIPTS = scripts()
BROKEN = [script for script in SCRIPTS if script.twin]
run = cache(run_script)


def named(some):
    """Returns the parametrisation that calls each script by its name."""
    return pytest.mark.parametrize("script", some, ids=lambda script: script.name)


def first_harmed(script: Script) -> int:
    """Returns the number of the first call of backward that the harm stops, or makes give other gradients than the twin's."""
    broken, twin = run(script), run(script.twin)
    differing = [
        place for place, pair in enumerate(zip(broken.calls, twin.calls, strict=False)) if not same_call(*pair)
    ]
    return len(broken.calls) if broken.raised else differing[0]


@named(SCRIPTS)
def test_script_does_what_is_declared(script):
    """What is declared to raise raises there, and what is right trains the same with a private copy of each saved tensor."""
    seen = run(script)
    assert seen.raised == (script.outcome if script.outcome.startswith("raises") else None), seen.message
    if script.outcome == "correct":
        assert seen.calls
        assert same_training(run_script(script, clone_on_save=True), seen) is None


@named(BROKEN)
def test_twin_is_the_true_repair(script):
    """The twin ends, trains otherwise than the broken script, and has the right gradients at the first harmed backward.

    What is right there comes from the broken script itself, run with a private copy of every saved tensor.
    """
    twin, place = run(script.twin), first_harmed(script)
    assert twin.raised is None, twin.message
    assert same_training(twin, run(script)) is not None
    if script.outcome == "raises-forward":
        return
    cloned = run_script(script, clone_on_save=True)
    right = [same_call(cloned.calls[place], call) for call in twin.calls]
    assert any(right) != script.changes


@named([script for script in BROKEN if script.outcome != "raises-forward"])
def test_marked_lines_are_those_that_wrote(script):
    """The lines marked `harm` and `saves` are those that Python's line tracing and saved-tensor hooks find."""
    harmful, saving = watched_script(script)
    assert script.harm <= harmful
    assert script.saves & saving


def test_the_scripts_are_many_and_whole():
    """At least 10 scripts of 60 to 300 lines, a quarter of them right, some in several files, some with arguments."""
    lines = {script.name: sum(text.count("\n") for _, text in script.files) for script in SCRIPTS}
    assert len(SCRIPTS) >= 10
    assert len(SCRIPTS) - len(BROKEN) >= 0.25 * len(SCRIPTS)
    assert {name: count for name, count in lines.items() if not 60 <= count <= 300} == {}
    assert sum(len(script.files) > 1 for script in SCRIPTS) >= 5
    assert sum(bool(script.arguments) for script in SCRIPTS) >= 5
