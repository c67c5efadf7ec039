"""Find hooks of leaves that are registered again in each iteration, and hooks that return no gradient."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.fault_words import A_PARAMETER, FaultKind, lines_with, name_of
from autograder.tape.observe.forecast import UNSEEN
from autograder.tape.recording.verdict_types import GraphFault

_REGISTERS = re.compile(r"\.register_hook\(")


def _registered_again(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the line that registers a hook of the same leaf once more between two backward calls."""
    hooked = evidence.state.flow.hooked.values()
    calls = [call.call for call in evidence.state.backward_calls if call is not UNSEEN]
    later = evidence.state.finished_steps[min(calls, default=0) :]
    lines = Counter(step.place for step in later if step.place and _REGISTERS.search(step.place.text))
    if hooked and lines:
        yield REGISTERED_AGAIN.at(
            max(lines, key=lambda place: lines[place]),
            "hook.again|each iteration registers the hook again, and the earlier ones stay, so the gradient of {names} has "
            "passed through {count} of them in one backward call.",
            "hook.once|Register it once, before the loop, or remove it after backward with the handle that register_hook "
            "returns.",
            names=name_of(evidence.state, (leaf for leaf, _ in hooked), A_PARAMETER),
            count=max(count for _, count in hooked),
        )  # fmt: skip


REGISTERED_AGAIN = FaultKind("hook registered again", _registered_again)


def _without_result(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the lines of a hook that bind its argument to a new gradient, if the hook returns nothing."""
    registered = {
        ast.unparse(call.args[0]).rpartition(".")[2]
        for _, call in evidence.nodes(ast.Call)
        if getattr(call.func, "attr", "") == "register_hook" and call.args
    }
    for file, function in evidence.nodes(ast.FunctionDef) if registered else ():
        inside = list(ast.walk(function))
        if function.name not in registered or any(isinstance(node, ast.Return) and node.value for node in inside):
            continue
        names = {argument.arg for argument in function.args.args}
        for node in (node for node in inside if isinstance(node, ast.Assign)):
            target = ast.unparse(node.targets[0])
            if any(isinstance(use, ast.Name) and use.id == target and use.lineno > node.lineno for use in inside):
                continue  # such as `g = g.cpu()` in front of `kept.append(g)`
            binds = lines_with(re.compile(rf"^{re.escape(target)} = "), evidence.state) if target in names else []
            ran = [place for place in binds if (place.file, place.line) == (file, node.lineno)]
            if ran:
                yield WITHOUT_RESULT.at(
                    ran[0],
                    "hook.no_result|the hook binds {name} to a new tensor and returns nothing, so the gradient stays as it is.",
                    "hook.return|Return the new gradient: `return {name}`.",
                    name=target,
                )  # fmt: skip


WITHOUT_RESULT = FaultKind("hook without a result", _without_result)
