"""The report on a class: a page, numbers as JSON, and `report("02")` in a notebook."""

from autograder.classroom.report.notebook_report import report as report
