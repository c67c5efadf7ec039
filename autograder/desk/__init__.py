"""The former name of `autograder.classroom`, for notebooks that import `autograder.desk.report`."""
