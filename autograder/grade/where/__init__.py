"""Where submissions are graded: takes jobs and yields their results."""
