"""Late penalties, by the plugin that the course's nbgrader configuration names."""

from __future__ import annotations

from nbgrader.api import SubmittedAssignment
from nbgrader.preprocessors import AssignLatePenalties
from traitlets import TraitError
from traitlets.config import Config

from autograder.errors import InputError


class LatePolicyError(InputError):
    """The course's configuration names no usable plugin for late penalties."""


class LatePolicy:
    """The policy of one course.

    Raises:
        LatePolicyError: the configured plugin cannot be loaded.
    """

    def __init__(self, settings: Config) -> None:
        try:
            preprocessor = AssignLatePenalties(config=settings)
            preprocessor.init_plugin()
        except (TraitError, ImportError) as error:
            raise LatePolicyError(
                f"nbgrader_config.py: the late policy cannot be used ({error}). Correct c.AssignLatePenalties.plugin_class"
            ) from None
        self._plugin = preprocessor.plugin_inst

    def penalise(self, submission: SubmittedAssignment) -> None:
        """Sets the penalty of each notebook, and takes back the one of work that is no longer late."""
        late = _seconds_late(submission)
        if not late and not submission.late_submission_penalty:
            return
        for notebook in submission.notebooks:
            notebook.late_submission_penalty = None
            penalty = (
                self._plugin.late_submission_penalty(submission.student_id, notebook.score, late) if late else None
            )
            if penalty is not None:
                notebook.late_submission_penalty = min(max(penalty, 0), notebook.score)


def _seconds_late(submission: SubmittedAssignment) -> float:
    # nbgrader's own `total_seconds_late` fails where there is an extension and no due date (0.9.6).
    return submission.total_seconds_late if submission.assignment.duedate else 0.0
