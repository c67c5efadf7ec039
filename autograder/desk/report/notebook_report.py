"""`report("02")` in a notebook: the page of a report, shown below the cell."""

from __future__ import annotations

from html import escape
from pathlib import Path

from autograder.course.paths import CLASS
from autograder.desk.report.report_page import report_html
from autograder.desk.report.written_report import WholeReport, whole_report

FRAME = '<iframe sandbox srcdoc="{page}" title="{title}" style="width: 100%; height: 85vh; border: 0"></iframe>'


class ReportOnClass:
    """A report that a notebook shows as its page, and a terminal as a few lines.

    Attributes:
        whole: the numbers: on the assignment, what changed, and with "all" on the course.
    """

    def __init__(self, whole: WholeReport) -> None:
        self.whole = whole

    def save(self, path: str | Path) -> None:
        """Writes the page, which needs no network."""
        Path(path).write_text(report_html(*self.whole), "utf-8")

    def __repr__(self) -> str:
        about = self.whole.report
        lines = [
            f"{about.assignment}: {len(about.scores)} students, mean {about.mean:.3g} of {about.max_points:g} points"
        ]
        lines += [f"  {one.students:>4}  {one.belief}" for one in (about.beliefs or about.named) if one.students]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        # A frame: neither the page's style nor the notebook's reaches the other, and nothing in it can run.
        return FRAME.format(page=escape(report_html(*self.whole)), title=escape(self.whole.report.assignment))


def report(assignment: str, course: str | Path | None = None) -> ReportOnClass:
    """Returns the report on an assignment, which the notebook shows.

    Args:
        assignment: its name, or the beginning of it, such as "02"; "all" for the last one and the whole course.
        course: the course's folder; None takes class/ in a clone, and the current folder elsewhere.

    Raises:
        ClassError: there is no such course or assignment.
        NotGradedError: it has no grades.
    """
    return ReportOnClass(whole_report(assignment, Path(course) if course else CLASS))
