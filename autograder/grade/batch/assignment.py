"""`grade ASSIGNMENT`, from the submitted files to the gradebook and graded notebooks; `validate-source`, which checks only sources."""

from __future__ import annotations

import hashlib
import itertools
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec
from nbformat import NotebookNode

from autograder.course.author_cells import exercises_of
from autograder.course.canonical import read
from autograder.course.variants.variant import seed_in_metadata
from autograder.course.variants.variant_record import other_owners
from autograder.errors import InputError, UnfinishedError, printable
from autograder.grade.backends.grading_job import Backend, GradingTerms, Job, JobResult, OpenBackend, deciding_versions
from autograder.grade.backends.local_processes import LocalBackend
from autograder.grade.batch.course_folders import (
    AssignmentFolders,
    check_release,
    forbids_one_process,
    limits_of,
    open_class,
    register,
)
from autograder.grade.batch.feedback_files import version_of_page, write_feedback
from autograder.grade.batch.gradebook import GradedStudent, GradeOrigin, GradingRecords, GradingRun, exclusive_lock
from autograder.grade.batch.student_rows import StudentRow, row_of, stored_row, with_problem, with_score
from autograder.grade.batch.student_submission import StudentSubmission
from autograder.grade.policy import read_policy
from autograder.grade.sandbox.isolation import STRONGEST, known_level, require_level
from autograder.grade.sandbox.launch import parallel_jobs
from autograder.grade.submission.submission_run import unreadable
from autograder.grade.submission.submitted_files import is_about_the_machine
from autograder.grade.submission.teacher.source import AssignmentSource, GradingPlan, plan_all_in_process
from autograder.grade.validation.mutation_test import MutationReport, NamedAnswer, mutation_test, short_limits
from autograder.grade.validation.validate import OnStep, SourceReport, ignore_step, validate_source
from autograder.grade.wire.limits import Limits


@dataclass(frozen=True)
class ProgressCallbacks:
    """Functions that report the progress of a run."""

    progress: Callable[[int, int], None] = ignore_step  # called with the numbers of graded and of all students
    reports: Callable[[list[SourceReport]], None] = ignore_step  # called before the first student's folder is opened
    step: OnStep = ignore_step


QUIET = ProgressCallbacks()


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a grading run."""

    jobs: int = 0  # number of submissions graded at once; 0 takes one per core
    isolation: str = STRONGEST
    resume: bool = False  # continue the interrupted run
    force: bool = False  # also grade submissions that are unchanged since they were graded
    accept_source: bool = False  # update the gradebook if the source has gained or lost cells
    one_process: bool = False  # judge every test in process
    two_processes: bool = False  # judge no test in process
    feedback: Literal["off", "none", "name", "message"] = "off"  # the level of detail about hidden tests
    limits: Limits | None = None  # resources of one submission; None reads the course's nbgrader_config.py
    may_move: bool = True  # put the best submission into submitted/ if policy.toml says that it counts
    chosen_limits: dict[str, float] = {}  # for this run, by the names of `c.Autograder`, whose values they override


def grade_assignment(
    assignment: str,
    course: Path,
    options: Options,
    shown: ProgressCallbacks = QUIET,
    open_backend: OpenBackend | None = None,
) -> list[StudentRow]:
    """Grade a class into its gradebook, and return a row for every student with a submission, by name.

    The course's folder contains submitted/STUDENT/ASSIGNMENT/*.ipynb. Without `open_backend`, this machine grades.

    Raises:
        InputError: the class or the assignment does not exist.
        IsolationError: this machine does not provide the isolation level; nothing is graded.
        UnfinishedError: the gradebook stays locked, the disk is full, or another client grades the assignment; run again with `resume`.
    """
    folders = open_class(course, assignment)
    with exclusive_lock(folders.gradebook, assignment):
        return grade_submissions(folders, options, shown, open_backend)


def grade_submissions(
    folders: AssignmentFolders, options: Options, shown: ProgressCallbacks, open_backend: OpenBackend | None
) -> list[StudentRow]:
    """Grade a class that is already open, as `grade_assignment` does."""
    # The workers of a cluster check the level themselves.
    level = known_level(options.isolation) if open_backend else require_level(options.isolation)
    check_release(folders)
    settings = folders.settings()
    forbid = options.two_processes or forbids_one_process(settings)
    if forbid and options.one_process:
        raise InputError.of(
            "grade.one_and_two_processes|--one-process contradicts --two-processes, or c.Autograder.two_processes in "
            "nbgrader_config.py. Use one of them."
        )
    limits = options.limits or limits_of(settings, options.chosen_limits)
    sources, notes = folders.read_sources(level, limits)
    register(folders, list(sources.values()), accept_source=options.accept_source)
    jobs = parallel_jobs(options.jobs)
    opened = open_backend or partial(LocalBackend, count=jobs)
    with GradingRecords(folders.gradebook, folders.assignment, settings) as records:
        run = records.unfinished() if options.resume else None
        run = run or records.begin(secrets.randbits(63), forced=options.force)
        terms = GradingTerms(sources, level.name, limits, run.seed)
        with opened(terms) as backend:
            judging = {"forbid_in_process": forbid, "all_in_process": options.one_process}
            reports = _source_reports(terms, records, backend, shown.step, **judging)
            shown.reports(list(reports.values()))
            completed = {"any_prediction": folders.any_prediction()}
            plans = {name: msgspec.structs.replace(report.plan, **completed) for name, report in reports.items()}
            batch = _Batch(folders, terms, plans, records, run, shown, notes, may_move=options.may_move)
            rows = batch.grade(backend)
        if options.feedback != "off":
            new = [row.student for row in rows if row.in_gradebook and not batch.has_feedback(row, options.feedback)]
            problems = write_feedback(folders, new, options.feedback, jobs)
            rows = [with_problem(row, problems.get(row.student)) for row in rows]
        records.finish(run)
    return sorted(rows, key=lambda row: row.student)


class _Batch:
    def __init__(
        self,
        folders: AssignmentFolders,
        terms: GradingTerms,
        plans: dict[str, GradingPlan],
        records: GradingRecords,
        run: GradingRun,
        shown: ProgressCallbacks,
        notes: list[str],
        *,
        may_move: bool,
    ) -> None:
        self.may_move = may_move
        policy, self.policy_digest = read_policy(folders.folder)
        self.takes_best, self.excused = policy.counts == "best", policy.excluded(folders.assignment)
        # By student: all submissions of those who have several, if the best one counts.
        self.candidates: dict[str, list[StudentSubmission]] = {}
        self.folders, self.terms, self.plans, self.records, self.run = folders, terms, plans, records, run
        self.shown, self.notes = shown, notes
        self.students = folders.students()
        self.variants, self.former = folders.variants(), folders.handed_out().former
        # A student whom the teacher has removed from the gradebook still has an origin there, but no grade.
        has_grade = records.scores()
        self.origins = {student: origin for student, origin in records.origins().items() if student in has_grade}
        self.automatic = records.automatic_points()
        self.marks = records.digests_of_marks()
        self.restored: dict[str, str] = {}  # by student: a note on points that another program has changed
        self.penalties = {student: score.late_penalty for student, score in has_grade.items()}
        level, versions = terms.level_name, deciding_versions()
        # A change in any of these may change a grade, so unchanged submissions are graded again.
        encoded = msgspec.json.encode(plans, order="deterministic")
        deciding = [*(source.digest for source in terms.sources.values()), terms.limits, encoded, level, versions]
        self.source_digest = hashlib.sha256(repr(deciding).encode()).hexdigest()
        sources = terms.sources.items()
        one_process = all(plans[name].kinds == plan_all_in_process(source).kinds for name, source in sources)
        self.made_with = {"isolation": level, "one process": one_process, "seed": str(run.seed)}
        self.made_with |= {"limits": terms.limits, "versions": versions}
        self.in_progress: dict[str, StudentSubmission] = {}
        self.finished: list[StudentRow] = []

    def grade(self, backend: Backend) -> list[StudentRow]:
        for results in backend.batches(self._jobs()):
            self._write_finished([self._with_grade(result) for result in results])
        times = {row.student: self.folders.submission_time(row.student) for row in self.finished}
        self.records.renew_penalties({row.student: times[row.student].time for row in self.finished if row.unchanged})
        scores = self.records.scores()
        return [
            with_score(
                with_problem(row, times[row.student].problem),
                scores.get(row.student),
                excused=row.student in self.excused,
                former_penalty=self.penalties.get(row.student, 0.0),
            )
            for row in self.finished
        ]

    def _with_grade(self, result: JobResult) -> StudentSubmission:
        work = self.in_progress[result.student]  # the key of a submission
        source = self.terms.sources[result.notebook]
        work.grades[result.notebook] = result.grade or unreadable(source, result.failure)
        work.graded_by[result.notebook] = {"worker": result.worker, "machine": result.machine}
        return work

    def has_feedback(self, row: StudentRow, level: str) -> bool:
        """Return whether a student's pages are up to date, also with what a person gave, and show this of hidden tests."""
        if not row.unchanged or row.late_penalty != self.penalties.get(row.student):
            return False
        folder = self.folders.feedback(row.student)
        expected = {name: f"{level} {self.marks.get((row.student, name), '')}" for name in row.cells}
        return folder.is_dir() and expected == {name: version_of_page(folder / f"{name}.html") for name in expected}

    def _jobs(self) -> Iterator[Job]:
        """Yield the notebooks to grade; each is read from disk only when a process can take it."""
        for student in self.students:
            works = [self._read(student)]
            if self.takes_best:
                works += self._earlier(works[0])
            if self._has_grade(works[0]):
                row = stored_row(self.origins[student])
                self._finish(msgspec.structs.replace(row, student=student, unchanged=True))
                continue
            self.in_progress |= {work.key: work for work in works}
            for work in works:
                for name, data in work.notebooks.items():
                    seed = self._seed(work, data)
                    yield Job(work.key, name, data, work.files, self.plans[name], seed, pictures=True)
            self._write_finished(works)

    def _read(self, student: str, earlier: Path | None = None) -> StudentSubmission:
        return StudentSubmission(self.folders, student, self.terms.sources, self.terms.limits, earlier)

    def _earlier(self, present: StudentSubmission) -> list[StudentSubmission]:
        """Return the earlier submissions of a student that differ from the present one."""
        student = present.student
        earlier = sorted(path for path in self.folders.earlier(student).glob("*/") if not path.is_symlink())
        differing = [work for folder in earlier if (work := self._read(student, folder)).digest != present.digest]
        if differing:
            self.candidates[student] = [present, *differing]
        return differing

    def _digest(self, work: StudentSubmission) -> str:
        """Return a hash of a student's submission, and of all others that were compared with it."""
        if work.student not in self.candidates:
            return work.digest
        every = sorted((submission.digest, str(submission.timestamp)) for submission in self.candidates[work.student])
        return hashlib.sha256(repr((work.digest, every, self.policy_digest)).encode()).hexdigest()

    def _best(self, work: StudentSubmission) -> StudentSubmission | None:
        """Return the submission that counts; None if others of the student are not graded yet."""
        works = self.candidates.get(work.student, [work])
        if len(works) == 1 or any(each.key in self.in_progress for each in works):
            return work if len(works) == 1 else None
        scores = {each.key: self.records.score_with(self._graded(each, self._row_of(each))) for each in works}
        best = max(works, key=lambda each: (scores[each.key], str(each.timestamp or ""), each is works[0]))
        best.notes.append(f"the best of {len(works)} submissions counts")
        if best is not works[0] and self.may_move:
            try:
                best.swap_with_counting_submission(works[0])
            except OSError as error:
                raise UnfinishedError(
                    f"{printable(work.student)}: the submission that counts cannot be put into submitted/ ({error.strerror}). Fix "
                    "that, then run the same command with --resume"
                ) from None
        return best

    def _seed(self, work: StudentSubmission, notebook: bytes) -> int | None:
        """Return the seed of the variant by which a notebook is judged: the seed in the notebook, if the student received that variant."""
        seed = self.variants.get(work.student)
        if not self.variants or (carried := seed_in_metadata(notebook)) == seed:
            return seed
        if carried in self.former.get(work.student, ()):
            return carried
        owners = other_owners(work.student, carried, self.variants, self.former)
        if owners is not None:
            names = " and ".join(map(printable, owners))
            whose = f"the notebook of {names}" if owners else "a variant that was not handed out"
            work.notes.append(f"submitted {whose}, and is graded by the notebook that this student was given")
        return seed

    def _has_grade(self, work: StudentSubmission) -> bool:
        origin = self.origins.get(work.student)
        if origin is None or (origin.submission, origin.source) != (self._digest(work), self._source_of(work.student)):
            return False
        if changed := self._changed_elsewhere(work.student, origin):
            cells = ", ".join(changed)
            self.restored[work.student] = f"another program had changed the points of {cells}, which are restored"
            return False
        there = self.folders.autograded(work.student).is_dir()
        return there and (origin.run == self.run.number or not self.run.forced)

    def _changed_elsewhere(self, student: str, origin: GradeOrigin) -> list[str]:
        """Return the ids of cells whose automatic points differ from those that were written with this origin."""
        now = self.automatic.get(student, {})
        return [
            name
            for notebook, cells in stored_row(origin).cells.items()
            for name, grade in cells.items()
            if now.get((notebook, name), grade.points) != grade.points
        ]

    def _write_finished(self, works: list[StudentSubmission]) -> None:
        """Write the grades of the students whose notebooks are all graded."""
        rows: list[StudentRow] = []
        graded: list[GradedStudent] = []
        try:
            for work in works:
                if work.complete and self.in_progress.pop(work.key, None) is not None and (best := self._best(work)):
                    rows.append(self._row_of(best, self._write_folder(best)))
                    graded += [self._graded(best, rows[-1])] if best.has_id else []
        finally:  # if a folder cannot be written, the earlier grades are kept
            self.records.write(graded)
        for row in rows:
            note = self.restored.get(row.student)
            self._finish(msgspec.structs.replace(row, notes=(*row.notes, note)) if note else row)

    def _row_of(self, work: StudentSubmission, problem: str | None = None) -> StudentRow:
        note = "has no notebook of their own, and is graded by the common one"
        has_none = self.variants and work.student not in self.variants
        return row_of(work, [*self.notes, note] if has_none else self.notes, problem)

    def _write_folder(self, work: StudentSubmission) -> str | None:
        """Write the autograded folder; return the reason if it cannot be written and the problem concerns only this student."""
        try:
            if work.has_id:
                work.write_folder()
        except OSError as error:
            reason = f"the graded notebooks cannot be written ({error.strerror}: {printable(str(error.filename))})"
            if is_about_the_machine(error):
                raise UnfinishedError(
                    f"{printable(work.student)}: {reason}; grades so far are kept. "
                    f"Fix that, then run the same command with --resume"
                ) from None
            return reason
        return None

    def _graded(self, work: StudentSubmission, row: StudentRow) -> GradedStudent:
        origin = GradeOrigin(
            run=self.run.number,
            submission=self._digest(work),
            source=self._source_of(work.student),
            made_with=msgspec.json.encode(self.made_with | {"graded by": work.graded_by}).decode(),
            cells=msgspec.json.encode(row).decode(),
        )
        former_origin = self.origins.get(work.student)
        unchanged = former_origin is not None and former_origin.submission == self._digest(work)
        return GradedStudent(work.student, work.grades, origin, work.timestamp, unchanged)

    def _source_of(self, student: str) -> str:
        """Return a hash of everything that determines a student's grade except the submission, including the seed of a variant."""
        deciding = f"{self.source_digest} {self.variants.get(student)}"
        return hashlib.sha256(deciding.encode()).hexdigest() if student in self.variants else self.source_digest

    def _finish(self, row: StudentRow) -> None:
        self.finished.append(row)
        self.shown.progress(len(self.finished), len(self.students))


def _source_reports(
    terms: GradingTerms, records: GradingRecords, backend: Backend, on_step: OnStep, **judging: bool
) -> dict[str, SourceReport]:
    """Return the report on each source, by notebook name; it is read from the gradebook unless something has changed."""
    reports = {}
    for name, source in terms.sources.items():
        deciding = (source.digest, terms.limits, terms.level_name, deciding_versions(), sorted(judging.items()))
        key = hashlib.sha256(repr((*deciding, SourceReport.__struct_fields__)).encode()).hexdigest()
        if stored_report := records.source_report(name, key):
            reports[name] = msgspec.json.decode(stored_report, type=SourceReport)
        else:
            reports[name] = validate_source(source, backend, on_step=on_step, **judging)
            records.keep_source_report(name, key, msgspec.json.encode(reports[name]).decode())
    return reports


def validate_assignment(
    assignment: str,
    course: Path,
    isolation: str,
    jobs: int = 0,
    *,
    two_processes: bool = False,
    mutants: int = 0,
    on_step: OnStep = ignore_step,
) -> list[tuple[SourceReport, MutationReport | None]]:
    """Return the report on each notebook and its mutation test. Nothing is written, and submissions are not needed.

    `mutants` is the number of mutants of the model answers to grade, in addition to the trivial answers and the
    author's right and wrong answers; 0 grades none of these.
    """
    level, count = require_level(isolation), parallel_jobs(jobs)
    folders = open_class(course, assignment, without_submissions=True)
    check_release(folders)
    settings = folders.settings()
    limits = limits_of(settings, {})
    sources, _ = folders.read_sources(level, limits)
    terms = GradingTerms(sources, level.name, limits, secrets.randbits(63))
    forbid = two_processes or forbids_one_process(settings)
    with LocalBackend(terms, count) as backend:
        reports = [
            validate_source(source, backend, forbid_in_process=forbid, on_step=on_step) for source in sources.values()
        ]
    if not mutants:
        return [(report, None) for report in reports]
    short = msgspec.structs.replace(terms, limits=short_limits(limits))
    named = {path.stem: named_answers(sources[path.stem], read(path)) for path in folders.notebooks()}
    with LocalBackend(short, count) as backend:
        return [
            (report, mutation_test(sources[report.notebook], report, backend, mutants, on_step, named[report.notebook]))
            for report in reports
        ]


def named_answers(source: AssignmentSource, notebook: NotebookNode) -> list[NamedAnswer]:
    """Return the author's right and wrong answers in a source, each with the tests up to the next answer cell.

    Raises:
        AuthorError: the first line of an author's cell does not have the form that its tag requires.
    """
    answers = []
    for exercise in exercises_of(notebook):
        place = source.cells.index(source.by_id[exercise.id])
        before = next((cell for cell in reversed(source.cells[:place]) if cell.is_code_answer), None)
        following = itertools.takewhile(lambda cell: not cell.is_code_answer, source.cells[place:])
        tests = tuple(cell.id for cell in following if cell in source.tests)
        if before and tests:
            answers += [
                NamedAnswer(cell.kind, cell.name, cell.phrase, cell.source, before.id, tests)
                for cell in exercise.of_kind("right", "wrong")
            ]
    return answers
