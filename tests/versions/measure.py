"""Runs inside one environment: the facts in pytest, the corpus in worker processes; writes the results as JSON.

If plain PyTorch itself raises an error that the corpus does not declare, or another one, this is expected of the tape.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from multiprocessing import get_context
from pathlib import Path
from xml.etree import ElementTree

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests"))  # as tests/conftest.py has it
FACTS = ("tests/tape/internals/test_facts.py", "tests/tape/internals/test_internals.py")


def main(output: str, sample: str, workers: str) -> None:
    """Write the report of this environment."""
    from tests.corpus.programs import programs

    names = [program.name for program in programs()][:: int(sample)]
    context = get_context("spawn")
    with ProcessPoolExecutor(int(workers), context, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        found = dict(zip(names, pool.map(judgement_of, names, chunksize=4), strict=True))
    report = {"torch": torch.__version__.partition("+")[0], "sample": int(sample), "facts": facts(), "programs": found}
    Path(output).write_text(json.dumps(report), encoding="utf-8")


def judgement_of(name: str) -> dict:
    """Return the judgment of one program, whether it is repaired (None if it is correct), and how plain PyTorch differs."""
    from tests.corpus.judgement import judged, recorded

    declared = corpus()[name]
    program, instead = as_here(declared)
    judgement = asdict(judged(program)) | {"repaired": None if instead else repaired(name), "instead": instead}
    return judgement | {"notes": list(recorded(program).verdict.notes)}


@functools.cache
def corpus() -> dict:
    """Return the programs by name."""
    from tests.corpus.programs import programs

    return {program.name: program for program in programs()}


def as_here(program):
    """Return the program as this PyTorch runs it, and its behavior if that differs from the declaration."""
    from tests.corpus.oracles import run

    plain = run(program)
    if plain.raised is None or plain.raised == program.outcome:
        return program, None
    here = replace(program, outcome=plain.raised, harm=frozenset(), saves=frozenset())
    return here, f"plain PyTorch raises {plain.error}: {plain.message.splitlines()[0]}"


def repaired(name: str) -> bool | None:
    """Return whether a broken program has a proven repair; None if a repair is not needed or not possible."""
    from tests.repair.test_corpus import BROKEN, repairs_of

    broken = {program.name: program for program in BROKEN}
    return bool(repairs_of(broken[name]).fixes) if name in broken else None


def facts() -> dict[str, int]:
    """Return how many tests of PyTorch's facts there are, and how many fail."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "facts.xml"
        command = [sys.executable, "-m", "pytest", *FACTS, f"--junitxml={result}", "-p", "no:cacheprovider"]
        subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL)
        suite = next(ElementTree.parse(result).getroot().iter("testsuite"))
    return {key: int(suite.get(key, 0)) for key in ("tests", "failures", "errors")}


if __name__ == "__main__":
    main(*sys.argv[1:])
