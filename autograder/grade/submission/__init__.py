"""One submission: reads it, aligns it with the source, runs it, tests it and grades it."""
