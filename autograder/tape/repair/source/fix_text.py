"""Convert a changed source to a `Fix`, with the replaced lines and their replacement."""

from __future__ import annotations

import difflib
import os

from autograder.tape.recording.verdict_types import Fix


def changed_lines(before: str, after: str) -> int:
    """Return the number of inserted, deleted or replaced lines. A moved line counts twice."""
    steps = difflib.SequenceMatcher(None, before.split("\n"), after.split("\n"), autojunk=False).get_opcodes()
    return sum(max(stop - start, end - first) for step, start, stop, first, end in steps if step != "equal")


def as_diff(before: str, after: str, file: str) -> str:
    """Return the change as a unified diff, including the marker for a missing newline at the end of the file.

    Apply it with `git apply` or `patch -p1` in the working directory, if that contains the file, else in the directory
    of the file.
    """
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    path = os.path.relpath(file)
    path = os.path.basename(path) if path.startswith("..") else path.replace(os.sep, "/")
    lines = difflib.unified_diff(old, new, f"a/{path}", f"b/{path}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def as_fix(before: str, after: str, kind: str) -> Fix:
    """Return the change as the replaced lines and their replacement, without their common indentation."""
    old, new = before.split("\n"), after.split("\n")
    first = next((at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    last = 0
    while last < min(len(old), len(new)) - first and old[-1 - last] == new[-1 - last]:
        last += 1
    # Add an unchanged line to lines that are only inserted or only deleted.
    if first in (len(old) - last, len(new) - last):
        first, last = (first, last - 1) if last else (first - 1, last)
    was, now = old[first : len(old) - last], new[first : len(new) - last]
    depth = len(_shared_indent([*was, *now])) if any(one.strip() for one in was) else 0
    return Fix(kind, first + 1, _dedented(was, depth), _dedented(now, depth), True)


def _shared_indent(lines: list[str]) -> str:
    return os.path.commonprefix([one[: len(one) - len(one.lstrip())] for one in lines if one.strip()])


def _dedented(lines: list[str], depth: int) -> str:
    return "\n".join(one[depth:] if one.strip() else one for one in lines)


def apply_fix(source: str, fix: Fix) -> str:
    """Return the source after the fix."""
    lines = source.split("\n")
    old, new = fix.before.split("\n"), fix.after.split("\n")
    told = next((place for place, one in enumerate(old) if one.strip()), 0)
    indent = lines[fix.line - 1 + told].removesuffix(old[told])
    lines[fix.line - 1 : fix.line - 1 + len(old)] = [indent + one if one.strip() else one for one in new]
    return "\n".join(lines)
