"""Exercises about a program in a check cell: its outcome, its return value, or the line that broke backward."""
