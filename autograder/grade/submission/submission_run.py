"""One submission's notebook while it is graded: its cells run in the worker, and grades and outputs are collected."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

import msgspec
import nbformat
from nbformat import NotebookNode
from nbgrader import utils

from autograder.check.message import Incorrect
from autograder.grade.clean.harmless_cells import DRAWING_SECONDS, ProcessorBudget, harmless_cell
from autograder.grade.submission.align import PUT_BACK, AlignedCell, align
from autograder.grade.submission.cell_analysis import statements
from autograder.grade.submission.notebook_grade import CellGrade, NotebookGrade, Status
from autograder.grade.submission.server_client import WorkerClient, WorkerEnded, ended_output
from autograder.grade.submission.teacher.cell_kinds import Kind
from autograder.grade.submission.teacher.source import AssignmentSource, SourceCell
from autograder.grade.wire import messages
from autograder.locale.languages import METADATA, SOURCE, language
from autograder.locale.messages import Message
from autograder.locale.stored_messages import StoredMessage, stored, with_stored
from autograder.locale.translations import localized, translated

PREDICTION = re.compile(r"\s*@?predicted(_value)?\(")


class SubmissionRun:
    """The state of one submission's notebook, whose cells are aligned with the source's."""

    def __init__(self, source: AssignmentSource, cells: list[AlignedCell]) -> None:
        self.source, self.cells = source, cells
        self.grades: dict[str, CellGrade] = {}  # of the tests that have run, by the cell's id
        self.ended: str | None = None  # the reason why the program has ended before its last cell
        self.count = 0  # the number of started cells, which is the execution count of the latest one

    def next_cell(
        self, cell: NotebookNode, text: str, answers: Iterator[messages.Answer], worker: WorkerClient
    ) -> messages.CellRan | None:
        """Return the next answer, and store its outputs in the cell; None if the cell did not finish."""
        self.count += 1
        cell.execution_count = self.count
        if self.ended is not None or not text.strip():
            return None
        try:
            answer = next(answers)
        except WorkerEnded as error:
            values = {"number": self.count, "reason": str(error)}
            name = next((source.id for submitted, source in self.cells if submitted is cell and source is not None), "")
            self.ended = Message("grade.ended_in_cell|the program was ended in cell {number}: {reason}", **values)
            if name:
                text = "grade.ended_in_named_cell|the program was ended in cell {number} ({name}): {reason}"
                self.ended = Message(text, name=name, **values)
            cell.outputs = [ended_output(self.ended)]
            return None
        if isinstance(answer, messages.CellRan):
            cell.outputs = worker.outputs(answer)
            return answer
        said = answer.reason if isinstance(answer, messages.Failure) else messages.OTHER_REQUEST
        cell.outputs = [ended_output(said)]
        return None

    def merge_from(self, inside: SubmissionRun, tests: Collection[str]) -> None:
        """Copy the grades and outputs of some tests from another run of the same submission."""
        self.ended = self.ended or inside.ended
        for (cell, source_cell), (there, _) in zip(self.cells, inside.cells, strict=True):
            if source_cell is not None and source_cell.id in tests:
                cell.outputs = there.outputs
                self.grades[source_cell.id] = inside.grades.get(source_cell.id) or _not_run(source_cell, inside.ended)

    def grade(self, seconds: float, *, any_prediction: bool = False) -> NotebookGrade:
        """Return the grade; tests that did not run get 0 points. With `any_prediction`, a wrong prediction earns its points."""
        # the answers that are as they were handed out, or empty
        unchanged = {
            source_cell.id
            for cell, source_cell in self.cells
            if source_cell and source_cell.is_answer and (_comment(cell) or not cell.source.strip())
        }
        for cell, source_cell in self.cells:
            if source_cell is not None and source_cell.kind in ("manual", "task"):
                self.grades[source_cell.id] = _manual_grade(cell, source_cell)
            if source_cell is not None and source_cell.kind == "test":
                self._grade_test(cell, source_cell, unchanged, any_prediction)
        said = (output.get("evalue") for cell, _ in self.cells for output in cell.get("outputs", []))
        about = {"ended": self.ended[:]} if self.ended else {}
        texts = stored(self.ended, *(grade.reason for grade in self.grades.values()), *said)
        whole = NotebookGrade(
            cells={cell.id: self.grades[cell.id] for cell in self.source.graded},
            comments={
                source_cell.id: _comment(cell)
                for cell, source_cell in self.cells
                if source_cell and (utils.is_solution(cell) or utils.is_task(cell))
            },
            notebook=_notebook_text(self.source, self.cells, about, texts),
            ended=self.ended or "",
            notes=tuple(
                f"{source_cell.id}: {PUT_BACK}"
                for cell, source_cell in self.cells
                if source_cell and cell.metadata.get("autograder", {}).get("put_back")
            ),
            seconds=seconds,
        )
        return _without_messages(whole)

    def _grade_test(
        self, cell: NotebookNode, source_cell: SourceCell, unchanged: set[str], any_prediction: bool
    ) -> None:
        grade = self.grades.get(source_cell.id) or _not_run(source_cell, self.ended)
        if any_prediction and grade.status == "incorrect" and _is_wrong_prediction(cell, source_cell):
            grade = msgspec.structs.replace(grade, status="completed", points=source_cell.points)
        answers = {answer.id for answer in self.source.answers_of(source_cell)}
        if grade.status == "incorrect" and answers and answers <= unchanged:
            grade = msgspec.structs.replace(grade, status="not attempted")
        self.grades[source_cell.id] = grade
        shown: dict[str, Any] = {"status": grade.status, "hidden": grade.hidden, "kind": grade.kind}
        shown |= {"line": grade.line} if grade.line else {}
        if grade.status == "for a person" and not grade.hidden:
            shown["reason"] = grade.reason[:]
        cell.metadata["autograder"] = {**cell.metadata.get("autograder", {}), **shown}


def unreadable(source: AssignmentSource, reason: str) -> NotebookGrade:
    """Return the grade of an unreadable submission: 0 points, the reason, and a notebook that contains the reason."""
    cells = align(source, [])
    said = translated("**This submission could not be graded:** {reason}.", reason=localized(reason))
    note = nbformat.v4.new_markdown_cell(said)
    about = {"ended": reason[:], "unreadable": True}
    grade = NotebookGrade(
        cells={cell.id: _not_run(cell, reason) for cell in source.graded},
        comments={},
        notebook=_notebook_text(source, [(note, None), *cells], about, stored(reason)),
        ended=reason,
    )
    return _without_messages(grade)


def _without_messages(grade: NotebookGrade) -> NotebookGrade:
    data, messages = with_stored(grade)
    return msgspec.structs.replace(msgspec.convert(data, NotebookGrade), messages=messages)


def _is_wrong_prediction(cell: NotebookNode, source_cell: SourceCell) -> bool:
    """Return whether a test, which consists of one prediction, ended because the prediction is wrong."""
    errors = [output.ename for output in cell.outputs if output.output_type == "error"]
    is_prediction = PREDICTION.match(source_cell.text) is not None and len(statements(source_cell.text)) == 1
    return is_prediction and errors == [Incorrect.__name__]


def graded_test(
    cell: SourceCell, kind: Kind, points: float | None, reason: str = "", failure: Status | None = None, **about: Any
) -> CellGrade:
    """Return the grade of a test that ran.

    `points` is the number on its last line, None for full points; `failure` is the result of a test that did not pass,
    and `about` contains further fields of the grade.
    """
    most = cell.points
    if failure is not None:
        return CellGrade(status=failure, points=0.0, max_points=most, reason=reason, kind=kind, **about)
    earned = most if points is None else max(0.0, min(points, most))
    if earned == most:
        reason = ""
    elif not reason:
        reason = Message("test.points|the test gave {number} of {most} points", number=f"{earned:g}", most=f"{most:g}")
    return CellGrade(
        status="correct" if earned == most else "partly" if earned else "incorrect",
        points=earned,
        max_points=most,
        reason=reason,
        kind=kind,
        over_maximum=points if (points or 0.0) > most else None,
        **about,
    )


def needs_manual_grade(cell: SourceCell, reason: str = "", hidden: bool = False) -> CellGrade:
    """Return the grade of a cell that waits for manual grading."""
    return CellGrade(status="for a person", points=None, max_points=cell.points, reason=reason, hidden=hidden)


def _not_run(cell: SourceCell, reason: str | None) -> CellGrade:
    reason = reason or Message("test.not_run|the test was not run")
    return CellGrade(status="not run", points=0.0, max_points=cell.points, reason=reason)


def _manual_grade(cell: NotebookNode, source_cell: SourceCell) -> CellGrade:
    points = None if source_cell.kind == "task" else utils.determine_grade(cell)[0]
    if points is None:
        return needs_manual_grade(source_cell)
    return CellGrade(status="not attempted", points=points, max_points=source_cell.points)


def _comment(cell: NotebookNode) -> str | None:
    # as nbgrader's SaveAutoGrades does (nbgrader/preprocessors/saveautogrades.py, 0.9.6)
    untouched = cell.metadata.nbgrader.get("checksum") == utils.compute_checksum(cell)
    return "No response." if untouched and not utils.is_task(cell) else None


def _notebook_text(
    source: AssignmentSource, cells: list[AlignedCell], about: dict[str, Any], texts: tuple[StoredMessage, ...]
) -> str:
    metadata: dict[str, Any] = {
        key: source.metadata[key] for key in ("kernelspec", "language_info") if key in source.metadata
    }
    if language() != SOURCE:
        metadata[METADATA] = language()
    if texts:
        about["messages"] = msgspec.to_builtins(texts)
    if about:
        metadata["autograder"] = about
    drawing = ProcessorBudget(DRAWING_SECONDS)
    released = {cell.text: cell.cell for cell in source.cells if cell.cell.cell_type != "code"}
    harmless = [harmless_cell(cell, drawing, released.get(cell.source)) for cell, _ in cells]
    for index, cell in enumerate(harmless):
        cell["id"] = f"cell-{index}"
    notebook = {"cells": harmless, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    # nbformat.writes copies and validates the notebook first, which takes longer than writing it
    return msgspec.json.format(msgspec.json.encode(notebook), indent=1).decode()
