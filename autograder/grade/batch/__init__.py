"""A class: submissions, the gradebook, feedback and the report."""
