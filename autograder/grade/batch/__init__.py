"""Grading of a whole class: submissions, the gradebook, feedback and the report."""
