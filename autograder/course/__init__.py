"""The course: its catalogue, hints, canonical notebooks and their release."""

from autograder.course.hints import hint

__all__ = ["hint"]
