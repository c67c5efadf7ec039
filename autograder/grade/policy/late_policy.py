"""Due dates, extensions and late penalties of one course: by its policy.toml, else as nbgrader's own configuration has them."""

from __future__ import annotations

from pathlib import Path

from nbgrader.api import SubmittedAssignment, SubmittedNotebook
from traitlets import TraitError
from traitlets.config import Config

from autograder.errors import InputError
from autograder.grade.nbgrader_adapter import late_plugin, seconds_late
from autograder.grade.policy.course_policy import CoursePolicy, read_policy


class LatePolicyError(InputError):
    """The course's configuration names no usable plugin for late penalties."""


class LatePolicy:
    """The policy of one course.

    Attributes:
        digest: SHA-256 of policy.toml; "" if there is none.

    Raises:
        LatePolicyError: the configured plugin cannot be loaded.
        PolicyError: policy.toml cannot be used.
    """

    def __init__(self, settings: Config) -> None:
        root = settings.CourseDirectory.get("root", "")
        policy, self.digest = read_policy(Path(root)) if root else (None, "")
        self._policy = policy or CoursePolicy()
        try:
            self._plugin = late_plugin(settings)
        except (TraitError, ImportError) as error:
            raise LatePolicyError(
                f"nbgrader_config.py: the late policy cannot be used ({error}). Correct c.AssignLatePenalties.plugin_class"
            ) from None

    def penalise(self, submission: SubmittedAssignment) -> None:
        """Sets due date and extension, and the penalty of each notebook; takes back the one of work that is no longer late."""
        self._set_dates(submission)
        late = seconds_late(submission)
        if not late and not submission.late_submission_penalty:
            return
        for notebook in submission.notebooks:
            notebook.late_submission_penalty = None
            penalty = self._penalty(submission, notebook, late) if late else None
            if penalty is not None:
                notebook.late_submission_penalty = min(max(penalty, 0), notebook.score)

    def is_excused(self, assignment: str, student: str) -> bool:
        """Returns whether the assignment does not count for a student."""
        return student in self._policy.of(assignment).excused

    def _set_dates(self, submission: SubmittedAssignment) -> None:
        assignment = submission.assignment
        if (due := self._policy.due(assignment.name)) is not None and assignment.duedate != due:
            assignment.duedate = due
        if assignment.name in self._policy.assignments:  # then extensions are those of the file, and no others
            extension = (
                self._policy.extension(assignment.name, submission.student_id, assignment.duedate)
                if assignment.duedate
                else None
            )
            if submission.extension != extension:
                submission.extension = extension

    def _penalty(self, submission: SubmittedAssignment, notebook: SubmittedNotebook, late: float) -> float | None:
        rule = self._policy.rule(submission.assignment.name)
        if rule is None:
            return self._plugin.late_submission_penalty(submission.student_id, notebook.score, late)
        points = notebook.score if rule.of == "earned" else notebook.max_score
        return round(points * rule.percent(late) / 100, 2)
