"""Grades submissions: isolation, workers, gradebook and feedback."""
