"""The report on a class: a page, numbers as JSON, and `report("02")` in a notebook."""

from autograder.classroom.report.report_page import report as report
