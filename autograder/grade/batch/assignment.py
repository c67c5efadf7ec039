"""`grade ASSIGNMENT`: a whole class, from the submitted files to the gradebook and the autograded notebooks."""

from __future__ import annotations

import contextlib
import hashlib
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import msgspec

from autograder.grade.batch.classroom import Classroom, open_class, register
from autograder.grade.batch.course_config import forbids_one_process, limits_of
from autograder.grade.batch.feedback.feedback_files import write_feedback
from autograder.grade.batch.gradebook import (
    GradedStudent,
    GradeOrigin,
    GradingRecords,
    GradingRun,
    StoppedError,
)
from autograder.grade.batch.grading_lock import only_client
from autograder.grade.batch.student_rows import (
    BatchProgress,
    StudentRow,
    row_of,
    unchanged_row,
    with_problems,
    with_score,
)
from autograder.grade.batch.student_submission import StudentSubmission
from autograder.grade.batch.validation import source_reports
from autograder.grade.sandbox.isolation.levels import STRONGEST, known_level, require_level
from autograder.grade.sandbox.launch import parallel_jobs
from autograder.grade.submission.submission_run import unreadable
from autograder.grade.submission.submitted_files import is_about_the_machine
from autograder.grade.submission.teacher.grading_plan import GradingPlan, plan_all_in_process
from autograder.grade.validation.made_up_submissions import OnStep, ignore_step
from autograder.grade.validation.validate import SourceReport
from autograder.grade.where.grading_job import Graders, GradingPlace, GradingTerms, Job, JobResult
from autograder.grade.where.local_processes import LocalBackend
from autograder.grade.where.machine_facts import deciding_versions
from autograder.grade.wire.limits import Limits
from autograder.printable import printable


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How to grade a class.

    Attributes:
        jobs: how many submissions at once; 0 takes one for each core.
        isolation: the name of the isolation level.
        resume: continue the run that was interrupted.
        force: grade also what has not changed since it was graded.
        accept_source: let the gradebook follow a source that gained or lost cells after the class was graded.
        one_process: run the tests in the submission's own process, for notebooks whose tests need more than data.
        two_processes: let a test that cannot be judged in two processes mark nobody, instead of running it in one.
        feedback: what the feedback shows of hidden tests: "none", "name" or "message"; "off" writes no feedback.
        limits: what one submission may use; None asks the course's nbgrader_config.py.
        chosen_limits: for this run, by the names of `course_config.Autograder`; these go before the course's own.
    """

    jobs: int = 0
    isolation: str = STRONGEST
    resume: bool = False
    force: bool = False
    accept_source: bool = False
    one_process: bool = False
    two_processes: bool = False
    feedback: Literal["off", "none", "name", "message"] = "off"
    limits: Limits | None = None
    chosen_limits: dict[str, float] = {}


def grade_assignment(
    assignment: str,
    course: Path,
    options: Options,
    on_progress: Callable[[BatchProgress], None] = lambda progress: None,
    place: GradingPlace | None = None,
    on_reports: Callable[[list[SourceReport]], None] = lambda reports: None,
    on_step: OnStep = ignore_step,
) -> list[StudentRow]:
    """Grades a class into its gradebook, and returns a row for every student with a submission, by name.

    Args:
        assignment: its folder's name, in the sources and in each student's folder.
        course: the class's folder; holds submitted/STUDENT/ASSIGNMENT/*.ipynb.
        options: how to grade.
        on_progress: called after each submission.
        place: where submissions are graded; the caller closes it. None grades on this machine.
        on_reports: called with the reports on the sources, before the first student's folder is opened.
        on_step: called when the grading of a made-up submission begins.

    Raises:
        ClassError: there is no such class or assignment.
        IsolationError: the machine does not reach the level; nothing is graded.
        StoppedError: the gradebook stays locked or the disk is full; run again with `resume`.
        BusyError: another client grades the assignment.
    """
    classroom = open_class(course, assignment)
    with only_client(classroom.gradebook, assignment):
        return grade_classroom(classroom, options, on_progress, place, on_reports, on_step)


def grade_classroom(
    classroom: Classroom,
    options: Options,
    on_progress: Callable[[BatchProgress], None],
    place: GradingPlace | None,
    on_reports: Callable[[list[SourceReport]], None],
    on_step: OnStep,
) -> list[StudentRow]:
    """Grades a class that is opened already; as `grade_assignment`."""
    # A cluster's workers try the level themselves.
    level = known_level(options.isolation) if place else require_level(options.isolation)
    settings = classroom.settings()
    limits = options.limits or limits_of(settings, options.chosen_limits)
    sources = {source.name: source for source in classroom.read_sources(level, limits)}
    register(classroom, list(sources.values()), accept_source=options.accept_source)
    jobs = parallel_jobs(options.jobs)
    with (
        GradingRecords(classroom.gradebook, classroom.assignment, settings) as records,
        contextlib.nullcontext(place) if place else LocalBackend(level, jobs) as place,
    ):
        run = records.unfinished() if options.resume else None
        run = run or records.begin(secrets.randbits(63), forced=options.force)
        terms = GradingTerms(sources, level, limits, run.seed)
        with place.graders(terms) as processes:
            forbid = options.two_processes or forbids_one_process(settings)
            deciding = (limits, level.name, deciding_versions())
            reports = source_reports(
                sources.values(),
                records,
                deciding,
                processes,
                forbid_in_process=forbid,
                all_in_process=options.one_process,
                on_step=on_step,
            )
            on_reports(list(reports.values()))
            plans = {name: report.plan for name, report in reports.items()}
            batch = _Batch(classroom, terms, plans, records, run, on_progress)
            rows = batch.grade(processes)
        if options.feedback != "off":
            new = [row.student for row in rows if row.in_gradebook and not batch.has_feedback(row)]
            unwritten = write_feedback(classroom, new, options.feedback, jobs)
            rows = [with_problems(row, unwritten) for row in rows]
        records.finish(run)
    return sorted(rows, key=lambda row: row.student)


class _Batch:
    def __init__(
        self,
        classroom: Classroom,
        terms: GradingTerms,
        plans: dict[str, GradingPlan],
        records: GradingRecords,
        run: GradingRun,
        on_progress: Callable[[BatchProgress], None],
    ) -> None:
        self.classroom, self.terms, self.plans, self.records, self.run = classroom, terms, plans, records, run
        self.on_progress = on_progress
        self.students = classroom.students()
        self.variants = classroom.variants()
        self.course_files, self.notes = classroom.course_files()
        # A student whom the teacher removed from the gradebook still has an origin there, and no grade.
        has_grade = records.scores()
        self.known = {student: origin for student, origin in records.origins().items() if student in has_grade}
        self.penalties = {student: score.late_penalty for student, score in has_grade.items()}
        # A change in any of these may change a grade, so that unchanged work is graded again.
        deciding = [
            *(source.digest for source in terms.sources.values()),
            terms.limits,
            msgspec.json.encode(plans, order="deterministic"),
            terms.level.name,
            deciding_versions(),
        ]
        self.source_digest = hashlib.sha256(repr(deciding).encode()).hexdigest()
        self.made_with = {
            "isolation": terms.level.name,
            "one process": all(plans[name] == plan_all_in_process(source) for name, source in terms.sources.items()),
            "seed": str(run.seed),
            "limits": terms.limits,
            "versions": deciding_versions(),
        }
        self.at_work: dict[str, StudentSubmission] = {}
        self.finished: list[StudentRow] = []

    def grade(self, processes: Graders) -> list[StudentRow]:
        for results in processes.batches(self._jobs()):
            self._settle([self._noted(result) for result in results])
        times = {row.student: self.classroom.submission_time(row.student) for row in self.finished}
        self.records.renew_penalties({row.student: times[row.student].time for row in self.finished if row.unchanged})
        scores = self.records.scores()
        return [
            with_score(row, scores.get(row.student), times[row.student].problem, self.records.is_excused(row.student))
            for row in self.finished
        ]

    def _noted(self, result: JobResult) -> StudentSubmission:
        """Notes a notebook's grade with its student's other ones."""
        work = self.at_work[result.student]
        source = self.terms.sources[result.notebook]
        work.grades[result.notebook] = result.grade or unreadable(source, result.failure)
        work.graded_by[result.notebook] = {"worker": result.worker, "machine": result.machine}
        return work

    def has_feedback(self, row: StudentRow) -> bool:
        """Returns whether a student's pages say what holds now."""
        same = row.unchanged and row.late_penalty == self.penalties.get(row.student)
        return same and self.classroom.feedback(row.student).is_dir()

    def _jobs(self) -> Iterator[Job]:
        """Yields the notebooks to grade; each is read from disk only when a process is free."""
        for student in self.students:
            work = StudentSubmission(self.classroom, student, self.terms.sources, self.course_files, self.terms.limits)
            if self._has_grade(work):
                self._finish(unchanged_row(student, self.known[student][1].cells))
                continue
            self.at_work[student] = work
            files = work.files
            for name, data in work.notebooks.items():
                variant = self.variants.get(student)
                yield Job(student, name, data, files, self.plans[name], variant, pictures=True)
            self._settle([work])

    def _has_grade(self, work: StudentSubmission) -> bool:
        run, origin = self.known.get(work.student, (0, None))
        same = origin is not None and (origin.submission, origin.source) == (work.digest, self._source_of(work.student))
        there = self.classroom.autograded(work.student).is_dir()
        return same and there and (run == self.run.number or not self.run.forced)

    def _settle(self, works: list[StudentSubmission]) -> None:
        """Writes the grades of those students whose notebooks all have theirs."""
        rows: list[StudentRow] = []
        graded: list[GradedStudent] = []
        try:
            for work in works:
                if work.complete and self.at_work.pop(work.student, None) is not None:
                    rows.append(self._row(work))
                    graded += [self._graded(work, rows[-1])] if work.has_id else []
        finally:  # where a folder cannot be written, what came before is kept
            self.records.write(graded, self.run)
        for row in rows:
            self._finish(row)

    def _row(self, work: StudentSubmission) -> StudentRow:
        problem = self._write_folder(work)
        return row_of(work, [*self.notes, *self._notes_on_variant(work.student)], problem)

    def _write_folder(self, work: StudentSubmission) -> str:
        """Writes the autograded folder; returns why it could not be, where that is a matter of this student alone."""
        try:
            if work.has_id:
                work.write_folder()
        except OSError as error:
            reason = f"the graded notebooks cannot be written ({error.strerror}: {printable(str(error.filename))})"
            if is_about_the_machine(error):
                raise StoppedError(
                    f"{printable(work.student)}: {reason}; what was graded so far is kept. "
                    f"Fix that, then run the same command with --resume"
                ) from None
            return reason
        return ""

    def _graded(self, work: StudentSubmission, row: StudentRow) -> GradedStudent:
        made_with = self.made_with | {"graded by": work.graded_by}
        origin = GradeOrigin(
            submission=work.digest,
            source=self._source_of(work.student),
            made_with=msgspec.json.encode(made_with).decode(),
            cells=msgspec.json.encode(row).decode(),
        )
        return GradedStudent(work.student, work.grades, origin, work.timestamp)

    def _notes_on_variant(self, student: str) -> list[str]:
        if not self.variants or student in self.variants:
            return []
        return ["was handed no notebook of their own, and is graded by the one that all would get"]

    def _source_of(self, student: str) -> str:
        """Returns a hash of what decides a student's grade beside the submission; of a variant, its seed too."""
        variant = self.variants.get(student)
        if variant is None:
            return self.source_digest
        return hashlib.sha256(f"{self.source_digest} {variant}".encode()).hexdigest()

    def _finish(self, row: StudentRow) -> None:
        self.finished.append(row)
        self.on_progress(BatchProgress(len(self.finished), len(self.students)))
