"""Checks a source before any student is graded: its own answers get full points, the release gets none, weak tests are named."""
