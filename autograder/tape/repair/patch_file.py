"""Write a fix to the user's files, and keep the original files under another name."""

from __future__ import annotations

import os
import shutil
import tokenize
from collections.abc import Sequence
from pathlib import Path

from autograder.errors import InputError, UnfinishedError
from autograder.tape.recording.verdict_types import Fix
from autograder.tape.repair.edits import apply_fix
from autograder.tape.repair.trial.program_factory import ProgramFactory
from autograder.tape.run.programs.source_text import read_source


def best_fix(fixes: Sequence[Fix], *, unproven: bool = False) -> Fix | None:
    """Return the first fix that keeps all losses and gradients, or None. With `unproven`, fall back to the first fix."""
    proven = (fix for fix in fixes if fix.proven)
    return next(proven, fixes[0] if unproven and fixes else None)


def as_patch(fix: Fix) -> str:
    """Return a fix as a patch. A comment line above it, which `git apply` skips, describes a changed computation."""
    return fix.diff if fix.proven else f"# Changes what is computed: {fix.changes}\n{fix.diff}"


def apply_best_repair(factory: ProgramFactory, fixes: Sequence[Fix], *, unproven: bool = False) -> str:
    """Write the first fix that keeps all losses and gradients (or, with `unproven`, the first fix), and return a sentence about it.

    Raises:
        InputError: if the program is neither a Python file nor a notebook.
        UnfinishedError: if a file or its copy cannot be written; no file is changed in this case.
    """
    path = factory.original.code_file
    if not path.endswith((".py", ".ipynb")) or not os.path.isfile(path):
        raise InputError.of(
            "patch.no_source|{file} is neither a Python file nor a notebook, so a fix cannot be applied to it. Use --diff.",
            file=factory.file,
        )
    best = best_fix(fixes, unproven=unproven)
    if best is None:
        return f"{factory.file} was not changed: no repair keeps every loss and gradient."
    shown = {os.path.abspath(fix.file) if fix.file else path: fix for fix in (best, *best.more)}
    for place, fix in shown.items():
        is_script = place == path
        changed = apply_fix(factory.source if is_script else read_source(place), fix)
        prepare(place, fix.file or factory.file, factory.written(changed) if is_script else changed)
    for place in shown:
        os.replace(f"{place}.new", place)
    changes = [(fix.file or factory.file, fix) for fix in shown.values()]
    written = "; ".join(f"{name}: line {fix.line}, {fix.kind}; the original is {name}.orig" for name, fix in changes)
    return f"{written}." if best.proven else f"{written}. It changes what is computed: {best.changes}"


def prepare(path: str, name: str, changed: str) -> None:
    """Write the changed text to `path.new` with the permissions of the file, and copy the file to `path.orig`.

    Raises:
        UnfinishedError: if one of them cannot be written.
    """
    kept, written = f"{path}.orig", f"{path}.new"
    try:
        with open(path, "rb") as before:
            encoding, _ = tokenize.detect_encoding(before.readline)
            newline = "\r\n" if b"\r\n" in before.read() else "\n"
        shutil.copy2(path, kept)
        shutil.copy2(path, written)
        Path(written).write_text(changed, encoding, newline=newline)
    except OSError as error:
        text = "patch.not_written|A fix cannot be applied to {name} ({reason}). Use --diff, and apply it elsewhere."
        raise UnfinishedError.of(text, name=name, reason=error.strerror) from None
