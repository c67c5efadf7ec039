"""What `explain` says of a whole script, held against the script's marks and its repaired twin."""

from __future__ import annotations

import os
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from autograder.tape import explain_json, explain_program
from autograder.tape.repair.trial.program_factory import ProgramFactory, factory_of_file, factory_of_module
from autograder.tape.run.programs.command_line import CommandLine
from autograder.view.text.first_screen import as_screen
from tests.corpus.script_runs import in_child, run_script, same_training
from tests.corpus.whole_scripts import Place, Script


@dataclass(frozen=True)
class ScriptAnswer:
    """One answer.

    Attributes:
        found: the object of `explain --json`.
        screen: the lines of the first screen.
    """

    found: dict[str, Any]
    screen: int


@dataclass(frozen=True)
class ScriptJudgement:
    """What of an answer is right, point by point; None where the script does not ask.

    Attributes:
        outcome: the word is the declared one.
        line: a marked line is named; `innocent` the lines that are named and not marked.
        saved: a line that saved is named.
        alarm: a right script is said to be harmed, or gets another outcome.
        first: the first repair trains as the twin does.
        false_proven: the repairs that are called proven and train otherwise, each with how.
    """

    outcome: bool
    line: bool | None = None
    innocent: frozenset[Place] = frozenset()
    saved: bool | None = None
    alarm: bool = False
    first: bool | None = None
    false_proven: tuple[str, ...] = ()


def ask(script: Script) -> ScriptAnswer:
    """Returns what `explain` answers, from a process that stands in the script's folder."""
    with tempfile.TemporaryDirectory(prefix="autograder-script-") as folder:
        script.write(Path(folder))
        return in_child(lambda: answer(script, folder))


def answer(script: Script, folder: str) -> ScriptAnswer:
    """Explains the script here."""
    os.chdir(folder)
    factory = factory_of(script)
    recording = explain_program(factory)
    return ScriptAnswer(explain_json(recording, factory.file), as_screen(recording).count("\n"))


def factory_of(script: Script) -> ProgramFactory:
    """Returns the script as the command line names it, in its own folder."""
    started = CommandLine(script.arguments)
    return factory_of_module(script.module, started) if script.module else factory_of_file(script.main, None, started)


def judge(script: Script, found: dict[str, Any]) -> ScriptJudgement:
    """Returns what is right of an answer."""
    outcome = found["outcome"] == script.outcome
    if script.twin is None:
        return ScriptJudgement(outcome, alarm=not outcome or bool(found["harms"]))
    wrote = {place_of(script, place) for harm in found["harms"] for place in harm["mutated_at"]}
    if script.outcome == "raises-forward" and found["error"]:
        wrote.add((script.main, found["error"]["line"]))
    saved = {place_of(script, harm["saved_at"]) for harm in found["harms"]}
    trained = [(fix["proven"], otherwise(script, fix["diff"])) for fix in found["fixes"]]
    return ScriptJudgement(
        outcome,
        line=bool(wrote & script.harm),
        innocent=frozenset(wrote - script.harm),
        saved=bool(saved & script.saves) if script.saves and script.outcome != "raises-forward" else None,
        first=bool(trained) and trained[0][1] is None,
        false_proven=tuple(
            why or "it trains another thing" for proven, why in trained if proven and (why or script.changes)
        ),
    )


def place_of(script: Script, place: dict[str, Any]) -> Place:
    """Returns where a line stands, by the file's own name."""
    return Path(place["file"] or script.main).name, place["line"]


def otherwise(script: Script, diff: str) -> str | None:
    """Returns how the script trains otherwise than its twin when `patch` has applied a repair; None where it does not."""
    with tempfile.TemporaryDirectory(prefix="autograder-script-") as folder:
        script.write(Path(folder))
        done = subprocess.run(["patch", "-p1"], input=diff, text=True, cwd=folder, capture_output=True)
        if done.returncode:
            return f"patch refuses it: {done.stdout.strip()}"
        return same_training(twin_run(script), run_script(script, folder=Path(folder)))


@cache
def twin_run(script: Script):
    """Returns what the twin does."""
    return run_script(script.twin)
