"""`report("02")` in a notebook: the page of a report, shown below the cell."""

from __future__ import annotations

from html import escape
from pathlib import Path

from autograder.classroom.report.report_page import report_html
from autograder.classroom.report.written_report import WholeReport, whole_report
from autograder.course.paths import CLASS

FRAME = '<iframe sandbox srcdoc="{page}" title="{title}" style="width: 100%; height: 85vh; border: 0"></iframe>'


class ReportOnClass:
    """A report that a notebook shows as its page, and a terminal as a few lines.

    Attributes:
        whole: the data of the report.
    """

    def __init__(self, whole: WholeReport) -> None:
        self.whole = whole

    def save(self, path: str | Path) -> None:
        """Write the page, which does not use the network."""
        Path(path).write_text(report_html(*self.whole), "utf-8")

    def __repr__(self) -> str:
        about = self.whole.report
        lines = [
            f"{about.assignment}: {len(about.scores)} students, mean {about.mean:.3g} of {about.max_points:g} points"
        ]
        lines += [f"  {one.students:>4}  {one.belief}" for one in (about.beliefs or about.named) if one.students]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        # A frame isolates the styles of the page and the notebook, and prevents scripts in the page.
        return FRAME.format(page=escape(report_html(*self.whole)), title=escape(self.whole.report.assignment))


def report(assignment: str, course: str | Path | None = None) -> ReportOnClass:
    """Return the report on an assignment, which the notebook shows.

    Args:
        assignment: its name, or the beginning of it, such as "02"; "all" for the last one and the whole course.
        course: the course's folder; None means class/ in a clone, and the current folder elsewhere.

    Raises:
        ClassError: the course or the assignment does not exist.
        NotGradedError: the assignment has not been graded yet.
    """
    return ReportOnClass(whole_report(assignment, Path(course) if course else CLASS))
