"""The program in Gradescope's container: grade its one submission, and write results.json.

`run_autograder` starts it as `python -m autograder.classroom.graded_submission /autograder`.
"""

from __future__ import annotations

import json
import secrets
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autograder.classroom.collect.download import DownloadedSubmission, open_download
from autograder.classroom.collect.submission_files import readable, shapes_in
from autograder.classroom.harness_zip import HarnessTerms, read_terms
from autograder.course.paths import replace_file, write_files
from autograder.errors import AutograderError
from autograder.grade.backends.grading_job import GradingTerms, Job
from autograder.grade.backends.local_processes import LocalBackend
from autograder.grade.batch.course_folders import AssignmentFolders
from autograder.grade.batch.feedback_files import hidden_test_text
from autograder.grade.batch.student_submission import StudentSubmission
from autograder.grade.clean.harmless_text import harmless_text
from autograder.grade.sandbox.isolation import LEVELS, IsolationError, IsolationLevel
from autograder.grade.submission.cell_analysis import has_code
from autograder.grade.submission.notebook_grade import CellGrade, NotebookGrade
from autograder.grade.submission.submission_run import unreadable
from autograder.grade.submission.teacher.source import AssignmentSource, SourceCell

LONGEST_OUTPUT = 10_000  # characters of a test's message


def results_of(
    sources: Mapping[str, AssignmentSource],
    grades: Mapping[str, NotebookGrade],
    terms: HarnessTerms,
    remarks: list[str],
) -> dict[str, Any]:
    """Return the results of a submission, with remarks on the whole; sources and grades are given by the names of the notebooks."""
    ended = [graded.ended for graded in grades.values() if graded.ended]
    return {
        "score": round(sum(graded.points for graded in grades.values()), 6),
        "execution_time": round(sum(graded.seconds for graded in grades.values()), 2),
        "output": _text("\n".join([*ended, *remarks])),
        "output_format": "text",
        "test_output_format": "text",
        "tests": [
            _test(cell, grades[name].cells[cell.id], terms, f"{name}: " if len(sources) > 1 else "")
            for name, source in sources.items()
            for cell in source.graded
        ],
    }


def failed_results(reason: str) -> dict[str, Any]:
    """Return the results if grading failed: 0 points, and the reason."""
    message = f"Nothing was graded, and this is not the submission's fault: {reason}. Tell your instructor."
    return {"score": 0.0, "output": _text(message), "output_format": "text", "tests": []}


def _test(cell: SourceCell, grade: CellGrade, terms: HarnessTerms, before: str) -> dict[str, Any]:
    about: dict[str, Any] = {
        "name": before + cell.id.replace("_", " "),
        "output": _text(_reason(cell, grade, terms.hidden_tests)),
        "output_format": "text",
        "visibility": terms.visibility if cell.hides else "visible",
        "extra_data": {"status": grade.status, "kind": grade.kind},
    }
    if grade.points is None:
        return about
    status = "passed" if grade.points >= grade.max_points else "failed"
    return about | {"score": round(grade.points, 6), "max_score": grade.max_points, "status": status}


def _reason(cell: SourceCell, grade: CellGrade, level: str) -> str:
    if grade.points is None:
        return "A person grades this."
    if grade.hidden and grade.status != "correct":
        return hidden_test_text(level, _failed_part(cell, grade), grade.reason)
    return grade.reason or ("" if grade.status == "correct" else f"{grade.status}".capitalize() + ".")


def _failed_part(cell: SourceCell, grade: CellGrade) -> str | None:
    """Return the name of the hidden part that failed; None if a visible line may have failed."""
    parts = sorted(cell.hidden, key=lambda part: not part.first <= grade.line <= part.last)
    if grade.kind == "in process" and has_code(cell.visible):
        return None
    return parts[0].name if parts else ""


def _text(words: str) -> str:
    """Return the text without control characters and invalid Unicode, and cut to a maximum length; a submission may have written it."""
    clean = harmless_text(words).encode("utf-8", "backslashreplace").decode()
    return clean if len(clean) <= LONGEST_OUTPUT else f"{clean[:LONGEST_OUTPUT]}\n… cut off"


STUDENT = "submission"


def main(root: Path) -> None:
    """Write results/results.json in Gradescope's folder."""
    try:
        results = graded_results(root / "source", root / "submission")
    except AutograderError as error:
        results = failed_results(str(error))
    replace_file(root / "results" / "results.json", json.dumps(results, allow_nan=False, indent=1).encode())
    print(results["output"])


def graded_results(source: Path, submission: Path) -> dict[str, Any]:
    """Return the results of one submission, given the folders of the unpacked zip and of the submitted files.

    Raises:
        IsolationError: the container does not reach the required isolation level.
    """
    terms = read_terms(source)
    level = strongest_level(terms.isolation)
    with tempfile.TemporaryDirectory() as folder:
        course, steps = (
            source / "course",
            {name: Path(folder, name) for name in ("submitted", "autograded", "feedback")},
        )
        folders = AssignmentFolders(course, course / "source", steps, "sqlite://", "gradescope", True, terms.assignment)
        remarks = _place(submission, folders)
        print(f"isolation level {level.name!r}: {level.defends}")  # the instructor sees this output
        return _graded(folders, terms, level, [*remarks, f"Graded at isolation level {level.name!r}."])


def strongest_level(weakest: str) -> IsolationLevel:
    """Return the strongest level that this machine reaches. Raise IsolationError if it is weaker than the named one."""
    names = list(LEVELS)
    strong = [LEVELS[name] for name in names[: names.index(weakest) + 1]]
    for level in strong:
        if not level.obstacle:
            return level
    reasons = "; ".join(f"{level.name}: {level.obstacle}" for level in strong)
    raise IsolationError(f"the container does not reach the isolation level {weakest!r} ({reasons})")


def _place(submission: Path, folders: AssignmentFolders) -> list[str]:
    """Write the submitted files to the student's folder under the assignment's names; return the remarks."""
    shapes = shapes_in(folders.sources / folders.assignment)
    with open_download(submission) as download:
        files = {file.path: file for file in download.files}
        work = readable(DownloadedSubmission("", "", (), files), shapes, {})
        contents = work.read()
        folder = folders.submitted(STUDENT)
        folder.mkdir(parents=True)
        write_files(folder, contents)
        taken = [
            f"{match.path} was graded as {name}.ipynb." for name, match in work.notebooks.found.items() if match.how
        ]
        unknown = [f"{path} was left out: {why}." for path, why in work.notebooks.unknown.items()]
        return [*taken, *unknown, *download.notes, *work.notes]


def _graded(
    folders: AssignmentFolders, terms: HarnessTerms, level: IsolationLevel, remarks: list[str]
) -> dict[str, Any]:
    sources, _ = folders.read_sources(level, terms.limits)
    work = StudentSubmission(folders, STUDENT, sources, terms.limits)
    jobs = [
        Job(STUDENT, name, data, work.files, terms.plans[name], pictures=True) for name, data in work.notebooks.items()
    ]
    grading = GradingTerms(sources, level.name, terms.limits, secrets.randbits(63))
    with LocalBackend(grading, 1) as backend:
        for result in backend.grade(jobs):
            grade = result.grade or unreadable(sources[result.notebook], result.failure)
            work.grades[result.notebook] = grade
    return results_of(sources, work.grades, terms, [*work.notes, *remarks])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
