"""The exercises and the first code of the source notebooks, each read once in a run."""

from functools import cache

from autograder.course import author_cells

exercises = cache(author_cells.exercises)

setup = cache(author_cells.setup)
