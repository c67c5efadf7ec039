"""A printable page: the four outcomes, and what common operations and aliases save and share, measured with this PyTorch."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import torch
from IPython.display import display

from autograder.locale.translations import translatable, translated
from autograder.tape import record
from autograder.tape.recording.schema import Recording
from autograder.tape.recording.verdict_types import Outcome
from autograder.view.text.gradient_values import short_values
from autograder.view.text.headline import meaning

OUTCOMES = (
    ("w.mul_(2)", "loss = w.sum()"),
    ("y = w.exp()", "y.add_(1)", "loss = y.sum()"),
    ("y = w * 3", "y.add_(1)", "loss = y.sum()"),
    ("y = w.exp()", "y.data.add_(1)", "loss = y.sum()"),
)
"""A program for each of the four outcomes; the outcome is measured, not stored."""

OPERATIONS = (
    "a + b", "a - b", "a * 3", "a * b", "a / 3", "a / b", "a @ b", "a ** 2", "-a",
    "a.exp()", "a.log()", "a.sqrt()", "a.sin()", "a.abs()", "a.sigmoid()", "a.tanh()", "a.relu()", "a.softmax(0)",
    "a.clamp(0, 1)", "a.sum()", "a.mean()", "a.max()", "a.prod()", "a.norm()", "a.clone()", "a.t()", "a[0]", "a[[0]]",
    "a.where(a > 0, b)", "torch.cat([a, b])", "torch.stack([a, b])", "F.linear(a, b)", "F.gelu(a)", "F.elu(a)",
)  # fmt: skip

QUESTIONS = translatable(
    "Two questions decide: does a node still need the old numbers, and does the write increment the counter that it compares?"
)
ALIASES = ("a[0]", "a.view(-1)", "a.detach()", "a.data", "torch.from_numpy(a.numpy())", "a[[0]]", "a.clone()")

KEEPS = {
    (True, False): translatable("keep an <b>input</b>: do not write into it before backward"),
    (False, True): translatable("backward needs their <b>output</b>: do not modify it in place"),
    (True, True): translatable("keep <b>input and output</b>: do not write into either"),
    (False, False): translatable("keep <b>neither</b>: you can write into either without breaking their backward"),
}

# JupyterLab and its exports style every table that they show; two classes give this style a higher specificity. Lines
# and marks use the theme's text color, so the page works on light and dark backgrounds and on paper.
STYLE = """<style>
.autograder-summary { --line: 1px solid color-mix(in srgb, currentColor 30%, transparent); max-width: 60em; line-height: 1.35; }
.autograder-summary.sheet table { width: 100%; margin: 0 0 .7em; border-collapse: collapse; break-inside: avoid; font-size: .95em; }
.autograder-summary.sheet caption { caption-side: top; text-align: left; font-weight: bold; font-size: 1.15em; color: inherit; }
.autograder-summary.sheet tbody tr:nth-child(n) { background: none; }
.autograder-summary.sheet tr :is(td, th) { text-align: left; vertical-align: top; padding: .2em .8em .2em 0; border: 0; }
.autograder-summary.sheet tr td { border-top: var(--line); }
.autograder-summary.sheet tr th:first-child { width: 30%; }
.autograder-summary.sheet td code { background: none; color: inherit; padding: 0; white-space: nowrap; }
.autograder-summary.sheet td .chip { border: var(--line); border-radius: 3px; padding: 0 .3em; line-height: 1.6; }
@media print { .autograder-summary.sheet { font-size: 8.5pt; max-width: none; line-height: 1.2; } }
</style>"""


@dataclass(frozen=True)
class MeasuredProgram:
    """One small program, its outcome, and the evidence for it: the beginning of the error message, or the gradient."""

    lines: tuple[str, ...]
    outcome: Outcome
    evidence: str


def measure_outcome(lines: tuple[str, ...]) -> MeasuredProgram:
    """Run the program on `w = [1, 2]` and return its outcome."""
    start = ("import torch", "w = torch.tensor([1.0, 2.0], requires_grad=True)")
    verdict = record("\n".join((*start, *lines, "loss.backward()"))).verdict
    if verdict.error:
        words = verdict.error.message.partition(" Hint: ")[0].partition(": [")[0]
        version = re.search(r"is at version \d+; expected version \d+", verdict.error.message)
        return MeasuredProgram(lines, verdict.outcome, f"{words}{f': … {version[0]}' if version else ''}")
    gradient = verdict.gradients["w"]
    got, true = short_values(gradient.got), short_values(gradient.true)
    if verdict.outcome == "correct":
        return MeasuredProgram(lines, verdict.outcome, translated("gradient {got}", got=got))
    return MeasuredProgram(lines, verdict.outcome, translated("gradient {got}, right is {true}", got=got, true=true))


def measure_saves(operation: str) -> tuple[bool, bool]:
    """Return whether an operation on `a` and `b`, results of shape (2, 2), saves memory of an input, and of its output."""
    recording = _recorded("requires_grad=True", f"out = {operation}")
    places = {name: recording.tensors[number].storage for name, number in _names(recording).items()}
    made_by_it = {node.id for node in recording.nodes if node.place and node.place.line == 5}
    saved = {edge.storage for edge in recording.saved if edge.node in made_by_it}
    return bool(saved & {places["a"], places["b"]}), places["out"] in saved - {places["a"], places["b"]}


def measure_sharing(alias: str) -> tuple[bool, bool]:
    """Return whether an alias of `a` shares its memory, and whether a write into `a` increments the alias's version."""
    recording = _recorded("requires_grad=False", f"out = {alias}", "a.add_(1)")
    number = _names(recording)["out"]
    states = [state for step in recording.steps for state in step.states if state.tensor == number]
    same_memory = recording.tensors[number].storage == recording.tensors[_names(recording)["a"]].storage
    return same_memory, states[-1].version != states[0].version


class SummaryPage:
    """The measured page; HTML in a notebook, text elsewhere. It uses only the theme's colors, light or dark."""

    def __init__(self) -> None:
        self.outcomes = [measure_outcome(lines) for lines in OUTCOMES]
        self.operations = {operation: measure_saves(operation) for operation in OPERATIONS}
        self.aliases = {alias: measure_sharing(alias) for alias in ALIASES}

    def keeping(self, inputs: bool, output: bool) -> list[str]:
        """Return the operations that save exactly these."""
        return [operation for operation, kept in self.operations.items() if kept == (inputs, output)]

    def __repr__(self) -> str:
        rows = [f"{row.outcome:16} {'; '.join(row.lines)}  ->  {row.evidence}" for row in self.outcomes]
        for kept, words in KEEPS.items():
            text = translated(words).replace("<b>", "").replace("</b>", "")
            rows.append(translated("{label}: {text}", label=text, text=", ".join(self.keeping(*kept))))
        for alias, (memory, counter) in self.aliases.items():
            same = translated(
                "memory {memory}, version counter {counter}", memory=_mark(memory), counter=_mark(counter)
            )
            rows.append(f"{alias:30} {same}")
        return "\n".join([*rows, translated(QUESTIONS), _measured()])

    def _repr_html_(self) -> str:
        outcomes = [
            (f"<b>{row.outcome}</b><br>{meaning(row.outcome)}", _code(*row.lines), escape(row.evidence))
            for row in self.outcomes
        ]
        operations = [
            (translated(words), _chips(self.keeping(*kept))) for kept, words in KEEPS.items() if self.keeping(*kept)
        ]
        aliases = [(_code(alias), _mark(memory), _mark(counter)) for alias, (memory, counter) in self.aliases.items()]
        then = translated("{start}; then {end}", start="w = [1, 2]", end="loss.backward()")
        heads = (
            (translated("outcome"), then, translated("what you see")),
            (translated("operations that"), translated("on a and b")),
            (translated("alias"), translated("memory"), translated("version counter")),
        )
        tables = _table(translated("The four outcomes"), heads[0], outcomes)
        tables += _table(translated("What an operation keeps until backward"), heads[1], operations)
        tables += _table(translated("What shares with a"), heads[2], aliases)
        return f'<div class="autograder-summary sheet">{STYLE}{tables}<p>{translated(QUESTIONS)}<br>{_measured()}</p></div>'


def summary() -> None:
    """Display the page: the outcome of each small program and the saved tensors of each operation, measured with this PyTorch."""
    display(SummaryPage())


def _recorded(switch: str, *lines: str) -> Recording:
    leaf = f"torch.tensor([[0.5, 1.0], [1.5, 2.0]], {switch})"
    source = ("import torch", "import torch.nn.functional as F", f"a = {leaf} + 0", f"b = {leaf} + 0", *lines)
    return record("\n".join(source))


def _names(recording: Recording) -> dict[str, int]:
    """Return, for each variable, the id of the tensor that it refers to at the end."""
    changes = [change for step in recording.steps for change in step.names]
    return {change.name: change.tensor for change in changes if change.tensor is not None}


def _mark(shared: bool) -> str:
    return f"✓ {translated('same')}" if shared else f"✗ {translated('different')}"


def _measured() -> str:
    version = torch.__version__.partition("+")[0]
    return translated("Measured with PyTorch {version}, on the CPU.", version=version)


def _code(*lines: str) -> str:
    return "<br>".join(f"<code>{escape(line)}</code>" for line in lines)


def _chips(operations: list[str]) -> str:
    return " ".join(f'<code class="chip">{escape(operation)}</code>' for operation in operations)


def _table(title: str, head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    first = "".join(f"<th>{words}</th>" for words in head)
    body = "".join("<tr>" + "".join(f"<td>{words}</td>" for words in row) + "</tr>" for row in rows)
    return f"<table><caption>{title}</caption><tr>{first}</tr>{body}</table>"
