"""Grading by Gradescope: a zip that it runs in a container for each submission."""
