"""Grading of submissions: isolation, workers, gradebook and feedback."""
