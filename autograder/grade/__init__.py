"""Submissions become grades: isolation, workers, gradebook and feedback."""
