"""The subject of a check: a student's function that is called with given inputs and reports its results as plain data."""
