"""Notes on widely copied cures that have no effect, if a program uses them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autograder.locale.translations import in_english
from autograder.tape.recording.verdict_types import Gradient, Verdict
from autograder.tape.repair.broken_program import BrokenProgram
from autograder.tape.repair.kinds.aliases import is_no_grad
from autograder.tape.repair.kinds.clones import bindings
from autograder.tape.repair.source.edits import every
from autograder.tape.repair.source.inplace_finder import InPlaceWrite, called


def cures_in_use(program: BrokenProgram) -> Iterator[str]:
    """Yield a sentence for each copied cure that the program uses without effect."""
    if program.verdict.outcome not in ("raises-backward", "silently-wrong"):
        return
    seen = figures(program.verdict, program.verdict.gradients)
    for node in every(ast.Call, program.source.tree):
        if called(node) == "allow_mutation_on_saved_tensors":
            yield in_english(
                "Line {line}: allow_mutation_on_saved_tensors() does not detect every in-place modification "
                "(offset views, NumPy): {seen}",
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
    for write in (one for one in program.blamed if one.statement in program.suspects):
        line = write.statement.lineno
        if "data" in write.path or is_data_alias(program, write):
            told = in_english(
                "Line {line}: a modification through .data does not increment the version counter, so backward does not "
                "detect it.",
                line=line,
            )
            if program.verdict.error:
                told = in_english(
                    "Line {line}: a modification through .data does not increment the version counter, and breaks "
                    "backward in the same way: {seen}",
                    line=line,
                    seen=seen,
                )
            yield told
        elif any(is_under_no_grad(one) for one in program.source.ancestors(write.statement)):
            yield in_english(
                "Line {line}: torch.no_grad() does not protect saved tensors from the in-place modification "
                "inside it: {seen}",
                line=line,
                seen=seen,
            )


def figures(verdict: Verdict, meant: dict[str, Gradient]) -> str:
    """Return the result of a run in words: the first wrong gradient and the correct one, or that it raises."""
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
    return in_english("a gradient is wrong, and no error is raised.")


def short(value: object) -> str:
    """Return a gradient as a rounded and shortened text."""
    if isinstance(value, list):
        inside = ", ".join(short(one) for one in value[:4])
        return f"[{inside}{', …' if len(value) > 4 else ''}]"
    return f"{value:.4g}" if isinstance(value, int | float) else "none at all"


def is_identity(node: ast.expr) -> bool:
    """Return whether the expression is `lambda x: x`."""
    return (
        isinstance(node, ast.Lambda)
        and isinstance(node.body, ast.Name)
        and [one.arg for one in node.args.args] == [node.body.id]
    )


def keeps_graph(call: ast.Call) -> bool:
    """Return whether the call has `retain_graph=True`."""
    return any(one.arg == "retain_graph" and getattr(one.value, "value", None) is True for one in call.keywords)


def is_version_error(verdict: Verdict) -> bool:
    """Return whether backward raised an error because a saved tensor was modified."""
    return verdict.error is not None and "modified by an inplace operation" in verdict.error.message


def is_data_alias(program: BrokenProgram, write: InPlaceWrite) -> bool:
    """Return whether the modified variable was assigned from `.data`."""
    made = bindings(program.source, program.source.of(write.root))
    return any(one.attr == "data" for statement in made for one in every(ast.Attribute, statement.value))


def is_under_no_grad(node: ast.AST) -> bool:
    """Return whether the node is a `with torch.no_grad():` block."""
    return isinstance(node, ast.With) and any(is_no_grad(one.context_expr) for one in node.items)
