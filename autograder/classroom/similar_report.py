"""The `similar` command: pairs of submissions that share rare code, side by side on one page.

The fingerprints of copydetect (0.5) find the code. Code that was handed out does not count. Names, layout, comments and
the order of parts are ignored.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from copydetect.utils import filter_code, get_document_fingerprints

from autograder.classroom.report.grading_records import GradedNotebook, TestedCell, tested_cells
from autograder.classroom.report.wrong_answers import author_exercises, without_comments
from autograder.classroom.submission_record import read_record
from autograder.course.canonical import read
from autograder.errors import InputError, printable
from autograder.grade.batch.course_folders import AssignmentFolders, open_class
from autograder.locale.translations import translated_templates

LENGTH = 16  # characters of a fingerprint, in which names are single letters: a short statement
WINDOW = 1  # use every fingerprint: copydetect selects some by Python's hash, which differs between runs
COMMON, MANY = 0.2, 50  # share and number of students; code that more students wrote is not evidence
FEW = 2  # code that two students wrote is never common, however small the class is
# Pairs below these limits are not shown. They were chosen on simulated classes; tests/classroom/test_similar.py tests them on others.
LEAST_BITS = 8.0
LEAST_SHARE = 0.6
LEAST_LINES = 3


@dataclass(frozen=True)
class SimilarPair:
    """Two students whose answers share rare code."""

    students: tuple[str, str]  # the ids of both
    # how unlikely the shared code is: the sum over its fingerprints of log2(students in the class / students with it)
    bits: float
    share: float  # the shared part of the rare code in the smaller answer, from 0 to 1
    lines: tuple[frozenset[int], frozenset[int]]  # for each student, the numbers of the shared lines, from 0
    holders: int  # the number of students who have the most common shared part


def similar_pairs(answers: Mapping[str, Sequence[str]], handed_out: Sequence[str] = ()) -> list[SimilarPair]:
    """Return the pairs of students whose answers share much rare code, the least likely first.

    Each student's answers to the exercises contain no comments; lines are numbered over all of them, with empty lines
    between. Code that was handed out does not count, and neither do the model answers, which everybody may write.
    """
    known = {mark for code in handed_out for mark in fingerprints([code])}
    prints = {student: fingerprints(parts) for student, parts in answers.items()}
    counted = Counter(mark for student_prints in prints.values() for mark in student_prints)
    most = max(FEW, min(COMMON * len(prints), MANY))
    bits = {
        mark: math.log2(len(prints) / count) for mark, count in counted.items() if count <= most and mark not in known
    }
    holders: dict[int, list[str]] = defaultdict(list)
    for student, student_prints in prints.items():
        for mark in student_prints.keys() & bits.keys():
            holders[mark].append(student)
    shared: dict[tuple[str, str], list[int]] = defaultdict(list)
    for mark, owners in holders.items():
        for pair in itertools.combinations(sorted(owners), 2):
            shared[pair].append(mark)
    weights = {student: sum(bits[mark] for mark in known.keys() & bits) for student, known in prints.items()}
    pairs = []
    for students, marks in shared.items():
        together = sum(bits[mark] for mark in marks)
        share = together / (min(weights[student] for student in students) or 1.0)
        first, second = (frozenset(prints[student][mark] for mark in marks) for student in students)
        if together >= LEAST_BITS and share >= LEAST_SHARE and min(len(first), len(second)) >= LEAST_LINES:
            pairs.append(SimilarPair(students, together, share, (first, second), max(counted[mark] for mark in marks)))
    return sorted(pairs, key=lambda pair: (-pair.bits, pair.students))


def fingerprints(parts: Sequence[str]) -> dict[int, int]:
    """Return the fingerprints of some answers in Python, each with its line; none extends into the next answer."""
    lines: dict[int, int] = {}
    begin = 0
    for code in parts:
        tokens, offsets = filter_code(code, "answer.py")
        if len(tokens) >= LENGTH:
            _, places = get_document_fingerprints(tokens, LENGTH, WINDOW)
            lines |= {mark: begin + _line(code, offsets, int(at[0])) for mark, at in places.items()}
        begin += code.count("\n") + 2
    return lines


def _line(code: str, offsets: Sequence[Sequence[int]], at: int) -> int:
    """Return the line of the code that contains a position of the filtered code."""
    removed = 0
    for place, count in offsets:
        if place >= at:
            break
        removed = count
    return code.count("\n", 0, min(at + int(removed), len(code)))


TEMPLATES = Path(__file__).parent / "template"


@dataclass(frozen=True)
class SimilarReport:
    """The result of the comparison."""

    assignment: str  # nbgrader's name of the assignment
    students: int  # the number of compared students
    pairs: list[SimilarPair]  # the pairs of similar submissions, the least likely first
    answers: dict[str, str]  # the code of each student in a pair
    names: dict[str, str]  # student → name, for students whose names `collect` has recorded
    # student who submitted the variant of somebody else → the students who were given it
    variants: dict[str, list[str]] = field(default_factory=dict)


def similar_report(assignment: str, course: Path) -> SimilarReport:
    """Return the pairs of submissions that share rare code, compared as they were graded.

    Raises:
        InputError: the assignment does not exist, or fewer than two students have a graded submission.
    """
    folders = open_class(course, assignment, without_submissions=True)
    cells = tested_cells(folders)
    graded = folders.steps["autograded"].glob(f"*/{assignment}")
    answers = {folder.parent.name: _answers(folders, folder.parent.name, cells) for folder in sorted(graded)}
    if len(answers) < 2:
        raise InputError(
            f"{assignment} has {len(answers)} graded submissions. Run `autograder grade {assignment}` first"
        )
    pairs = similar_pairs(answers, _handed_out(folders))
    shown = {student: "\n\n".join(answers[student]) for pair in pairs for student in pair.students}
    names = {student: row.name for student, row in read_record(folders.folder, assignment).items()}
    return SimilarReport(assignment, len(answers), pairs, shown, names, folders.other_variants())


def similar_html(report: SimilarReport) -> str:
    """Return the page, which does not use the network."""
    template = translated_templates(TEMPLATES).get_template("similar.html.j2")
    return template.render(report=report, pairs=[_shown(pair, report) for pair in report.pairs])


def _answers(folders: AssignmentFolders, student: str, cells: list[TestedCell]) -> list[str]:
    notebooks = {
        name: GradedNotebook(folders, student, name) for name in dict.fromkeys(cell.notebook for cell in cells)
    }
    asked = dict.fromkeys((cell.notebook, cell.answers) for cell in cells)  # several tests may have the same answer
    return [without_comments(notebooks[notebook].answer(ids)) for notebook, ids in asked]


def _handed_out(folders: AssignmentFolders) -> list[str]:
    """Return the code that everybody was given, and the answers in the source, which several students may write independently."""
    sources: list[str] = []
    for path in folders.notebooks():
        sources += [cell.source for cell in read(path).cells if cell.cell_type == "code"]
        sources += [answer.source for exercise in author_exercises(path) for answer in exercise.answers]
    return [without_comments(code) for code in sources]


def _shown(pair: SimilarPair, report: SimilarReport) -> dict[str, object]:
    columns = [
        {
            "student": printable(student),
            "name": report.names.get(student, ""),
            "lines": [(line, number in lines) for number, line in enumerate(report.answers[student].splitlines())],
        }
        for student, lines in zip(pair.students, pair.lines, strict=True)
    ]
    return {"pair": pair, "columns": columns}
