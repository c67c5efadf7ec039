"""Grades a source's own answers before any student's: which tests can be judged, in which process, and what needs a look."""
