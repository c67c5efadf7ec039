"""The former path of `autograder.classroom.report`."""

from autograder.classroom.report import report as report
