"""The former name of the grader."""

from autograder.grade.submission.submission_grader import SubmissionGrader as TrustedProcessGrader

__all__ = ["TrustedProcessGrader"]
