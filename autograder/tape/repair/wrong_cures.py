"""Widely copied cures that do not help: named where a program uses them, and tried on a program that does not."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from autograder.locale.translations import in_english
from autograder.tape.recording.verdict_types import Gradient, Outcome, Verdict
from autograder.tape.repair.broken_program import BrokenProgram, Candidate
from autograder.tape.repair.kinds.aliases import is_no_grad, remove_alias
from autograder.tape.repair.kinds.clones import bindings
from autograder.tape.repair.kinds.leaves import with_retain
from autograder.tape.repair.source.edits import Edit, EditableSource, every, insert, wrap
from autograder.tape.repair.source.inplace_finder import InPlaceWrite, called

MUTATION = "torch.autograd.graph.allow_mutation_on_saved_tensors()"
IDENTITY = "torch.autograd.graph.saved_tensors_hooks(lambda saved: saved, lambda kept: kept)"


@dataclass(frozen=True)
class WrongCure:
    """A copied cure, and what the program does with it; `says` is one sentence with the gradients."""

    kind: str
    text: str
    outcome: Outcome
    says: str


def wrong_cures(
    source: str, verdict: Verdict, prove: Callable[[str], Verdict], *, file: str = "<program>"
) -> tuple[WrongCure, ...]:
    """Returns the copied cures that do not cure this program: each was run, and still raises or gives a wrong gradient.

    Args:
        source: the program's text, `verdict` what it did as it is, `file` the name its lines have there.
        prove: runs a changed text and returns its verdict, by both oracles.
    """
    program = BrokenProgram(EditableSource(source), verdict, file)
    shown = []
    for candidate in propose_cures(program):
        text = program.source.apply(candidate.edits)
        if text and text != source and (seen := prove(text)).outcome != "correct":
            says = f"{candidate.kind}: {figures(seen, verdict.gradients)}"
            shown.append(WrongCure(candidate.kind, text, seen.outcome, says))
    return tuple(shown)


def propose_cures(program: BrokenProgram) -> Iterator[Candidate]:
    """Yields the changes that answers on the web propose for an in-place error."""
    for write in program.blamed:
        if not write.path or write.path[0] not in ("data", "detach"):
            yield Candidate("write through .data", (insert(program.source, write.root, ".data", after=True),))
        yield Candidate(
            "torch.no_grad() around the write", wrap(program.source, write.statement, "with torch.no_grad():")
        )
    for node in every(ast.Call, program.source.tree):
        if called(node) == "detach" and (edit := remove_alias(program.source, node)):
            yield Candidate(".data in place of .detach()", (Edit(edit.start, edit.stop, ".data"),))
    if retained := tuple(with_retain(program.source, call) for call in backward_calls(program.source)):
        yield Candidate("retain_graph=True", retained)
    for kind, block in (("allow_mutation_on_saved_tensors", MUTATION), ("identity saved-tensor hooks", IDENTITY)):
        yield Candidate(kind, enter_context(program.source, block))


def backward_calls(source: EditableSource) -> list[ast.Call]:
    """Returns the calls of `something.backward()`."""
    found = [call for call in every(ast.Call, source.tree) if isinstance(call.func, ast.Attribute)]
    return [call for call in found if called(call) == "backward"]


def enter_context(source: EditableSource, block: str) -> tuple[Edit, ...]:
    """Returns the edits that put a context around the body of the function (or the text) that calls backward."""
    calls = backward_calls(source)
    body = getattr(source.scope(calls[0]), "body", []) if calls else []
    inside = [one for one in body if not isinstance(one, ast.Import | ast.ImportFrom) and not is_text(one)]
    if not inside or '"""' in source.text or "'''" in source.text:
        return ()  # indenting a string of several lines would change it
    indent = source.indent(inside[0])
    lines = range(inside[0].lineno, (inside[-1].end_lineno or inside[-1].lineno) + 1)
    head = Edit(
        source.starts[lines[0] - 1], source.starts[lines[0] - 1], f"{indent}with {block}:{source.newline}{source.unit}"
    )
    return (head, *(Edit(source.starts[line - 1], source.starts[line - 1], source.unit) for line in lines[1:]))


def is_text(statement: ast.stmt) -> bool:
    """Whether the statement is a bare string, a docstring."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def cures_in_use(program: BrokenProgram) -> Iterator[str]:
    """Yields a sentence for each copied cure that the program itself uses, where it did not help."""
    if program.verdict.outcome not in ("raises-backward", "silently-wrong"):
        return
    seen = figures(program.verdict, program.verdict.gradients)
    for node in every(ast.Call, program.source.tree):
        if called(node) == "allow_mutation_on_saved_tensors":
            yield in_english(
                "Line {line}: allow_mutation_on_saved_tensors() does not see every write (offset views, NumPy): {seen}",
                line=node.lineno,
                seen=seen,
            )
        if called(node) == "saved_tensors_hooks" and len(node.args) == 2 and is_identity(node.args[0]):
            yield in_english(
                "Line {line}: identity saved-tensor hooks only switch the version check off: {seen}",
                line=node.lineno,
                seen=seen,
            )
        if called(node) == "backward" and keeps_graph(node) and is_version_error(program.verdict):
            yield in_english(
                "Line {line}: retain_graph=True keeps the graph, and does not restore overwritten values: {seen}",
                line=node.lineno,
                seen=seen,
            )
    guilty = [write for write in program.blamed if write.statement in program.suspects or not program.verdict.harms]
    for write in guilty:
        line = write.statement.lineno
        if "data" in write.path or is_data_alias(program, write):
            yield in_english(
                "Line {line}: a write through .data does not move the version counter, and does the same harm: {seen}",
                line=line,
                seen=seen,
            )
        elif any(is_under_no_grad(one) for one in program.source.ancestors(write.statement)):
            yield in_english(
                "Line {line}: torch.no_grad() does not undo the harm of the write inside it: {seen}",
                line=line,
                seen=seen,
            )


def figures(verdict: Verdict, meant: dict[str, Gradient]) -> str:
    """Returns what a run did in words: the first wrong gradient and the right one, or that it raises."""
    if verdict.error:
        return in_english("it still raises.")
    for name, gradient in verdict.gradients.items():
        true = meant[name].true if name in meant and meant[name].true is not None else gradient.true
        if true is not None and gradient.got != true:
            return in_english(
                "the gradient of {name} is {got} where {true} is right.",
                name=name,
                got=short(gradient.got),
                true=short(true),
            )
    return in_english("a gradient is wrong, and nothing says so.")


def short(value: object) -> str:
    """Returns a gradient as text, rounded and cut."""
    if isinstance(value, list):
        inside = ", ".join(short(one) for one in value[:4])
        return f"[{inside}{', …' if len(value) > 4 else ''}]"
    return f"{value:.4g}" if isinstance(value, int | float) else "none at all"


def is_identity(node: ast.expr) -> bool:
    """Whether the expression is `lambda x: x`."""
    return (
        isinstance(node, ast.Lambda)
        and isinstance(node.body, ast.Name)
        and [one.arg for one in node.args.args] == [node.body.id]
    )


def keeps_graph(call: ast.Call) -> bool:
    """Whether the call says `retain_graph=True`."""
    return any(one.arg == "retain_graph" and getattr(one.value, "value", None) is True for one in call.keywords)


def is_version_error(verdict: Verdict) -> bool:
    """Whether backward refused a saved tensor that was written into."""
    return verdict.error is not None and "modified by an inplace operation" in verdict.error.message


def is_data_alias(program: BrokenProgram, write: InPlaceWrite) -> bool:
    """Whether the name written through was made by `.data`."""
    made = bindings(program.source, program.source.of(write.root))
    return any(one.attr == "data" for statement in made for one in every(ast.Attribute, statement.value))


def is_under_no_grad(node: ast.AST) -> bool:
    """Whether the node is a `with torch.no_grad():` block."""
    return isinstance(node, ast.With) and any(is_no_grad(one.context_expr) for one in node.items)
