"""Where submissions are graded: jobs go in, results come out."""
