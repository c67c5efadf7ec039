"""The results.json of one submission, in Gradescope's published format.

Source: docs/specs.md of gradescope/autograder_samples. The file has a total `score`, an `output` for the whole
submission, and for each of the `tests` its score, max_score, status, name, output, output_format and visibility.
Students see neither the total nor a test's output while a test is hidden from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autograder.desk.gradescope.harness_terms import HarnessTerms
from autograder.grade.batch.feedback_files import told_of_hidden_test
from autograder.grade.clean.harmless_text import harmless_text
from autograder.grade.submission.notebook_grade import CellGrade, NotebookGrade
from autograder.grade.submission.teacher.source import AssignmentSource, SourceCell

LONGEST_OUTPUT = 10_000  # characters of a test's message


def results_of(
    sources: Mapping[str, AssignmentSource],
    grades: Mapping[str, NotebookGrade],
    terms: HarnessTerms,
    remarks: list[str],
) -> dict[str, Any]:
    """Return the results of a submission.

    Args:
        sources: the teacher's notebooks, by name.
        grades: the grades of the notebooks, by the same names.
        terms: the information that students get about hidden tests, and when.
        remarks: on the whole submission, one line each.
    """
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
    told = f"Nothing was graded, and this is not the submission's fault: {reason}. Tell your instructor."
    return {"score": 0.0, "output": _text(told), "output_format": "text", "tests": []}


def _test(cell: SourceCell, grade: CellGrade, terms: HarnessTerms, before: str) -> dict[str, Any]:
    about: dict[str, Any] = {
        "name": before + cell.id.replace("_", " "),
        "output": _text(_told(cell, grade, terms.hidden_tests)),
        "output_format": "text",
        "visibility": terms.visibility if cell.hides else "visible",
        "extra_data": {"status": grade.status, "kind": grade.kind},
    }
    if grade.points is None:
        return about
    status = "passed" if grade.points >= grade.max_points else "failed"
    return about | {"score": round(grade.points, 6), "max_score": grade.max_points, "status": status}


def _told(cell: SourceCell, grade: CellGrade, level: str) -> str:
    if grade.points is None:
        return "A person grades this."
    if grade.hidden and grade.status != "correct":
        return told_of_hidden_test(level, cell.hidden[0].name if cell.hidden else "", grade.reason)
    return grade.reason or ("" if grade.status == "correct" else f"{grade.status}".capitalize() + ".")


def _text(words: str) -> str:
    """Return the text without control characters and invalid Unicode, and cut to a maximum length; a submission may have written it."""
    clean = harmless_text(words).encode("utf-8", "backslashreplace").decode()
    return clean if len(clean) <= LONGEST_OUTPUT else f"{clean[:LONGEST_OUTPUT]}\n… cut off"
