"""Programs that nobody thought of: chains of views, saves, writes and detaches, each judged afresh by plain PyTorch."""

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import event, given, settings

from autograder.tape import record
from tests.corpus.oracles import close, differences, run
from tests.corpus.programs import Program
from tests.corpus.watch import watch

READS = ("{new} = {old} + 1", "{new} = {old} * 0.5", "{new} = {old}.tanh()", "{new} = {old} * {other}")
LOSSES = (
    "({old} * {old}).sum()", "{old}.exp().sum()", "({old} * 3).sum()", "({old} * {other}).sum()", "{old}.sin().sum()",
)  # fmt: skip
WAYS = (
    "{old}", "{old}[1:3]", "{old}.view(2, 2)[0]", "{old}.data", "{old}.detach()", "{old}.detach()[:2]", "{old}.data[2:]",
    "{old}.clone()", "{old}.detach().clone()", "{old}.detach().numpy()", "torch.from_dlpack({old}.detach())",
)  # fmt: skip
WRITES = ("{way}[:] = 0.25", "{way}[0] = 1.5", "{way} *= 0.5", "{way} += 0.5", "{way} *= 1")
INDENT = "    "


@st.composite
def sources(draw) -> str:
    """Draws a program over tensors of four elements; every tensor that reaches the loss has its history."""
    lines = [
        "import torch",
        "",
        "a = torch.tensor([0.3, 0.7, 1.1, 1.5], requires_grad=True)",
        "b = a * 2",
        "loss = " + draw(st.sampled_from(LOSSES)).format(old="b", other="a"),
        "alias = b.data",
    ]
    names, aliases = ["b"], ["alias"]
    for number in range(draw(st.integers(2, 7))):
        old, other = draw(st.sampled_from(names)), draw(st.sampled_from(names))
        kind = draw(st.sampled_from(("read", "loss", "loss", "alias", "alias", "write", "write", "no_grad")))
        if kind == "read":
            names.append(f"t{number}")
            lines.append(draw(st.sampled_from(READS)).format(new=names[-1], old=old, other=other))
        elif kind == "loss":
            lines.append("loss = loss + " + draw(st.sampled_from(LOSSES)).format(old=old, other=other))
        elif kind == "alias":
            aliases.append(f"alias{number}")
            lines.append(f"{aliases[-1]} = {draw(st.sampled_from(WAYS)).format(old=old)}")
        else:
            written = draw(st.sampled_from(WRITES)).format(way=draw(st.sampled_from(names + aliases)))
            lines += ["with torch.no_grad():", INDENT + written] if kind == "no_grad" else [written]
    return "\n".join([*lines, "loss = loss + " + f"({names[-1]} * 2).sum()", "loss.backward()"]) + "\n"


def program_of(source: str) -> Program:
    """Returns the source as a program of the corpus with nothing declared."""
    none = frozenset[int]()
    return Program("generated", source, "", none, none, None, None, False, False, "", None)


def truth(program: Program) -> str:
    """Returns the outcome by plain PyTorch, and where it does not raise, by finite differences in float64."""
    plain = run(program)
    if plain.raised:
        return plain.raised
    slopes = {name: slope for name, slope in differences(program).items() if name == "a"}
    got = {"a": run(program, dtype=torch.float64).gradients["a"]}
    return "correct" if close(got, slopes) else "silently-wrong"


def examples(few: int, many: int):
    """Returns the numbers of examples as a parameter: a few always, many where slow tests run."""
    return pytest.mark.parametrize("examples", [few, pytest.param(many, marks=pytest.mark.slow)])


@examples(25, 150)
def test_generated_programs(examples):
    """Whatever the order of views, saves and writes, the tape says what happens and blames a line that did it."""

    @settings(derandomize=True, max_examples=examples, deadline=None)
    @given(sources())
    def holds(source):
        program = program_of(source)
        expected = truth(program)
        event(expected)
        verdict = record(source, file=program.file).verdict

        assert expected == verdict.outcome, source
        blamed = {place.line for harm in verdict.harms for place in harm.mutated_at}
        culprits = watch(program)[0] if expected in ("raises-backward", "silently-wrong") else set()
        assert not culprits or blamed & culprits, (source, sorted(culprits), sorted(blamed))

    holds()


@examples(15, 60)
def test_recording_changes_no_generated_program(examples):
    """A generated program ends with the same error after it was recorded as before, and with the same gradients."""

    @settings(derandomize=True, max_examples=examples, deadline=None)
    @given(sources())
    def holds(source):
        program = program_of(source)
        before = run(program)
        record(source, file=program.file)
        after = run(program)

        assert (before.raised, before.message, before.line) == (after.raised, after.message, after.line)
        assert close(before.gradients, after.gradients, tolerance=0.0)

    holds()
