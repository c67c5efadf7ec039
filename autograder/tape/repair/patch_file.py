"""Writes a repair into the user's file, which is kept as it was under another name."""

from __future__ import annotations

import os
import shutil
import tokenize
from collections.abc import Sequence

from autograder.errors import InputError, UnfinishedError
from autograder.tape.recording.verdict_types import Fix
from autograder.tape.repair.fix_text import apply_fix
from autograder.tape.repair.program_factory import ProgramFactory


def apply_best_repair(factory: ProgramFactory, fixes: Sequence[Fix]) -> str:
    """Returns a sentence on what was written: the first repair, where it keeps every loss and gradient.

    Raises:
        InputError: the program is no Python file.
        UnfinishedError: the file, or the copy of it as it was, cannot be written; nothing is changed then.
    """
    path = factory.original.code_file
    if not path.endswith(".py") or not os.path.isfile(path):
        raise InputError(f"{factory.file} is no Python file, so no repair can be written into it. Use --diff.")
    best = next((fix for fix in fixes if fix.proven), None)
    if best is None:
        return f"{factory.file} is left as it is: no repair keeps every loss and gradient."
    kept, fresh = f"{path}.orig", f"{path}.new"
    try:
        with open(path, "rb") as before:
            encoding, _ = tokenize.detect_encoding(before.readline)
            newline = "\r\n" if b"\r\n" in before.read() else "\n"
        shutil.copy2(path, kept)
        shutil.copy2(path, fresh)  # with its rights
        with open(fresh, "w", encoding=encoding, newline=newline) as file:
            file.write(apply_fix(factory.source, best))
        os.replace(fresh, path)
    except OSError as error:
        raise UnfinishedError(
            f"{factory.file} cannot be repaired ({error.strerror}). Use --diff, and apply it elsewhere."
        ) from None
    return f"{factory.file}: line {best.line}, {best.kind}; as it was in {factory.file}.orig."
