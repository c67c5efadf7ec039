"""One submission: read, aligned with its source, run, tested, and graded."""
