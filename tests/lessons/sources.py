"""The exercises of the source notebooks, each read once in a run."""

from functools import cache

from autograder.course import author_cells

exercises = cache(author_cells.exercises)
