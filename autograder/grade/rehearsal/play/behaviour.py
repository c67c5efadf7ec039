"""Which mutants do what the model answer does: asked in a worker, on the calls that tests make and on variations of these."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from autograder.grade.submission.connection.server_client import ServerClient
from autograder.grade.submission.connection.worker_client import WorkerClient, WorkerEnded
from autograder.grade.submission.teacher.source import AssignmentSource
from autograder.grade.wire import messages

BEGIN = "from autograder.grade.rehearsal.play.probe import Probe as _Probe; _probe = _Probe(globals())"
MARK = "autograder-difference:"


class UncaughtMutant(NamedTuple):
    """A mutant that every test let pass: the grade_id of the answer that it stands for, and its cell's whole text."""

    answer: str
    text: str


def differences(source: AssignmentSource, suspects: Sequence[UncaughtMutant], server: ServerClient) -> list[str]:
    """Returns for each suspect in what it differs from the model answer, "" where it does the same in all that was looked at.

    Values, types, writes into arguments, errors, printed text, gradients and shared memory are looked at.

    Raises:
        IsolationError: the server does not start.
    """
    waiting, found = list(suspects), list[str]()
    while waiting:
        known = list(_asked(source, waiting, server))
        found += known + ["it ended Python or took too long"] * (len(known) < len(waiting))
        waiting = waiting[len(known) + 1 :]
    return found


def _asked(source: AssignmentSource, suspects: Sequence[UncaughtMutant], server: ServerClient) -> Iterator[str]:
    """Yields differences until a suspect ends the worker."""
    try:
        with server.worker(source.files, source.late_modules) as worker:
            _run_model_answers(source, worker)
            for suspect in suspects:
                printed = _run(worker, f"print({MARK!r} + _probe.difference({suspect.answer!r}, {suspect.text!r}))")
                yield printed.rpartition(MARK)[2].strip() if MARK in printed else "it could not be compared"
    except WorkerEnded:
        return


def _run_model_answers(source: AssignmentSource, worker: WorkerClient) -> None:
    """Runs the notebook, its tests with their hidden parts, and records what the tests call of the answers."""
    _run(worker, BEGIN)
    for cell in source.cells:
        around = {
            "answer": (f"_probe.before({cell.id!r})", f"_probe.after({cell.id!r})"),
            "test": ("_probe.record()", "_probe.stop()"),
        }.get(cell.kind, ("", ""))
        if cell.cell.cell_type == "code":
            for text in filter(None, (around[0], cell.full, around[1])):
                _run(worker, text)


def _run(worker: WorkerClient, text: str) -> str:
    """Runs a cell in the worker and returns what it printed."""
    try:
        outputs = worker.received.read(worker.ask(messages.RunCell(text), messages.CellOutputs).outputs)
    except (KeyError, ValueError):
        return ""
    return "".join(str(output.get("text", "")) for output in outputs if output["output_type"] == "stream")
