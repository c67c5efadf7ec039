"""What each witness says of a program of the corpus, asked once in a run; every test of that program reads the same answer.

The tests of a program share a worker (`tests/conftest.py`), whichever file they stand in.
"""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from autograder.tape.explain import prove, record, record_file
from autograder.tape.recording.schema import Recording
from autograder.tape.repair.repairs import Repairs, find_repairs
from autograder.tape.repair.trial.program_factory import factory_of_file, factory_of_text
from tests.corpus import oracles, watch
from tests.corpus.programs import Program

FOLDER = tempfile.TemporaryDirectory(prefix="autograder-corpus-")

run = cache(oracles.run)
states = cache(oracles.states)
reference = cache(oracles.reference)
differences = cache(oracles.differences)
watched = cache(watch.watch)


@cache
def file_of(program: Program) -> str:
    """Returns the name that a program is recorded under: a module lies in a file, a text in none."""
    if not program.function:
        return program.file
    file = Path(tempfile.mkdtemp(dir=FOLDER.name)) / program.file
    file.write_text(program.source)
    return str(file)


@cache
def recorded(program: Program) -> Recording:
    """Returns the tape's recording: of a text as it stands, of a module by its file and the name of its function."""
    if program.function:
        return record_file(file_of(program), function=program.function)
    return record(program.source, file=program.file)


@cache
def repairs_of(program: Program) -> Repairs:
    """Returns the repairs of one program, for the verdict that was recorded."""
    file = file_of(program)
    factory = factory_of_file(file, program.function) if program.function else factory_of_text(program.source, file)
    return find_repairs(factory, recorded(program).verdict, prove)
