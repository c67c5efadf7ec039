"""The data of a class report: scores, exercises, wrong answers, misconceptions, students far behind, and the whole course.

The difficulty of an exercise is the mean share of the points; the discrimination is the correlation of that share with the
points of all other cells (the corrected item-total correlation); Cronbach's alpha is the reliability of the whole.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import msgspec

from autograder.classroom.policy_names import checked_policy, listed_students
from autograder.classroom.report.grading_records import (
    ClassGrades,
    ClassRecords,
    GradedNotebook,
    TestedCell,
    read_class_grades,
    read_records,
)
from autograder.classroom.report.wrong_answers import (
    GivenAnswer,
    WrongAnswers,
    author_exercises,
    group_wrong_answers,
    is_wrong,
    normal_form,
)
from autograder.classroom.submission_record import read_record
from autograder.course.teaching import Teaching, teaching_of
from autograder.grade.batch.course_folders import AssignmentFolders, opened_gradebook
from autograder.grade.policy import CoursePolicy, course_total


class ItemStatistics(msgspec.Struct, frozen=True):
    """The statistics of one cell."""

    # mean share of the points, from 0 to 1; 1 is easy. None if the cell gives 0 points, or if most answers wait for manual
    # grading: the others are those that were left empty
    difficulty: float | None
    # from -1 to 1; None for fewer than three students, or if all have the same points, in the cell or in the rest
    discrimination: float | None


def item_statistics(points: Sequence[Sequence[float | None]], most: Sequence[float]) -> list[ItemStatistics]:
    """Return the statistics of each cell, given its maximum and each student's points; None, for a cell that waits, is ignored."""
    totals = [sum(cell_points or 0.0 for cell_points in row) for row in points]
    items = []
    for number, highest in enumerate(most):
        attempts = [(row[number], total) for row, total in zip(points, totals, strict=True)]
        in_cell = [cell_points for cell_points, _ in attempts if cell_points is not None]
        elsewhere = [total - cell_points for cell_points, total in attempts if cell_points is not None]
        is_known = highest and 2 * len(in_cell) >= len(points) > 0
        difficulty = statistics.fmean(in_cell) / highest if is_known else None
        items.append(ItemStatistics(difficulty, _correlation(in_cell, elsewhere)))
    return items


def cronbach_alpha(points: Sequence[Sequence[float]]) -> float | None:
    """Return the reliability of the sum; None for fewer than two cells or students, or if all sums are equal."""
    if len(points) < 2 or len(points[0]) < 2:
        return None
    whole = statistics.variance([sum(row) for row in points])
    if not whole:
        return None
    count = len(points[0])
    return count / (count - 1) * (1 - sum(statistics.variance(column) for column in zip(*points, strict=True)) / whole)


def _correlation(first: list[float], second: list[float]) -> float | None:
    if len(first) < 3 or len(set(first)) < 2 or len(set(second)) < 2:
        return None
    return statistics.correlation(first, second)


FAR_BEHIND = 0.4  # share of the points below which a student is listed as far behind
QUESTIONS = 3
PICTURE = re.compile(r'<img alt="([^"]*)" src="(data:image/svg\+xml[^"]*)"')


class ExerciseReport(msgspec.Struct, frozen=True):
    """The class's results for a graded cell."""

    id: str  # nbgrader's id
    max_points: float  # the points of the cell
    statistics: ItemStatistics  # difficulty and discrimination
    correct: int  # the number of students with all points; 0 for a question without points
    not_attempted: int  # the number of students who left the cell unchanged
    hidden_decided: int  # the number of students who lost points to a hidden part of the test
    waiting: int  # the number of answers that wait for manual grading
    wrong: list[WrongAnswers]  # the groups of wrong answers, the largest first
    # the address of an SVG with the first group's example, and its text; ("", "") without a picture
    picture: tuple[str, str] = ("", "")


class BeliefReport(msgspec.Struct, frozen=True):
    """A misconception or habit, the number of students who have shown it, and their number in each exercise."""

    belief: str
    students: int
    shown_by: dict[str, int]


class FarBehind(msgspec.Struct, frozen=True):
    """A student with few points: id, name, share of the points, and number of attempted exercises."""

    student: str
    name: str
    share: float
    attempted: int


class ClassReport(msgspec.Struct, frozen=True):
    """The report on one assignment."""

    assignment: str  # nbgrader's name of the assignment
    max_points: float  # the points of the assignment
    scores: list[float]  # the scores of all students who are not excused, sorted so that they are anonymous
    mean: float
    median: float
    alpha: float | None  # Cronbach's alpha, None if it cannot be computed
    exercises: list[ExerciseReport]  # the graded cells, in the order of the source
    beliefs: list[BeliefReport]  # the misconceptions that the source explains, the most frequent first
    named: list[BeliefReport]  # the wrong answers that the source names, over all exercises, the most frequent first
    questions: list[str]  # ids of the exercises to discuss in class
    ask: str  # the question for the class in the source; may be ""
    behind: list[FarBehind]  # the students who are far behind, by name
    excused: int  # the number of excused students, without those who have left the course
    # the number of students who submitted the variant of somebody else; their answers are not among the wrong answers
    other_variants: int = 0


def class_report(folders: AssignmentFolders) -> ClassReport:
    """Return the report on an assignment, from records only. Raise InputError if `autograder grade` has not graded it."""
    policy = checked_policy(folders)
    records, excused = _counting(read_records(folders), policy)
    points = [[_points(records, student, cell) for cell in records.cells] for student in records.rows]
    items = item_statistics(points, [cell.max_points for cell in records.cells])
    notebooks = _Notebooks(folders)
    reports = [_exercise(records, cell, item, notebooks) for cell, item in zip(records.cells, items, strict=True)]
    scores = [score.total for score in records.scores.values()]
    teaching, named = teaching_of(folders.sources, folders.assignment), _named(reports)
    # To discuss: exercises in which many students gave the same wrong answer, but not all did.
    asked = sorted((report for report in reports if report.wrong), key=lambda report: -_worth(report))
    return ClassReport(
        assignment=folders.assignment,
        max_points=records.max_points,
        scores=sorted(scores),
        mean=statistics.fmean(scores),
        median=statistics.median(scores),
        alpha=cronbach_alpha([[cell_points or 0.0 for cell_points in row] for row in points]),
        exercises=reports,
        beliefs=_beliefs(teaching, named),
        named=_by_frequency(named),
        questions=[report.id for report in asked[:QUESTIONS]],
        ask=teaching.ask if teaching else "",
        behind=_behind(records, folders),
        excused=excused,
        other_variants=len(notebooks.others.keys() & records.rows.keys()),
    )


class _Notebooks:
    """The students' graded notebooks. Each is read once, and only the parts that the report needs are kept."""

    def __init__(self, folders: AssignmentFolders) -> None:
        self.folders = folders
        self.named: dict[str, dict[str, str]] = {}
        self.stubs: dict[str, str] = {}
        for path in folders.notebooks():
            for exercise in author_exercises(path):
                wrong_answers = exercise.of_kind("wrong")
                self.named[exercise.id] = {normal_form(answer.source): answer.name for answer in wrong_answers}
                self.stubs[exercise.id] = exercise.stub
        self.others = folders.other_variants()
        self._answers: dict[tuple[str, str], dict[tuple[str, ...], str]] = {}

    def answer(self, student: str, cell: TestedCell, cells: list[TestedCell]) -> str:
        texts = self._answers.get((student, cell.notebook))
        if texts is None:
            notebook = GradedNotebook(self.folders, student, cell.notebook)
            texts = {each.answers: notebook.answer(each.answers) for each in cells if each.notebook == cell.notebook}
            self._answers[student, cell.notebook] = texts
        return texts[cell.answers]


def _counting(records: ClassRecords, policy: CoursePolicy) -> tuple[ClassRecords, int]:
    """Return the records of the students for whom the assignment counts, and the number of excused students."""
    rows = {student: records.rows[student] for student in _counted(records.rows, policy, records.assignment)}
    scores = {student: records.scores[student] for student in rows}
    excused = records.rows.keys() - rows.keys() - {*policy.left}
    return msgspec.structs.replace(records, rows=rows, scores=scores), len(excused)


def _counted(students: Iterable[str], policy: CoursePolicy, assignment: str) -> list[str]:
    """Return the students for whom an assignment counts; all of them if it counts for none."""
    listed, excluded = list(students), policy.excluded(assignment)
    return [student for student in listed if student not in excluded] or listed


def _points(records: ClassRecords, student: str, cell: TestedCell) -> float | None:
    """Return the points of a cell in the gradebook; None if it waits for manual grading."""
    return records.points.get(student, {}).get((cell.notebook, cell.id), 0.0)


def _exercise(records: ClassRecords, cell: TestedCell, item: ItemStatistics, notebooks: _Notebooks) -> ExerciseReport:
    grades = {student: grade for student in records.rows if (grade := records.grade(student, cell)) is not None}
    answers = [
        GivenAnswer(student, notebooks.answer(student, cell, records.cells), grade)
        for student, grade in grades.items()
        # the others answer the questions of another notebook
        if is_wrong(grade) and student not in notebooks.others
    ]
    groups = group_wrong_answers(answers, notebooks.named.get(cell.id, {}), notebooks.stubs.get(cell.id, ""))
    statuses = [grade.status for grade in grades.values()]
    scores = [_points(records, student, cell) for student in grades]
    return ExerciseReport(
        id=cell.id,
        max_points=cell.max_points,
        statistics=item,
        correct=sum(cell_points is not None and cell_points >= cell.max_points > 0 for cell_points in scores),
        not_attempted=statuses.count("not attempted"),
        hidden_decided=sum(answer.grade.hidden for answer in answers),
        waiting=scores.count(None),
        wrong=groups,
        picture=_picture(groups, cell, notebooks),
    )


def _picture(groups: list[WrongAnswers], cell: TestedCell, notebooks: _Notebooks) -> tuple[str, str]:
    """Return the address and the text of the picture that grading drew for the first group's example."""
    if not groups or not groups[0].shown_by:
        return "", ""
    notebook = GradedNotebook(notebooks.folders, groups[0].shown_by, cell.notebook)
    picture = PICTURE.search(notebook.shown(cell.id))
    return (picture[2], picture[1]) if picture else ("", "")


def _named(reports: list[ExerciseReport]) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return, for each named wrong answer, the students who gave it, by exercise."""
    phrases: dict[str, dict[str, tuple[str, ...]]] = {}
    for report in reports:
        for group in report.wrong:
            if group.name:
                phrases.setdefault(group.name, {})[report.id] = group.students
    return phrases


def _beliefs(teaching: Teaching | None, named: Mapping[str, Mapping[str, tuple[str, ...]]]) -> list[BeliefReport]:
    return _by_frequency(
        {
            misconception.belief: {
                exercise: tuple({student for name in names for student in named.get(name, {}).get(exercise, ())})
                for exercise, names in misconception.shown_by.items()
            }
            for misconception in (teaching.misconceptions if teaching else ())
        }
    )


def _by_frequency(shown: Mapping[str, Mapping[str, tuple[str, ...]]]) -> list[BeliefReport]:
    """Return a row for each name, the most frequent first; a student with several such answers counts once."""
    rows = [
        BeliefReport(name, len(set().union(*by.values())), {exercise: len(who) for exercise, who in by.items() if who})
        for name, by in shown.items()
    ]
    return sorted(rows, key=lambda row: (-row.students, row.belief))


def _worth(report: ExerciseReport) -> float:
    # A discussion works best if some know the answer and many share one wrong answer (Mazur, "Peer Instruction": 30 to 70 %).
    difficulty = report.statistics.difficulty or 0.0
    return len(report.wrong[0].students) * (1.0 if 0.3 <= difficulty <= 0.7 else 0.5)


def _behind(records: ClassRecords, folders: AssignmentFolders) -> list[FarBehind]:
    names, behind = _names(folders), []
    for student, row in records.rows.items():
        if (share := _share(records, student)) < FAR_BEHIND:
            grades = [grade for cells in row.cells.values() for grade in cells.values()]
            attempted = sum(grade.status not in ("not attempted", "not run") for grade in grades)
            behind.append(FarBehind(student, names.get(student, ""), share, attempted))
    return sorted(behind, key=lambda student: (student.share, student.student))


FELL = 0.25  # decrease of the share of the points from which on a student is listed


class StudentChange(msgspec.Struct, frozen=True):
    """A student whose share of the points fell: id, name, and the share before and now."""

    student: str
    name: str
    before: float
    now: float


class AssignmentChange(msgspec.Struct, frozen=True):
    """The change since the previous assignment."""

    before: str
    mean_before: float  # its mean share of the points
    mean_now: float  # the mean share of the points in this assignment
    fell: list[StudentChange]  # the students who lost a quarter of the points or more, the largest loss first
    missing: list[str]  # the students who submitted the previous assignment but not this one


class CourseLine(msgspec.Struct, frozen=True):
    """A student's points in the whole course, and the assignments that were dropped."""

    student: str
    name: str
    points: float
    max_points: float
    dropped: tuple[str, ...]


def graded_assignments(folders: AssignmentFolders) -> list[str]:
    """Return the assignments with grades, by due date and then by name."""
    if not folders.has_gradebook:
        return []
    with opened_gradebook(folders) as book:
        graded = [assignment for assignment in book.assignments if assignment.num_submissions]
        graded.sort(key=lambda entry: (entry.duedate is None, str(entry.duedate or ""), entry.name))
        return [assignment.name for assignment in graded]


def change_since(folders: AssignmentFolders) -> AssignmentChange | None:
    """Return the change since the previous assignment; None for the first one."""
    names = graded_assignments(folders)
    place = names.index(folders.assignment)
    if not place:
        return None
    recent = {name: read_class_grades(replace(folders, assignment=name)) for name in names[place - 1 : place + 1]}
    now = recent[folders.assignment]
    policy, people = checked_policy(folders), _names(folders)
    shares_before, shares_now = (
        {student: _share(grades, student) for student in _counted(grades.scores, policy, name)}
        for name, grades in recent.items()
    )
    fell = [
        StudentChange(student, people.get(student, ""), share, shares_now[student])
        for student, share in shares_before.items()
        if student in shares_now and share - shares_now[student] >= FELL
    ]
    return AssignmentChange(
        before=names[place - 1],
        mean_before=statistics.fmean(shares_before.values()),
        mean_now=statistics.fmean(shares_now.values()),
        fell=sorted(fell, key=lambda change: change.now - change.before),
        missing=sorted(shares_before.keys() - now.scores.keys() - policy.excluded(folders.assignment)),
    )


def course_lines(folders: AssignmentFolders) -> list[CourseLine]:
    """Return a line for each student over all graded assignments, computed with the course's policy."""
    policy = checked_policy(folders)
    grades = {name: read_class_grades(replace(folders, assignment=name)) for name in graded_assignments(folders)}
    listed = listed_students(folders)
    graded = {student for assignment in grades.values() for student in assignment.scores}
    students = sorted((listed.keys() | graded) - {*policy.left})
    names = {student: person.name for student, person in listed.items()}
    for name in grades:
        names |= _names(replace(folders, assignment=name))
    return [_line(student, names.get(student, ""), grades, policy) for student in students]


def _line(student: str, name: str, grades: dict[str, ClassGrades], policy: CoursePolicy) -> CourseLine:
    scores = {
        assignment: (graded.scores[student].total if student in graded.scores else 0.0, graded.max_points)
        for assignment, graded in grades.items()
        if student in graded.scores or policy.missing != "blank"
    }
    return CourseLine(student, name, *course_total(policy, student, scores))


def _names(folders: AssignmentFolders) -> dict[str, str]:
    """Return the names of the students whose submissions `collect` has recorded."""
    return {student: entry.name for student, entry in read_record(folders.folder, folders.assignment).items()}


def _share(grades: ClassGrades | ClassRecords, student: str) -> float:
    return grades.scores[student].total / grades.max_points if grades.max_points else 1.0
