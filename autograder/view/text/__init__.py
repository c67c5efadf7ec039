"""A Recording in words: the report, its sentences, names and numbers."""
