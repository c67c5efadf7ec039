"""Manual grading: anonymous answers in a table, with comments that can be reused."""
