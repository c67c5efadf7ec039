"""One submission from beginning to end: its cells in the worker, the source's tests here, one result."""

from __future__ import annotations

import secrets
import time

import msgspec
import nbformat
from nbformat import NotebookNode
from nbgrader import utils

from autograder.grade.submission.align import PUT_BACK, Aligned, align
from autograder.grade.submission.remote import Ended, Server, Worker
from autograder.grade.submission.remote_names import RemoteNames
from autograder.grade.submission.result import CellGrade, Graded
from autograder.grade.submission.source import AssignmentSource, SourceCell
from autograder.grade.submission.test_runner import Bench, Examination
from autograder.grade.submission.untrusted_notebook import Unreadable, parse
from autograder.grade.wire import messages
from autograder.grade.wire.limits import Limits
from autograder.grade.wire.outputs import Output


class Examiner:
    """Grades submissions one after another, each in a worker of its own. Lives in the main thread of a trusted process."""

    def __init__(self, server: Server, limits: Limits) -> None:
        self._server, self._limits = server, limits
        self._bench = Bench(limits.cell_seconds, limits.output_bytes)

    def grade(self, source: AssignmentSource, data: bytes, files: dict[str, bytes], seed: int | None = None) -> Graded:
        """Returns the grade of a notebook, given as the bytes of its file; whatever is wrong with it is part of the grade.

        Args:
            source: the teacher's notebook.
            data: the submitted notebook's bytes.
            files: what was handed in beside it, by relative path.
            seed: what inputs are drawn from; None draws a fresh one, which nobody can know.
        """
        start = time.monotonic()
        try:
            cells = align(source, parse(data))
        except Unreadable as error:
            return unreadable(source, str(error))
        run = SubmissionRun(source, cells)
        try:
            with self._server.worker(files, source.late_modules) as worker:
                names = RemoteNames(worker)
                seed = secrets.randbits(63) if seed is None else seed
                run.through(worker, names, self._bench.for_submission(source, names, seed))
        except Ended as error:
            run.never_started(str(error))
        return run.graded(time.monotonic() - start)


class SubmissionRun:
    """The course of one submission's notebook."""

    def __init__(self, source: AssignmentSource, cells: list[Aligned]) -> None:
        self._source, self._cells = source, cells
        self.grades: dict[str, CellGrade] = {}
        self.ended = ""  # why, once the program is gone
        self._count = 0

    def through(self, worker: Worker, names: RemoteNames, examination: Examination) -> None:
        """Runs every cell where it belongs."""
        for cell, own, _ in self._cells:
            if cell.cell_type != "code":
                continue
            if own is None or own.kind != "test":
                self.learners(cell, worker)
                names.has_run(cell.source)
                continue
            self.learners(cell, worker, instead=self._source.for_learners(own))
            tested = examination.test(own, self._count)
            cell.outputs = [nbformat.from_dict(output) for output in tested.outputs]
            self.grades[own.id] = tested.grade
            cell.metadata["autograder"] = {"status": tested.grade.status, "hidden": tested.grade.hidden}

    def never_started(self, reason: str) -> None:
        """Takes note that there was no process to run the cells in."""
        self.ended = self.ended or reason

    def graded(self, seconds: float) -> Graded:
        """Returns what it all came to."""
        for _, own, _ in self._cells:
            if own is not None and own.kind == "test" and own.id not in self.grades:
                self.grades[own.id] = _not_run(own, self.ended)
        for cell, own, _ in self._cells:
            if own is not None and own.kind in ("manual", "task"):
                self.grades[own.id] = _by_a_person(cell, own)
        return Graded(
            cells={cell.id: self.grades[cell.id] for cell in self._source.graded},
            comments={own.id: _comment(cell) for cell, own, _ in self._cells if own and _has_comment(cell)},
            notebook=_written(self._source, self._cells, self.ended),
            ended=self.ended,
            notes=tuple(f"{own.id}: {PUT_BACK}" for _, own, put_back in self._cells if own and put_back),
            seconds=seconds,
        )

    def learners(self, cell: NotebookNode, worker: Worker, instead: str | None = None) -> None:
        """Runs a cell in the worker and keeps its outputs; with `instead`, runs that text and keeps none."""
        self._count += 1
        cell.execution_count = self._count
        text = cell.source if instead is None else instead
        if self.ended or not text.strip():
            return
        try:
            ran = worker.ask(messages.RunCell(text), messages.Ran)
            if instead is None:
                cell.outputs = received_outputs(ran.outputs)
        except Ended as error:
            self.ended = f"the program was ended in cell {self._count}: {error}"
            cell.outputs = [ended_output(self.ended)]
        except KeyError as error:
            cell.outputs = [ended_output(str(error))]


def unreadable(source: AssignmentSource, reason: str) -> Graded:
    """Returns the grade of work that cannot be read: no points, the reason, and a notebook that says so."""
    cells = align(source, [])
    note = nbformat.v4.new_markdown_cell(f"**This submission could not be graded:** {reason}.")
    return Graded(
        cells={cell.id: _not_run(cell, reason) for cell in source.graded},
        comments={},
        notebook=_written(source, [Aligned(note, None), *cells], reason),
        ended=reason,
    )


def _not_run(cell: SourceCell, reason: str) -> CellGrade:
    return CellGrade(status="not run", points=0.0, max_points=cell.points, reason=reason or "the test was not run")


def _by_a_person(cell: NotebookNode, own: SourceCell) -> CellGrade:
    if own.kind == "task":
        return CellGrade(status="for a person", points=None, max_points=own.points)
    points, _ = utils.determine_grade(cell)
    status = "for a person" if points is None else "not attempted"
    return CellGrade(status=status, points=points, max_points=own.points)  # type: ignore[arg-type]


def _has_comment(cell: NotebookNode) -> bool:
    return bool(utils.is_solution(cell) or utils.is_task(cell))


def _comment(cell: NotebookNode) -> str | None:
    untouched = cell.metadata.nbgrader.get("checksum") == utils.compute_checksum(cell)
    return "No response." if untouched and not utils.is_task(cell) else None


def received_outputs(data: bytes) -> list[NotebookNode]:
    """Returns outputs that a worker sent, in nbformat's form and nothing else."""
    try:
        return [
            nbformat.from_dict(output) for output in msgspec.to_builtins(msgspec.json.decode(data, type=list[Output]))
        ]
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return [ended_output("the cell's outputs were in no known form and are left out")]


def ended_output(reason: str) -> NotebookNode:
    """Returns the output to show below a cell that was not run to its end."""
    return nbformat.v4.new_output("error", ename="Ended", evalue=reason, traceback=[reason])


def _written(source: AssignmentSource, cells: list[Aligned], ended: str) -> str:
    metadata = {key: source.metadata[key] for key in ("kernelspec", "language_info") if key in source.metadata}
    if ended:
        metadata["autograder"] = {"ended": ended}
    for index, item in enumerate(cells):
        item.cell["id"] = f"cell-{index}"
    notebook = NotebookNode(nbformat=4, nbformat_minor=5, metadata=metadata, cells=[item.cell for item in cells])
    return nbformat.v4.writes(notebook)  # nbformat.writes validates once more, which takes longer than writing
