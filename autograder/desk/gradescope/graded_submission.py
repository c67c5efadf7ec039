"""The program in Gradescope's container: grade its one submission, and write results.json.

`run_autograder` starts it as `python -m autograder.desk.gradescope.graded_submission /autograder`.
"""

from __future__ import annotations

import json
import secrets
import sys
import tempfile
from pathlib import Path
from typing import Any

from autograder.course.file_replacement import replace_file
from autograder.desk.collect.download import open_download
from autograder.desk.collect.downloaded_hand_in import DownloadedHandIn
from autograder.desk.collect.hand_in_files import readable
from autograder.desk.collect.notebook_names import shapes_in
from autograder.desk.gradescope.gradescope_results import failed_results, results_of
from autograder.desk.gradescope.harness_terms import HarnessTerms, read_terms
from autograder.errors import AutograderError
from autograder.grade.batch.classroom import Classroom
from autograder.grade.batch.student_submission import StudentSubmission
from autograder.grade.sandbox.isolation import LEVELS, IsolationError, IsolationLevel
from autograder.grade.submission.submission_run import unreadable
from autograder.grade.where.grading_job import GradingTerms, Job
from autograder.grade.where.local_processes import LocalBackend

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
    """Return the results of one submission.

    Args:
        source: the folder of the unpacked zip.
        submission: the folder of the submitted files.

    Raises:
        IsolationError: the container does not reach the required isolation level.
    """
    terms = read_terms(source)
    level = strongest_level(terms.isolation)
    with tempfile.TemporaryDirectory() as folder:
        classroom = _classroom(source / "course", Path(folder), terms.assignment)
        remarks = _place(submission, classroom)
        print(f"isolation level {level.name!r}: {level.defends}")  # the instructor sees this output
        return _graded(classroom, terms, level, [*remarks, f"Graded at isolation level {level.name!r}."])


def strongest_level(weakest: str) -> IsolationLevel:
    """Return the strongest level that this machine reaches, if it is at least as strong as the named one.

    Raises:
        IsolationError: the machine does not reach such a level.
    """
    names = list(LEVELS)
    strong = [LEVELS[name] for name in names[: names.index(weakest) + 1]]
    for level in strong:
        if not level.obstacle:
            return level
    reasons = "; ".join(f"{level.name}: {level.obstacle}" for level in strong)
    raise IsolationError(f"the container does not reach the isolation level {weakest!r} ({reasons})")


def _classroom(course: Path, folder: Path, assignment: str) -> Classroom:
    steps = {step: folder / step for step in ("submitted", "autograded", "feedback")}
    return Classroom(course, assignment, course / "source", steps, "sqlite://", "gradescope")


def _place(submission: Path, classroom: Classroom) -> list[str]:
    """Write the submitted files to the student's folder under the assignment's names; return the remarks."""
    shapes = shapes_in(classroom.sources / classroom.assignment)
    with open_download(submission) as download:
        files = {file.path: file for file in download.files}
        work = readable(DownloadedHandIn("", "", (), files), shapes, {})
        contents = work.read()
        folder = classroom.submitted(STUDENT)
        folder.mkdir(parents=True)
        for name, data in contents.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        taken = [f"{one.path} was graded as {name}.ipynb." for name, one in work.found.found.items() if one.how]
        unknown = [f"{path} was left out: {why}." for path, why in work.found.unknown.items()]
        return [*taken, *unknown, *download.notes, *work.notes]


def _graded(classroom: Classroom, terms: HarnessTerms, level: IsolationLevel, remarks: list[str]) -> dict[str, Any]:
    sources = {source.name: source for source in classroom.read_sources(level, terms.limits)}
    work = StudentSubmission(classroom, STUDENT, sources, classroom.course_files()[0], terms.limits)
    jobs = [
        Job(STUDENT, name, data, work.files, terms.plans[name], pictures=True) for name, data in work.notebooks.items()
    ]
    grading = GradingTerms(sources, level, terms.limits, secrets.randbits(63))
    with LocalBackend(level, 1) as backend, backend.graders(grading) as processes:
        for result in processes.grade(jobs):
            grade = result.grade or unreadable(sources[result.notebook], result.failure)
            work.grades[result.notebook] = grade
    return results_of(sources, work.grades, terms, [*work.notes, *remarks])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
