"""Grades and feedback go back to the platform, in the file that a teacher downloaded from it."""
