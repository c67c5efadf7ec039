"""Gradescope's own way of grading: a zip that it runs in a container for each submission."""
